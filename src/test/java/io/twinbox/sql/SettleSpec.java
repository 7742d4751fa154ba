package io.twinbox.sql;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.within;

import io.twinbox.sql.Outbox.Claim;
import io.twinbox.sql.Outbox.Outcome;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Future;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** What becomes of claimed events. */
abstract class SettleSpec extends DatabaseSpec {

  private Outbox outbox;

  @BeforeEach
  void outbox() {
    outbox = new Outbox(db);
  }

  @Test
  void publishedRowLeavesAndIsRecorded() {
    long seq = outbox.emit(1).get(0);

    Map<String, Object> counts = outbox.publishAll(outbox.claim(500));

    assertThat(counts)
        .containsEntry("published", 1L)
        .containsEntry("waiting", 0L)
        .containsEntry("dead", 0L)
        .containsEntry("released", 0L);
    assertThat(db.count("pubsub_outbox_due")).isZero();
    assertThat(
            db.count(
                "pubsub_outbox o JOIN pubsub_outbox_published p USING (id, topic_name, payload_hash)"
                    + " WHERE p.message_id = 'message-"
                    + seq
                    + "' AND p.completed_at >= o.created_at"))
        .isEqualTo(1);
    assertThat(outbox.state(seq)).isEqualTo("published");
  }

  @Test
  void refusedRowWaitsWithTheReason() {
    long seq = outbox.emit(1).get(0);
    Claim claim = outbox.claim(500);

    Map<String, Object> counts = outbox.settle(claim.token(), List.of(Outcome.refused(seq)));

    assertThat(counts).containsEntry("waiting", 1L);
    assertThat(outbox.due(seq))
        .containsEntry("attempts", 1)
        .containsEntry("last_error", "INVALID_ARGUMENT: refused " + seq)
        .containsEntry("lock_id", null)
        .containsEntry("claim_token", null)
        .containsEntry("locked_at", null)
        .containsEntry("dead_at", null);
  }

  @Test
  void backoffCountsFromTheFailureNotFromTheTransaction() {
    long seq = outbox.emit(1).get(0);
    Claim claim = outbox.claim(500);

    db.transaction.executeWithoutResult(
        status -> {
          db.jdbc.execute("SELECT pg_sleep(0.05)");
          outbox.settle(claim.token(), List.of(Outcome.refused(seq)));
          assertThat(
                  db.jdbc.queryForObject(
                      "SELECT next_retry_at >= now() + interval '50 ms' FROM pubsub_outbox_due",
                      Boolean.class))
              .isTrue();
        });
  }

  @Test
  void backoffGrowsIsCappedAndFullyJittered() {
    db.set("twinbox.dispatch.max-attempts", "1000000");
    db.set("twinbox.dispatch.backoff-base", "10s");
    db.set("twinbox.dispatch.backoff-cap", "100s");
    List<Long> seqs = outbox.emit(200);
    double[] bounds = {10, 20, 40, 80, 100, 100};

    for (double bound : bounds) {
      outbox.endLeases();
      db.jdbc.update("UPDATE pubsub_outbox_due SET next_retry_at = now()");
      List<Double> waits = refuse(seqs);

      assertThat(waits).allMatch(wait -> wait > -1 && wait <= bound);
      // Full jitter: the waits fill the whole range. 200 draws miss these marks once in 10^9.
      assertThat(Collections.max(waits)).isGreaterThan(bound * 0.85);
      assertThat(Collections.min(waits)).isLessThan(bound * 0.15);
      assertThat(waits.stream().mapToDouble(w -> w).average().orElse(0))
          .isCloseTo(bound / 2, within(bound / 8));
    }
  }

  @Test
  void backoffOfTheHundredthAttemptDoesNotOverflow() {
    db.set("twinbox.dispatch.max-attempts", "2000000000");
    db.set("twinbox.dispatch.backoff-base", "1000d");
    db.set("twinbox.dispatch.backoff-cap", "1h");
    List<Long> seqs = outbox.emit(1);
    db.jdbc.update("UPDATE pubsub_outbox_due SET attempts = 1000000");

    assertThat(refuse(seqs).get(0)).isLessThanOrEqualTo(3600);
  }

  private List<Double> refuse(List<Long> seqs) {
    Claim claim = outbox.claim(500);
    assertThat(claim.seqs()).containsExactlyInAnyOrderElementsOf(seqs);
    outbox.settle(claim.token(), seqs.stream().map(Outcome::refused).toList());
    return db.jdbc.queryForList(
        "SELECT extract(epoch FROM next_retry_at - clock_timestamp()) FROM pubsub_outbox_due",
        Double.class);
  }

  @Test
  void rowIsDeadAfterItsLastAttempt() {
    db.set("twinbox.dispatch.max-attempts", "2");
    long seq = outbox.emit(1).get(0);
    Claim first = outbox.claim(500);
    assertThat(outbox.settle(first.token(), List.of(Outcome.refused(seq))))
        .containsEntry("waiting", 1L)
        .containsEntry("dead", 0L);
    outbox.makeDue(seq);
    Claim second = outbox.claim(500);

    assertThat(outbox.settle(second.token(), List.of(Outcome.refused(seq))))
        .containsEntry("waiting", 0L)
        .containsEntry("dead", 1L);

    assertThat(outbox.state(seq)).isEqualTo("dead");
    assertThat(outbox.due(seq))
        .containsEntry("attempts", 2)
        .containsEntry("last_error", "INVALID_ARGUMENT: refused " + seq);
    assertThat(outbox.claim(500).rows()).isEmpty();
  }

  @Test
  void releasedRowIsDueAtOnceAndNothingIsCounted() {
    long seq = outbox.emit(1).get(0);
    Claim claim = outbox.claim(500);

    assertThat(outbox.settle(claim.token(), List.of(Outcome.released(seq))))
        .containsEntry("released", 1L);

    assertThat(outbox.due(seq)).containsEntry("attempts", 0).containsEntry("claim_token", null);
    assertThat(outbox.claim(500).seqs()).containsExactly(seq);
  }

  @Test
  void podThatLostItsLeaseChangesNothing() {
    List<Long> seqs = outbox.emit(3);
    Claim lost = outbox.claim(500);
    outbox.endLeases();
    // Rows without an outcome are claimed one by one.
    List<Claim> owners =
        List.of(outbox.claimSuspect(), outbox.claimSuspect(), outbox.claimSuspect());
    List<Map<String, Object>> before = db.jdbc.queryForList("SELECT * FROM pubsub_outbox_due");

    Map<String, Object> counts =
        outbox.settle(
            lost.token(),
            List.of(
                Outcome.published(seqs.get(0)),
                Outcome.refused(seqs.get(1)),
                Outcome.released(seqs.get(2))));

    assertThat(counts.values()).allMatch(count -> count.equals(0L));
    assertThat(db.jdbc.queryForList("SELECT * FROM pubsub_outbox_due")).isEqualTo(before);
    assertThat(owners)
        .allSatisfy(owner -> assertThat(outbox.publishAll(owner)).containsEntry("published", 1L));
  }

  @Test
  void podThatLosesItsLeaseWhileItSettlesChangesNothing() throws Exception {
    long seq = outbox.emit(1).get(0);
    Claim lost = outbox.claim(500);
    outbox.endLeases();
    CountDownLatch finish = new CountDownLatch(1);
    CountDownLatch claimed = new CountDownLatch(1);
    Future<Claim> owner =
        db.async(
            () ->
                db.transaction.execute(
                    status -> {
                      Claim claim = outbox.claimSuspect();
                      claimed.countDown();
                      await(finish);
                      return claim;
                    }));
    await(claimed);
    Future<Map<String, Object>> late =
        db.async(() -> outbox.settle(lost.token(), List.of(Outcome.published(seq))));
    db.awaitBlockedSession();
    finish.countDown();

    assertThat(late.get()).containsEntry("published", 0L);
    assertThat(outbox.publishAll(owner.get())).containsEntry("published", 1L);
  }

  @Test
  void rowThatIsBeingSettledIsNotClaimed() throws Exception {
    long seq = outbox.emit(1).get(0);
    Claim claim = outbox.claim(500);
    outbox.endLeases();
    CountDownLatch finish = new CountDownLatch(1);
    CountDownLatch settled = new CountDownLatch(1);
    Future<?> settling =
        db.async(
            () ->
                db.transaction.execute(
                    status -> {
                      outbox.settle(claim.token(), List.of(Outcome.published(seq)));
                      settled.countDown();
                      await(finish);
                      return null;
                    }));
    await(settled);

    assertThat(outbox.claimSuspect().rows()).isEmpty();
    finish.countDown();
    settling.get();
    assertThat(outbox.claimSuspect().rows()).isEmpty();
  }

  @Test
  void mixedBatchIsSettledByOneStatementAndRowsNotNamedStayClaimed() {
    db.set("twinbox.dispatch.max-attempts", "2");
    List<Long> seqs = outbox.emit(6);
    db.jdbc.update("UPDATE pubsub_outbox_due SET attempts = 1 WHERE seq = ?", seqs.get(3));
    Claim claim = outbox.claim(500);

    List<Outcome> outcomes = new ArrayList<>();
    outcomes.add(Outcome.released(seqs.get(4)));
    outcomes.add(Outcome.published(seqs.get(0)));
    outcomes.add(Outcome.refused(seqs.get(2)));
    outcomes.add(Outcome.published(seqs.get(1)));
    outcomes.add(Outcome.refused(seqs.get(3)));
    assertThat(outbox.settle(claim.token(), outcomes))
        .containsEntry("published", 2L)
        .containsEntry("waiting", 1L)
        .containsEntry("dead", 1L)
        .containsEntry("released", 1L);

    assertThat(outbox.state(seqs.get(0))).isEqualTo("published");
    assertThat(outbox.state(seqs.get(1))).isEqualTo("published");
    assertThat(outbox.due(seqs.get(2)))
        .containsEntry("attempts", 1)
        .containsEntry("last_error", "INVALID_ARGUMENT: refused " + seqs.get(2));
    assertThat(outbox.state(seqs.get(3))).isEqualTo("dead");
    assertThat(outbox.state(seqs.get(4))).isEqualTo("due");
    assertThat(outbox.state(seqs.get(5))).isEqualTo("claimed");
  }

  @Test
  void republishedEventKeepsItsOneIdentity() {
    long seq = outbox.emit(1).get(0);
    outbox.publishAll(outbox.claim(500));
    db.jdbc.update(
        "UPDATE pubsub_outbox_published SET message_id = 'first', completed_at = '2020-01-01Z'");
    db.jdbc.update(
        "INSERT INTO pubsub_outbox_due (seq, topic_name, payload_bytes, next_retry_at)"
            + " SELECT seq, topic_name, octet_length(payload), now() FROM pubsub_outbox");
    assertThat(outbox.state(seq)).isEqualTo("due");

    assertThat(outbox.publishAll(outbox.claim(500))).containsEntry("published", 1L);

    assertThat(db.string("SELECT message_id FROM pubsub_outbox_published"))
        .isEqualTo("message-" + seq);
    assertThat(db.count("pubsub_outbox_published WHERE completed_at > now() - interval '1 hour'"))
        .isEqualTo(1);
  }
}
