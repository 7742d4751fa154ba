package io.twinbox.sql;

import static org.assertj.core.api.Assertions.assertThat;

import io.twinbox.sql.Outbox.Claim;
import io.twinbox.sql.Outbox.Outcome;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Future;
import java.util.stream.IntStream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** Chunks of extracted rows on their way into the outbox. */
abstract class QueueEventsSpec extends DatabaseSpec {

  private Outbox outbox;

  @BeforeEach
  void outbox() {
    outbox = new Outbox(db);
  }

  /** A row as {@code Chunks} hands it over; a reason means that the reader found a fault. */
  record Row(
      String eventKey,
      String payload,
      String attributes,
      String orderingKey,
      String topic,
      String reason) {

    static Row of(String eventKey, String payload) {
      return new Row(eventKey, payload, null, null, null, null);
    }

    Row attributes(String json) {
      return new Row(eventKey, payload, json, orderingKey, topic, reason);
    }

    Row orderingKey(String key) {
      return new Row(eventKey, payload, attributes, key, topic, reason);
    }

    Row topic(String name) {
      return new Row(eventKey, payload, attributes, orderingKey, name, reason);
    }

    Row reason(String text) {
      return new Row(eventKey, payload, attributes, orderingKey, topic, text);
    }
  }

  static Map<String, Object> chunk(List<Row> rows) {
    return Map.of(
        "eventKeys", rows.stream().map(Row::eventKey).toArray(String[]::new),
        "payloads",
            rows.stream()
                .map(r -> r.payload() == null ? null : r.payload().getBytes(StandardCharsets.UTF_8))
                .toArray(byte[][]::new),
        "attributes", rows.stream().map(Row::attributes).toArray(String[]::new),
        "orderingKeys", rows.stream().map(Row::orderingKey).toArray(String[]::new),
        "topics", rows.stream().map(Row::topic).toArray(String[]::new),
        "reasons", rows.stream().map(Row::reason).toArray(String[]::new));
  }

  private Map<String, Object> queue(Row... rows) {
    return queue(List.of(rows));
  }

  private Map<String, Object> queue(List<Row> rows) {
    Map<String, Object> counts = new HashMap<>(queueAndTellFresh(rows));
    counts.remove("fresh");
    return counts;
  }

  private Map<String, Object> queueAndTellFresh(List<Row> rows) {
    return db.queryOne("produce/queue-events.sql", Map.of("runId", "run-1"), chunk(rows));
  }

  @Test
  void whatWasSeenBeforeIsNoNews() {
    List<Row> rows =
        List.of(
            Row.of("INV-1", "a"),
            Row.of("INV-1", "b"),
            Row.of(null, "no key").reason("event_key is NULL"));
    assertThat(queueAndTellFresh(rows))
        .containsEntry("changed", 1L)
        .containsEntry("rejected", 1L)
        .containsEntry("fresh", 2L);
    assertThat(queueAndTellFresh(rows))
        .containsEntry("changed", 1L)
        .containsEntry("rejected", 1L)
        .containsEntry("fresh", 0L);
  }

  private static Map<String, Object> counts(
      long read, long queued, long changed, long revived, long rejected) {
    return Map.of(
        "read",
        read,
        "queued",
        queued,
        "changed",
        changed,
        "revived",
        revived,
        "rejected",
        rejected);
  }

  @Test
  void newEventsAreQueuedUnderTheirComputedIds() {
    assertThat(
            queue(
                Row.of("INV-1", "Müller"),
                Row.of("INV-2", "\0").attributes("{\"type\": \"issued\"}").orderingKey("c-1")))
        .isEqualTo(counts(2, 2, 0, 0, 0));

    assertThat(
            db.count(
                "pubsub_outbox WHERE id = outbox_event_id('invoices', 'billing', 'INV-1')"
                    + " AND source = 'billing' AND topic_name = 'invoices' AND attributes = '{}'"
                    + " AND ordering_key IS NULL AND convert_from(payload, 'UTF8') = 'Müller'"))
        .isEqualTo(1);
    assertThat(
            db.count(
                "pubsub_outbox WHERE id = outbox_event_id('invoices', 'billing', 'INV-2')"
                    + " AND payload = '\\x00' AND attributes = '{\"type\": \"issued\"}'"
                    + " AND ordering_key = 'c-1'"))
        .isEqualTo(1);
    assertThat(db.count("pubsub_outbox_due")).isEqualTo(2);
  }

  @Test
  void emptyChunkIsFine() {
    assertThat(queue(List.of())).isEqualTo(counts(0, 0, 0, 0, 0));
  }

  @Test
  void sameChunkTwiceQueuesNothing() {
    List<Row> rows = rows(0, 100);
    assertThat(queue(rows)).isEqualTo(counts(100, 100, 0, 0, 0));

    assertThat(queue(rows)).isEqualTo(counts(100, 0, 0, 0, 0));
    assertThat(db.count("pubsub_outbox_due")).isEqualTo(100);
  }

  @Test
  void eventOfAnotherTopicGoesThere() {
    queue(Row.of("INV-1", "x").topic("payments"));

    assertThat(db.string("SELECT topic_name FROM pubsub_outbox_due")).isEqualTo("payments");
    assertThat(db.string("SELECT id FROM pubsub_outbox"))
        .isEqualTo(db.string("SELECT outbox_event_id('payments', 'billing', 'INV-1')"));
  }

  @Test
  void seqFollowsTheOrderOfTheChunk() {
    List<Row> rows = new ArrayList<>(rows(0, 1000));
    Collections.shuffle(rows, new java.util.Random(1));
    queue(rows);

    assertThat(
            db.jdbc.queryForList(
                "SELECT convert_from(payload, 'UTF8') FROM pubsub_outbox ORDER BY seq",
                String.class))
        .containsExactlyElementsOf(rows.stream().map(Row::payload).toList());
  }

  @Test
  void publishedEventIsNotQueuedAgainNotEvenAfterItsPayloadIsGone() {
    queue(Row.of("INV-1", "x"));
    outbox.publishAll(outbox.claim(500));
    assertThat(queue(Row.of("INV-1", "x"))).isEqualTo(counts(1, 0, 0, 0, 0));
    db.jdbc.update("DELETE FROM pubsub_outbox");

    assertThat(queue(Row.of("INV-1", "x"))).isEqualTo(counts(1, 0, 0, 0, 0));
    assertThat(queue(Row.of("INV-1", "other"))).isEqualTo(counts(1, 0, 1, 0, 0));
    assertThat(db.count("pubsub_outbox")).isZero();
    assertThat(db.count("pubsub_outbox_due")).isZero();
  }

  @Test
  void changedPayloadIsListedOnceAndNotSent() {
    queue(Row.of("INV-1", "x"));

    assertThat(queue(Row.of("INV-1", "y"))).isEqualTo(counts(1, 0, 1, 0, 0));
    assertThat(queue(Row.of("INV-1", "z"))).isEqualTo(counts(1, 0, 1, 0, 0));

    assertThat(db.row("SELECT * FROM produce_changed"))
        .containsEntry("event_key", "INV-1")
        .containsEntry("topic_name", "invoices")
        .containsEntry("source", "billing")
        .containsEntry("times_seen", 2);
    assertThat(
            db.count(
                "produce_changed WHERE known_hash = substr(sha256('x'), 1, 16)"
                    + " AND payload_hash = substr(sha256('z'), 1, 16)"))
        .isEqualTo(1);
    assertThat(db.string("SELECT convert_from(payload, 'UTF8') FROM pubsub_outbox")).isEqualTo("x");
    assertThat(db.count("pubsub_outbox_due")).isEqualTo(1);
  }

  @Test
  void sameKeyTwiceInOneChunkIsOneEvent() {
    assertThat(queue(Row.of("INV-1", "x"), Row.of("INV-1", "x"))).isEqualTo(counts(2, 1, 0, 0, 0));
    assertThat(queue(Row.of("INV-1", "x"), Row.of("INV-1", "x"))).isEqualTo(counts(2, 0, 0, 0, 0));
  }

  @Test
  void sameKeyWithAnotherPayloadInOneChunkIsListedAtTheFirstReadingToo() {
    assertThat(queue(Row.of("INV-1", "first"), Row.of("INV-1", "second")))
        .isEqualTo(counts(2, 1, 1, 0, 0));
    assertThat(queue(Row.of("INV-1", "second"), Row.of("INV-1", "first")))
        .isEqualTo(counts(2, 0, 1, 0, 0));

    assertThat(db.string("SELECT convert_from(payload, 'UTF8') FROM pubsub_outbox"))
        .isEqualTo("first");
    assertThat(
            db.count(
                "produce_changed WHERE times_seen = 2"
                    + " AND known_hash = substr(sha256('first'), 1, 16)"
                    + " AND payload_hash = substr(sha256('second'), 1, 16)"))
        .isEqualTo(1);
  }

  @Test
  void deadUnpublishedEventTakesTheCorrectedPayload() {
    queue(Row.of("INV-1", "wrong"));
    long seq = db.jdbc.queryForObject("SELECT seq FROM pubsub_outbox", Long.class);
    kill(seq);

    assertThat(queue(Row.of("INV-1", "right, longer").attributes("{\"v\": \"2\"}")))
        .isEqualTo(counts(1, 0, 0, 1, 0));

    assertThat(outbox.due(seq))
        .containsEntry("attempts", 0)
        .containsEntry("payload_bytes", 13)
        .containsEntry("dead_at", null);
    Map<String, Object> row = outbox.claim(500).rows().get(0);
    assertThat(row)
        .containsEntry("seq", seq)
        .containsEntry("payload", "right, longer".getBytes(StandardCharsets.UTF_8))
        .containsEntry("attributes", "{\"v\": \"2\"}");
    assertThat(
            db.count("pubsub_outbox WHERE payload_hash = substr(sha256('right, longer'), 1, 16)"))
        .isEqualTo(1);
    assertThat(db.count("produce_changed")).as("it is sent, so it is not listed").isZero();
  }

  @Test
  void deadUnpublishedEventTakesCorrectedAttributes() {
    queue(Row.of("INV-1", "x").attributes("{\"v\": \"wrong\"}"));
    kill(db.jdbc.queryForObject("SELECT seq FROM pubsub_outbox", Long.class));

    assertThat(queue(Row.of("INV-1", "x").attributes("{\"v\": \"right\"}")))
        .isEqualTo(counts(1, 0, 0, 1, 0));
    assertThat(outbox.claim(500).rows().get(0)).containsEntry("attributes", "{\"v\": \"right\"}");
  }

  @Test
  void deadEventThatIsReadAgainAsItWasStaysDead() {
    queue(Row.of("INV-1", "x").attributes("{\"a\":\"1\",\"b\":\"2\"}"));
    long seq = db.jdbc.queryForObject("SELECT seq FROM pubsub_outbox", Long.class);
    kill(seq);

    assertThat(queue(Row.of("INV-1", "x").attributes("{\"b\": \"2\", \"a\": \"1\"}")))
        .isEqualTo(counts(1, 0, 0, 0, 0));
    assertThat(outbox.state(seq)).isEqualTo("dead");
  }

  @Test
  void waitingEventIsNotReplaced() {
    queue(Row.of("INV-1", "x"));
    long seq = db.jdbc.queryForObject("SELECT seq FROM pubsub_outbox", Long.class);
    Claim claim = outbox.claim(500);
    outbox.settle(claim.token(), List.of(Outcome.refused(seq)));

    assertThat(queue(Row.of("INV-1", "y"))).isEqualTo(counts(1, 0, 1, 0, 0));
    assertThat(db.string("SELECT convert_from(payload, 'UTF8') FROM pubsub_outbox")).isEqualTo("x");
  }

  @Test
  void deadEventThatWasPublishedBeforeIsNotReplaced() {
    queue(Row.of("INV-1", "x"));
    long seq = db.jdbc.queryForObject("SELECT seq FROM pubsub_outbox", Long.class);
    outbox.publishAll(outbox.claim(500));
    db.jdbc.update(
        "INSERT INTO pubsub_outbox_due (seq, topic_name, payload_bytes, next_retry_at, dead_at)"
            + " SELECT seq, topic_name, 1, now(), now() FROM pubsub_outbox");

    assertThat(queue(Row.of("INV-1", "y"))).isEqualTo(counts(1, 0, 1, 0, 0));
    assertThat(outbox.state(seq)).isEqualTo("dead");
    assertThat(db.string("SELECT convert_from(payload, 'UTF8') FROM pubsub_outbox")).isEqualTo("x");
  }

  @Test
  void deadEventThatAnOperatorIsReplayingKeepsThePayloadThatIsSent() throws Exception {
    queue(Row.of("INV-1", "old"));
    long seq = db.jdbc.queryForObject("SELECT seq FROM pubsub_outbox", Long.class);
    kill(seq);
    CountDownLatch finish = new CountDownLatch(1);
    CountDownLatch replayed = new CountDownLatch(1);
    Future<Claim> dispatch =
        db.async(
            () ->
                db.transaction.execute(
                    status -> {
                      outbox.makeDue(seq);
                      Claim claim = outbox.claim(500);
                      replayed.countDown();
                      await(finish);
                      return claim;
                    }));
    await(replayed);
    Future<Map<String, Object>> reading = db.async(() -> queue(Row.of("INV-1", "new")));
    db.awaitBlockedSession();
    finish.countDown();

    assertThat(reading.get()).containsEntry("revived", 0L);
    assertThat(dispatch.get().rows()).hasSize(1);
    // What is in flight is "old": recorded under the hash of "new" it would hide the difference.
    assertThat(db.string("SELECT convert_from(payload, 'UTF8') FROM pubsub_outbox"))
        .isEqualTo("old");
    assertThat(queue(Row.of("INV-1", "new"))).isEqualTo(counts(1, 0, 1, 0, 0));
  }

  @Test
  void refusedRowsGoToTheRejectsAndTheOthersGoOn() {
    assertThat(
            queue(
                Row.of("INV-1", "x"),
                Row.of("INV-2", "y").attributes("{\"a\": \"" + "v".repeat(1025) + "\"}"),
                Row.of("INV-3", "z").orderingKey("k".repeat(1025)),
                Row.of(null, "w").reason("event_key is NULL; every event needs its own key"),
                new Row("INV-5", null, null, null, null, "payload is NULL"),
                Row.of("INV-6", "x")))
        .isEqualTo(counts(6, 2, 0, 0, 4));

    assertThat(db.count("pubsub_outbox_due")).isEqualTo(2);
    assertThat(
            db.row(
                "SELECT reason, event_key, run_id, convert_from(payload, 'UTF8') AS payload,"
                    + " octet_length(attributes) AS bytes FROM produce_reject"
                    + " WHERE event_key = 'INV-2'"))
        .containsEntry(
            "reason", "the value of attribute \"a\" has 1025 bytes; Pub/Sub allows 1,024")
        .containsEntry("payload", "y")
        .containsEntry("bytes", 1025 + 9)
        .containsEntry("run_id", "run-1");
    assertThat(db.count("produce_reject WHERE octet_length(ordering_key) = 1025")).isEqualTo(1);
    assertThat(db.count("produce_reject WHERE event_key IS NULL AND payload = 'w'")).isEqualTo(1);
    assertThat(db.count("produce_reject WHERE event_key = 'INV-5' AND payload IS NULL"))
        .isEqualTo(1);
  }

  @Test
  void refusedRowReadAgainIsTheSameReject() {
    Row refused = Row.of("INV-1", "x").orderingKey("k".repeat(1025));
    queue(refused);

    assertThat(queue(refused, refused)).isEqualTo(counts(2, 0, 0, 0, 1));
    assertThat(db.string("SELECT times_seen FROM produce_reject")).isEqualTo("2");
  }

  @Test
  void differentRefusedRowsAreDifferentRejects() {
    String reason = "refused";
    List<Row> rows =
        List.of(
            Row.of(null, "x").reason(reason),
            Row.of("no key", "x").reason(reason),
            Row.of("null", "x").reason(reason),
            Row.of(null, null).reason(reason),
            Row.of(null, null).attributes("1").reason(reason),
            Row.of(null, null).attributes("2").reason(reason),
            Row.of(null, null).orderingKey("1").reason(reason),
            Row.of("", "").reason(reason),
            Row.of("", null).reason(reason));

    assertThat(queue(rows)).isEqualTo(counts(9, 0, 0, 0, 9));
    assertThat(db.count("produce_reject")).isEqualTo(9);
  }

  @Test
  void attributesWithANulAreKeptAsTheReaderSendsThem() {
    // Chunks finds the escaped NUL, and replaces bare ones by the sign for it.
    queue(
        Row.of("INV-1", "x")
            .attributes("{\"a\": \"\\u0000\"}")
            .reason("attribute 'a' contains a NUL"),
        Row.of("INV\u2400", "x").reason("event_key contains a NUL"));

    assertThat(
            db.string(
                "SELECT convert_from(attributes, 'UTF8') FROM produce_reject"
                    + " WHERE event_key = 'INV-1'"))
        .isEqualTo("{\"a\": \"\\u0000\"}");
    assertThat(db.count("produce_reject WHERE event_key = 'INV\u2400'")).isEqualTo(1);
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        // What a lenient JSON reader takes and PostgreSQL does not.
        "{\"a\": {\"b\": \"\\u0000\"}}",
        "{\"a\": \"\\ud800\"}",
        "{\"a\": \"b\"} trailing",
        "{\"a\": 1e999999}",
        "{",
        "[\"a\"]",
        "{\"a\": 1}",
        "{\"outbox_id\": \"1\"}",
        "null",
        "",
      })
  void attributesThatPostgresCannotTakeRejectTheirRowOnly(String attributes) {
    assertThat(queue(Row.of("INV-1", "x").attributes(attributes), Row.of("INV-2", "y")))
        .isEqualTo(counts(2, 1, 0, 0, 1));

    assertThat(db.string("SELECT reason FROM produce_reject")).contains("attribute");
    assertThat(db.string("SELECT convert_from(attributes, 'UTF8') FROM produce_reject"))
        .isEqualTo(attributes);
  }

  @ParameterizedTest
  @ValueSource(strings = {"googly", "ab", "projects/p/topics/t", "1st", "", "tüpic"})
  void wrongTopicNameRejectsItsRowOnly(String topic) {
    assertThat(queue(Row.of("INV-1", "x").topic(topic), Row.of("INV-2", "y")))
        .isEqualTo(counts(2, 1, 0, 0, 1));

    assertThat(db.string("SELECT reason FROM produce_reject")).contains("'" + topic + "'");
  }

  @Test
  void overlappingChunksOfTwoRunsDoubleNothingAndDoNotDeadlock() throws Exception {
    for (int round = 0; round < 10; round++) {
      db.reset();
      List<Row> forward = rows(0, 400);
      List<Row> backward = new ArrayList<>(rows(100, 500));
      Collections.reverse(backward);
      CountDownLatch start = new CountDownLatch(1);
      List<Future<Map<String, Object>>> runs =
          List.of(forward, backward).stream()
              .map(
                  rows ->
                      db.async(
                          () -> {
                            await(start);
                            return queue(rows);
                          }))
              .toList();
      start.countDown();
      long queued = 0;
      for (Future<Map<String, Object>> run : runs) {
        queued += (Long) run.get().get("queued");
      }

      assertThat(queued).isEqualTo(500);
      assertThat(db.count("pubsub_outbox")).isEqualTo(500);
      assertThat(db.count("pubsub_outbox_due")).isEqualTo(500);
    }
  }

  @Test
  void rejectsAndChangesOfTwoRunsDoNotDeadlock() throws Exception {
    List<Row> rows = new ArrayList<>();
    for (Row row : rows(0, 200)) {
      rows.add(row);
      rows.add(Row.of("bad-" + row.eventKey(), "x").reason("refused"));
    }
    queue(rows);
    List<Row> changed =
        rows.stream().map(r -> r.reason() == null ? Row.of(r.eventKey(), "changed") : r).toList();
    List<Row> backward = new ArrayList<>(changed);
    Collections.reverse(backward);
    for (int round = 0; round < 10; round++) {
      CountDownLatch start = new CountDownLatch(1);
      List<Future<Map<String, Object>>> runs =
          List.of(changed, backward).stream()
              .map(
                  chunk ->
                      db.async(
                          () -> {
                            await(start);
                            return queue(chunk);
                          }))
              .toList();
      start.countDown();
      for (Future<Map<String, Object>> run : runs) {
        assertThat(run.get()).isEqualTo(counts(400, 0, 200, 0, 200));
      }
    }
    assertThat(db.count("produce_changed WHERE times_seen = 20")).isEqualTo(200);
    assertThat(db.count("produce_reject WHERE times_seen = 21")).isEqualTo(200);
  }

  @Test
  void chunkWaitsForAnotherRunsUncommittedChunkAndQueuesNothingTwice() throws Exception {
    CountDownLatch finish = new CountDownLatch(1);
    CountDownLatch queued = new CountDownLatch(1);
    Future<?> first =
        db.async(
            () ->
                db.transaction.execute(
                    status -> {
                      queue(Row.of("INV-1", "x"), Row.of("INV-2", "x"));
                      queued.countDown();
                      await(finish);
                      return null;
                    }));
    await(queued);
    Future<Map<String, Object>> second =
        db.async(() -> queue(Row.of("INV-3", "x"), Row.of("INV-2", "x"), Row.of("INV-1", "x")));
    db.awaitBlockedSession();
    finish.countDown();
    first.get();

    assertThat(second.get()).isEqualTo(counts(3, 1, 0, 0, 0));
    assertThat(db.count("pubsub_outbox_due")).isEqualTo(3);
  }

  private void kill(long seq) {
    db.set("twinbox.dispatch.max-attempts", "1");
    Claim claim = outbox.claim(500);
    outbox.settle(claim.token(), List.of(Outcome.refused(seq)));
    assertThat(outbox.state(seq)).isEqualTo("dead");
  }

  private static List<Row> rows(int from, int to) {
    return IntStream.range(from, to)
        .mapToObj(
            i -> Row.of("INV-" + i, "payload " + i + " " + UUID.nameUUIDFromBytes(new byte[i])))
        .toList();
  }
}
