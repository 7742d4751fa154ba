package io.twinbox.sql;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.fasterxml.jackson.databind.ObjectMapper;
import java.nio.charset.StandardCharsets;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Future;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.springframework.jdbc.core.StatementCallback;

/** How events come into the outbox: {@code outbox_put} and plain INSERTs. */
abstract class OutboxPutSpec extends DatabaseSpec {

  private static final ObjectMapper JSON = new ObjectMapper();

  @Test
  void rolledBackTransactionQueuesNothing() {
    db.transaction.executeWithoutResult(
        status -> {
          db.jdbc.queryForList("SELECT outbox_put('invoices', 'x')");
          status.setRollbackOnly();
        });

    assertThat(db.count("pubsub_outbox")).isZero();
    assertThat(db.count("pubsub_outbox_due")).isZero();
  }

  @Test
  void committedEventIsDue() {
    UUID id = put("SELECT outbox_put('invoices', 'x')");

    assertThat(db.row("SELECT id, state, attempts FROM pubsub_outbox_status"))
        .containsEntry("id", id)
        .containsEntry("state", "due")
        .containsEntry("attempts", 0);
  }

  @Test
  void textAndBytesAreTakenWithUntypedLiteralsAndNamedArguments() {
    put("SELECT outbox_put('invoices', 'Müller €')");
    put("SELECT outbox_put('invoices', '{\"a\":1}', '{\"type\":\"issued\"}', 'customer-1', 'k')");
    put("SELECT outbox_put(topic => 'invoices', payload => 'x', ordering_key => 'customer-1')");
    put("SELECT outbox_put('invoices', '\\x00ff'::bytea)");

    assertThat(db.jdbc.queryForList("SELECT payload FROM pubsub_outbox ORDER BY seq", byte[].class))
        .containsExactly(
            "Müller €".getBytes(StandardCharsets.UTF_8),
            "{\"a\":1}".getBytes(StandardCharsets.UTF_8),
            "x".getBytes(StandardCharsets.UTF_8),
            new byte[] {0, (byte) 0xff});
    assertThat(db.count("pubsub_outbox WHERE ordering_key = 'customer-1'")).isEqualTo(2);
  }

  @Test
  void emptyPayloadAndNullAttributesAreTaken() {
    put("SELECT outbox_put('invoices', '', NULL)");

    assertThat(db.string("SELECT attributes FROM pubsub_outbox")).isEqualTo("{}");
  }

  @Test
  void eventKeyTwiceIsOneEventWithOneId() {
    UUID first = put("SELECT outbox_put('invoices', 'x', event_key => 'INV-1')");
    UUID second = put("SELECT outbox_put('invoices', 'x', event_key => 'INV-1')");

    assertThat(second).isEqualTo(first);
    assertThat(first).isEqualTo(put("SELECT outbox_event_id('invoices', 'service', 'INV-1')"));
    assertThat(db.count("pubsub_outbox")).isEqualTo(1);
    assertThat(db.count("pubsub_outbox_due")).isEqualTo(1);
  }

  @Test
  void publishedEventKeyIsNotQueuedAgain() {
    UUID id = put("SELECT outbox_put('invoices', 'x', event_key => 'INV-1')");
    publish(id);

    assertThat(put("SELECT outbox_put('invoices', 'x', event_key => 'INV-1')")).isEqualTo(id);
    assertThat(db.count("pubsub_outbox_due")).isZero();
  }

  @Test
  void publishedEventKeyIsNotQueuedAgainAfterRetentionDeletedItsPayload() {
    UUID id = put("SELECT outbox_put('invoices', 'x', event_key => 'INV-1')");
    publish(id);
    db.jdbc.update("DELETE FROM pubsub_outbox");

    assertThat(put("SELECT outbox_put('invoices', 'x', event_key => 'INV-1')")).isEqualTo(id);
    assertThat(db.count("pubsub_outbox")).isZero();
    assertThat(db.count("pubsub_outbox_due")).isZero();
  }

  @ParameterizedTest
  @ValueSource(strings = {"queued", "published", "without payload", "discarded"})
  void otherPayloadUnderAKnownKeyIsNotSentAndNotLostInSilence(String state) throws Exception {
    UUID id = put("SELECT outbox_put('invoices', 'x', event_key => 'INV-1')");
    if (state.equals("discarded")) {
      db.jdbc.queryForList("SELECT outbox_discard_ids(ARRAY[CAST(? AS uuid)], 'test')", id);
    } else if (!state.equals("queued")) {
      publish(id);
    }
    if (state.equals("without payload")) {
      db.jdbc.update("DELETE FROM pubsub_outbox");
    }
    long queued = db.count("pubsub_outbox_due");
    assertThat(warning("SELECT outbox_put('invoices', 'x', event_key => 'INV-1')")).isNull();
    assertThat(db.count("produce_changed")).isZero();

    assertThat(warning("SELECT outbox_put('invoices', 'y', event_key => 'INV-1')"))
        .contains(
            "event %s is known under its event_key with another payload".formatted(id),
            "this one is not sent")
        .doesNotContain("INV-1");
    assertThat(warning("SELECT outbox_put('invoices', 'z', event_key => 'INV-1')")).isNotNull();
    assertThat(db.row("SELECT * FROM produce_changed"))
        .containsEntry("id", id)
        .containsEntry("topic_name", "invoices")
        .containsEntry("source", "service")
        .containsEntry("event_key", "INV-1")
        .containsEntry("times_seen", 2);
    assertThat(
            db.count(
                "produce_changed WHERE known_hash = substr(sha256('x'), 1, 16)"
                    + " AND payload_hash = substr(sha256('z'), 1, 16)"))
        .isEqualTo(1);
    assertThat(db.count("pubsub_outbox_due")).isEqualTo(queued);
    assertThat(db.count("pubsub_outbox WHERE payload <> 'x'")).isZero();
  }

  @Test
  void keyOfAnotherSourceIsAnotherEvent() throws Exception {
    UUID ours = put("SELECT outbox_put('invoices', 'x', event_key => 'INV-1')");
    String other =
        "SELECT outbox_put('invoices', 'y', event_key => 'INV-1', source => 'billing-service')";

    assertThat(warning(other)).isNull();
    assertThat(put(other)).isNotEqualTo(ours);
    assertThat(db.count("pubsub_outbox_due")).isEqualTo(2);
    assertThat(db.count("produce_changed")).isZero();
  }

  private String warning(String sql) {
    return db.jdbc.execute(
        (StatementCallback<String>)
            statement -> {
              statement.execute(sql);
              return statement.getWarnings() == null ? null : statement.getWarnings().getMessage();
            });
  }

  @Test
  void twoTransactionsWithOneEventKeyQueueItOnce() throws Exception {
    CountDownLatch finish = new CountDownLatch(1);
    Future<Object> first =
        db.async(
            () ->
                db.transaction.execute(
                    status -> {
                      UUID id = put("SELECT outbox_put('invoices', 'x', event_key => 'k')");
                      await(finish);
                      return id;
                    }));
    db.awaitSession("outbox_put", "idle in transaction");
    Future<UUID> second =
        db.async(() -> put("SELECT outbox_put('invoices', 'x', event_key => 'k')"));
    db.awaitBlockedSession();
    finish.countDown();

    assertThat(second.get()).isEqualTo(first.get());
    assertThat(db.count("pubsub_outbox_due")).isEqualTo(1);
  }

  @Test
  void writersOfOneOrderingKeyDoNotOverlap() throws Exception {
    CountDownLatch finish = new CountDownLatch(1);
    Future<Object> first =
        db.async(
            () ->
                db.transaction.execute(
                    status -> {
                      put("SELECT outbox_put('invoices', 'first', '{}', 'customer-1')");
                      await(finish);
                      return null;
                    }));
    db.awaitSession("outbox_put", "idle in transaction");
    Future<UUID> second =
        db.async(() -> put("SELECT outbox_put('invoices', 'second', '{}', 'customer-1')"));
    db.awaitBlockedSession();

    // Another key is not held up.
    put("SELECT outbox_put('invoices', 'other', '{}', 'customer-2')");
    assertThat(db.count("pubsub_outbox WHERE ordering_key = 'customer-2'")).isEqualTo(1);
    assertThat(db.count("pubsub_outbox WHERE ordering_key = 'customer-1'")).isZero();
    finish.countDown();
    first.get();
    second.get();

    assertThat(
            db.jdbc.queryForList(
                "SELECT convert_from(payload, 'UTF8') FROM pubsub_outbox"
                    + " WHERE ordering_key = 'customer-1' ORDER BY seq",
                String.class))
        .containsExactly("first", "second");
  }

  static Stream<Arguments> refused() {
    return Stream.of(
        Arguments.of(
            "the ordering key has 1025 bytes; Pub/Sub allows 1,024", 1, "{}", "k".repeat(1025)),
        Arguments.of(
            "the ordering key has 1026 bytes; Pub/Sub allows 1,024", 1, "{}", "ü".repeat(513)),
        Arguments.of("the ordering key is empty", 1, "{}", ""),
        Arguments.of(
            "has 1025 bytes; Pub/Sub allows 1,024", 1, attribute("a", "v".repeat(1025)), null),
        Arguments.of("has 257 bytes; Pub/Sub allows 256", 1, attribute("a".repeat(257), "v"), null),
        Arguments.of("an attribute has an empty key", 1, attribute("", "v"), null),
        Arguments.of("starts with \"goog\"", 1, attribute("googclient", "v"), null),
        Arguments.of("\"outbox_id\" is set by Twinbox", 1, attribute("outbox_id", "v"), null),
        Arguments.of(
            "100 attributes; Pub/Sub allows 100, one of which", 1, attributes(100, 1), null),
        Arguments.of("\"n\" is a JSON number", 1, "{\"n\": 1}", null),
        Arguments.of("\"n\" is a JSON null", 1, "{\"n\": null}", null),
        Arguments.of("\"n\" is a JSON object", 1, "{\"n\": {}}", null),
        Arguments.of("attributes must be a JSON object", 1, "[]", null),
        Arguments.of("attributes must be a JSON object", 1, "\"text\"", null),
        Arguments.of("the message has 9999001 bytes", 9_999_001, "{}", null),
        Arguments.of("Pub/Sub allows 10,000,000", 9_990_000, attributes(98, 1000), null));
  }

  @ParameterizedTest
  @MethodSource
  void refused(String message, int payloadBytes, String attributes, String orderingKey) {
    assertThatThrownBy(() -> putBytes(payloadBytes, attributes, orderingKey))
        .hasMessageContaining("Pub/Sub would refuse this event: ")
        .hasMessageContaining(message);
    assertThat(db.count("pubsub_outbox")).isZero();
    assertThat(db.count("pubsub_outbox_due")).isZero();
  }

  static Stream<Arguments> taken() {
    return Stream.of(
        Arguments.of(1, "{}", "k".repeat(1024)),
        Arguments.of(1, "{}", "ü".repeat(512)),
        Arguments.of(1, attribute("a", "v".repeat(1024)), null),
        Arguments.of(1, attribute("a".repeat(256), ""), null),
        Arguments.of(1, attribute("Goog", "v"), null),
        Arguments.of(1, attributes(99, 1), null),
        Arguments.of(0, "{}", null),
        Arguments.of(9_999_000, "{}", null));
  }

  @ParameterizedTest
  @MethodSource
  void taken(int payloadBytes, String attributes, String orderingKey) {
    putBytes(payloadBytes, attributes, orderingKey);

    assertThat(db.string("SELECT payload_bytes FROM pubsub_outbox_due"))
        .isEqualTo("" + payloadBytes);
  }

  @Test
  void nulInAnAttributeIsRefused() {
    assertThatThrownBy(() -> putBytes(1, "{\"a\": \"x\\u0000\"}", null))
        .hasMessageContaining("\\u0000 cannot be converted to text");
  }

  @ParameterizedTest
  @MethodSource
  void missingOrWrongArgumentIsNamed(String sql, String message) {
    assertThatThrownBy(() -> put(sql)).hasMessageContaining(message);
    assertThat(db.count("pubsub_outbox")).isZero();
  }

  static Stream<Arguments> missingOrWrongArgumentIsNamed() {
    return Stream.of(
        Arguments.of("SELECT outbox_put(NULL, 'x')", "topic is missing"),
        Arguments.of("SELECT outbox_put(' ', 'x')", "topic is missing"),
        Arguments.of("SELECT outbox_put('projects/p/topics/t', 'x')", "'projects/p/topics/t'"),
        Arguments.of("SELECT outbox_put('ab', 'x')", "3 to 255"),
        Arguments.of("SELECT outbox_put('googly', 'x')", "goog"),
        Arguments.of("SELECT outbox_put('invoices', NULL)", "payload is NULL"),
        Arguments.of("SELECT outbox_put('invoices', 'x', event_key => ' ')", "event_key is blank"),
        Arguments.of("SELECT outbox_put('invoices', 'x', source => NULL)", "source is missing"),
        Arguments.of(
            "SELECT outbox_put('invoices', 'x', event_key => 'k', source => NULL)",
            "source is missing"));
  }

  @Test
  void plainInsertIsQueued() {
    db.jdbc.update("INSERT INTO pubsub_outbox (topic_name, payload) VALUES ('invoices', 'x')");

    assertThat(db.string("SELECT state FROM pubsub_outbox_status")).isEqualTo("due");
  }

  @Test
  void insertOfManyRowsQueuesEachOnceInOrder() {
    db.jdbc.update(
        "INSERT INTO pubsub_outbox (topic_name, payload)"
            + " SELECT 'invoices', convert_to(repeat('x', i), 'UTF8') FROM generate_series(1, 500) i");

    assertThat(
            db.jdbc.queryForList(
                "SELECT payload_bytes FROM pubsub_outbox_due ORDER BY seq", Integer.class))
        .hasSize(500)
        .isSorted();
  }

  @Test
  void rowsThatConflictAreNotQueuedTwice() {
    String insert =
        "INSERT INTO pubsub_outbox (id, topic_name, payload)"
            + " SELECT outbox_event_id('invoices', 's', i::text), 'invoices', 'x'"
            + " FROM generate_series(1, %d) i ON CONFLICT DO NOTHING";
    db.jdbc.update(insert.formatted(10));

    assertThat(db.jdbc.update(insert.formatted(15))).isEqualTo(5);
    assertThat(db.count("pubsub_outbox_due")).isEqualTo(15);
  }

  @Test
  void serviceThatHasAnotherSearchPathCanEmit() {
    db.transaction.executeWithoutResult(
        status -> {
          db.jdbc.execute("SET LOCAL search_path = ''");
          put("SELECT public.outbox_put('invoices', 'x', '{\"a\":\"b\"}', 'key', 'INV-1')");
          db.jdbc.update(
              "INSERT INTO public.pubsub_outbox (topic_name, payload, attributes)"
                  + " VALUES ('invoices', 'x', '{\"a\":\"b\"}')");
        });

    assertThat(db.count("pubsub_outbox_due")).isEqualTo(2);
  }

  private void publish(UUID id) {
    db.jdbc.update("DELETE FROM pubsub_outbox_due");
    db.jdbc.update(
        "INSERT INTO pubsub_outbox_published (id, topic_name, completed_at, message_id, payload_hash)"
            + " SELECT id, topic_name, now(), 'm', payload_hash FROM pubsub_outbox WHERE id = ?",
        id);
  }

  private UUID put(String sql) {
    return db.jdbc.queryForObject(sql, UUID.class);
  }

  private void putBytes(int bytes, String attributes, String orderingKey) {
    db.jdbc.queryForList(
        "SELECT outbox_put('invoices', ?, CAST(? AS jsonb), ?)",
        new byte[bytes],
        attributes,
        orderingKey);
  }

  private static String attribute(String key, String value) {
    return json(Map.of(key, value));
  }

  private static String attributes(int count, int valueBytes) {
    Map<String, String> map = new LinkedHashMap<>();
    for (int i = 0; i < count; i++) {
      map.put("attribute-" + i, "v".repeat(valueBytes));
    }
    return json(map);
  }

  private static String json(Map<String, String> map) {
    try {
      return JSON.writeValueAsString(map);
    } catch (com.fasterxml.jackson.core.JsonProcessingException e) {
      throw new IllegalStateException(e);
    }
  }
}
