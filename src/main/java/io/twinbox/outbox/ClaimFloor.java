package io.twinbox.outbox;

import io.twinbox.config.TwinboxProperties;
import java.sql.Timestamp;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import org.apache.camel.Body;
import org.apache.camel.ExchangeProperty;
import org.springframework.beans.factory.annotation.Autowired;
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
 * <p>A claim that was full is followed by one that begins where it ended, without the margin. Rows
 * of a backlog came due within seconds of one another, and each claim would read again what the
 * claims before it took. What lies in the margin comes when claims are no longer full.
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
  private final long batchBytes;
  private boolean sweeping;

  @Autowired
  ClaimFloor(TwinboxProperties properties) {
    this(properties.dispatch().batchBytes());
  }

  /**
   * @param batchBytes payload bytes with which a claim is full
   */
  ClaimFloor(long batchBytes) {
    this.batchBytes = batchBytes;
  }

  /** The floor of a claim sent now, as PostgreSQL reads it. */
  public synchronized String next() {
    return nextAt(System.nanoTime());
  }

  /**
   * Takes the floor from the rows of {@code claim.sql}.
   *
   * @param limit how many rows the claim might take
   */
  public synchronized void learn(
      @Body List<Map<String, Object>> rows, @ExchangeProperty("claimLimit") int limit) {
    learnAt(rows, limit, System.nanoTime());
  }

  String nextAt(long nanoTime) {
    askedAt = nanoTime;
    sweeping = floor == null || pause.isOverAt(nanoTime);
    if (sweeping) {
      pause.begin(nanoTime, 0);
    }
    return sweeping ? NONE : floor.toString();
  }

  void learnAt(List<Map<String, Object>> rows, int limit, long nanoTime) {
    if (sweeping) {
      pause.begin(askedAt, nanoTime - askedAt);
    }
    if (!rows.isEmpty()) {
      databaseTime = instant(rows.get(0).get("claimed_at"));
      seenAt = nanoTime;
      Instant last = instant(rows.get(0).get("last_due_at"));
      boolean full = rows.size() >= limit || PollPace.bytes(rows) >= batchBytes;
      floor = full ? last : last.minus(MARGIN);
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
