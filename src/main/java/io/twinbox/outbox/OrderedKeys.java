package io.twinbox.outbox;

import java.sql.Timestamp;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.Map;
import org.apache.camel.Body;
import org.apache.camel.Exchange;
import org.springframework.stereotype.Component;

/**
 * Which ordering keys the next claim looks at.
 *
 * <p>Mostly those that have a row which came due lately, since the floor. Dead rows of what was
 * published before are not read then, however long somebody's transaction keeps vacuum from
 * removing them. The floor rises with each claim.
 *
 * <p>A key of which a claim may have left due rows is held: cut off by the claim's limits, or
 * behind a row in flight, here or at another pod. Each claim looks at it again until nothing is
 * left, whatever the floor.
 *
 * <p>What else lies below the floor is found by a sweep, which goes through all keys from the first
 * to the last, a bounded number with each claim, and remembers the last as the cursor: rows that
 * became visible late, rows behind one that was discarded, and what a pod left that has ended.
 * There is a sweep at the start, when more came due lately or is held than a claim looks at, and
 * else every few seconds; less often when it takes long. After one that found no more than that,
 * claims go by the floor again.
 *
 * <p>All times are the database's; the pod's clock only counts seconds. Serves one route, whose
 * polls do not overlap.
 */
@Component("orderedKeys")
public class OrderedKeys {

  private static final String NONE = "-infinity";
  private static final Duration MARGIN = Duration.ofSeconds(5);

  private final SweepPause pause = new SweepPause();
  private boolean sweeping = true;
  private boolean foundTooMuch;
  private Instant sweepBegan;
  private long sweepTook;
  private String cursor = "";
  private String held = "[]";
  private Instant floor;
  private long askedAt;

  /** The floor of a claim sent now, as PostgreSQL reads it; {@code -infinity} in a sweep. */
  public synchronized String floor() {
    return floorAt(System.nanoTime());
  }

  /** The last key that the sweep has looked at, empty to begin with the first. */
  public synchronized String cursor() {
    return cursor;
  }

  /** The keys that are held, as JSON; the claim bounds how many. */
  public synchronized String held() {
    return held;
  }

  /**
   * Takes what the claim says of itself from the rows of {@code claim-ordered.sql}, and the row
   * without an event, which is there when nothing was claimed, out of them. The exchange's cursor
   * is the new one then.
   */
  public List<Map<String, Object>> advance(
      @Body List<Map<String, Object>> rows, Exchange exchange) {
    exchange.setProperty("cursor", learnAt(rows.get(0), System.nanoTime()));
    return rows.stream().filter(row -> row.get("seq") != null).toList();
  }

  synchronized String floorAt(long nanoTime) {
    askedAt = nanoTime;
    sweeping = sweeping || pause.isOverAt(nanoTime);
    return sweeping ? NONE : floor.toString();
  }

  synchronized String learnAt(Map<String, Object> claim, long nanoTime) {
    Instant lookedAt = ((Timestamp) claim.get("looked_at")).toInstant();
    boolean tooMany = (Boolean) claim.get("too_many");
    held = (String) claim.get("held");
    if (sweeping) {
      if (cursor.isEmpty()) {
        sweepBegan = lookedAt;
        sweepTook = 0;
        foundTooMuch = false;
      }
      sweepTook += nanoTime - askedAt;
      foundTooMuch |= tooMany;
      String last = (String) claim.get("cursor");
      cursor = last == null ? "" : last;
      if (cursor.isEmpty() && !foundTooMuch) {
        sweeping = false;
        floor = sweepBegan.minus(MARGIN);
        pause.begin(nanoTime, sweepTook);
      }
    } else if (tooMany) {
      sweeping = true;
    } else {
      floor = lookedAt.minus(MARGIN);
    }
    return cursor;
  }
}
