package io.twinbox.outbox;

import java.sql.Timestamp;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import org.apache.camel.Body;
import org.springframework.stereotype.Component;

/**
 * From which due time on the next claim looks. Rows that left are dead rows in front of the due
 * ones until vacuum takes them away, and while somebody's long transaction keeps vacuum from it,
 * every claim and every empty poll would read all of them.
 *
 * <p>What is due below the floor was there when this pod looked last, and was taken by it or by
 * another pod, unless its transaction was long: its due time is from before its commit. A margin is
 * left for short ones, and every few seconds one claim, the sweep, looks without a floor. The floor
 * follows a sweep down, so that many such rows need one sweep only. A sweep that takes long, as
 * behind a pinned vacuum horizon, is made less often, so that sweeps are a small share of the
 * claims' time however many dead rows there are; then rows below the floor wait for up to a minute.
 *
 * <p>All times are the database's; the pod's clock only counts seconds. Serves one route, whose
 * polls do not overlap.
 */
@Component("claimFloor")
public class ClaimFloor {

  private static final String NONE = "-infinity";
  private static final Duration MARGIN = Duration.ofSeconds(5);

  /** The last time seen on the database's clock, and when, at the latest, that was on ours. */
  private Instant databaseTime;

  private long seenAt;
  private long askedAt;
  private Instant floor;
  private final SweepPause pause = new SweepPause();
  private boolean sweeping;

  /** The floor of a claim sent now, as PostgreSQL reads it. */
  public synchronized String next() {
    return nextAt(System.nanoTime());
  }

  /** Takes the floor from the rows of {@code claim.sql}. */
  public synchronized void learn(@Body List<Map<String, Object>> rows) {
    learnAt(rows, System.nanoTime());
  }

  String nextAt(long nanoTime) {
    askedAt = nanoTime;
    sweeping = floor == null || pause.isOverAt(nanoTime);
    if (sweeping) {
      pause.begin(nanoTime, 0);
    }
    return sweeping ? NONE : floor.toString();
  }

  void learnAt(List<Map<String, Object>> rows, long nanoTime) {
    if (sweeping) {
      pause.begin(askedAt, nanoTime - askedAt);
    }
    if (!rows.isEmpty()) {
      databaseTime = instant(rows.get(0).get("claimed_at"));
      seenAt = nanoTime;
      floor =
          rows.stream()
              .map(row -> instant(row.get("due_at")))
              .max(Instant::compareTo)
              .get()
              .minus(MARGIN);
    } else if (databaseTime != null) {
      // Nothing was due when it was asked: what will be, is due later. Counted short rather than
      // long, so that a claim that took its time leaves nothing out.
      floor = databaseTime.plusNanos(Math.max(0, askedAt - seenAt)).minus(MARGIN);
    }
  }

  private static Instant instant(Object value) {
    return ((Timestamp) value).toInstant();
  }
}
