package io.twinbox.sql;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Future;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.springframework.dao.DataIntegrityViolationException;

/** Retention, the status view and the constraints. */
abstract class MaintainSpec extends DatabaseSpec {

  private Outbox outbox;

  @BeforeEach
  void outbox() {
    outbox = new Outbox(db);
  }

  private int deletePayloads() {
    return db.update("maintain/delete-published-payloads.sql", Map.of(), null);
  }

  private void publishAndAge(int days) {
    outbox.publishAll(outbox.claim(5000));
    age(days);
  }

  private void age(int days) {
    db.jdbc.update("UPDATE pubsub_outbox SET created_at = now() - make_interval(days => ?)", days);
    db.jdbc.update(
        "UPDATE pubsub_outbox_published SET completed_at = now() - make_interval(days => ?)", days);
  }

  private void republish(long seq) {
    db.jdbc.update(
        "INSERT INTO pubsub_outbox_due (seq, topic_name, payload_bytes, next_retry_at)"
            + " SELECT seq, topic_name, octet_length(payload), now() FROM pubsub_outbox"
            + " WHERE seq = ?",
        seq);
  }

  @Test
  void retentionDeletesPayloadsAndKeepsIdentities() {
    outbox.emit(3);
    List<UUID> ids = db.jdbc.queryForList("SELECT id FROM pubsub_outbox", UUID.class);
    publishAndAge(32);

    assertThat(deletePayloads()).isEqualTo(3);

    assertThat(db.count("pubsub_outbox")).isZero();
    assertThat(db.jdbc.queryForList("SELECT id FROM pubsub_outbox_published", UUID.class))
        .containsExactlyInAnyOrderElementsOf(ids);
    assertThat(
            db.jdbc.queryForList(
                "SELECT id FROM pubsub_outbox_status WHERE state = 'published'"
                    + " AND completed_at IS NOT NULL AND message_id IS NOT NULL"
                    + " AND topic_name = 'invoices'",
                UUID.class))
        .containsExactlyInAnyOrderElementsOf(ids);
  }

  @Test
  void youngPayloadsStay() {
    outbox.emit(1);
    publishAndAge(30);

    assertThat(deletePayloads()).isZero();
  }

  @Test
  void oldPayloadThatWasPublishedOnlyNowStays() {
    outbox.emit(1);
    publishAndAge(32);
    db.jdbc.update("UPDATE pubsub_outbox_published SET completed_at = now()");

    assertThat(deletePayloads()).isZero();
  }

  @Test
  void unpublishedDeadAndRepublishedPayloadsStayAndDoNotHoldUpTheOthers() {
    List<Long> published = outbox.emit(2);
    outbox.publishAll(outbox.claim(500));
    List<Long> others = outbox.emit(2);
    outbox.makeDead(others.get(0));
    republish(published.get(0));
    age(32);
    db.set("twinbox.maintain.batch-size", "1");

    assertThat(deletePayloads()).isEqualTo(1);
    assertThat(deletePayloads()).isZero();

    assertThat(db.jdbc.queryForList("SELECT seq FROM pubsub_outbox", Long.class))
        .containsExactlyInAnyOrder(published.get(0), others.get(0), others.get(1));
  }

  @Test
  void batchSizeBoundsOneDelete() {
    outbox.emit(25);
    publishAndAge(32);
    db.set("twinbox.maintain.batch-size", "10");

    assertThat(List.of(deletePayloads(), deletePayloads(), deletePayloads(), deletePayloads()))
        .containsExactly(10, 10, 5, 0);
  }

  @Test
  void payloadThatIsBeingRepublishedStays() throws Exception {
    long seq = outbox.emit(1).get(0);
    publishAndAge(32);
    CountDownLatch finish = new CountDownLatch(1);
    CountDownLatch queued = new CountDownLatch(1);
    Future<?> republishing =
        db.async(
            () ->
                db.transaction.execute(
                    status -> {
                      db.jdbc.queryForList(
                          "SELECT FROM pubsub_outbox WHERE seq = ? FOR KEY SHARE", seq);
                      republish(seq);
                      queued.countDown();
                      await(finish);
                      return null;
                    }));
    await(queued);

    assertThat(deletePayloads()).isZero();
    finish.countDown();
    republishing.get();

    assertThat(deletePayloads()).isZero();
    assertThat(outbox.claim(500).seqs()).containsExactly(seq);
  }

  @Test
  void queuedEventCannotBeDeleted() {
    List<Long> seqs = outbox.emit(2);

    assertThatThrownBy(() -> db.jdbc.update("DELETE FROM pubsub_outbox"))
        .hasMessageContaining("2 event(s) are still queued");
    assertThat(outbox.claim(500).seqs()).containsExactlyInAnyOrderElementsOf(seqs);
  }

  @Test
  void statusShowsEveryState() {
    List<Long> seqs = outbox.emit(6);
    outbox.makeWaiting(seqs.get(1));
    outbox.makeDead(seqs.get(2));
    db.jdbc.update(
        "UPDATE pubsub_outbox_due SET next_retry_at = now() - interval '1 hour' WHERE seq = ?",
        seqs.get(3));
    outbox.claim(1);
    db.jdbc.update(
        "UPDATE pubsub_outbox_due SET next_retry_at = now() - interval '1 hour' WHERE seq = ?",
        seqs.get(4));
    outbox.publishAll(outbox.claim(1));
    // As after a restore that left the queue out, or a load with triggers off.
    db.jdbc.update("DELETE FROM pubsub_outbox_due WHERE seq = ?", seqs.get(5));

    assertThat(seqs.stream().map(outbox::state).toList())
        .containsExactly("due", "waiting", "dead", "claimed", "published", "unqueued");
    assertThat(db.count("pubsub_outbox_status")).isEqualTo(6);
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "pubsub_outbox_due_claim_whole | UPDATE pubsub_outbox_due SET lock_id = 'p'",
        "pubsub_outbox_due_claim_whole | UPDATE pubsub_outbox_due SET claim_token = gen_random_uuid()",
        "pubsub_outbox_due_dead_not_claimed | UPDATE pubsub_outbox_due SET lock_id = 'p',"
            + " claim_token = gen_random_uuid(), dead_at = now()",
        "pubsub_outbox_due_counts_not_negative | UPDATE pubsub_outbox_due SET attempts = -1",
        "pubsub_outbox_due_pkey | INSERT INTO pubsub_outbox_due (seq, topic_name, payload_bytes,"
            + " next_retry_at) SELECT seq, topic_name, 1, now() FROM pubsub_outbox",
        "pubsub_outbox_id_unique | INSERT INTO pubsub_outbox (id, topic_name, payload)"
            + " SELECT id, topic_name, payload FROM pubsub_outbox",
        "pubsub_outbox_topic_name_valid | INSERT INTO pubsub_outbox (topic_name, payload)"
            + " VALUES ('no/topic', 'x')",
        "pubsub_outbox_source_valid | INSERT INTO pubsub_outbox (topic_name, source, payload)"
            + " VALUES ('invoices', '', 'x')",
        "Pub/Sub would refuse | INSERT INTO pubsub_outbox (topic_name, payload, attributes)"
            + " VALUES ('invoices', 'x', '[]')",
        "transactional_inbox_consumer_valid | INSERT INTO transactional_inbox VALUES ('', 'k')",
        "transactional_inbox_pkey | INSERT INTO transactional_inbox VALUES ('c', 'k'), ('c', 'k')",
        "produce_watermark_type_known | INSERT INTO produce_watermark (topic_name, source, type,"
            + " value) VALUES ('t', 's', 'FLOAT64', '1')",
      })
  void constraintsBiteByName(String name, String sql) {
    outbox.emit(1);

    assertThatThrownBy(() -> db.jdbc.update(sql))
        .isInstanceOf(DataIntegrityViolationException.class)
        .hasMessageContaining(name);
  }

  @Test
  void keysAreComparedByTheirBytesWhateverTheLocale() {
    // A collation of the C library changes with the library, and silently breaks unique indexes.
    assertThat(
            db.jdbc.queryForList(
                "SELECT c.relname || '.' || a.attname FROM pg_index i"
                    + " JOIN pg_class c ON c.oid = i.indrelid"
                    + " JOIN pg_namespace n ON n.oid = c.relnamespace AND n.nspname = 'public'"
                    + " JOIN pg_attribute a ON a.attrelid = c.oid AND a.attnum = ANY (i.indkey)"
                    + " WHERE a.attcollation NOT IN (0, 'pg_catalog.\"C\"'::regcollation)"
                    + " AND c.relname <> 'twinbox_schema_history'",
                String.class))
        .isEmpty();
  }
}
