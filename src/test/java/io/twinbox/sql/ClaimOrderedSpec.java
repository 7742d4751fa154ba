package io.twinbox.sql;

import static org.assertj.core.api.Assertions.assertThat;

import io.twinbox.sql.Outbox.Claim;
import io.twinbox.sql.Outbox.Outcome;
import java.sql.Connection;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Future;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Claims of events with an ordering key. */
abstract class ClaimOrderedSpec extends DatabaseSpec {

  private Outbox outbox;

  @BeforeEach
  void outbox() {
    outbox = new Outbox(db);
  }

  @Test
  void rowsOfAKeyComeInTheirOrder() {
    List<Long> seqs = outbox.emit(5, "a");

    Claim claim = outbox.claimOrdered(500, "");

    assertThat(claim.seqs()).containsExactlyElementsOf(seqs);
    assertThat(outbox.state(seqs.get(4))).isEqualTo("claimed");
  }

  @Test
  void rowsWithoutAnOrderingKeyAreLeftAlone() {
    outbox.emit(3);

    assertThat(outbox.claimOrdered(500, "").rows()).isEmpty();
  }

  @Test
  void keyWhoseOldestRowWaitsBlocksOnlyItself() {
    List<Long> a = outbox.emit(2, "a");
    List<Long> b = outbox.emit(2, "b");
    outbox.makeWaiting(a.get(0));

    assertThat(outbox.claimOrdered(500, "").seqs()).containsExactlyElementsOf(b);
  }

  @Test
  void keyWhoseOldestRowIsDeadBlocksOnlyItselfUntilItIsReplayed() {
    List<Long> a = outbox.emit(2, "a");
    List<Long> b = outbox.emit(2, "b");
    outbox.makeDead(a.get(0));

    assertThat(outbox.claimOrdered(500, "").seqs()).containsExactlyElementsOf(b);
    outbox.makeDue(a.get(0));
    assertThat(outbox.claimOrdered(500, "").seqs()).containsExactlyElementsOf(a);
  }

  @Test
  void claimedKeyBlocksOnlyItself() {
    List<Long> a = outbox.emit(2, "a");
    assertThat(outbox.claimOrdered(1, "").seqs()).containsExactly(a.get(0));
    List<Long> b = outbox.emit(2, "b");

    assertThat(outbox.claimOrdered(500, "").seqs()).containsExactlyElementsOf(b);
  }

  @Test
  void runStopsAtItsFirstRowThatIsNotDue() {
    List<Long> a = outbox.emit(5, "a");
    outbox.makeWaiting(a.get(2));
    List<Long> b = outbox.emit(5, "b");
    outbox.makeDead(b.get(3));

    Claim claim = outbox.claimOrdered(500, "");

    List<Long> expected = new ArrayList<>(a.subList(0, 2));
    expected.addAll(b.subList(0, 3));
    assertThat(claim.seqs()).containsExactlyElementsOf(expected);
  }

  @Test
  void keysShareTheLimit() {
    for (int key = 0; key < 5; key++) {
      outbox.emit(10, "key-" + key);
    }

    Claim claim = outbox.claimOrdered(20, "");

    assertThat(claim.rows()).hasSize(20);
    assertThat(claim.keys()).hasSize(5);
  }

  @Test
  void keysBehindManyBlockedOnesGetTheirTurnByTheCursor() {
    db.jdbc.update(
        "INSERT INTO pubsub_outbox (topic_name, payload, ordering_key)"
            + " SELECT 'invoices', 'x', 'blocked-' || lpad(i::text, 5, '0')"
            + " FROM generate_series(1, 1300) i");
    db.jdbc.update("UPDATE pubsub_outbox_due SET next_retry_at = now() + interval '1 hour'");
    List<Long> free = outbox.emit(2, "free");

    Claim first = outbox.claimOrdered(500, "");
    Claim second = outbox.claimOrdered(500, first.cursor());
    Claim third = outbox.claimOrdered(500, second.cursor());

    assertThat(first.rows()).isEmpty();
    assertThat(first.cursor()).isEqualTo("blocked-00600");
    assertThat(second.cursor()).isEqualTo("blocked-01200");
    assertThat(third.seqs()).containsExactlyElementsOf(free);
    assertThat(third.cursor()).isNull();
  }

  @Test
  void emptyClaimStillReturnsTheCursor() {
    assertThat(outbox.claimOrdered(500, "").cursor()).isNull();
    assertThat(outbox.claimOrdered(500, "zzz").cursor()).isNull();
  }

  @Test
  void keysThatTheLimitLeftOutAreNextEvenWhenTheFirstOnesAreBusy() {
    List<Long> last = new ArrayList<>();
    for (int key = 0; key < 6; key++) {
      last = outbox.emit(3, "key-" + key);
    }

    // Every pod begins anew at the cursor of its last claim, and the first keys are always due.
    Set<Long> seen = new HashSet<>();
    String cursor = "";
    for (int poll = 0; poll < 3; poll++) {
      Claim claim = outbox.claimOrdered(2, cursor);
      seen.addAll(claim.seqs());
      outbox.settle(claim.token(), claim.seqs().stream().map(Outcome::released).toList());
      cursor = claim.cursor() == null ? "" : claim.cursor();
    }

    assertThat(seen).contains(last.get(0));
  }

  @Test
  void keysThatTheByteBoundLeftOutAreNextEvenWhenTheFirstOnesAreBusy() {
    db.set("twinbox.dispatch.batch-bytes", "1000");
    long last = 0;
    for (int key = 0; key < 6; key++) {
      last = outbox.emitBytes(600, "key-" + key);
    }

    Set<Long> seen = new HashSet<>();
    String cursor = "";
    for (int poll = 0; poll < 3; poll++) {
      Claim claim = outbox.claimOrdered(500, cursor);
      seen.addAll(claim.seqs());
      outbox.settle(claim.token(), claim.seqs().stream().map(Outcome::released).toList());
      cursor = claim.cursor() == null ? "" : claim.cursor();
    }

    assertThat(seen).contains(last);
  }

  @Test
  void byteBoundCutsAPrefixOfAKey() {
    db.set("twinbox.dispatch.batch-bytes", "1000");
    List<Long> seqs = new ArrayList<>();
    for (int i = 0; i < 4; i++) {
      seqs.add(outbox.emitBytes(400, "a"));
    }

    Claim claim = outbox.claimOrdered(500, "");

    assertThat(claim.seqs()).containsExactlyElementsOf(seqs.subList(0, 3));
    outbox.publishAll(claim);
    assertThat(outbox.claimOrdered(500, "").seqs()).containsExactly(seqs.get(3));
  }

  @Test
  void fromTheFloorOnlyKeysWithRowsThatCameDueSinceAreLookedAtFromTheirOldestRowOn() {
    List<Long> late = outbox.emit(2, "late");
    List<Long> busy = outbox.emit(2, "busy");
    db.jdbc.update("UPDATE pubsub_outbox_due SET next_retry_at = now() - interval '1 hour'");
    String floor = db.string("SELECT CAST(clock_timestamp() - interval '1 minute' AS text)");
    long blocked = outbox.emit(1, "blocked").get(0);
    outbox.makeWaiting(blocked);
    outbox.emit(1, "blocked");
    List<Long> fresh = outbox.emit(1, "busy");

    Claim claim = outbox.claimOrderedFrom(500, floor);

    assertThat(claim.seqs()).containsExactly(busy.get(0), busy.get(1), fresh.get(0));
    assertThat(claim.held()).as("nothing is left").isEqualTo("[]");
    assertThat(outbox.claimOrderedFrom(500, floor).rows()).isEmpty();
    assertThat(outbox.claimOrdered(500, "").seqs()).containsExactlyElementsOf(late);
  }

  @Test
  void claimFromTheFloorTakesTheKeysThatAreDueLongestAndNamesWhatItLeft() {
    for (int key = 9; key >= 0; key--) {
      outbox.emit(1, "key-" + key);
    }
    String floor = db.string("SELECT CAST(now() - interval '1 minute' AS text)");

    Claim first = outbox.claimOrderedFrom(4, floor);
    assertThat(first.keys()).containsExactly("key-9", "key-8", "key-7", "key-6");
    assertThat(first.held())
        .as("keys of which it may have left rows, and keys that it left")
        .contains("key-9", "key-6", "key-5", "key-0");
    assertThat(first.tooMany()).isFalse();
    assertThat(outbox.claimOrderedFrom(4, floor).keys())
        .containsExactly("key-5", "key-4", "key-3", "key-2");
    Claim last = outbox.claimOrderedFrom(4, floor);
    assertThat(last.keys()).containsExactly("key-1", "key-0");
    outbox.emit(10, "long");
    outbox.emit(1, "short");
    Claim shared = outbox.claimOrderedFrom(10, floor);
    assertThat(shared.rows()).hasSize(6);
    assertThat(shared.held())
        .as("a key that has more than its share")
        .contains("long")
        .doesNotContain("short");
    assertThat(outbox.claimOrderedFrom(10, floor).rows()).as("while the key is claimed").isEmpty();
    outbox.publishAll(shared);
    assertThat(outbox.claimOrderedFrom(10, floor).rows()).hasSize(5);
  }

  /** Or a backlog that a blocked key has gathered would move by one claim a sweep. */
  @Test
  void claimNamesTheKeysWithRowsBehindAClaimedOrLockedOneAndTheNextLooksAtThemAgain()
      throws Exception {
    outbox.emit(7, "key \"1\"");
    String floor = db.string("SELECT CAST(clock_timestamp() AS text)");
    Claim first = outbox.claimOrdered(4, "");
    assertThat(first.rows()).hasSize(4);
    Claim blocked = outbox.claimOrdered(4, "");
    assertThat(blocked.tooMany()).as("it is named, the sweep is over").isFalse();
    assertThat(blocked.held()).as("three behind four claimed").contains("key \\\"1\\\"");
    outbox.publishAll(first);
    String held = blocked.held();
    try (Connection other = db.connect();
        Statement statement = other.createStatement()) {
      other.setAutoCommit(false);
      statement.execute("SELECT FROM pubsub_outbox_due FOR UPDATE");
      Claim skipped = outbox.claimOrdered(4, "", floor, held);
      assertThat(skipped.rows()).isEmpty();
      assertThat(skipped.held()).as("three that another pod is claiming").isEqualTo(held);
    }
    assertThat(outbox.claimOrderedFrom(4, floor).rows()).as("below the floor").isEmpty();
    Claim last = outbox.claimOrdered(5, "", floor, held);
    assertThat(last.rows()).as("which it looks at again").hasSize(3);
    assertThat(outbox.claimOrdered(4, "", floor, held).held())
        .as("nothing behind the claimed")
        .isEqualTo("[]");
    outbox.makeWaiting(outbox.emit(2, "waits").get(0));
    assertThat(outbox.claimOrdered(4, "").held()).as("a key that waits").isEqualTo("[]");
    assertThat(outbox.claimOrdered(4, "", floor, "[\"waits\", \"no more\"]").held())
        .isEqualTo("[]");
  }

  @Test
  void keyOfWhichTheBytesCutOffRowsIsHeld() {
    db.set("twinbox.dispatch.batch-bytes", "1000");
    outbox.emitBytes(900, "a");
    outbox.emitBytes(900, "b");
    outbox.emitBytes(900, "c");

    Claim claim = outbox.claimOrdered(500, "");

    assertThat(claim.keys()).containsExactly("a", "b");
    assertThat(claim.held()).isEqualTo("[\"c\"]");
  }

  @Test
  void heldKeysComeAfterTheKeysWhoseTurnItIs() {
    List<Long> held = outbox.emit(1, "a held one");
    List<Long> first = outbox.emit(1, "b");
    outbox.emit(1, "c");

    Claim claim = outbox.claimOrdered(1, "a held one", "-infinity", "[\"a held one\"]");
    assertThat(claim.seqs()).isEqualTo(first);
    assertThat(claim.cursor()).isEqualTo("b");
    claim = outbox.claimOrdered(2, "b", "-infinity", "[\"a held one\"]");
    assertThat(claim.seqs()).hasSize(2).containsAll(held);
    assertThat(claim.cursor()).as("the end of the keys").isNull();
  }

  @Test
  void claimThatCannotNameAllHeldKeysAsksForASweep() {
    db.jdbc.update(
        "INSERT INTO pubsub_outbox (topic_name, payload, ordering_key)"
            + " SELECT 'invoices', 'x', i::text FROM generate_series(1, 301) i, (VALUES (1), (2)) v");
    String floor = db.string("SELECT CAST(now() - interval '1 minute' AS text)");
    assertThat(outbox.claimOrdered(301, "").rows()).hasSize(301);

    Claim claim = outbox.claimOrderedFrom(1_000, floor);

    assertThat(claim.rows()).isEmpty();
    assertThat(claim.tooMany()).isTrue();
  }

  /** A row's time may lie before an older statement's, where the database's clock was set back. */
  @Test
  void keyWhoseOldestRowWentToAnotherClaimWhileThisOneLookedIsLeftAlone() throws Exception {
    List<Long> seqs = outbox.emit(3, "a");
    db.jdbc.execute(
        """
        CREATE SCHEMA slow;
        CREATE FUNCTION slow.now() RETURNS timestamptz LANGUAGE plpgsql AS $$
        BEGIN
          PERFORM pg_catalog.pg_advisory_xact_lock_shared(4711);
          RETURN pg_catalog.now();
        END $$;
        """);
    try (Connection gate = db.connect();
        Statement statement = gate.createStatement()) {
      gate.setAutoCommit(false);
      statement.execute("SELECT pg_advisory_xact_lock(4711)");
      Future<Claim> slow =
          db.async(
              () ->
                  db.transaction.execute(
                      status -> {
                        db.jdbc.execute("SET LOCAL search_path = slow, public, pg_catalog");
                        return outbox.claimOrdered(500, "");
                      }));
      db.awaitBlockedSession();
      // Meanwhile the first two go to another pod, which gives them back.
      Claim other = outbox.claimOrdered(2, "");
      assertThat(other.seqs()).isEqualTo(seqs.subList(0, 2));
      outbox.settle(other.token(), other.seqs().stream().map(Outcome::released).toList());
      db.jdbc.update(
          "UPDATE pubsub_outbox_due SET next_retry_at = now() - interval '1 hour' WHERE seq < ?",
          seqs.get(2));
      gate.rollback();

      assertThat(slow.get().seqs()).as("not the third before the first two").isEmpty();
      assertThat(outbox.claimOrdered(500, "").seqs()).isEqualTo(seqs);
    } finally {
      db.jdbc.execute("DROP SCHEMA slow CASCADE");
    }
  }

  @Test
  void claimFromTheFloorSaysWhenMoreCameDueThanItLooksAt() {
    outbox.emit(1_999, "blocked");
    String floor = db.string("SELECT CAST(now() - interval '1 minute' AS text)");
    assertThat(outbox.claimOrderedFrom(500, floor).tooMany()).isFalse();
    outbox.emit(600, "blocked");

    Claim claim = outbox.claimOrderedFrom(500, floor);

    assertThat(claim.tooMany()).isTrue();
  }

  @Test
  void twoClaimersNeverHoldTheSameKey() throws Exception {
    List<Long> a = outbox.emit(4, "a");
    List<Long> b = outbox.emit(4, "b");
    CountDownLatch finish = new CountDownLatch(1);
    CountDownLatch claimed = new CountDownLatch(1);
    Future<Claim> first =
        db.async(
            () ->
                db.transaction.execute(
                    status -> {
                      // One row of "a" only: its followers are due and unlocked, yet not to be had.
                      Claim claim = outbox.claimOrdered(1, "");
                      claimed.countDown();
                      await(finish);
                      return claim;
                    }));
    await(claimed);

    Claim second = outbox.claimOrdered(500, "");
    finish.countDown();

    assertThat(first.get().seqs()).containsExactly(a.get(0));
    assertThat(second.seqs()).containsExactlyElementsOf(b);
  }

  @Test
  void orderOfFirstPublicationIsKeptWhileEverythingFailsAtOnce() throws Exception {
    db.set("twinbox.dispatch.backoff-base", "1ms");
    db.set("twinbox.dispatch.max-attempts", "1000000");
    int keys = 60;
    int rowsPerKey = 50;
    for (int key = 0; key < keys; key++) {
      outbox.emit(rowsPerKey, "key-" + key);
    }
    Map<String, List<Long>> published = new ConcurrentHashMap<>();
    Map<String, Boolean> held = new ConcurrentHashMap<>();
    List<String> violations = Collections.synchronizedList(new ArrayList<>());
    List<Future<?>> pods = new ArrayList<>();
    for (int pod = 0; pod < 6; pod++) {
      Random random = new Random(pod);
      pods.add(
          db.async(
              () -> {
                String cursor = "";
                while (db.count("pubsub_outbox_due") > 0) {
                  Claim claim = outbox.claimOrdered(40, cursor);
                  cursor = claim.cursor() == null ? "" : claim.cursor();
                  for (String key : claim.keys()) {
                    if (held.putIfAbsent(key, true) != null) {
                      violations.add(key + " is held twice");
                    }
                  }
                  Set<String> broken = new HashSet<>();
                  List<Outcome> outcomes = new ArrayList<>();
                  for (Map<String, Object> row : claim.rows()) {
                    String key = (String) row.get("ordering_key");
                    long seq = (Long) row.get("seq");
                    if (broken.contains(key)) {
                      outcomes.add(Outcome.released(seq));
                    } else if (random.nextInt(10) == 0) {
                      broken.add(key);
                      outcomes.add(
                          random.nextBoolean() ? Outcome.refused(seq) : Outcome.released(seq));
                    } else {
                      published
                          .computeIfAbsent(
                              key, k -> Collections.synchronizedList(new ArrayList<>()))
                          .add(seq);
                      outcomes.add(Outcome.published(seq));
                    }
                  }
                  claim.keys().forEach(held::remove);
                  if (!outcomes.isEmpty()) {
                    outbox.settle(claim.token(), outcomes);
                  }
                }
                return null;
              }));
    }
    for (Future<?> pod : pods) {
      pod.get();
    }

    assertThat(violations).isEmpty();
    Map<String, List<Long>> sorted = new HashMap<>();
    published.forEach((key, seqs) -> sorted.put(key, seqs.stream().sorted().toList()));
    assertThat(published).isEqualTo(sorted);
    assertThat(published.values().stream().mapToInt(List::size).sum()).isEqualTo(keys * rowsPerKey);
    assertThat(db.count("pubsub_outbox_published")).isEqualTo(keys * rowsPerKey);
  }
}
