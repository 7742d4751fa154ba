package io.twinbox.operate;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.stream.Stream;
import org.apache.camel.CamelContext;
import org.apache.camel.ServiceStatus;
import org.apache.camel.model.ModelCamelContext;
import org.apache.camel.model.RouteDefinition;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.openqa.selenium.By;
import org.openqa.selenium.Dimension;
import org.openqa.selenium.OutputType;
import org.openqa.selenium.StaleElementReferenceException;
import org.openqa.selenium.WebElement;
import org.openqa.selenium.chrome.ChromeDriver;
import org.openqa.selenium.chrome.ChromeDriverService;
import org.openqa.selenium.chrome.ChromeOptions;
import org.springframework.context.ConfigurableApplicationContext;

/**
 * An operator in front of Hawtio, with a real browser. The pictures go to {@code
 * target/screenshots}; with {@code -Dscreenshots=docs/images} they are those of the documents.
 */
class HawtioInBrowserTest extends ServingTest {

  private static final Path PICTURES =
      Path.of(System.getProperty("screenshots", "target/screenshots"));
  private static final String TREE = ".pf-v5-c-tree-view__node-text";

  private ChromeDriver browser;

  private static Optional<Path> program(String... names) {
    return Stream.of(names)
        .flatMap(
            name ->
                Arrays.stream(System.getenv("PATH").split(File.pathSeparator))
                    .map(folder -> Path.of(folder, name)))
        .filter(Files::isExecutable)
        .findFirst();
  }

  @BeforeEach
  void openBrowser() {
    Optional<Path> chromium = program("chromium", "chromium-browser", "google-chrome");
    Optional<Path> driver = program("chromedriver");
    boolean there = chromium.isPresent() && driver.isPresent();
    if (!there) {
      System.out.println(
          "SKIPPED on Chromium: Hawtio in a real browser (chromium and chromedriver are not both on the path)");
    }
    assumeTrue(there, "chromium and chromedriver are not both on the path");
    browser =
        new ChromeDriver(
            new ChromeDriverService.Builder()
                .usingDriverExecutable(driver.get().toFile())
                .usingAnyFreePort()
                .build(),
            new ChromeOptions()
                .setBinary(chromium.get().toFile())
                .addArguments("--headless=new", "--no-sandbox", "--disable-gpu"));
    browser.manage().window().setSize(new Dimension(1400, 900));
  }

  @AfterEach
  void closeBrowser() {
    if (browser != null) {
      browser.quit();
    }
  }

  private String at(String path) {
    return "http://127.0.0.1:" + port + path;
  }

  private void logIn(String user, String password) {
    browser.get(at("/actuator/hawtio"));
    eventually().until(() -> browser.getCurrentUrl().contains("/login"));
    browser.findElement(By.name("username")).sendKeys(user);
    browser.findElement(By.name("password")).sendKeys(password);
    browser.findElement(By.cssSelector("button[type=submit]")).click();
  }

  /** The nth visible element of this text, when it is there. */
  private WebElement element(String css, String text, int nth) {
    WebElement[] found = new WebElement[1];
    eventually()
        .ignoreException(StaleElementReferenceException.class)
        .until(
            () -> {
              List<WebElement> all =
                  browser.findElements(By.cssSelector(css)).stream()
                      .filter(e -> e.getText().strip().equals(text))
                      .toList();
              if (all.size() <= nth) {
                return false;
              }
              found[0] = all.get(nth);
              return true;
            });
    return found[0];
  }

  private void click(WebElement element) {
    browser.executeScript(
        "arguments[0].scrollIntoView({block: 'center'}); arguments[0].click()", element);
  }

  private void expand(String node) {
    click(
        element(TREE, node, 0)
            .findElement(By.xpath("ancestor::*[contains(@class,'pf-v5-c-tree-view__content')][1]"))
            .findElement(By.cssSelector(".pf-v5-c-tree-view__node-toggle")));
  }

  /** The operation of the selected bean, opened. */
  private WebElement operation(String signature) {
    String css = "li[aria-labelledby='operation " + signature + "']";
    eventually().until(() -> browser.findElements(By.cssSelector(css)).size() == 1);
    WebElement item = browser.findElement(By.cssSelector(css));
    click(item.findElement(By.cssSelector("button[aria-label=Details]")));
    return item;
  }

  private void execute(WebElement operation) {
    click(
        operation.findElements(By.tagName("button")).stream()
            .filter(b -> b.getText().equals("Execute"))
            .findFirst()
            .orElseThrow());
  }

  private void picture(String name) throws IOException {
    Files.createDirectories(PICTURES);
    Files.write(PICTURES.resolve(name + ".png"), browser.getScreenshotAs(OutputType.BYTES));
  }

  @Test
  void anOperatorLogsInSuspendsARouteAndReplaysADeadLetter() throws Exception {
    createTopicAndSubscription();
    jdbc.execute("ALTER TABLE effect RENAME TO hidden");
    ConfigurableApplicationContext context =
        serve(
            "dispatch,consume",
            "spring.security.user.name=mia",
            "spring.security.user.password=correct horse",
            "twinbox.consume.max-attempts=1",
            "twinbox.consume.replay-interval=20ms");
    publish("one", Map.of("outbox_id", "k1"));
    eventually().until(() -> count("transactional_inbox_dead_letter") == 1);
    jdbc.execute("ALTER TABLE hidden RENAME TO effect");

    logIn("mia", "wrong");
    eventually().until(() -> browser.getCurrentUrl().endsWith("/login?error"));
    picture("hawtio-refused");
    browser.get(at("/actuator/jolokia"));
    assertThat(browser.getCurrentUrl()).contains("/login");

    logIn("mia", "correct horse");
    eventually().until(() -> browser.getCurrentUrl().contains("/actuator/hawtio"));
    browser.get(at("/actuator/hawtio/camel"));
    click(element(TREE, "routes", 0));
    for (String route : List.of("dispatch", "publish", "consume", "orders-handle")) {
      element("td", route, 0);
    }
    picture("hawtio-routes");

    click(element(TREE, "dispatch", 0));
    click(element("a", "Operations", 0));
    CamelContext camel = context.getBean(CamelContext.class);
    execute(operation("suspend()"));
    eventually()
        .until(
            () -> camel.getRouteController().getRouteStatus("dispatch") == ServiceStatus.Suspended);
    picture("hawtio-suspended");
    execute(operation("resume()"));
    eventually()
        .until(
            () -> camel.getRouteController().getRouteStatus("dispatch") == ServiceStatus.Started);

    browser.get(at("/actuator/hawtio/jmx"));
    expand("io.twinbox");
    expand("Inbox");
    click(element(TREE, "ledger", 0));
    element("td", "Dead", 0);
    click(element("a", "Operations", 0));
    WebElement replay =
        operation(
            "replayMatching(java.lang.String,java.lang.String,int,java.lang.String,java.lang.String)");
    replay.findElement(By.cssSelector("input[id*='input-reason']")).sendKeys("table is back");
    replay.findElement(By.cssSelector("input[id*='input-who']")).sendKeys("mia");
    execute(replay);
    eventually().until(() -> effects().equals(List.of("one")));
    eventually().until(() -> browser.getPageSource().contains("Replays asked for: 1."));
    picture("hawtio-replayed");
    assertThat(jdbc.queryForObject("SELECT who || ': ' || reason FROM twinbox_audit", String.class))
        .isEqualTo("mia: table is back");
  }

  /** What the diagram shows now: steps and how many exchanges went through each. */
  private Map<String, String> diagram() {
    Map<String, String> steps = new TreeMap<>();
    for (WebElement node : browser.findElements(By.cssSelector(".camel-node-content"))) {
      steps.put(
          node.findElement(By.className("camel-node-id"))
              .getDomProperty("textContent")
              .replaceAll(".*ID: (.*)\\)", "$1"),
          node.findElement(By.className("number")).getDomProperty("textContent"));
    }
    return steps;
  }

  @Test
  void everyRouteShowsItsDiagramWithCountsAndItsSource() throws Exception {
    createTopicAndSubscription();
    ConfigurableApplicationContext context =
        serve(
            "dispatch,consume,maintain",
            "spring.security.user.name=mia",
            "spring.security.user.password=correct horse");
    put("one");
    eventually().until(() -> effects().equals(List.of("one")));
    logIn("mia", "correct horse");
    eventually().until(() -> browser.getCurrentUrl().contains("/actuator/hawtio"));
    browser.get(at("/actuator/hawtio/camel"));
    click(element(TREE, "routes", 0));
    List<RouteDefinition> routes = context.getBean(ModelCamelContext.class).getRouteDefinitions();
    assertThat(routes).hasSizeGreaterThan(10);
    for (RouteDefinition route : routes) {
      click(element(TREE, route.getRouteId(), 0));
      click(element("a", "Route Diagram", 0));
      Set<String> expected = new TreeSet<>();
      expected.add(route.getInput().getId());
      route.getOutputs().forEach(step -> expected.add(step.getId()));
      eventually()
          .ignoreException(StaleElementReferenceException.class)
          .untilAsserted(() -> assertThat(diagram()).containsKeys(expected.toArray(String[]::new)));
    }
    click(element(TREE, "apply", 0));
    click(element("a", "Route Diagram", 0));
    eventually()
        .ignoreException(StaleElementReferenceException.class)
        .untilAsserted(() -> assertThat(diagram()).containsEntry("apply-once", "1").hasSize(4));
    picture("hawtio-diagram");
    click(element("a", "Source", 0));
    eventually()
        .untilAsserted(
            () ->
                assertThat(browser.findElement(By.cssSelector(".view-lines")).getText())
                    .contains("idempotentConsumer", "apply-handle"));
  }

  @Test
  void theLocalRunsConsoleOpensWithoutALogin() {
    createTopicAndSubscription();
    serve(
        "dispatch", "management.server.address=127.0.0.1", "twinbox.operate.login-required=false");
    browser.get(at("/actuator/hawtio/camel"));
    click(element(TREE, "routes", 0));
    element("td", "publish", 0);
    // Its requests carry the token, or they would be refused here too.
    click(element(TREE, "publish", 0));
    click(element("a", "Operations", 0));
    WebElement reset = operation("reset()");
    execute(reset);
    eventually().until(() -> reset.getText().contains("Operation successful"));
  }
}
