package io.twinbox.promises;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.google.pubsub.v1.Subscription;
import java.io.IOException;
import java.math.BigDecimal;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.Statement;
import java.util.List;
import java.util.Map;
import org.apache.camel.spi.IdempotentRepository;
import org.junit.jupiter.api.Test;
import org.springframework.context.ConfigurableApplicationContext;

/** What a handler may write, and what becomes of it when the handler fails or takes its time. */
class ConsumeHandlerTest extends PromiseTest {

  private static final String FAILING_STEP =
      """
              - to:
                  id: orders-fail
                  uri: sql
                  parameters:
                    query: file:{{twinbox.topic-dir}}/fail.sql
                    noop: true
      """;

  private void handler(String steps) throws IOException {
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
        """
            + steps.indent(0));
    topicFile(
        "fail.sql",
        """
        -- Fails, after everything else.
        SELECT 1 / 0
        """);
  }

  private static Map<String, String> key(String key) {
    return Map.of("outbox_id", key);
  }

  private void assertNothingOfItIsLeft() {
    eventually().until(() -> count("transactional_inbox_dead_letter") == 1 && backlog() == 0);
    assertThat(
            jdbc.queryForObject("SELECT reason FROM transactional_inbox_dead_letter", String.class))
        .contains("fail.sql: ")
        .contains("division by zero");
    assertThat(effects()).isEmpty();
    assertThat(count("transactional_inbox")).isZero();
  }

  /** Outside of Camel's own transactions camel-sql commits a batch by itself. */
  @Test
  void batchOfStatementsIsRolledBackWithTheMessage() throws IOException {
    createTopicAndSubscription();
    handler(
        """
                - unmarshal:
                    id: orders-read
                    json:
                      library: Jackson
                - to:
                    id: orders-post-all
                    uri: sql
                    parameters:
                      query: file:{{twinbox.topic-dir}}/post.sql
                      batch: true
                      noop: true
        """
            + FAILING_STEP);
    topicFile(
        "post.sql",
        """
        -- Posts each line.
        INSERT INTO effect (what) VALUES (:#${body[what]})
        """);
    start("consume", "twinbox.consume.max-attempts=2");
    publish("[{\"what\": \"a\"}, {\"what\": \"b\"}]", key("batch"));

    assertNothingOfItIsLeft();
  }

  /** With its default, resetAutoCommit=true, it commits; that is refused at start. */
  @Test
  void rowsOfSpringJdbcAreRolledBackWithTheMessage() throws IOException {
    createTopicAndSubscription();
    handler(
        """
                - setBody:
                    id: orders-statement
                    expression:
                      constant:
                        expression: INSERT INTO effect (what) VALUES ('by spring-jdbc')
                - to:
                    id: orders-spring-jdbc
                    uri: spring-jdbc
                    parameters:
                      dataSourceName: dataSource
                      resetAutoCommit: false
        """
            + FAILING_STEP);
    start("consume", "twinbox.consume.max-attempts=2");
    publish("event", key("spring-jdbc"));

    assertNothingOfItIsLeft();
  }

  @Test
  void statementThatTakesTooLongIsTheHandlersOwnFault() throws IOException {
    createTopicAndSubscription();
    topicFile(
        "post.sql",
        """
        -- Posts, after longer than it may take.
        WITH waited AS MATERIALIZED (SELECT pg_sleep(30))
        INSERT INTO effect (what) SELECT convert_from(:#${body}, 'UTF8') FROM waited
        """);
    jdbc.execute(
        "ALTER DATABASE "
            + databaseUrl.substring(databaseUrl.lastIndexOf('/') + 1)
            + " SET statement_timeout = '300ms'");
    start("consume", "twinbox.consume.max-attempts=2");
    publish("event", key("slow"));

    eventually().until(() -> count("transactional_inbox_dead_letter") == 1 && backlog() == 0);
    assertThat(jdbc.queryForMap("SELECT reason, attempts FROM transactional_inbox_dead_letter"))
        .containsEntry("attempts", 2)
        .hasEntrySatisfying(
            "reason", reason -> assertThat((String) reason).contains("statement timeout"));
    assertThat(effects()).isEmpty();
  }

  @Test
  void valuesOfThePayloadReachTheTableAsTheyWere() throws IOException {
    createTopicAndSubscription();
    createTyped();
    topicFile(
        "post.sql",
        """
        -- Every type, from the payload's JSON.
        INSERT INTO typed (whole, decimal, nothing, flag, deep, many)
        SELECT CAST(p.json ->> 'whole' AS bigint), CAST(p.json ->> 'decimal' AS numeric), p.json ->> 'nothing',
               CAST(p.json ->> 'flag' AS boolean), p.json -> 'outer' -> 'inner' ->> 'deep',
               ARRAY(SELECT CAST(v AS int) FROM jsonb_array_elements_text(p.json -> 'many') AS v)
        FROM (SELECT CAST(convert_from(:#${body}, 'UTF8') AS jsonb) AS json) AS p
        """);
    start("consume");
    publishTyped();

    assertTyped();
  }

  /** The same from the payload read as a map, for handlers that decide by its fields. */
  @Test
  void valuesOfThePayloadReadAsAMapReachTheTableAsTheyWere() throws IOException {
    createTopicAndSubscription();
    handler(
        """
                - unmarshal:
                    id: orders-read
                    json:
                      library: Jackson
                - to:
                    id: orders-post
                    uri: sql
                    parameters:
                      query: file:{{twinbox.topic-dir}}/post.sql
                      noop: true
        """);
    createTyped();
    topicFile(
        "post.sql",
        """
        -- Every type, from the payload as a map.
        INSERT INTO typed (whole, decimal, nothing, flag, deep, many)
        VALUES (:#${body[whole]}, :#${body[decimal]}, CAST(:#${body[nothing]} AS text), :#${body[flag]},
                :#${body[outer][inner][deep]}, ARRAY[3, 1, 2])
        """);
    start("consume");
    publishTyped();

    assertTyped();
  }

  private void createTyped() {
    jdbc.execute(
        "CREATE TABLE typed (whole bigint, decimal numeric, nothing text, flag boolean, deep text, many int[])");
  }

  private void publishTyped() {
    publish(
        """
        {"whole": 9223372036854775807, "decimal": 12345678901234567890.123456789012345678,
         "nothing": null, "flag": false, "outer": {"inner": {"deep": "größe \\"x\\""}}, "many": [3, 1, 2]}
        """,
        key("typed"));
  }

  private void assertTyped() {
    eventually().until(() -> count("typed") == 1 && backlog() == 0);
    Map<String, Object> row =
        jdbc.queryForMap(
            "SELECT whole, decimal, nothing, flag, deep, CAST(many AS text) FROM typed");
    assertThat(row)
        .containsEntry("whole", Long.MAX_VALUE)
        .containsEntry("decimal", new BigDecimal("12345678901234567890.123456789012345678"))
        .containsEntry("nothing", null)
        .containsEntry("flag", false)
        .containsEntry("deep", "größe \"x\"")
        .containsEntry("many", "{3,1,2}");
  }

  /**
   * After a failure Camel's idempotentConsumer removes a key, and after the commit of an exception
   * that was handled: by then it may be another process's. JMX offers to clear the whole
   * repository.
   */
  @Test
  void committedKeyIsNeverRemoved() {
    createTopicAndSubscription();
    IdempotentRepository inbox = start("consume").getBean("inbox", IdempotentRepository.class);
    publish("event", key("kept"));
    eventually().until(() -> count("transactional_inbox") == 1 && backlog() == 0);

    assertThat(inbox.remove("kept")).isFalse();
    assertThatThrownBy(inbox::clear).hasMessageContaining("ledger");
    assertThat(count("transactional_inbox")).isEqualTo(1);
    publish("event", key("kept"));
    eventually().until(() -> backlog() == 0);
    assertThat(effects()).containsExactly("event");
  }

  @Test
  void keyIsTakenInTheTransactionOfItsEffectOnly() {
    createTopicAndSubscription();
    IdempotentRepository inbox = start("consume").getBean("inbox", IdempotentRepository.class);

    assertThatThrownBy(() -> inbox.add("alone")).hasMessageContaining("inside transacted");
    assertThatThrownBy(() -> inbox.contains("alone")).hasMessageContaining("eager");
    assertThat(count("transactional_inbox")).isZero();
  }

  private void gate(String whoWaits) throws IOException {
    jdbc.execute("CREATE TABLE gate (id int PRIMARY KEY)");
    jdbc.execute(
        "ALTER TABLE effect ADD COLUMN pod text DEFAULT current_setting('application_name')");
    topicFile(
        "post.sql",
        """
        -- Some wait for whoever holds the gate.
        WITH passed AS (
          INSERT INTO gate (id) SELECT 1 WHERE current_setting('application_name') LIKE '%s' ON CONFLICT DO NOTHING)
        INSERT INTO effect (what) VALUES (convert_from(:#${body}, 'UTF8'))
        """
            .formatted(whoWaits));
  }

  private interface WhileHeld {
    void run() throws Exception;
  }

  private void holdTheGate(WhileHeld meanwhile) throws Exception {
    try (Connection holder =
            DriverManager.getConnection(
                databaseUrl,
                io.twinbox.local.LocalPostgres.USER,
                io.twinbox.local.LocalPostgres.PASSWORD);
        Statement statement = holder.createStatement()) {
      holder.setAutoCommit(false);
      statement.execute("INSERT INTO gate (id) VALUES (1)");
      meanwhile.run();
      holder.rollback();
    }
  }

  private ConfigurableApplicationContext pod(String name, String... settings) {
    String[] all = java.util.Arrays.copyOf(settings, settings.length + 1);
    all[settings.length] =
        "spring.datasource.hikari.data-source-properties.ApplicationName=" + name;
    return start("consume", all);
  }

  @Test
  void podsShareABacklog() throws Exception {
    createTopicAndSubscription();
    gate("first");
    int events = 300;
    for (int i = 0; i < events; i++) {
      publish("event %03d".formatted(i), key("id-" + i));
    }
    holdTheGate(
        () -> {
          pod(
              "first",
              "twinbox.consume.outstanding=20",
              "twinbox.consume.concurrency=2",
              "twinbox.consume.lock-timeout=60s");
          awaitBlockedSessions(2);
          eventually().until(() -> pubSub.stats().deliveries() == 20);

          // It is stuck, and holds no more than its share.
          pod("second");
          eventually().until(() -> count("effect") == events - 20);
        });

    eventually().until(() -> count("effect") == events && backlog() == 0);
    assertThat(effects()).doesNotHaveDuplicates();
    assertThat(pubSub.stats().deliveries()).as("nothing was delivered twice").isEqualTo(events);
  }

  /** Both handlers take longer than a lease; only one consumer may have its message that long. */
  @Test
  void leaseOfASlowHandlerIsExtendedUpToItsBoundAndItsTwinWaits() throws Exception {
    createTopicAndSubscription();
    pubSub.createSubscription(PROJECT, "bounded", TOPIC);
    gate("%");
    holdTheGate(
        () -> {
          pod("extended", "twinbox.consume.lock-timeout=60s");
          pod(
              "bounded",
              "subscription.name=bounded",
              "twinbox.consumer=bounded",
              "twinbox.consume.max-lease=10s",
              "twinbox.consume.lock-timeout=60s");
          publish("event", key("slow"));
          awaitBlockedSessions(2);

          // The bounded one's lease ends, and its twin waits for it; the other's, as old, does not.
          awaitBlockedSessions(3);
          assertThat(pubSub.stats().expiredLeases()).isEqualTo(1);
          assertThat(pubSub.stats().deliveries()).isEqualTo(3);
        });

    eventually().until(() -> count("effect") == 2 && backlog() == 0);
    assertThat(jdbc.queryForList("SELECT pod FROM effect ORDER BY pod", String.class))
        .containsExactly("bounded", "extended");
    assertThat(pubSub.stats().nacks()).isZero();
  }

  /**
   * Exactly-once delivery promises that what was acknowledged does not come again, not that it has
   * been handled once: a lease can end while its handler runs, and a publisher can publish twice.
   */
  @Test
  void exactlyOnceDeliveryWithHandlersLongerThanALeaseHasOneEffectEach() throws Exception {
    pubSub.createTopic(PROJECT, TOPIC);
    pubSub.createSubscription(
        Subscription.newBuilder()
            .setName(SUBSCRIPTION_PATH)
            .setTopic(TOPIC_PATH)
            .setAckDeadlineSeconds(10)
            .setEnableExactlyOnceDelivery(true)
            .build());
    gate("%");
    int events = 15;
    holdTheGate(
        () -> {
          for (String pod : List.of("first", "second")) {
            pod(
                pod,
                "twinbox.consume.outstanding=10",
                "twinbox.consume.concurrency=10",
                "twinbox.consume.max-lease=10s",
                "twinbox.consume.lock-timeout=60s");
          }
          for (int i = 0; i < events; i++) {
            publish("event %02d".formatted(i), key("id-" + i));
            if (i % 3 == 0) {
              publish("event %02d".formatted(i), key("id-" + i));
            }
          }
          // Their handlers still run when others have them, too.
          eventually().until(() -> pubSub.stats().expiredLeases() >= 10);
          assertThat(effects()).isEmpty();
        });

    eventually().until(() -> count("effect") >= events && backlog() == 0);
    assertThat(effects()).hasSize(events).doesNotHaveDuplicates();
    assertThat(count("transactional_inbox")).isEqualTo(events);
    assertThat(count("transactional_inbox_dead_letter")).isZero();
    assertThat(pubSub.stats().deliveries()).isGreaterThan(events + 5);
  }
}
