package io.twinbox.operate;

import static org.assertj.core.api.Assertions.assertThat;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.IOException;
import java.net.Socket;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.springframework.boot.test.system.CapturedOutput;
import org.springframework.boot.test.system.OutputCaptureExtension;
import org.springframework.context.ConfigurableApplicationContext;

/** Who comes in on the management port, and what Jolokia lets them reach. */
@ExtendWith(OutputCaptureExtension.class)
class ManagementPortTest extends ServingTest {

  private static final String USER = "mia";
  private static final String PASSWORD = "correct horse";
  private static final ObjectMapper JSON = new ObjectMapper();

  private static final List<String> CLOSED =
      List.of(
          "/actuator",
          "/actuator/health",
          "/actuator/health/liveness/progress",
          "/actuator/health/db",
          "/actuator/prometheus",
          "/actuator/jolokia",
          "/actuator/jolokia/version",
          "/actuator/hawtio",
          "/actuator/hawtio/index.html",
          "/actuator/hawtio/jolokia",
          "/user",
          "/");

  private static String[] login() {
    return new String[] {
      "spring.security.user.name=" + USER, "spring.security.user.password=" + PASSWORD
    };
  }

  private static String basic(String user, String password) {
    return "Basic "
        + Base64.getEncoder()
            .encodeToString((user + ":" + password).getBytes(StandardCharsets.UTF_8));
  }

  private JsonNode jolokia(String request) throws IOException {
    HttpResponse<String> response =
        send(
            to("/actuator/jolokia")
                .header("Authorization", basic(USER, PASSWORD))
                .POST(HttpRequest.BodyPublishers.ofString(request)));
    assertThat(response.statusCode()).as(request).isIn(200, 403);
    return JSON.readTree(response.body());
  }

  @Test
  void onlyTheProbesAnswerWithoutALogin(CapturedOutput output) {
    createTopicAndSubscription();
    serve("dispatch,consume", login());
    for (String path : CLOSED) {
      assertThat(get(path).statusCode()).as(path).isIn(401, 302);
      assertThat(get(path, "Authorization", basic(USER, "wrong")).statusCode())
          .as(path)
          .isEqualTo(401);
      assertThat(get(path, "Accept", "text/html").statusCode()).as(path).isIn(401, 302);
    }
    for (String probe : List.of("liveness", "readiness")) {
      HttpResponse<String> answer = get("/actuator/health/" + probe);
      assertThat(answer.statusCode()).isEqualTo(200);
      assertThat(answer.body()).isEqualTo("{\"status\":\"UP\"}");
    }
    assertThat(output).doesNotContain(PASSWORD);
  }

  @Test
  void aLoginLetsIn() throws Exception {
    createTopicAndSubscription();
    serve("dispatch,consume", login());
    String mia = basic(USER, PASSWORD);
    HttpResponse<String> health = get("/actuator/health", "Authorization", mia);
    assertThat(health.statusCode()).isEqualTo(200);
    assertThat(health.body()).contains("\"progress\"", "\"routes\"", "\"pubSub\"", "\"db\"");
    assertThat(get("/actuator/prometheus", "Authorization", mia).body())
        .contains("twinbox_dispatch_circuit_open");
    HttpResponse<String> hawtio = get("/actuator/hawtio/index.html", "Authorization", mia);
    assertThat(hawtio.statusCode()).isEqualTo(200);
    assertThat(hawtio.body()).contains("<base href=\"/actuator/hawtio/\">");
    assertThat(hawtio.headers().firstValue("X-Frame-Options")).contains("DENY");
    assertThat(hawtio.headers().firstValue("X-Content-Type-Options")).contains("nosniff");
    assertThat(hawtio.headers().firstValue("Content-Security-Policy")).isPresent();
    assertThat(hawtio.headers().allValues("Set-Cookie"))
        .noneMatch(
            cookie -> cookie.startsWith("JSESSIONID") && !cookie.contains("SameSite=Strict"));
  }

  @Test
  void withoutAPasswordConfiguredNobodyComesIn(CapturedOutput output) {
    createTopicAndSubscription();
    serve("dispatch,consume", "logging.level.root=INFO");
    for (String path : CLOSED) {
      assertThat(get(path, "Authorization", basic("user", "user")).statusCode())
          .as(path)
          .isEqualTo(401);
      assertThat(get(path, "Authorization", basic("user", "")).statusCode())
          .as(path)
          .isEqualTo(401);
    }
    assertThat(get("/actuator/health/liveness").statusCode()).isEqualTo(200);
    assertThat(output)
        .contains("Nobody can log in on the management port")
        .doesNotContain("Using generated security password");
  }

  @Test
  void theOtherPortServesNothing() {
    createTopicAndSubscription();
    ConfigurableApplicationContext context = serve("dispatch,consume", login());
    port = context.getEnvironment().getProperty("local.server.port", Integer.class);
    for (String path :
        List.of("/", "/login", "/actuator/health/liveness", "/error", "/user", "/logout")) {
      assertThat(get(path).statusCode()).as(path).isEqualTo(403);
      assertThat(get(path, "Authorization", basic(USER, PASSWORD)).statusCode())
          .as(path)
          .isEqualTo(403);
    }
  }

  @Test
  void metricsAloneCanBeOpened() {
    createTopicAndSubscription();
    String[] login = login();
    serve("dispatch", login[0], login[1], "twinbox.operate.metrics-open=true");
    assertThat(get("/actuator/prometheus").statusCode()).isEqualTo(200);
    assertThat(get("/actuator/health").statusCode()).isEqualTo(401);
    assertThat(get("/actuator/jolokia").statusCode()).isEqualTo(401);
  }

  @Test
  void withoutALoginOnlyThisMachineComesIn() throws IOException {
    createTopicAndSubscription();
    serve(
        "dispatch", "management.server.address=127.0.0.1", "twinbox.operate.login-required=false");
    assertThat(get("/actuator/health").statusCode()).isEqualTo(200);
    assertThat(get("/actuator/hawtio/index.html").statusCode()).isEqualTo(200);
    // A page whose own name was made to lead here.
    assertThat(status("/actuator/hawtio/index.html", "evil.example:" + port)).isEqualTo(403);
    assertThat(status("/actuator/hawtio/index.html", "localhost:" + port)).isEqualTo(200);
  }

  /** A stranger must not be able to fill the log, on either port. */
  @Test
  void whatTheFirewallRefusesIsNotLogged(CapturedOutput output) throws IOException {
    createTopicAndSubscription();
    ConfigurableApplicationContext context = serve("dispatch", "logging.level.root=INFO");
    int management = port;
    int other = context.getEnvironment().getProperty("local.server.port", Integer.class);
    int before = output.getAll().length();
    for (int each : new int[] {management, other}) {
      port = each;
      for (String path :
          List.of(
              "/actuator/jolokia;/version",
              "/actuator/health/liveness;a=b",
              "/actuator//jolokia",
              "/actuator/%2e%2e/jolokia",
              "/a%00b",
              "/a%25b",
              "/a%5cb")) {
        assertThat(status(path, "127.0.0.1:" + port)).as(path).isEqualTo(400);
      }
    }
    port = management;
    assertThat(get("/actuator/health/liveness").statusCode()).isEqualTo(200);
    assertThat(output.getAll().substring(before))
        .doesNotContain("\tat ", "Exception", "jolokia;", " ERROR ", " WARN ");
  }

  /** The commands beside those on beans: only what the policy names. */
  @Test
  void jolokiaRegistersNobodyForNotifications() throws Exception {
    createTopicAndSubscription();
    serve("dispatch", login());
    for (String command : List.of("register", "ping", "list", "unregister")) {
      JsonNode answer =
          jolokia("{\"type\":\"notification\",\"command\":\"" + command + "\",\"client\":\"a\"}");
      assertThat(answer.get("status").asInt()).as(command + answer).isEqualTo(403);
    }
    assertThat(jolokia("{\"type\":\"version\"}").get("status").asInt()).isEqualTo(200);
    assertThat(jolokia("{\"type\":\"config\"}").get("status").asInt()).isNotEqualTo(200);
  }

  /** Of a request with any Host header; the client of the JDK sends its own only. */
  private int status(String path, String host) throws IOException {
    try (Socket socket = new Socket("127.0.0.1", port)) {
      socket
          .getOutputStream()
          .write(
              ("GET " + path + " HTTP/1.1\r\nHost: " + host + "\r\nConnection: close\r\n\r\n")
                  .getBytes(StandardCharsets.US_ASCII));
      String answer =
          new String(socket.getInputStream().readAllBytes(), StandardCharsets.ISO_8859_1);
      return Integer.parseInt(answer.split(" ", 3)[1]);
    }
  }

  @Test
  void jolokiaReachesWhatOperatorsNeed() throws Exception {
    createTopicAndSubscription();
    serve("dispatch,consume", login());
    JsonNode routes =
        jolokia("{\"type\":\"search\",\"mbean\":\"org.apache.camel:type=routes,*\"}").get("value");
    assertThat(routes).hasSizeGreaterThan(5);
    String dispatch = "";
    for (JsonNode route : routes) {
      if (route.asText().contains("\"dispatch\"")) {
        dispatch = route.asText();
      }
    }
    assertThat(allowed("exec", dispatch, "operation", "suspend()")).isTrue();
    assertThat(allowed("read", dispatch, "attribute", "State")).isTrue();
    assertThat(allowed("exec", dispatch, "operation", "resume()")).isTrue();
    assertThat(allowed("exec", dispatch, "operation", "dumpRouteAsXml()")).isTrue();
    String outbox = "io.twinbox:type=Outbox,topic=" + TOPIC;
    assertThat(allowed("read", outbox, "attribute", "Due")).isTrue();
    assertThat(allowed("exec", outbox, "operation", "backlog()")).isTrue();
    assertThat(allowed("read", "java.lang:type=Memory", "attribute", "HeapMemoryUsage")).isTrue();
  }

  @Test
  void jolokiaReachesNothingElse() throws Exception {
    createTopicAndSubscription();
    serve("dispatch,consume", login());
    String context = camel("type=context,*");
    String dispatch = camel("type=routes,name=\\\"dispatch\\\",*");
    String hotSpot = "com.sun.management:type=HotSpotDiagnostic";
    String commands = "com.sun.management:type=DiagnosticCommand";
    assertThat(allowed("exec", hotSpot, "operation", "dumpHeap", "/tmp/never.hprof", "true"))
        .isFalse();
    assertThat(allowed("exec", commands, "operation", "vmSystemProperties")).isFalse();
    assertThat(allowed("exec", commands, "operation", "compilerDirectivesAdd", "/etc/passwd"))
        .isFalse();
    assertThat(
            allowed(
                "exec",
                "java.util.logging:type=Logging",
                "operation",
                "setLoggerLevel",
                "a",
                "ALL"))
        .isFalse();
    assertThat(allowed("read", "java.lang:type=Runtime", "attribute", "SystemProperties"))
        .isFalse();
    assertThat(allowed("read", "java.lang:type=Runtime", "attribute", "InputArguments")).isFalse();
    for (String operation :
        List.of(
            "sendBody(java.lang.String,java.lang.Object)",
            "sendStringBody(java.lang.String,java.lang.String)",
            "requestBody(java.lang.String,java.lang.Object)",
            "sendBodyAndHeaders(java.lang.String,java.lang.Object,java.util.Map)",
            "setGlobalOption(java.lang.String,java.lang.String)",
            "stop()",
            "suspend()")) {
      assertThat(allowed("exec", context, "operation", operation, "direct:bury", "x")).isFalse();
      String name = operation.replaceAll("\\(.*", "");
      assertThat(allowed("exec", context, "operation", name, "direct:bury", "x")).isFalse();
    }
    for (String operation : List.of("remove()", "updateRouteFromXml(java.lang.String)")) {
      assertThat(allowed("exec", dispatch, "operation", operation, "<route/>")).isFalse();
      String name = operation.replaceAll("\\(.*", "");
      assertThat(allowed("exec", dispatch, "operation", name, "<route/>")).isFalse();
    }
    assertThat(write(dispatch, "Tracing", "true")).isFalse();
    assertThat(write("java.lang:type=Memory", "Verbose", "true")).isFalse();
    JsonNode reload =
        jolokia("{\"type\":\"search\",\"mbean\":\"org.apache.camel:type=endpoints,*\"}");
    for (JsonNode endpoint : reload.get("value")) {
      assertThat(
              allowed(
                  "exec",
                  endpoint.asText(),
                  "operation",
                  "browseAllMessagesAsXml(java.lang.Boolean)",
                  "true"))
          .isFalse();
    }
    // What asks other JVMs is not there: a request that names one is answered by this one.
    assertThat(getClass().getClassLoader().getResource("org/jolokia/service/jsr160")).isNull();
    // By a link that somebody clicks.
    HttpResponse<String> link =
        get(
            "/actuator/jolokia/exec/io.twinbox:type=Outbox,topic=" + TOPIC + "/backlog()",
            "Authorization",
            basic(USER, PASSWORD));
    assertThat(JSON.readTree(link.body()).get("status").asInt()).isEqualTo(403);
  }

  private String camel(String pattern) throws IOException {
    return jolokia("{\"type\":\"search\",\"mbean\":\"org.apache.camel:" + pattern + "\"}")
        .get("value")
        .get(0)
        .asText();
  }

  private boolean allowed(String type, String bean, String what, String name, String... arguments)
      throws IOException {
    ObjectNode request =
        JSON.createObjectNode().put("type", type).put("mbean", bean).put(what, name);
    if (arguments.length > 0) {
      ArrayNode list = request.putArray("arguments");
      for (String argument : arguments) {
        list.add(argument);
      }
    }
    return allowed(request);
  }

  private boolean write(String bean, String attribute, String value) throws IOException {
    return allowed(
        JSON.createObjectNode()
            .put("type", "write")
            .put("mbean", bean)
            .put("attribute", attribute)
            .put("value", value));
  }

  /**
   * Refused means refused by the policy: an operation that failed for another reason was allowed.
   */
  private boolean allowed(JsonNode request) throws IOException {
    JsonNode answer = jolokia(request.toString());
    int status = answer.get("status").asInt();
    if (status == 403) {
      return false;
    }
    assertThat(status).as(request + " -> " + answer).isEqualTo(200);
    return true;
  }

  /** Another site could make the browser of a logged-in operator send a form. */
  @Test
  void anotherSitesRequestIsRefused() throws Exception {
    createTopicAndSubscription();
    serve("dispatch,consume", login());
    String session = logIn();
    String body = "{\"type\":\"version\"}";
    assertThat(
            send(to("/actuator/jolokia")
                    .header("Cookie", session)
                    .header("Origin", "http://evil.example")
                    .POST(HttpRequest.BodyPublishers.ofString(body)))
                .statusCode())
        .isIn(401, 403);
    assertThat(
            send(to("/actuator/jolokia")
                    .header("Authorization", basic(USER, PASSWORD))
                    .header("Origin", "http://evil.example")
                    .POST(HttpRequest.BodyPublishers.ofString(body)))
                .statusCode())
        .isIn(401, 403);
    String token = session.replaceAll("(?s).*XSRF-TOKEN=([^;]*).*", "$1");
    assertThat(
            send(to("/actuator/jolokia")
                    .header("Cookie", session)
                    .header("X-XSRF-TOKEN", token)
                    .POST(HttpRequest.BodyPublishers.ofString(body)))
                .statusCode())
        .isEqualTo(200);
  }

  /** The login form as a browser sends it; returns the cookies. */
  private String logIn() {
    HttpResponse<String> form = get("/login", "Accept", "text/html");
    assertThat(form.statusCode()).isEqualTo(200);
    String token = cookie(form, "XSRF-TOKEN");
    HttpResponse<String> answer =
        send(
            to("/login")
                .header("Cookie", "XSRF-TOKEN=" + token)
                .header("Content-Type", "application/x-www-form-urlencoded")
                .POST(
                    HttpRequest.BodyPublishers.ofString(
                        "username=" + USER + "&password=correct+horse&_csrf=" + token)));
    assertThat(answer.statusCode()).isEqualTo(302);
    assertThat(answer.headers().firstValue("Location").orElseThrow()).doesNotContain("error");
    String session = cookie(answer, "JSESSIONID");
    HttpResponse<String> page =
        get("/actuator/hawtio/index.html", "Cookie", "JSESSIONID=" + session);
    assertThat(page.statusCode()).isEqualTo(200);
    return "JSESSIONID=" + session + "; XSRF-TOKEN=" + cookie(page, "XSRF-TOKEN");
  }

  private static String cookie(HttpResponse<String> response, String name) {
    return response.headers().allValues("Set-Cookie").stream()
        .filter(cookie -> cookie.startsWith(name + "=") && !cookie.startsWith(name + "=;"))
        .map(cookie -> cookie.substring(name.length() + 1).split(";")[0])
        .reduce((first, last) -> last)
        .orElseThrow(() -> new AssertionError("no cookie " + name));
  }
}
