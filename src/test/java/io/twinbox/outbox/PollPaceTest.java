package io.twinbox.outbox;

import static org.assertj.core.api.Assertions.assertThat;

import java.time.Duration;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import org.junit.jupiter.api.Test;

/** When dispatch polls next, by what its claims found. */
class PollPaceTest {

  private static final Duration INTERVAL = Duration.ofMillis(20);
  private static final Duration IDLE = Duration.ofMillis(200);

  /** Leaves nothing out of a pause. */
  private final PollPace pace = new PollPace(INTERVAL, IDLE, 1_000, 0, () -> 0);

  private static List<Map<String, Object>> rows(int count) {
    return Collections.nCopies(count, Map.of("payload", new byte[1]));
  }

  @Test
  void fullClaimIsFollowedByAnotherAtOnce() {
    pace.found(rows(500), 500, null);
    assertThat(pace.next(Duration.ZERO)).isZero();
  }

  @Test
  void claimThatItsBytesEndedIsFull() {
    pace.found(List.of(Map.of("payload", new byte[999])), 500, null);
    assertThat(pace.next(Duration.ZERO)).isEqualTo(INTERVAL);
    pace.found(List.of(Map.of("payload", new byte[1_000])), 500, null);
    assertThat(pace.next(Duration.ZERO)).isZero();
  }

  @Test
  void claimThatFoundSomeRowsIsFollowedByAnotherSoon() {
    pace.found(rows(499), 500, null);
    assertThat(pace.next(Duration.ZERO)).isEqualTo(INTERVAL);
  }

  @Test
  void pausesGrowWhileNothingIsFoundAndEndWithTheFirstRow() {
    List<Long> pauses = new ArrayList<>();
    pace.found(rows(500), 500, null);
    pace.next(Duration.ZERO);
    for (int poll = 0; poll < 8; poll++) {
      pace.found(rows(0), 500, null);
      pauses.add(pace.next(Duration.ZERO).toMillis());
    }
    assertThat(pauses).containsExactly(20L, 30L, 45L, 67L, 101L, 151L, 200L, 200L);
    pace.found(rows(1), 500, null);
    assertThat(pace.next(Duration.ZERO)).isEqualTo(INTERVAL);
  }

  @Test
  void pollThatFailedCountsAsOneThatFoundNothing() {
    pace.found(rows(500), 500, null);
    pace.next(Duration.ZERO);
    assertThat(pace.next(Duration.ZERO)).isEqualTo(INTERVAL);
    assertThat(pace.next(Duration.ZERO)).isGreaterThan(INTERVAL);
  }

  @Test
  void longPollThatFoundNothingIsFollowedByALongPauseUpToAMinute() {
    PollPace resting = new PollPace(INTERVAL, IDLE, 1_000, 50, () -> 0);
    resting.found(rows(0), 1, null);
    assertThat(resting.next(Duration.ofMillis(1))).isLessThan(IDLE);
    resting.found(rows(0), 1, null);
    assertThat(resting.next(Duration.ofMillis(100))).isEqualTo(Duration.ofSeconds(5));
    resting.found(rows(0), 1, null);
    assertThat(resting.next(Duration.ofSeconds(9))).isEqualTo(Duration.ofMinutes(1));
    resting.found(rows(1), 1, null);
    assertThat(resting.next(Duration.ofSeconds(9))).isZero();
    // A poll that waited in vain for a database that is away.
    assertThat(resting.next(Duration.ofSeconds(9))).isLessThan(IDLE);
  }

  @Test
  void upToAQuarterOfAPauseIsLeftOutAtRandom() {
    PollPace shortest = new PollPace(INTERVAL, IDLE, 1_000, 0, () -> 1);
    shortest.found(rows(1), 500, null);
    assertThat(shortest.next(Duration.ZERO)).isEqualTo(INTERVAL.multipliedBy(3).dividedBy(4));
    for (int poll = 0; poll < 20; poll++) {
      shortest.next(Duration.ZERO);
    }
    assertThat(shortest.next(Duration.ZERO)).isEqualTo(IDLE.multipliedBy(3).dividedBy(4));
  }

  @Test
  void keysThatAreLeftAreLookedAtSoonAlsoWhenThoseBeforeThemAreBlocked() {
    pace.found(rows(3), 500, "key-600");
    assertThat(pace.next(Duration.ZERO)).isZero();
    pace.found(rows(0), 500, "key-1200");
    assertThat(pace.next(Duration.ZERO)).isEqualTo(INTERVAL);
    pace.found(rows(0), 500, "");
    assertThat(pace.next(Duration.ZERO)).isGreaterThan(INTERVAL);
  }
}
