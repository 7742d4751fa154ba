package io.twinbox.promises;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.google.pubsub.v1.DeadLetterPolicy;
import com.google.pubsub.v1.PubsubMessage;
import com.google.pubsub.v1.Subscription;
import io.twinbox.TwinboxApplication;
import io.twinbox.inbox.DatabaseTrouble;
import io.twinbox.local.LocalPostgres;
import java.io.IOException;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;
import org.springframework.boot.actuate.health.HealthIndicator;
import org.springframework.boot.actuate.health.Status;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.context.annotation.Import;
import org.springframework.dao.DataAccessException;
import org.springframework.jdbc.core.JdbcTemplate;

/** What README promises of the way from the subscription into the consumer's tables. */
class ConsumePromisesTest extends PromiseTest {

  private static Map<String, String> key(String key) {
    return Map.of("outbox_id", key);
  }

  @Test
  void duplicateTakesEffectOnce() {
    createTopicAndSubscription();
    pubSub.faults().redeliverAcknowledged(0.5, 7);
    pubSub.faults().deliverTwice(0.5, 11);
    start("consume");
    start("consume");
    for (int copy = 0; copy < 3; copy++) {
      for (int i = 0; i < 50; i++) {
        publish("event %02d".formatted(i), key("id-" + i));
      }
    }

    eventually().until(() -> count("effect") >= 50 && backlog() == 0);
    assertThat(effects())
        .containsExactlyElementsOf(
            IntStream.range(0, 50).mapToObj("event %02d"::formatted).toList());
    assertThat(count("transactional_inbox")).isEqualTo(50);
    assertThat(pubSub.stats().deliveries()).isGreaterThan(150);
  }

  @Test
  void duplicateWaitsForItsTwinAndThenDoesNothing() throws Exception {
    createTopicAndSubscription();
    jdbc.execute("CREATE TABLE gate (id int PRIMARY KEY)");
    topicFile(
        "post.sql",
        """
        -- Waits for whoever holds the gate, then posts.
        WITH passed AS (INSERT INTO gate (id) SELECT 1 ON CONFLICT DO NOTHING)
        INSERT INTO effect (what) VALUES (convert_from(:#${body}, 'UTF8'))
        """);
    try (Connection holder = connection();
        Statement statement = holder.createStatement()) {
      holder.setAutoCommit(false);
      statement.execute("INSERT INTO gate (id) VALUES (1)");
      start("consume");
      publish("event", key("twin"));
      awaitBlockedSessions(1);
      // It waits for the gate, its twin for the key.
      publish("event", key("twin"));
      awaitBlockedSessions(2);
      holder.rollback();
    }

    eventually().until(() -> backlog() == 0);
    assertThat(effects()).containsExactly("event");
    assertThat(pubSub.stats().nacks()).isZero();
  }

  /** After a failure Pub/Sub may serve a key's next message first; here nothing fails. */
  @Test
  void effectsOfOneOrderingKeyComeInItsOrderWhileNothingFails() throws IOException {
    pubSub.createTopic(PROJECT, TOPIC);
    pubSub.createSubscription(
        Subscription.newBuilder()
            .setName(SUBSCRIPTION_PATH)
            .setTopic(TOPIC_PATH)
            .setEnableMessageOrdering(true)
            .build());
    pubSub.faults().redeliverAcknowledged(0.2, 13);
    jdbc.execute("ALTER TABLE effect ADD COLUMN seq bigint GENERATED ALWAYS AS IDENTITY");
    topicFile(
        "post.sql",
        """
        -- Posts, after a moment that differs from event to event.
        WITH waited AS MATERIALIZED (SELECT pg_sleep(random() * 0.01))
        INSERT INTO effect (what) SELECT convert_from(:#${body}, 'UTF8') FROM waited
        """);
    for (int orderingKey = 0; orderingKey < 10; orderingKey++) {
      List<PubsubMessage> messages = new ArrayList<>();
      for (int i = 0; i < 30; i++) {
        // Idempotency keys whose own order is another.
        messages.add(
            message(
                "%d/%02d".formatted(orderingKey, i),
                key(UUID.randomUUID().toString()),
                "order " + orderingKey));
      }
      publish(messages);
    }
    start("consume", "twinbox.consume.concurrency=4");
    start("consume", "twinbox.consume.concurrency=4");

    eventually().until(() -> count("effect") == 300 && backlog() == 0);
    assertThat(
            jdbc.queryForList(
                "SELECT string_agg(right(what, 2), ' ' ORDER BY seq) FROM effect GROUP BY left(what, 1)",
                String.class))
        .hasSize(10)
        .containsOnly(
            IntStream.range(0, 30).mapToObj("%02d"::formatted).collect(Collectors.joining(" ")));
  }

  @Test
  void rolledBackHandlerLeavesNoKeyAndNoEffect() throws Exception {
    createTopicAndSubscription();
    failing("P0001", 2);
    start("consume");
    publish("event", key("fails-twice"));

    eventually().until(() -> count("effect") == 1 && backlog() == 0);
    assertThat(calls()).isEqualTo(3);
    assertThat(count("transactional_inbox")).isEqualTo(1);
    // Forgotten on success.
    assertThat(count("transactional_inbox_failure")).isZero();
  }

  @Test
  void messageThatNeverSucceedsBecomesADeadLetterAndIsAcknowledged() throws Exception {
    createTopicAndSubscription();
    failing("P0001", 1_000);
    start("consume", "twinbox.consume.max-attempts=3");
    publish("päyload", Map.of("outbox_id", "hopeless", "type", "issued"));

    eventually().until(() -> count("transactional_inbox_dead_letter") == 1 && backlog() == 0);
    Map<String, Object> letter = jdbc.queryForMap("SELECT * FROM transactional_inbox_dead_letter");
    assertThat((byte[]) letter.get("payload"))
        .isEqualTo("päyload".getBytes(java.nio.charset.StandardCharsets.UTF_8));
    assertThat(letter.get("attributes").toString()).contains("\"type\":\"issued\"");
    assertThat(letter.get("attempts")).isEqualTo(3);
    assertThat((String) letter.get("reason"))
        .contains("post.sql: ")
        .contains("the handler fails on purpose");
    assertThat(calls()).isEqualTo(3);
    assertThat(count("transactional_inbox")).isZero();
    assertThat(count("effect")).isZero();
  }

  @Test
  void failuresAreCountedOverAllPods() throws Exception {
    createTopicAndSubscription();
    failing("P0001", 1_000);
    start("consume", "twinbox.consume.max-attempts=6");
    start("consume", "twinbox.consume.max-attempts=6");
    publish("event", key("hopeless"));

    eventually().until(() -> count("transactional_inbox_dead_letter") == 1 && backlog() == 0);
    assertThat(calls()).isEqualTo(6);
  }

  @Test
  void messageWithoutAUsableKeyIsKeptForTheOperator() {
    createTopicAndSubscription();
    start("consume");
    // An attribute of a name that a route might use for itself.
    publish("none", Map.of("failures", "abc"));
    publish("blank", key(" "));
    publish("nul", key("a\0b"));
    publish("long", key("x".repeat(513)));
    publish("longest", key("x".repeat(512)));

    eventually().until(() -> count("transactional_inbox_dead_letter") == 4 && backlog() == 0);
    assertThat(effects()).containsExactly("longest");
    assertThat(
            jdbc.queryForList("SELECT reason FROM transactional_inbox_dead_letter", String.class))
        .anyMatch(r -> r.contains("no attribute 'outbox_id'"))
        .anyMatch(r -> r.contains("blank"))
        .anyMatch(r -> r.contains("NUL"))
        .anyMatch(r -> r.contains("513 bytes"));
  }

  @Test
  void troubleOfTheDatabaseIsNotCountedAgainstAMessage() throws Exception {
    createTopicAndSubscription();
    failing("40001", 5);
    start("consume", "twinbox.consume.max-attempts=2");
    publish("event", key("serialization failure"));

    eventually().until(() -> count("effect") == 1 && backlog() == 0);
    assertThat(calls()).isEqualTo(6);
    assertThat(count("transactional_inbox_dead_letter")).isZero();
  }

  @Test
  void messageThatIsDeliveredWithoutEndIsKeptForTheOperator() throws Exception {
    pubSub.createTopic(PROJECT, TOPIC);
    pubSub.createTopic(PROJECT, "given-up");
    pubSub.createSubscription(
        Subscription.newBuilder()
            .setName(SUBSCRIPTION_PATH)
            .setTopic(TOPIC_PATH)
            .setDeadLetterPolicy(
                DeadLetterPolicy.newBuilder()
                    .setDeadLetterTopic("projects/promises/topics/given-up")
                    .setMaxDeliveryAttempts(100))
            .build());
    // Never counted as a failure, as when the handler ends its process.
    failing("40001", 1_000);
    start("consume", "twinbox.consume.max-deliveries=5");
    publish("event", key("endless"));

    eventually().until(() -> count("transactional_inbox_dead_letter") == 1 && backlog() == 0);
    assertThat(
            jdbc.queryForObject("SELECT reason FROM transactional_inbox_dead_letter", String.class))
        .startsWith("delivered more than 5 times without an outcome");
    assertThat(calls()).isEqualTo(5);
    assertThat(count("effect")).isZero();
  }

  @Test
  void messagesWaitWhileTheDatabaseIsAwayAndGoOnByThemselves() throws Exception {
    createTopicAndSubscription();
    ConfigurableApplicationContext twinbox =
        start("consume", "twinbox.consume.max-attempts=1", "twinbox.consume.concurrency=4");
    DatabaseTrouble trouble = twinbox.getBean(DatabaseTrouble.class);
    HealthIndicator health = twinbox.getBean("dbHealthContributor", HealthIndicator.class);
    assertThat(health.health().getStatus()).isEqualTo(Status.UP);
    String database = database();
    try (Connection admin =
            DriverManager.getConnection(
                databaseUrl.replace(database, "postgres"),
                LocalPostgres.USER,
                LocalPostgres.PASSWORD);
        Statement statement = admin.createStatement()) {
      statement.execute("ALTER DATABASE " + database + " WITH ALLOW_CONNECTIONS false");
      statement.execute(
          "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '"
              + database
              + "'");
      for (int i = 0; i < 20; i++) {
        publish("event %02d".formatted(i), key("id-" + i));
      }
      // Each has failed for want of a connection, which is not its fault, and waits.
      eventually().until(() -> trouble.waiting() == 4);
      assertThat(health.health().getStatus()).isEqualTo(Status.DOWN);
      // They wait here: nothing goes back to Pub/Sub, which would send it again at once.
      assertThat(pubSub.stats().nacks()).isZero();
      assertThat(pubSub.stats().deliveries()).isEqualTo(20);
      statement.execute("ALTER DATABASE " + database + " WITH ALLOW_CONNECTIONS true");
    }

    eventually().until(() -> backlog() == 0);
    assertThat(effects()).hasSize(20).doesNotHaveDuplicates();
    assertThat(count("transactional_inbox_dead_letter")).isZero();
  }

  @Test
  void attributeNeverBecomesAControlHeaderOfCamel() {
    createTopicAndSubscription();
    start("consume");
    Map<String, String> attributes = new HashMap<>();
    for (String spelling :
        List.of("CamelSqlQuery", "CAMELSqlQuery", "camelsqlquery", "cAmElSqLqUeRy")) {
      attributes.put(spelling, "INSERT INTO effect (what) VALUES ('stolen')");
    }
    attributes.put("CamelGooglePubsubMsgAckId", "other");
    attributes.put("outbox_id", "harmless");
    publish("event", attributes);

    eventually().until(() -> backlog() == 0);
    assertThat(effects()).containsExactly("event");
  }

  @Test
  void swallowedErrorOfAStatementIsNotAcknowledged() throws Exception {
    createTopicAndSubscription();
    topicFile(
        "handle.camel.yaml",
        """
        - route:
            id: orders-handle
            from:
              id: orders-handle-call
              uri: direct
              parameters:
                name: handle
              steps:
                - to:
                    id: orders-post
                    uri: sql
                    parameters:
                      query: file:{{twinbox.topic-dir}}/post.sql
                      noop: true
                - bean:
                    id: orders-swallow
                    ref: swallower
                    method: swallow
        """);
    start(WithSwallower.class, "consume", "twinbox.consume.max-attempts=3");
    publish("event", key("swallowed"));

    // Never acknowledged as done: it fails, is counted, and is kept.
    eventually().until(() -> count("transactional_inbox_dead_letter") == 1);
    assertThat(
            jdbc.queryForObject("SELECT reason FROM transactional_inbox_dead_letter", String.class))
        .contains("swallowed");
    assertThat(count("effect")).isZero();
    assertThat(count("transactional_inbox")).isZero();
  }

  @Test
  void handlerThatWouldBreakThePromiseIsRefusedAtStart() throws IOException {
    topicFile("handle.camel.yaml", POSTING_HANDLER.replace("uri: sql", "uri: seda"));
    assertThatThrownBy(() -> start("consume"))
        .hasMessageContaining("handle.camel.yaml:")
        .hasMessageContaining("orders-post");
  }

  @Test
  void subscriptionThatIsMissingShowsInHealthAndIsReadWhenItIsThere() {
    pubSub.createTopic(PROJECT, TOPIC);
    HealthIndicator health =
        start("consume").getBean("pubSubHealthIndicator", HealthIndicator.class);
    eventually().until(() -> health.health().getStatus().equals(Status.OUT_OF_SERVICE));
    assertThat(health.health().getDetails().get("subscription").toString())
        .contains("orders-ledger");

    pubSub.createSubscription(PROJECT, SUBSCRIPTION, TOPIC);
    publish("event", key("late"));

    eventually().until(() -> effects().equals(List.of("event")));
    assertThat(health.health().getStatus()).isEqualTo(Status.UP);
  }

  @Test
  void commitThatIsNotOnDiskIsRefusedAtStart() {
    jdbc.execute("ALTER DATABASE " + database() + " SET synchronous_commit = off");
    assertThatThrownBy(() -> start("consume"))
        .rootCause()
        .hasMessageContaining("synchronous_commit=off");
  }

  @Test
  void inboxWithoutItsPrimaryKeyIsRefusedAtStart() {
    jdbc.execute("ALTER TABLE transactional_inbox DROP CONSTRAINT transactional_inbox_pkey");
    assertThatThrownBy(() -> start("consume")).rootCause().hasMessageContaining("no primary key");
  }

  @Test
  void savepointsBehindOurBackAreRefusedAtStart() {
    databaseUrl += "?autosave=always";
    assertThatThrownBy(() -> start("consume")).rootCause().hasMessageContaining("autosave");
  }

  @Test
  void eventFromTheOutboxTakesEffectOnceThroughTheWholeWay() {
    createTopicAndSubscription();
    pubSub.faults().losePublishAnswers(3);
    pubSub.faults().redeliverAcknowledged(0.3, 5);
    start("dispatch,consume");
    start("dispatch,consume");
    for (int i = 0; i < 200; i++) {
      put("event %03d".formatted(i), "{}", i % 3 == 0 ? "key " + i % 7 : null);
    }

    eventually()
        .until(() -> count("effect") >= 200 && count("pubsub_outbox_due") == 0 && backlog() == 0);
    assertThat(effects())
        .containsExactlyElementsOf(
            IntStream.range(0, 200).mapToObj("event %03d"::formatted).toList());
    assertThat(
            jdbc.queryForList("SELECT CAST(id AS text) FROM pubsub_outbox_published", String.class))
        .containsExactlyInAnyOrderElementsOf(
            jdbc.queryForList("SELECT idempotency_key FROM transactional_inbox", String.class));
  }

  /** A bean of an integration engineer that catches what it should let through. */
  @Configuration(proxyBeanMethods = false)
  @Import(TwinboxApplication.class)
  static class WithSwallower {
    @Bean
    Swallower swallower(JdbcTemplate jdbc) {
      return new Swallower(jdbc);
    }
  }

  public static final class Swallower {
    private final JdbcTemplate jdbc;

    Swallower(JdbcTemplate jdbc) {
      this.jdbc = jdbc;
    }

    public void swallow() {
      try {
        jdbc.queryForObject("SELECT 1 / 0", Integer.class);
      } catch (DataAccessException e) {
        // On purpose: PostgreSQL has aborted the transaction, and nobody says so.
      }
    }
  }

  /**
   * Makes the handler fail its first calls, after it has posted. A sequence counts them: a rollback
   * does not take it back.
   */
  private void failing(String sqlState, int times) throws IOException {
    jdbc.execute("CREATE SEQUENCE handler_calls");
    jdbc.execute(
        """
        CREATE FUNCTION fail_at_first() RETURNS void LANGUAGE plpgsql AS $$
        BEGIN
          IF nextval('handler_calls') <= %d THEN
            RAISE EXCEPTION 'the handler fails on purpose' USING ERRCODE = '%s';
          END IF;
        END $$
        """
            .formatted(times, sqlState));
    topicFile(
        "post.sql",
        """
        -- Posts, then fails.
        WITH posted AS (
          INSERT INTO effect (what) VALUES (convert_from(:#${body}, 'UTF8')) RETURNING what)
        SELECT fail_at_first() FROM posted
        """);
  }

  String database() {
    return databaseUrl.substring(databaseUrl.lastIndexOf('/') + 1);
  }

  private long calls() {
    return jdbc.queryForObject("SELECT last_value FROM handler_calls", Long.class);
  }

  Connection connection() throws java.sql.SQLException {
    return DriverManager.getConnection(databaseUrl, LocalPostgres.USER, LocalPostgres.PASSWORD);
  }
}
