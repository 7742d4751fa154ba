package io.twinbox.operate;

import static org.assertj.core.api.Assertions.assertThat;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.grpc.Status;
import io.twinbox.local.LocalPostgres;
import io.twinbox.promises.PromiseTest;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.Statement;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.springframework.boot.test.system.CapturedOutput;
import org.springframework.boot.test.system.OutputCaptureExtension;

/** Structured logs: fields of the message, and nothing that is other people's. */
@ExtendWith(OutputCaptureExtension.class)
class LogLinesTest extends PromiseTest {

  private static final ObjectMapper JSON = new ObjectMapper();
  private static final String SECRET = "4711-SECRET-PAYLOAD";

  private static final String[] STRUCTURED = {
    "logging.structured.format.console=logstash", "logging.level.root=INFO"
  };

  /** The format is the JVM's: it lasts until the last instance has ended and this is cleared. */
  @BeforeEach
  @AfterEach
  void plainAgain() {
    List.copyOf(running()).forEach(this::stop);
    System.clearProperty("CONSOLE_LOG_STRUCTURED_FORMAT");
  }

  /** The lines that Twinbox and its libraries wrote once its logging was set up. */
  private static List<JsonNode> lines(CapturedOutput output) {
    return output
        .toString()
        .lines()
        .filter(line -> line.startsWith("{\"@timestamp\""))
        .map(
            line -> {
              try {
                return JSON.readTree(line);
              } catch (java.io.IOException e) {
                throw new AssertionError("no JSON: " + line, e);
              }
            })
        .toList();
  }

  private static JsonNode line(CapturedOutput output, String message) {
    return lines(output).stream()
        .filter(line -> line.get("message").asText().contains(message))
        .findFirst()
        .orElseThrow(() -> new AssertionError("no line with " + message));
  }

  @Test
  void payloadsAndSecretsAreInNoLine(CapturedOutput output) throws Exception {
    createTopicAndSubscription();
    topicFile(
        "post.sql",
        """
        -- Fails, and PostgreSQL quotes what it could not read.
        INSERT INTO effect (what) VALUES (CAST(CAST(convert_from(:#${body}, 'UTF8') AS int) AS text))
        """);
    try (var refused =
        pubSub
            .faults()
            .failPublishWhen(
                m -> m.getData().toStringUtf8().contains("refuse"), Status.INVALID_ARGUMENT)) {
      start(
          "dispatch,consume",
          STRUCTURED[0],
          STRUCTURED[1],
          "twinbox.dispatch.max-attempts=1",
          "twinbox.consume.max-attempts=2",
          "spring.security.user.password=the-login-of-mia");
      UUID good = put("17", "{\"colour\": \"" + SECRET + "\"}", null);
      eventually().until(() -> count("effect") == 1);
      UUID bad = put(SECRET, "{}", null);
      UUID refusedId = put(SECRET + " refuse");
      eventually().until(() -> count("transactional_inbox_dead_letter") == 1);
      eventually()
          .until(
              () ->
                  jdbc.queryForObject(
                          "SELECT count(*) FROM pubsub_outbox_due WHERE dead_at IS NOT NULL",
                          Integer.class)
                      == 1);
      eventually().until(() -> output.toString().contains("were refused too often"));

      JsonNode failure = line(output, "failure 1 of 2");
      assertThat(failure.get("outbox_id").asText()).isEqualTo(bad.toString());
      assertThat(failure.get("attempt").asText()).isEqualTo("1");
      assertThat(failure.get("message").asText())
          .contains("post.sql", "invalid input syntax for type integer: \"...\"");
      JsonNode letter = line(output, "Dead letter: message");
      assertThat(letter.get("outbox_id").asText()).isEqualTo(bad.toString());
      assertThat(letter.get("attempt").asText()).isEqualTo("2");
      assertThat(letter.get("topic").asText()).isEqualTo(TOPIC);
      assertThat(letter.get("subscription").asText()).isEqualTo(SUBSCRIPTION);
      JsonNode event = line(output, "was refused, attempt 1");
      assertThat(event.get("outbox_id").asText()).isEqualTo(refusedId.toString());
      assertThat(event.get("topic").asText()).isEqualTo(TOPIC);
      assertThat(event.get("attempt").asInt()).isEqualTo(1);
      // A line that is about no message names none.
      assertThat(line(output, "were refused too often").has("outbox_id")).isFalse();

      assertThat(output.toString()).doesNotContain(SECRET, "the-login-of-mia");
      assertThat(lines(output)).hasSizeGreaterThan(20);
      assertThat(output.toString()).doesNotContain("password=" + LocalPostgres.PASSWORD);
      assertThat(
              jdbc.queryForList("SELECT reason FROM transactional_inbox_dead_letter", String.class))
          .singleElement()
          .asString()
          .doesNotContain(SECRET);
      assertThat(good).isNotEqualTo(bad);
    }
  }

  @Test
  void aReplaysLinesCarryTheLettersKey(CapturedOutput output) {
    createTopicAndSubscription();
    jdbc.execute("ALTER TABLE effect RENAME TO hidden");
    start(
        "consume",
        STRUCTURED[0],
        STRUCTURED[1],
        "twinbox.consume.max-attempts=1",
        "twinbox.consume.replay-interval=20ms");
    publish("one", Map.of("outbox_id", "k1"));
    eventually().until(() -> count("transactional_inbox_dead_letter") == 1);
    jdbc.queryForList("SELECT inbox_replay('ledger', 'still wrong')");
    eventually().until(() -> output.toString().contains("The replay of dead letter"));
    assertThat(line(output, "The replay of dead letter").get("outbox_id").asText()).isEqualTo("k1");
  }

  @Test
  void eventThatQuarantineGivesUpIsNamed(CapturedOutput output) {
    createTopicAndSubscription();
    UUID id = put(SECRET);
    jdbc.execute(
        "UPDATE pubsub_outbox_due SET lock_id = 'pod-7', claim_token = gen_random_uuid(), solo = true, attempts = 3,"
            + " crashes = 4, locked_at = now() - interval '2 minutes', next_retry_at = now() - interval '1 minute'");
    start("dispatch", STRUCTURED);
    eventually().until(() -> output.toString().contains(" is dead, quarantined"));
    JsonNode line = line(output, " is dead, quarantined");
    assertThat(line.get("outbox_id").asText()).isEqualTo(id.toString());
    assertThat(line.get("topic").asText()).isEqualTo(TOPIC);
    assertThat(line.get("attempt").asInt()).isEqualTo(3);
    assertThat(output).doesNotContain(SECRET);
  }

  /** The database is away for its handler; nothing is counted, and the line says whose it is. */
  @Test
  void messageThatMeetsTroubleOfTheDatabaseIsNamed(CapturedOutput output) throws Exception {
    createTopicAndSubscription();
    topicFile(
        "post.sql",
        """
        -- Trouble of the database until its cause is gone.
        INSERT INTO effect (what)
        SELECT convert_from(:#${body}, 'UTF8') FROM trouble()
        """);
    jdbc.execute(
        "CREATE FUNCTION trouble() RETURNS int LANGUAGE plpgsql AS 'BEGIN RAISE EXCEPTION ''%'', ''too many'' USING ERRCODE = ''53300''; END'");
    start("consume", STRUCTURED);
    publish(SECRET, Map.of("outbox_id", "k1"));
    eventually().until(() -> output.toString().contains("trouble of the database"));
    JsonNode line = line(output, "trouble of the database, nothing counted");
    assertThat(line.get("outbox_id").asText()).isEqualTo("k1");
    assertThat(line.get("topic").asText()).isEqualTo(TOPIC);
    assertThat(line.get("subscription").asText()).isEqualTo(SUBSCRIPTION);
    assertThat(line.has("attempt")).isFalse();
    assertThat(output).doesNotContain(SECRET);
    jdbc.execute("CREATE OR REPLACE FUNCTION trouble() RETURNS int LANGUAGE sql AS 'SELECT 1'");
    eventually().until(() -> count("effect") == 1);
  }

  /** As when it restarts: every connection ends, and each pod has many. */
  @Test
  void connectionsThatTheServerEndsAreNamedInOneLineEach(CapturedOutput output) throws Exception {
    createTopicAndSubscription();
    start("dispatch,consume", "logging.level.root=INFO");
    put("one");
    eventually().until(() -> count("effect") == 1);
    try (Connection lock =
            DriverManager.getConnection(databaseUrl, LocalPostgres.USER, LocalPostgres.PASSWORD);
        Statement statement = lock.createStatement()) {
      lock.setAutoCommit(false);
      statement.execute("LOCK TABLE pubsub_outbox_due, transactional_inbox");
      publish("two", Map.of("outbox_id", "k2"));
      // Two polls and a handler.
      awaitBlockedSessions(3);
      jdbc.execute(
          "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
              + " WHERE datname = current_database() AND wait_event_type = 'Lock'");
      eventually().until(() -> output.toString().contains("Route dispatch: "));
      lock.rollback();
    }
    put("three");
    eventually().until(() -> count("effect") == 3);

    assertThat(output.toString())
        .contains("terminating connection due to administrator command")
        .doesNotContain("\tat ", "PSQLException:");
  }

  /** Kubernetes gives every pod the variables by which Spring Boot knows it. */
  @Test
  void inKubernetesLogsAreStructuredByThemselves(CapturedOutput output) {
    start("maintain", "logging.level.root=INFO");
    assertThat(output).contains("Runs maintain");
    assertThat(lines(output))
        .noneMatch(line -> line.get("message").asText().contains("Runs maintain"));
    plainAgain();
    start("maintain", "logging.level.root=INFO", "spring.main.cloud-platform=kubernetes");
    assertThat(line(output, "Runs maintain").get("level").asText()).isEqualTo("INFO");
  }
}
