package io.twinbox.config;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatCode;

import java.io.IOException;
import java.util.HashMap;
import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.springframework.boot.context.properties.source.ConfigurationPropertySources;
import org.springframework.boot.diagnostics.FailureAnalysis;
import org.springframework.core.env.ConfigurableEnvironment;
import org.springframework.core.env.StandardEnvironment;
import org.springframework.core.env.SystemEnvironmentPropertySource;
import org.springframework.core.io.ClassPathResource;
import org.springframework.core.io.support.ResourcePropertySource;

/** Every refusal of a setting, as the operator reads it; BadInputTest sees some from outside. */
class SettingsCheckTest {

  private static final Map<String, String> GOOD =
      Map.of(
          "TWINBOX_ROUTES", "dispatch",
          "GOOGLE_CLOUD_PROJECT", "local",
          "TOPIC_NAME", "invoices",
          "SUBSCRIPTION_NAME", "invoices-ledger",
          "TWINBOX_SOURCE", "billing",
          "TWINBOX_CONSUMER", "ledger",
          "SPRING_DATASOURCE_URL", "jdbc:postgresql://127.0.0.1/orders");

  private static ConfigurableEnvironment environment(Map<String, String> variables) {
    StandardEnvironment environment = new StandardEnvironment();
    String name = StandardEnvironment.SYSTEM_ENVIRONMENT_PROPERTY_SOURCE_NAME;
    environment
        .getPropertySources()
        .replace(name, new SystemEnvironmentPropertySource(name, Map.copyOf(variables)));
    try {
      environment
          .getPropertySources()
          .addLast(new ResourcePropertySource(new ClassPathResource("application.properties")));
    } catch (IOException e) {
      throw new IllegalStateException(e);
    }
    ConfigurationPropertySources.attach(environment);
    return environment;
  }

  private static Map<String, String> good(String... changes) {
    Map<String, String> variables = new HashMap<>(GOOD);
    for (int i = 0; i < changes.length; i += 2) {
      if (changes[i + 1] == null) {
        variables.remove(changes[i]);
      } else {
        variables.put(changes[i], changes[i + 1]);
      }
    }
    return variables;
  }

  /** Description and action of the refusal. */
  private static String refusal(Map<String, String> variables) {
    ConfigurableEnvironment environment = environment(variables);
    try {
      new SettingsCheck(environment).check();
    } catch (RuntimeException e) {
      FailureAnalysis analysis = new StartupFailureAnalyzer(environment).analyze(e);
      assertThat(analysis).as(e.toString()).isNotNull();
      assertThat(analysis.getAction()).isNotBlank();
      return analysis.getDescription() + "\n" + analysis.getAction();
    }
    throw new AssertionError("Nothing was refused");
  }

  @ParameterizedTest
  @ValueSource(strings = {"dispatch", "consume", "produce", "maintain", " consume , maintain"})
  void theDefaultsAreGood(String routes) {
    assertThatCode(() -> new SettingsCheck(environment(good("TWINBOX_ROUTES", routes))).check())
        .doesNotThrowAnyException();
  }

  @ParameterizedTest(name = "{0} without {1}")
  @CsvSource({
    "dispatch, TOPIC_NAME",
    "dispatch, GOOGLE_CLOUD_PROJECT",
    "consume, GOOGLE_CLOUD_PROJECT",
    "consume, SUBSCRIPTION_NAME",
    "consume, TWINBOX_CONSUMER",
    "produce, TOPIC_NAME",
    "produce, TWINBOX_SOURCE",
    "maintain, SPRING_DATASOURCE_URL"
  })
  void aMissingSettingIsNamed(String routes, String variable) {
    assertThat(refusal(good("TWINBOX_ROUTES", routes, variable, null)))
        .contains(variable + " is missing");
    assertThat(refusal(good("TWINBOX_ROUTES", routes, variable, " ")))
        .contains(variable + " is missing");
  }

  @Test
  void aRouteSetIsNotAskedForWhatOthersNeed() {
    Map<String, String> variables =
        Map.of(
            "TWINBOX_ROUTES", "maintain",
            "SPRING_DATASOURCE_URL", "jdbc:postgresql://127.0.0.1/orders");
    assertThatCode(() -> new SettingsCheck(environment(variables)).check())
        .doesNotThrowAnyException();
  }

  @ParameterizedTest(name = "{1}={2}")
  @CsvSource(
      delimiter = '|',
      value = {
        "dispatch | TWINBOX_DISPATCH_BATCH_ROWS | abc | cannot be used",
        "dispatch | TWINBOX_DISPATCH_BATCH_ROWS | 0 | greater than or equal to 1",
        "dispatch | TWINBOX_DISPATCH_LEASE | fast | 'fast' is not a valid duration",
        // Java would read milliseconds, PostgreSQL seconds.
        "dispatch | TWINBOX_DISPATCH_LEASE | 60000 | a number and ms, s, m, h or d",
        "dispatch | TWINBOX_DISPATCH_LEASE | PT1M | a number and ms, s, m, h or d",
        "dispatch | TWINBOX_DISPATCH_LEASE | -5s | a number and ms, s, m, h or d",
        "dispatch | TWINBOX_DISPATCH_POLL_INTERVAL | 0ms | above zero",
        "dispatch | TWINBOX_DISPATCH_PUBLISH_TIMEOUT | 60s | TWINBOX_DISPATCH_LEASE (60s)",
        "consume | SPRING_DATASOURCE_HIKARI_MAXIMUM_POOL_SIZE | 9 | Make the pool at least 10",
        "consume | SPRING_DATASOURCE_HIKARI_MAXIMUM_POOL_SIZE | many | no number",
        "consume | TWINBOX_CONSUME_CONCURRENCY | 201 | less than or equal to 200",
        "consume | TWINBOX_CONSUME_LOCK_TIMEOUT | 1m | in seconds",
        "produce | TWINBOX_PRODUCE_WATERMARK_TYPE | TIMESTAMPS | must be TIMESTAMP, DATETIME",
        "produce | TWINBOX_PRODUCE_LOOKBACK | soon | which is no duration",
        "produce | TWINBOX_PRODUCE_LOOKBACK | -1h | one below zero would leave rows out",
        "produce | TWINBOX_PRODUCE_LOOKBACK | 9999999999999999d | which is no duration",
        "produce | TWINBOX_PRODUCE_SCHEDULE | */5 * * * * | no cron expression",
        "produce | TWINBOX_PRODUCE_PRIORITY | URGENT | must be INTERACTIVE or BATCH",
        "produce | TWINBOX_PRODUCE_RETRY_TIMEOUT | 60 | no duration",
        "dispatch | TWINBOX_TOPIC_DIR | no/such/folder | no folder"
      })
  void aWrongValueIsShownWithItsSettingAndWhatToWrite(
      String routes, String variable, String value, String expected) {
    assertThat(refusal(good("TWINBOX_ROUTES", routes, variable, value)))
        .contains(variable, expected)
        .contains(value);
  }

  @Test
  void checkOfProduceIsNotRunBesideOthers() {
    assertThat(
            refusal(
                good(
                    "TWINBOX_ROUTES",
                    "produce,dispatch",
                    "TWINBOX_PRODUCE_SCHEDULE",
                    "0 */5 * * * *",
                    "TWINBOX_PRODUCE_CHECK",
                    "true")))
        .contains("TWINBOX_PRODUCE_CHECK", "dispatch", "Set TWINBOX_ROUTES to produce");
  }

  @Test
  void produceWithoutAScheduleIsNotRunBesideOthers() {
    assertThat(refusal(good("TWINBOX_ROUTES", "produce,dispatch")))
        .contains("end the process, and with it dispatch", "TWINBOX_PRODUCE_SCHEDULE");
  }

  @ParameterizedTest
  @CsvSource({
    "TWINBOX_DISPATCH_LEESE, TWINBOX_DISPATCH_LEASE",
    "TWINBOX_CONSUMMER, TWINBOX_CONSUMER",
    "TWINBOX_PRODUCE_CHUNKS_ROWS, TWINBOX_PRODUCE_CHUNK_ROWS",
    "twinbox.consume.max-atempts, TWINBOX_CONSUME_MAX_ATTEMPTS"
  })
  void aMisspeltSettingIsNamedWithTheNearest(String misspelt, String meant) {
    if (misspelt.contains(".")) {
      System.setProperty(misspelt, "3");
    }
    try {
      assertThat(refusal(misspelt.contains(".") ? GOOD : good(misspelt, "3")))
          .contains(misspelt, meant);
    } finally {
      System.clearProperty(misspelt);
    }
  }

  @ParameterizedTest
  @ValueSource(strings = {"TWINBOX_DISPATCH_BATCHROWS", "TWINBOX_DISPATCH_BATCH_ROWS"})
  void everySpellingThatSpringTakesIsTaken(String variable) {
    assertThat(new SettingsCheck(environment(good(variable, "7"))).check().dispatch().batchRows())
        .isEqualTo(7);
  }

  /** With a Service called twinbox in the namespace every pod gets these from Kubernetes. */
  @Test
  void variablesThatKubernetesAddsForAServiceNamedTwinboxAreNoSettings() {
    Map<String, String> variables =
        good(
            "TWINBOX_SERVICE_HOST", "10.0.0.1",
            "TWINBOX_SERVICE_PORT", "8081",
            "TWINBOX_SERVICE_PORT_HTTP", "8081",
            "TWINBOX_PORT", "tcp://10.0.0.1:8081",
            "TWINBOX_PORT_8081_TCP", "tcp://10.0.0.1:8081",
            "TWINBOX_PORT_8081_TCP_ADDR", "10.0.0.1",
            "TWINBOX_DISPATCH_PORT_8081_TCP_PROTO", "tcp");
    assertThatCode(() -> new SettingsCheck(environment(variables)).check())
        .doesNotThrowAnyException();
  }

  @Test
  void aUrlOfAnotherFormIsNotShownBecauseItMayHoldThePassword() {
    assertThat(refusal(good("SPRING_DATASOURCE_URL", "postgres://u:s3cret@127.0.0.1/orders")))
        .contains("jdbc:postgresql://HOST:5432/DATABASE")
        .doesNotContain("s3cret");
  }

  /** The driver would show it whole. */
  @ParameterizedTest
  @ValueSource(
      strings = {
        "jdbc:postgresql://u:s3cret@127.0.0.1/orders",
        "jdbc:postgresql://u:s3cret@127.0.0.1:5432/orders?ssl=on",
        "jdbc:postgresql:u:s3cret@127.0.0.1/orders",
        "jdbc:postgresql://127.0.0.1:no/orders?user=u&password=s3cret",
        "jdbc:postgresql://127.0.0.1:99999/orders?password=s3cret",
        "jdbc:postgresql://127.0.0.1:1,127.0.0.1:s3cret/orders",
        "jdbc:postgresql://127.0.0.1:5432?password=s3cret",
        "jdbc:postgresql://127.0.0.1/orders?password=s3cret%zz",
        "jdbc:postgresql://127.0.0.1/orders?password=%zzs3cret&ssl=on"
      })
  void aUrlThatTheDriverCannotReadIsRefusedAndNotShown(String url) {
    assertThat(refusal(good("SPRING_DATASOURCE_URL", url)))
        .contains("SPRING_DATASOURCE_URL", "jdbc:postgresql://HOST:5432/DATABASE")
        .doesNotContain("s3cret");
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "jdbc:postgresql:orders",
        "jdbc:postgresql://127.0.0.1/orders",
        "jdbc:postgresql://[::1]:5432/orders",
        "jdbc:postgresql://a:5432,b:5433/orders?targetServerType=primary",
        "jdbc:postgresql://127.0.0.1/orders?password=a@b%20c",
        "jdbc:postgresql:///orders?cloudSqlInstance=p:r:i&socketFactory=com.google.cloud.sql.postgres.SocketFactory"
      })
  void aUrlThatTheDriverReadsIsTaken(String url) {
    assertThatCode(() -> new SettingsCheck(environment(good("SPRING_DATASOURCE_URL", url))).check())
        .doesNotThrowAnyException();
  }

  @Test
  void aPasswordWithAnAmpersandIsMaskedWhole() {
    assertThat(
            StartupFailureAnalyzer.withoutSecrets(
                "jdbc:postgresql://h/d?sslpassword=p&s3cret&ssl=on"))
        .isEqualTo("jdbc:postgresql://h/d?sslpassword=***&ssl=on");
  }

  @Test
  void passwordsInAUrlAreMasked() {
    assertThat(
            StartupFailureAnalyzer.withoutSecrets("jdbc:postgresql://h/d?user=u&password=p&ssl=on"))
        .isEqualTo("jdbc:postgresql://h/d?user=***&password=***&ssl=on");
  }

  @Test
  void withoutALoginTheManagementPortMustBeOnLoopback() {
    assertThat(refusal(good("TWINBOX_OPERATE_LOGIN_REQUIRED", "false")))
        .contains("open to other machines (MANAGEMENT_SERVER_ADDRESS is not set)")
        .contains("SPRING_SECURITY_USER_PASSWORD");
    assertThat(
            refusal(
                good(
                    "TWINBOX_OPERATE_LOGIN_REQUIRED",
                    "false",
                    "MANAGEMENT_SERVER_ADDRESS",
                    "0.0.0.0")))
        .contains("'0.0.0.0'");
    assertThatCode(
            () ->
                new SettingsCheck(
                        environment(
                            good(
                                "TWINBOX_OPERATE_LOGIN_REQUIRED",
                                "false",
                                "MANAGEMENT_SERVER_ADDRESS",
                                "127.0.0.1")))
                    .check())
        .doesNotThrowAnyException();
  }

  @Test
  void aStageIsNotCalledStuckAfterSeconds() {
    assertThat(refusal(good("TWINBOX_OPERATE_STUCK_AFTER", "59s"))).contains("less than a minute");
  }
}
