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
 * removing them. The floor rises with each claim that left nothing behind of what it looked at.
 *
 * <p>What lies below the floor is found by a sweep, which goes through all keys from the first to
 * the last, a bounded number with each claim, and remembers the last as the cursor: rows that
 * became visible late, and rows whose key was held up by another row that has left meanwhile. There
 * is a sweep at the start, when more came due lately than a claim looks at, and else every few
 * seconds; less often when it takes long. After one that left nothing behind, claims go by the
 * floor again.
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
  private boolean leftNothing;
  private Instant sweepBegan;
  private long sweepTook;
  private String cursor = "";
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
    boolean complete = (Boolean) claim.get("complete");
    if (sweeping) {
      if (cursor.isEmpty()) {
        sweepBegan = lookedAt;
        sweepTook = 0;
        leftNothing = true;
      }
      sweepTook += nanoTime - askedAt;
      leftNothing &= complete;
      String last = (String) claim.get("cursor");
      cursor = last == null ? "" : last;
      if (cursor.isEmpty() && leftNothing) {
        sweeping = false;
        floor = sweepBegan.minus(MARGIN);
        pause.begin(nanoTime, sweepTook);
      }
    } else if (complete) {
      floor = lookedAt.minus(MARGIN);
    } else if ((Boolean) claim.get("too_many")) {
      sweeping = true;
    }
    return cursor;
  }
}
