package io.twinbox.outbox;

import static org.assertj.core.api.Assertions.assertThat;

import java.sql.Timestamp;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

/** Where claims begin to look, by a clock of the test's. */
class ClaimFloorTest {

  private static final Instant NOON = Instant.parse("2026-01-01T12:00:00Z");
  private static final long SECOND = 1_000_000_000L;

  private final ClaimFloor floor = new ClaimFloor(100);

  private static Map<String, Object> row(Instant lastDueAt, Instant claimedAt) {
    return Map.of(
        "last_due_at",
        Timestamp.from(lastDueAt),
        "claimed_at",
        Timestamp.from(claimedAt),
        "payload",
        new byte[40]);
  }

  @Test
  void untilRowsWereFoundItLooksFromTheBeginning() {
    assertThat(floor.nextAt(0)).isEqualTo("-infinity");
    floor.learnAt(List.of(), 10, 1);
    assertThat(floor.nextAt(2)).isEqualTo("-infinity");
  }

  @Test
  void itFollowsTheRowsThatWereClaimed() {
    floor.nextAt(0);
    floor.learnAt(List.of(row(NOON.minusSeconds(8), NOON), row(NOON.minusSeconds(8), NOON)), 10, 1);
    assertThat(floor.nextAt(2)).isEqualTo(NOON.minusSeconds(13).toString());
  }

  /** A backlog's rows came due within the margin: each claim would read what others took. */
  @Test
  void fullClaimIsFollowedByOneThatBeginsWhereItEnded() {
    List<Map<String, Object>> rows =
        List.of(row(NOON.minusSeconds(8), NOON), row(NOON.minusSeconds(8), NOON));
    floor.nextAt(0);
    floor.learnAt(rows, 2, 1);
    assertThat(floor.nextAt(2)).isEqualTo(NOON.minusSeconds(8).toString());
    // The margin comes when it is no longer full.
    floor.learnAt(rows, 3, 3);
    assertThat(floor.nextAt(4)).isEqualTo(NOON.minusSeconds(13).toString());
  }

  @Test
  void claimThatItsBytesEndedIsFull() {
    floor.nextAt(0);
    floor.learnAt(List.of(row(NOON, NOON), row(NOON, NOON), row(NOON, NOON)), 10, 1);
    assertThat(floor.nextAt(2)).isEqualTo(NOON.toString());
  }

  @Test
  void itFollowsTheClockWhileNothingIsDue() {
    floor.nextAt(0);
    floor.learnAt(List.of(row(NOON.minusSeconds(60), NOON)), 10, SECOND);
    floor.nextAt(4 * SECOND);
    // This one took its time: what became due meanwhile is not left out.
    floor.learnAt(List.of(), 10, 40 * SECOND);
    floor.nextAt(41 * SECOND);
    assertThat(floor.nextAt(42 * SECOND)).isEqualTo(NOON.minusSeconds(2).toString());
  }

  @Test
  void everyFewSecondsItLooksFromTheBeginning() {
    floor.nextAt(0);
    floor.learnAt(List.of(row(NOON, NOON)), 10, 1);
    assertThat(floor.nextAt(4 * SECOND)).isNotEqualTo("-infinity");
    assertThat(floor.nextAt(5 * SECOND)).isEqualTo("-infinity");
    assertThat(floor.nextAt(6 * SECOND)).isNotEqualTo("-infinity");
  }

  /** As behind a pinned vacuum horizon, where a sweep reads all that was published since. */
  @Test
  void aSweepThatTakesLongIsMadeLessOftenButOnceAMinute() {
    floor.nextAt(0);
    floor.learnAt(List.of(row(NOON, NOON)), 10, 1);
    assertThat(floor.nextAt(5 * SECOND)).isEqualTo("-infinity");
    floor.learnAt(List.of(), 10, 5 * SECOND + SECOND / 5);
    assertThat(floor.nextAt(14 * SECOND)).isNotEqualTo("-infinity");
    floor.learnAt(List.of(), 10, 14 * SECOND + 1);
    assertThat(floor.nextAt(15 * SECOND)).isEqualTo("-infinity");
    floor.learnAt(List.of(), 10, 25 * SECOND);
    assertThat(floor.nextAt(74 * SECOND)).isNotEqualTo("-infinity");
    floor.learnAt(List.of(), 10, 74 * SECOND + 1);
    assertThat(floor.nextAt(75 * SECOND)).isEqualTo("-infinity");
    floor.learnAt(List.of(), 10, 75 * SECOND + 1);
    assertThat(floor.nextAt(80 * SECOND)).isEqualTo("-infinity");
  }

  /** A transaction that was long brings many: they need not wait for a sweep each. */
  @Test
  void itFollowsASweepDown() {
    floor.nextAt(0);
    floor.learnAt(List.of(row(NOON, NOON)), 10, 1);
    floor.nextAt(5 * SECOND);
    floor.learnAt(List.of(row(NOON.minusSeconds(600), NOON.plusSeconds(5))), 10, 5 * SECOND + 1);
    assertThat(floor.nextAt(6 * SECOND)).isEqualTo(NOON.minusSeconds(605).toString());
  }
}
