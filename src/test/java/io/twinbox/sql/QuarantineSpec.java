package io.twinbox.sql;

import static org.assertj.core.api.Assertions.assertThat;

import io.twinbox.sql.Outbox.Claim;
import io.twinbox.sql.Outbox.Outcome;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Future;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** What becomes of rows whose pod ended before it said what became of them. */
abstract class QuarantineSpec extends DatabaseSpec {

  private Outbox outbox;

  @BeforeEach
  void outbox() {
    outbox = new Outbox(db);
    db.set("twinbox.dispatch.max-crashes", "3");
  }

  /** The pod that holds rows dies, and their lease ends. */
  private void crash() {
    outbox.endLeases();
  }

  @Test
  void rowsOfACrashedPodAreClaimedOneByOne() {
    List<Long> seqs = outbox.emit(3);
    outbox.claim(500);
    assertThat(outbox.claimSuspect().rows()).as("their lease runs").isEmpty();
    crash();

    List<Claim> claims =
        List.of(outbox.claimSuspect(), outbox.claimSuspect(), outbox.claimSuspect());

    assertThat(claims).allSatisfy(claim -> assertThat(claim.rows()).hasSize(1));
    assertThat(claims.stream().map(claim -> claim.seqs().get(0)))
        .containsExactlyInAnyOrderElementsOf(seqs);
    assertThat(outbox.claimSuspect().rows()).isEmpty();
    assertThat(outbox.claim(500).rows()).isEmpty();
  }

  @Test
  void freshRowsAreNotHeldUpByAThousandSuspectsBeforeThem() {
    outbox.emit(1_000);
    outbox.claim(1_000);
    crash();
    List<Long> fresh = outbox.emit(2);

    assertThat(outbox.claim(500).seqs()).containsExactlyInAnyOrderElementsOf(fresh);
  }

  @Test
  void suspectsAreNotHeldUpByFreshRowsBeforeThem() {
    long suspect = outbox.emit(1).get(0);
    outbox.claim(500);
    outbox.emit(1_000);
    db.jdbc.update(
        "UPDATE pubsub_outbox_due SET next_retry_at = now() - interval '1 minute' WHERE claim_token IS NULL");
    crash();

    assertThat(outbox.claimSuspect().seqs()).containsExactly(suspect);
  }

  @Test
  void twoPodsTakeDifferentSuspects() throws Exception {
    outbox.emit(2);
    outbox.claim(500);
    crash();
    CountDownLatch finish = new CountDownLatch(1);
    CountDownLatch claimed = new CountDownLatch(1);
    Future<Claim> first =
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

    Claim second = outbox.claimSuspect();
    finish.countDown();

    assertThat(second.rows()).hasSize(1);
    assertThat(second.seqs()).doesNotContainAnyElementsOf(first.get().seqs());
  }

  @Test
  void rowThatEndsEveryProcessThatPublishesItAloneIsDeadWithThatReason() {
    long killer = outbox.emit(1).get(0);
    outbox.claim(500);
    for (int crash = 0; crash < 3; crash++) {
      crash();
      assertThat(outbox.claimSuspect().seqs()).containsExactly(killer);
    }
    crash();

    assertThat(outbox.claimSuspect().rows()).isEmpty();
    assertThat(outbox.state(killer)).isEqualTo("dead");
    assertThat((String) outbox.due(killer).get("last_error"))
        .startsWith("quarantined: 3 times in a row");
  }

  /** Each process ends with the killer, and with rows that nobody suspected before. */
  @Test
  void innocentMatesOfACrashNeverDie() {
    long killer = outbox.emit(1).get(0);
    List<Long> innocents = new ArrayList<>(outbox.emit(5));
    outbox.claim(500);
    for (int crash = 0; crash < 3; crash++) {
      crash();
      innocents.addAll(outbox.emit(2));
      outbox.claim(500);
      // The others are published when it is their turn, until the killer's comes.
      Claim suspect = outbox.claimSuspect();
      while (!suspect.seqs().contains(killer)) {
        assertThat(outbox.publishAll(suspect)).containsEntry("published", 1L);
        suspect = outbox.claimSuspect();
      }
    }
    crash();
    for (int poll = 0; poll < 20; poll++) {
      outbox.publishAll(outbox.claimSuspect());
    }

    assertThat(outbox.state(killer)).isEqualTo("dead");
    assertThat(innocents).allSatisfy(seq -> assertThat(outbox.state(seq)).isEqualTo("published"));
  }

  @Test
  void anyOutcomeForgetsTheCrashes() {
    long seq = outbox.emit(1).get(0);
    outbox.claim(500);
    crash();
    outbox.claimSuspect();
    crash();
    Claim claim = outbox.claimSuspect();
    assertThat(outbox.due(seq)).containsEntry("crashes", 1).containsEntry("solo", true);

    outbox.settle(claim.token(), List.of(Outcome.refused(seq)));

    assertThat(outbox.due(seq)).containsEntry("crashes", 0).containsEntry("solo", false);
  }

  @Test
  void suspectsOfAKeyAreClaimedOldestFirstAndWhatIsBehindThemWaits() {
    List<Long> a = outbox.emit(2, "a");
    List<Long> b = outbox.emit(2, "b");
    outbox.claimOrdered(500, "");
    crash();
    long behind = outbox.emit(1, "a").get(0);
    List<Long> c = outbox.emit(2, "c");

    assertThat(outbox.claimOrdered(500, "").seqs()).as("others").containsExactlyElementsOf(c);
    Claim first = outbox.claimSuspect();
    Claim second = outbox.claimSuspect();
    assertThat(List.of(first.seqs().get(0), second.seqs().get(0)))
        .containsExactlyInAnyOrder(a.get(0), b.get(0));
    assertThat(outbox.claimSuspect().rows()).as("behind a claimed one").isEmpty();

    outbox.publishAll(first);
    outbox.publishAll(second);
    assertThat(outbox.claimOrdered(500, "").rows()).as("behind a suspect").isEmpty();
    outbox.publishAll(outbox.claimSuspect());
    outbox.publishAll(outbox.claimSuspect());
    assertThat(outbox.claimOrdered(500, "").seqs()).containsExactly(behind);
  }

  @Test
  void orderedRowThatEndsEveryProcessBlocksItsKeyAsADeadOne() {
    long killer = outbox.emit(1, "a").get(0);
    outbox.claimOrdered(500, "");
    outbox.emit(1, "a");
    for (int crash = 0; crash < 3; crash++) {
      crash();
      assertThat(outbox.claimSuspect().seqs()).containsExactly(killer);
    }
    crash();

    assertThat(outbox.claimSuspect().rows()).isEmpty();
    assertThat(outbox.state(killer)).isEqualTo("dead");
    assertThat(outbox.claimSuspect().rows()).isEmpty();
    assertThat(outbox.claimOrdered(500, "").rows()).isEmpty();
  }
}
