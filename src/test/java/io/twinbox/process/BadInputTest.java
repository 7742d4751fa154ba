package io.twinbox.process;

import static org.assertj.core.api.Assertions.assertThat;

import io.twinbox.local.LocalPostgres;
import java.io.IOException;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.Duration;
import java.util.Arrays;
import java.util.List;
import java.util.function.UnaryOperator;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * What cannot work ends the process by itself, with one message that says what, where and what to
 * do, a non-zero exit code, no stack trace and no secret.
 */
class BadInputTest {

  /** "Within seconds", on a machine that is busy with other things. */
  private static final Duration PATIENCE = Duration.ofSeconds(60);

  private static final String SECRET = "s3cret-Passw0rd";
  private static final Path INVOICES = Path.of("topics/invoices");

  private static LocalPostgres postgres;

  @TempDir Path topic;

  @BeforeAll
  static void startPostgres() throws SQLException {
    postgres = LocalPostgres.start();
    try (Connection connection = connect(postgres.url());
        Statement statement = connection.createStatement()) {
      // The embedded server trusts everybody; here passwords are asked for.
      statement.execute("SET password_encryption = 'scram-sha-256'");
      statement.execute("CREATE ROLE asked LOGIN PASSWORD '" + SECRET + "'");
      statement.execute("CREATE ROLE reader LOGIN");
      String hba;
      try (ResultSet file = statement.executeQuery("SHOW hba_file")) {
        file.next();
        hba = file.getString(1);
      }
      Path path = Path.of(hba);
      Files.writeString(
          path, "host all asked 127.0.0.1/32 scram-sha-256\n" + Files.readString(path));
      statement.execute("SELECT pg_reload_conf()");
    } catch (IOException e) {
      throw new IllegalStateException(e);
    }
  }

  @AfterAll
  static void stopPostgres() {
    postgres.close();
  }

  private static Connection connect(String url) throws SQLException {
    return DriverManager.getConnection(url, LocalPostgres.USER, LocalPostgres.PASSWORD);
  }

  /** What a process says when it ends by itself, and that it does so as it should. */
  private static String refusal(TwinboxProcess.Launch launch) {
    try (TwinboxProcess process = launch.start()) {
      assertThat(process.exitCode(PATIENCE)).isNotZero();
      String output = process.output();
      assertThat(output).doesNotContain("\tat ", "Exception encountered", SECRET);
      List<String> records =
          Arrays.stream(output.split("\n"))
              .filter(l -> l.matches("\\d{4}-\\d\\d-\\d\\dT.*"))
              .toList();
      assertThat(records)
          .as(output)
          .filteredOn(line -> line.contains(" ERROR ") || line.contains(" WARN "))
          .hasSize(1);
      String said = output.substring(output.indexOf("Twinbox does not start. "));
      assertThat(said).contains("\n  What to do: ");
      return said;
    }
  }

  /** A process of which nothing is wrong but what the test does to it. */
  private TwinboxProcess.Launch good(String routes) {
    return TwinboxProcess.classes("bad-input")
        .with(
            "TWINBOX_ROUTES", routes,
            "TWINBOX_TOPIC_DIR", topic.toString(),
            "GOOGLE_CLOUD_PROJECT", "local",
            "TOPIC_NAME", "invoices",
            "SUBSCRIPTION_NAME", "invoices-ledger",
            "TWINBOX_SOURCE", "billing",
            "TWINBOX_CONSUMER", "ledger",
            // Nobody listens there, and none of these gets that far.
            "PUBSUB_EMULATOR_HOST", "127.0.0.1:9",
            "BIGQUERY_EMULATOR_HOST", "127.0.0.1:9",
            "SPRING_DATASOURCE_URL", postgres.url(),
            "SPRING_DATASOURCE_USERNAME", LocalPostgres.USER,
            "SPRING_DATASOURCE_PASSWORD", SECRET);
  }

  private void copy(String... names) throws IOException {
    for (String name : names) {
      Files.copy(INVOICES.resolve(name), topic.resolve(name));
    }
  }

  // What to run -----------------------------------------------------------------------------------

  @Test
  void noRouteSetIsNamedWithTheChoice() {
    assertThat(refusal(good("dispatch").without("TWINBOX_ROUTES")))
        .contains("TWINBOX_ROUTES is not set", "produce, dispatch, consume, maintain");
  }

  @Test
  void anUnknownRouteSetIsNamedWithTheChoice() {
    assertThat(refusal(good("dispatch,consum")))
        .contains("unknown route set 'consum'", "produce, dispatch, consume, maintain");
  }

  // Settings --------------------------------------------------------------------------------------

  @Test
  void missingSettingsAreNamed() {
    assertThat(refusal(good("consume").without("SUBSCRIPTION_NAME").without("TWINBOX_CONSUMER")))
        .contains("SUBSCRIPTION_NAME, TWINBOX_CONSUMER are missing", "topic.properties");
  }

  @Test
  void aValueOutOfRangeIsShownWithItsSetting() {
    assertThat(refusal(good("dispatch").with("TWINBOX_DISPATCH_BATCH_ROWS", "0")))
        .contains("TWINBOX_DISPATCH_BATCH_ROWS", "'0'", "greater than or equal to 1");
  }

  @Test
  void aMisspeltVariableIsNamedWithTheNearestSetting() {
    assertThat(refusal(good("dispatch").with("TWINBOX_DISPATCH_LEESE", "10s")))
        .contains("TWINBOX_DISPATCH_LEESE", "TWINBOX_DISPATCH_LEASE");
  }

  @Test
  void aMisspeltNameInTopicPropertiesIsNamedWithItsFile() throws IOException {
    Files.writeString(topic.resolve("topic.properties"), "twinbox.consume.max-atempts=3\n");
    assertThat(refusal(good("dispatch")))
        .contains(
            "twinbox.consume.max-atempts", "topic.properties", "TWINBOX_CONSUME_MAX_ATTEMPTS");
  }

  @Test
  void aWrongValueInTopicPropertiesIsNamedWithItsFile() throws IOException {
    Files.writeString(topic.resolve("topic.properties"), "twinbox.dispatch.max-attempts=ten\n");
    assertThat(refusal(good("dispatch")))
        .contains("twinbox.dispatch.max-attempts", "'ten'", "topic.properties");
  }

  // Files -----------------------------------------------------------------------------------------

  @Test
  void aMissingTopicFolderIsNamed() {
    String missing = topic.resolve("gone").toString();
    assertThat(refusal(good("dispatch").with("TWINBOX_TOPIC_DIR", missing)))
        .contains("TWINBOX_TOPIC_DIR", missing);
  }

  @Test
  void aTopicFolderThatIsAFileIsNamed() throws IOException {
    Path file = Files.writeString(topic.resolve("file"), "");
    assertThat(refusal(good("dispatch").with("TWINBOX_TOPIC_DIR", file.toString())))
        .contains("TWINBOX_TOPIC_DIR", file.toString());
  }

  @Test
  void aMissingQueryIsNamed() {
    assertThat(refusal(good("produce")))
        .contains(topic.resolve("query.sql").toString(), "TWINBOX_TOPIC_DIR");
  }

  @Test
  void aMissingHandlerIsNamed() {
    assertThat(refusal(good("consume")))
        .contains(topic.resolve("handle.camel.yaml").toString(), "TWINBOX_TOPIC_DIR");
  }

  @Test
  void aMissingStatementOfTheHandlerIsNamedWithItsStep() throws IOException {
    copy("handle.camel.yaml", "post-ledger.sql");
    assertThat(refusal(good("consume")))
        .contains("handle.camel.yaml:", "invoices-update-balance", "update-balance.sql");
  }

  @Test
  void invalidYamlIsShownWithItsLine() throws IOException {
    Files.writeString(topic.resolve("handle.camel.yaml"), "- route:\n    id: [a\n    from: b\n");
    assertThat(refusal(good("consume"))).contains("handle.camel.yaml:3", "invalid YAML");
  }

  @Test
  void aHandlerThatBreaksARuleIsShownWithItsStep() throws IOException {
    copy("post-ledger.sql", "update-balance.sql");
    handler(yaml -> yaml.replaceFirst("(?m)^        - to:", "        - wireTap:"));
    assertThat(refusal(good("consume")))
        .contains("handle.camel.yaml:", "invoices-post-ledger", "wireTap");
  }

  @Test
  void aPropertyOfTheHandlerThatNothingSetsIsNamed() throws IOException {
    copy("post-ledger.sql", "update-balance.sql");
    handler(yaml -> yaml.replace("{{twinbox.topic-dir}}/post", "{{ledger.folder}}/post"));
    assertThat(refusal(good("consume"))).contains("handle.camel.yaml:", "ledger.folder");
  }

  @Test
  void aPropertyOfAnyStepOfTheHandlerThatNothingSetsIsNamed() throws IOException {
    copy("post-ledger.sql", "update-balance.sql");
    String setHeader =
        """
        - setHeader:
            id: invoices-currency
            name: currency
            expression:
              constant:
                expression: "{{ledger.currency}}"
        """
            .indent(8);
    handler(
        yaml -> yaml.replace("        - convertBodyTo:", setHeader + "        - convertBodyTo:"));
    assertThat(refusal(good("consume"))).contains("invoices-handle", "ledger.currency");
  }

  private void handler(UnaryOperator<String> edit) throws IOException {
    String yaml = Files.readString(INVOICES.resolve("handle.camel.yaml"));
    String edited = edit.apply(yaml);
    assertThat(edited).isNotEqualTo(yaml);
    Files.writeString(topic.resolve("handle.camel.yaml"), edited);
  }

  @Test
  void aMissingFolderOfRoutesIsNamed() {
    String missing = "file:" + topic.resolve("routes");
    assertThat(refusal(good("dispatch").with("TWINBOX_ROUTES_LOCATION", missing)))
        .contains("dispatch", missing, "TWINBOX_ROUTES_LOCATION");
  }

  // Surroundings ----------------------------------------------------------------------------------

  @Test
  void anUnreachableDatabaseIsNamed() {
    String url = "jdbc:postgresql://127.0.0.1:" + TwinboxProcess.freePort() + "/orders";
    assertThat(refusal(good("dispatch").with("SPRING_DATASOURCE_URL", url)))
        .contains(url, "cannot be reached", "SPRING_DATASOURCE_URL");
  }

  @Test
  void anUnknownDatabaseHostIsNamed() {
    String url = "jdbc:postgresql://no-such-host.invalid/orders";
    assertThat(refusal(good("dispatch").with("SPRING_DATASOURCE_URL", url)))
        .contains(url, "unknown host no-such-host.invalid", "SPRING_DATASOURCE_URL");
  }

  @Test
  void aWrongPasswordIsToldAndNotShown() {
    assertThat(
            refusal(
                good("dispatch")
                    .with(
                        "SPRING_DATASOURCE_USERNAME",
                        "asked",
                        "SPRING_DATASOURCE_PASSWORD",
                        "not" + SECRET)))
        .contains("password authentication failed", "asked", "SPRING_DATASOURCE_PASSWORD");
  }

  @Test
  void aPasswordInTheUrlIsNotShown() {
    String url = postgres.url("nowhere") + "?user=postgres&password=" + SECRET;
    assertThat(refusal(good("dispatch").with("SPRING_DATASOURCE_URL", url)))
        .contains("password=***");
  }

  @Test
  void aUrlOfAnotherFormIsRefusedAndNotShown() {
    String url = "postgres://asked:" + SECRET + "@127.0.0.1/orders";
    assertThat(refusal(good("dispatch").with("SPRING_DATASOURCE_URL", url)))
        .contains("jdbc:postgresql://HOST:5432/DATABASE");
  }

  @Test
  void aMissingDatabaseIsNamed() {
    assertThat(refusal(good("dispatch").with("SPRING_DATASOURCE_URL", postgres.url("nowhere"))))
        .contains("database \"nowhere\" does not exist", "SPRING_DATASOURCE_URL");
  }

  @Test
  void aUserWithoutRightsIsTold() throws SQLException {
    String url = postgres.createDatabase();
    try (Connection connection = connect(url);
        Statement statement = connection.createStatement()) {
      statement.execute("REVOKE CREATE ON SCHEMA public FROM PUBLIC");
    }
    assertThat(
            refusal(
                good("dispatch")
                    .with("SPRING_DATASOURCE_URL", url, "SPRING_DATASOURCE_USERNAME", "reader")))
        .contains("permission denied", "SPRING_DATASOURCE_USERNAME");
  }

  @ParameterizedTest
  @ValueSource(strings = {"SERVER_PORT", "MANAGEMENT_SERVER_PORT"})
  void aPortInUseIsNamed(String variable) throws IOException {
    try (ServerSocket taken = new ServerSocket(0)) {
      String port = String.valueOf(taken.getLocalPort());
      assertThat(
              refusal(
                  good("maintain")
                      .with("SPRING_DATASOURCE_URL", postgres.createDatabase(), variable, port)))
          .contains("Port " + port + " is in use", variable);
    }
  }

  @ParameterizedTest
  @CsvSource({"consume, PUBSUB_EMULATOR_HOST", "produce, BIGQUERY_EMULATOR_HOST"})
  void noGoogleCredentialsAreToldBeforeAnythingWaitsForThem(String routes, String variable)
      throws IOException {
    copy("handle.camel.yaml", "post-ledger.sql", "update-balance.sql", "query.sql");
    assertThat(refusal(good(routes).without(variable)))
        .contains("no Google credentials", "GOOGLE_APPLICATION_CREDENTIALS", variable);
  }

  /** With a Service called twinbox in the namespace every pod gets these from Kubernetes. */
  @Test
  void variablesThatKubernetesAddsForAServiceNamedTwinboxAreNotTakenForSettings() {
    assertThat(
            refusal(
                good("nothing")
                    .with(
                        // The test reads text; in Kubernetes logs are JSON.
                        "LOGGING_STRUCTURED_FORMAT_CONSOLE", "",
                        "TWINBOX_SERVICE_HOST", "10.0.0.1",
                        "TWINBOX_SERVICE_PORT", "8081",
                        "TWINBOX_SERVICE_PORT_HTTP", "8081",
                        "TWINBOX_PORT", "tcp://10.0.0.1:8081",
                        "TWINBOX_PORT_8081_TCP", "tcp://10.0.0.1:8081",
                        "TWINBOX_PORT_8081_TCP_ADDR", "10.0.0.1")))
        .contains("unknown route set 'nothing'");
  }
}
