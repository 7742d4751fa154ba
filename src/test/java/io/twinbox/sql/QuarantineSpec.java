package io.twinbox.sql;

import static org.assertj.core.api.Assertions.assertThat;

import io.twinbox.sql.Outbox.Claim;
import io.twinbox.sql.Outbox.Outcome;
import java.util.List;
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
    crash();

    Claim first = outbox.claim(500);
    Claim second = outbox.claim(500);
    Claim third = outbox.claim(500);

    assertThat(List.of(first, second, third)).allSatisfy(c -> assertThat(c.rows()).hasSize(1));
    assertThat(outbox.claim(500).rows()).isEmpty();
    assertThat(List.of(first.seqs().get(0), second.seqs().get(0), third.seqs().get(0)))
        .containsExactlyInAnyOrderElementsOf(seqs);
  }

  @Test
  void freshRowsAreNotHeldUpBySuspects() {
    outbox.emit(1);
    outbox.claim(500);
    List<Long> fresh = outbox.emit(2);
    db.jdbc.update(
        "UPDATE pubsub_outbox_due SET next_retry_at = now() - interval '1 minute' WHERE claim_token IS NULL");
    crash();

    assertThat(outbox.claim(500).seqs()).containsExactlyInAnyOrderElementsOf(fresh);
    assertThat(outbox.claim(500).rows()).hasSize(1);
  }

  @Test
  void rowThatEndsEveryProcessThatPublishesItAloneIsDeadWithThatReason() {
    long killer = outbox.emit(1).get(0);
    outbox.claim(500);
    for (int crash = 0; crash < 3; crash++) {
      crash();
      assertThat(outbox.claim(500).seqs()).containsExactly(killer);
    }
    crash();

    assertThat(outbox.claim(500).rows()).isEmpty();
    assertThat(outbox.state(killer)).isEqualTo("dead");
    assertThat((String) outbox.due(killer).get("last_error"))
        .startsWith("quarantined: 3 times in a row");
  }

  @Test
  void innocentMatesOfACrashNeverDie() {
    List<Long> seqs = outbox.emit(5);
    for (int crash = 0; crash < 10; crash++) {
      // Each time another row is alone with the crash; the others publish when it is their turn.
      Claim claim = outbox.claim(500);
      crash();
      if (claim.rows().size() == 1) {
        Claim alone = outbox.claim(500);
        outbox.settle(alone.token(), List.of(Outcome.released(alone.seqs().get(0))));
      }
    }
    assertThat(seqs).allSatisfy(seq -> assertThat(outbox.state(seq)).isNotEqualTo("dead"));
  }

  @Test
  void anyOutcomeForgetsTheCrashes() {
    long seq = outbox.emit(1).get(0);
    outbox.claim(500);
    crash();
    outbox.claim(500);
    crash();
    Claim claim = outbox.claim(500);
    assertThat(outbox.due(seq)).containsEntry("crashes", 1).containsEntry("solo", true);

    outbox.settle(claim.token(), List.of(Outcome.refused(seq)));

    assertThat(outbox.due(seq)).containsEntry("crashes", 0).containsEntry("solo", false);
  }

  @Test
  void keysOfACrashedPodAreClaimedRowByRowAndOthersGoOn() {
    List<Long> a = outbox.emit(2, "a");
    List<Long> b = outbox.emit(2, "b");
    outbox.claimOrdered(500, "");
    crash();
    List<Long> c = outbox.emit(2, "c");

    Claim first = outbox.claimOrdered(500, "");
    Claim second = outbox.claimOrdered(500, first.cursor());
    Claim third = outbox.claimOrdered(500, second.cursor());

    assertThat(first.seqs()).containsExactly(a.get(0));
    assertThat(second.seqs()).containsExactly(b.get(0));
    assertThat(third.seqs()).containsExactlyElementsOf(c);
    outbox.publishAll(first);
    assertThat(outbox.claimOrdered(500, "").seqs()).containsExactly(a.get(1));
  }

  @Test
  void suspectBehindABusyKeyGetsItsTurn() {
    outbox.emit(1, "b");
    outbox.claimOrdered(500, "");
    crash();
    List<Long> busy = outbox.emit(3, "a");

    Claim first = outbox.claimOrdered(500, "");
    assertThat(first.seqs()).containsExactlyElementsOf(busy);
    outbox.publishAll(first);
    outbox.emit(3, "a");
    assertThat(outbox.claimOrdered(500, first.cursor()).keys()).containsExactly("b");
  }

  @Test
  void orderedRowThatEndsEveryProcessBlocksItsKeyAsADeadOne() {
    long killer = outbox.emit(1, "a").get(0);
    outbox.claimOrdered(500, "");
    outbox.emit(1, "a");
    for (int crash = 0; crash < 3; crash++) {
      crash();
      assertThat(outbox.claimOrdered(500, "").seqs()).containsExactly(killer);
    }
    crash();

    assertThat(outbox.claimOrdered(500, "").rows()).isEmpty();
    assertThat(outbox.state(killer)).isEqualTo("dead");
    assertThat(outbox.claimOrdered(500, "").rows()).isEmpty();
  }
}
