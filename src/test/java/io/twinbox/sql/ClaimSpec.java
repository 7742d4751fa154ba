package io.twinbox.sql;

import static org.assertj.core.api.Assertions.assertThat;

import io.twinbox.sql.Outbox.Claim;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.UUID;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Future;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Claims of events without an ordering key. */
abstract class ClaimSpec extends DatabaseSpec {

  private Outbox outbox;

  @BeforeEach
  void outbox() {
    outbox = new Outbox(db);
  }

  @Test
  void claimReturnsTheWholeEvent() {
    db.jdbc.update(
        "INSERT INTO pubsub_outbox (topic_name, payload, attributes)"
            + " VALUES ('invoices', '\\x00ff', '{\"type\": \"issued\"}')");

    Map<String, Object> row = outbox.claim(500).rows().get(0);

    assertThat(row)
        .containsEntry("payload", new byte[] {0, (byte) 0xff})
        .containsEntry("attributes", "{\"type\": \"issued\"}")
        .containsEntry("ordering_key", null)
        .containsEntry("attempts", 0)
        .containsEntry("id", db.jdbc.queryForObject("SELECT id FROM pubsub_outbox", UUID.class));
  }

  @Test
  void claimIsALeaseInThePodsName() {
    long seq = outbox.emit(1).get(0);

    Claim claim = outbox.claim(500);

    assertThat(outbox.due(seq))
        .containsEntry("lock_id", "pod-1")
        .containsEntry("claim_token", UUID.fromString(claim.token()))
        .containsEntry("claims", 1)
        .containsEntry("attempts", 0);
    assertThat(
            db.string("SELECT next_retry_at - locked_at FROM pubsub_outbox_due WHERE seq = ?", seq))
        .isEqualTo("00:01:00");
    assertThat(outbox.state(seq)).isEqualTo("claimed");
  }

  @Test
  void twoClaimersAtTheSameTimeGetDifferentRows() throws Exception {
    outbox.emit(10);
    CountDownLatch finish = new CountDownLatch(1);
    CountDownLatch claimed = new CountDownLatch(1);
    Future<Claim> first =
        db.async(
            () ->
                db.transaction.execute(
                    status -> {
                      Claim claim = outbox.claim(6);
                      claimed.countDown();
                      await(finish);
                      return claim;
                    }));
    await(claimed);

    Claim second = outbox.claim(6);
    finish.countDown();

    assertThat(second.seqs()).hasSize(4).doesNotContainAnyElementsOf(first.get().seqs());
  }

  @Test
  void rowsThatAnotherSessionHasLockedAreSkipped() throws Exception {
    List<Long> seqs = outbox.emit(3);
    CountDownLatch finish = new CountDownLatch(1);
    CountDownLatch locked = new CountDownLatch(1);
    Future<?> other =
        db.async(
            () ->
                db.transaction.execute(
                    status -> {
                      db.jdbc.queryForList(
                          "SELECT FROM pubsub_outbox_due WHERE seq = ? FOR UPDATE", seqs.get(0));
                      locked.countDown();
                      await(finish);
                      return null;
                    }));
    await(locked);

    assertThat(outbox.claim(500).seqs()).containsExactlyInAnyOrderElementsOf(seqs.subList(1, 3));
    finish.countDown();
    other.get();
    assertThat(outbox.claim(500).seqs()).containsExactly(seqs.get(0));
  }

  @Test
  void rowWhoseDueTimeIsNowIsClaimed() {
    outbox.emit(1);
    db.transaction.executeWithoutResult(
        status -> {
          // now() is the transaction's start for both statements.
          db.jdbc.update("UPDATE pubsub_outbox_due SET next_retry_at = now()");
          assertThat(outbox.claim(500).rows()).hasSize(1);
        });
  }

  @Test
  void waitingDeadAndClaimedRowsAreLeftAlone() {
    List<Long> seqs = outbox.emit(4);
    outbox.makeWaiting(seqs.get(0));
    outbox.makeDead(seqs.get(1));

    assertThat(outbox.claim(500).seqs()).containsExactlyInAnyOrderElementsOf(seqs.subList(2, 4));
    assertThat(outbox.claim(500).rows()).isEmpty();
  }

  @Test
  void rowsOfOtherTopicsAndRowsWithAnOrderingKeyAreLeftAlone() {
    outbox.emit(1, "customer-1");
    db.jdbc.update("INSERT INTO pubsub_outbox (topic_name, payload) VALUES ('payments', 'x')");

    assertThat(outbox.claim(500).rows()).isEmpty();
  }

  @Test
  void lostRowsComeBackWhenTheLeaseEnds() {
    List<Long> seqs = outbox.emit(1);
    Claim lost = outbox.claim(500);
    outbox.endLeases();
    assertThat(outbox.state(seqs.get(0))).isEqualTo("due");

    Claim again = outbox.claimSuspect();

    assertThat(again.seqs()).containsExactlyInAnyOrderElementsOf(seqs);
    assertThat(again.token()).isNotEqualTo(lost.token());
    assertThat(outbox.due(seqs.get(0)))
        .containsEntry("claims", 2)
        .containsEntry("claim_token", UUID.fromString(again.token()));
  }

  @Test
  void rowsThatAreDueLongestGoFirst() {
    List<Long> seqs = outbox.emit(4);
    db.jdbc.update(
        "UPDATE pubsub_outbox_due SET next_retry_at = now() - interval '1 minute' WHERE seq = ?",
        seqs.get(3));
    db.jdbc.update(
        "UPDATE pubsub_outbox_due SET next_retry_at = now() - interval '2 minutes' WHERE seq = ?",
        seqs.get(2));

    assertThat(outbox.claim(1).seqs()).containsExactly(seqs.get(2));
    assertThat(outbox.claim(1).seqs()).containsExactly(seqs.get(3));
  }

  @Test
  void limitBoundsTheRows() {
    outbox.emit(5);

    assertThat(outbox.claim(3).rows()).hasSize(3);
    assertThat(outbox.claim(3).rows()).hasSize(2);
  }

  @Test
  void batchBytesBoundThePayloadsAndAreFilled() {
    db.set("twinbox.dispatch.batch-bytes", "1000");
    for (int i = 0; i < 5; i++) {
      outbox.emitBytes(400, null);
    }

    // A claim begins a row as long as the bytes before it are below the bound.
    assertThat(outbox.claim(500).rows()).hasSize(3);
    assertThat(outbox.claim(500).rows()).hasSize(2);
  }

  @Test
  void rowLargerThanTheBatchGoesAlone() {
    db.set("twinbox.dispatch.batch-bytes", "1000");
    long large = outbox.emitBytes(5000, null);
    outbox.emitBytes(10, null);

    assertThat(outbox.claim(500).seqs()).containsExactly(large);
  }

  @Test
  void rowsThatManyClaimersDrainAreEachClaimedOnce() throws Exception {
    outbox.emit(3000);
    List<Long> claimed = Collections.synchronizedList(new ArrayList<>());
    List<Future<?>> pods = new ArrayList<>();
    for (int pod = 0; pod < 4; pod++) {
      pods.add(
          db.async(
              () -> {
                for (Claim claim = outbox.claim(50);
                    !claim.rows().isEmpty();
                    claim = outbox.claim(50)) {
                  claimed.addAll(claim.seqs());
                  outbox.publishAll(claim);
                }
                return null;
              }));
    }
    for (Future<?> pod : pods) {
      pod.get();
    }
    // SKIP LOCKED may end a pod early; one more looks for rows that are left.
    for (Claim claim = outbox.claim(500); !claim.rows().isEmpty(); claim = outbox.claim(500)) {
      claimed.addAll(claim.seqs());
      outbox.publishAll(claim);
    }

    Set<Long> once = new HashSet<>(claimed);
    assertThat(claimed).hasSize(3000);
    assertThat(once).hasSize(3000);
    assertThat(db.count("pubsub_outbox_due")).isZero();
    assertThat(db.count("pubsub_outbox_published")).isEqualTo(3000);
  }

  @Test
  void claimLooksFromTheFloorOnAndSaysWhenTheLastOfItsRowsWasDue() {
    long old = outbox.emit(1).get(0);
    db.jdbc.update("UPDATE pubsub_outbox_due SET next_retry_at = now() - interval '1 minute'");
    List<Long> fresh = outbox.emit(3);
    db.jdbc.update(
        "UPDATE pubsub_outbox_due SET next_retry_at = next_retry_at - interval '1 second' WHERE seq < ?",
        fresh.get(2));
    Object lastDueAt = outbox.due(fresh.get(2)).get("next_retry_at");
    String floor = db.string("SELECT CAST(now() - interval '30 seconds' AS text)");

    Claim claim = outbox.claim(10, floor);

    assertThat(claim.seqs()).containsExactlyInAnyOrderElementsOf(fresh);
    assertThat(claim.rows()).extracting("last_due_at").containsOnly(lastDueAt);
    assertThat(outbox.claim(10).seqs()).containsExactly(old);
  }

  @Test
  void claimAndSettlementDoNotWaitForTheDiskAndNothingElseDoesSo() {
    outbox.emit(2);
    db.transaction.executeWithoutResult(
        status -> {
          assertThat(db.string("SHOW synchronous_commit")).isEqualTo("on");
          Claim claim = outbox.claim(1);
          assertThat(db.string("SHOW synchronous_commit")).isEqualTo("off");
          outbox.publishAll(claim);
        });
    db.transaction.executeWithoutResult(
        status -> {
          assertThat(db.string("SHOW synchronous_commit")).isEqualTo("on");
          outbox.settle(UUID.randomUUID().toString(), List.of());
          assertThat(db.string("SHOW synchronous_commit")).isEqualTo("off");
        });
    db.transaction.executeWithoutResult(
        status -> {
          outbox.claimOrdered(1, "");
          assertThat(db.string("SHOW synchronous_commit")).isEqualTo("off");
        });
  }
}
