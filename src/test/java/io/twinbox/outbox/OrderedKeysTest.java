package io.twinbox.outbox;

import static org.assertj.core.api.Assertions.assertThat;

import java.sql.Timestamp;
import java.time.Instant;
import java.util.HashMap;
import java.util.Map;
import org.junit.jupiter.api.Test;

/** At which keys ordered claims look, by a clock of the test's. */
class OrderedKeysTest {

  private static final Instant NOON = Instant.parse("2026-01-01T12:00:00Z");
  private static final long SECOND = 1_000_000_000L;
  private static final String NONE = "-infinity";

  private final OrderedKeys keys = new OrderedKeys();

  private enum Found {
    ALL,
    TOO_MANY
  }

  /** A claim that looks at a second of the test's clock, and takes some nanoseconds. */
  private String claim(int second, String cursor, Found found, long took) {
    String floor = keys.floorAt(second * SECOND);
    Map<String, Object> row = new HashMap<>();
    row.put("looked_at", Timestamp.from(NOON.plusSeconds(second)));
    row.put("cursor", cursor);
    row.put("held", "[\"seen in second %d\"]".formatted(second));
    row.put("too_many", found == Found.TOO_MANY);
    keys.learnAt(row, second * SECOND + took);
    return floor;
  }

  private String claim(int second, String cursor, Found found) {
    return claim(second, cursor, found, 1);
  }

  private static String margin(int second) {
    return NOON.plusSeconds(second - 5).toString();
  }

  @Test
  void atTheStartAllKeysAreLookedAt() {
    assertThat(claim(0, "key-600", Found.ALL)).isEqualTo(NONE);
    assertThat(keys.cursor()).isEqualTo("key-600");
    assertThat(claim(1, null, Found.ALL)).isEqualTo(NONE);
    assertThat(keys.cursor()).isEmpty();
    // What came due while it looked at the later keys may be of the earlier ones.
    assertThat(claim(2, null, Found.ALL)).isEqualTo(margin(0));
  }

  @Test
  void heldKeysGoFromClaimToClaim() {
    assertThat(keys.held()).isEqualTo("[]");
    claim(0, "key-600", Found.ALL);
    assertThat(keys.held()).isEqualTo("[\"seen in second 0\"]");
    claim(1, null, Found.ALL);
    claim(2, null, Found.ALL);
    assertThat(keys.held()).isEqualTo("[\"seen in second 2\"]");
  }

  @Test
  void sweepThatFoundTooMuchIsFollowedByAnother() {
    assertThat(claim(0, "key-600", Found.TOO_MANY)).isEqualTo(NONE);
    assertThat(claim(1, null, Found.ALL)).isEqualTo(NONE);
    assertThat(claim(2, null, Found.ALL)).isEqualTo(NONE);
    assertThat(claim(3, null, Found.ALL)).isEqualTo(margin(2));
  }

  @Test
  void floorRisesWithClaims() {
    claim(0, null, Found.ALL);
    assertThat(claim(1, null, Found.ALL)).isEqualTo(margin(0));
    assertThat(claim(2, null, Found.ALL)).isEqualTo(margin(1));
  }

  @Test
  void moreThanAClaimLooksAtIsSwept() {
    claim(0, null, Found.ALL);
    claim(1, null, Found.TOO_MANY);
    assertThat(claim(2, null, Found.ALL)).isEqualTo(NONE);
    assertThat(claim(3, null, Found.ALL)).isEqualTo(margin(2));
  }

  @Test
  void everyFewSecondsAllKeysAreLookedAt() {
    claim(0, null, Found.ALL);
    assertThat(claim(4, null, Found.ALL)).isNotEqualTo(NONE);
    assertThat(claim(6, null, Found.ALL)).isEqualTo(NONE);
    assertThat(claim(7, null, Found.ALL)).isNotEqualTo(NONE);
  }

  /** As behind a pinned vacuum horizon, where a sweep reads all that was published since. */
  @Test
  void aSweepThatTakesLongIsMadeLessOftenButOnceAMinute() {
    claim(0, "key-600", Found.ALL, SECOND / 10);
    claim(1, null, Found.ALL, SECOND / 10);
    assertThat(claim(10, null, Found.ALL)).isNotEqualTo(NONE);
    assertThat(claim(12, null, Found.ALL, 9 * SECOND)).isEqualTo(NONE);
    assertThat(claim(80, null, Found.ALL)).as("60 s after its end").isNotEqualTo(NONE);
    assertThat(claim(81, null, Found.ALL)).isEqualTo(NONE);
  }
}
