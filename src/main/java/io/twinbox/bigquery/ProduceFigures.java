package io.twinbox.bigquery;

import java.time.Instant;
import java.util.Map;
import java.util.concurrent.atomic.AtomicLong;
import org.springframework.stereotype.Component;

/**
 * What produce has done since this process started, for whoever measures it; safe to read from any
 * thread at any time. Counts only grow. Rows are counted chunk by chunk, bytes and slot time when a
 * query job ends.
 */
@Component("produceFigures")
public class ProduceFigures {

  private final AtomicLong succeededRuns = new AtomicLong();
  private final AtomicLong failedRuns = new AtomicLong();
  private final AtomicLong read = new AtomicLong();
  private final AtomicLong queued = new AtomicLong();
  private final AtomicLong changed = new AtomicLong();
  private final AtomicLong revived = new AtomicLong();
  private final AtomicLong rejected = new AtomicLong();
  private final AtomicLong bytesProcessed = new AtomicLong();
  private final AtomicLong bytesBilled = new AtomicLong();
  private final AtomicLong slotMillis = new AtomicLong();
  private final AtomicLong jobs = new AtomicLong();
  private volatile Instant lastSuccess;
  private volatile long backfillSteps;
  private volatile long backfillStepsDone;
  private volatile long backfillBytesBilled;

  void chunk(Map<String, Object> counts) {
    add(read, counts, "read");
    add(queued, counts, "queued");
    add(changed, counts, "changed");
    add(revived, counts, "revived");
    add(rejected, counts, "rejected");
  }

  private static void add(AtomicLong sum, Map<String, Object> counts, String name) {
    sum.addAndGet(((Number) counts.get(name)).longValue());
  }

  void jobEnded(long processed, long billed, long slots) {
    jobs.incrementAndGet();
    bytesProcessed.addAndGet(processed);
    bytesBilled.addAndGet(billed);
    slotMillis.addAndGet(slots);
  }

  void runEnded(boolean succeeded) {
    if (succeeded) {
      lastSuccess = Instant.now();
      succeededRuns.incrementAndGet();
    } else {
      failedRuns.incrementAndGet();
    }
  }

  /**
   * @param progress the row of {@code backfill-progress.sql}
   */
  void backfill(Map<String, Object> progress) {
    backfillSteps = ((Number) progress.get("steps")).longValue();
    backfillStepsDone = ((Number) progress.get("steps_done")).longValue();
    backfillBytesBilled = ((Number) progress.get("bytes_billed")).longValue();
  }

  /** Runs that ended well, each step of a backfill among them. */
  public long succeededRuns() {
    return succeededRuns.get();
  }

  /** Runs that were entered and failed. */
  public long failedRuns() {
    return failedRuns.get();
  }

  /** When a run last ended well, by this machine's clock; null before the first. */
  public Instant lastSuccess() {
    return lastSuccess;
  }

  /** Rows that BigQuery gave and that are dealt with: queued, known already, or rejected. */
  public long rowsRead() {
    return read.get();
  }

  /** New events in the outbox. */
  public long rowsQueued() {
    return queued.get();
  }

  /** Rows that are known under their key with another payload. */
  public long rowsChanged() {
    return changed.get();
  }

  /** Dead events that took a corrected payload. */
  public long rowsRevived() {
    return revived.get();
  }

  /** Rows that the outbox refused. */
  public long rowsRejected() {
    return rejected.get();
  }

  /** Query jobs that ended, well or not. */
  public long jobs() {
    return jobs.get();
  }

  /** Bytes that query jobs processed. */
  public long bytesProcessed() {
    return bytesProcessed.get();
  }

  /** Bytes that query jobs were billed. */
  public long bytesBilled() {
    return bytesBilled.get();
  }

  /** Slot time of query jobs, milliseconds. */
  public long slotMillis() {
    return slotMillis.get();
  }

  /** Steps of the backfill that this process works on, over all processes; 0 when there is none. */
  public long backfillSteps() {
    return backfillSteps;
  }

  /** Steps of that backfill that are done. */
  public long backfillStepsDone() {
    return backfillStepsDone;
  }

  /** Bytes that backfill was billed so far, over all processes. */
  public long backfillBytesBilled() {
    return backfillBytesBilled;
  }
}
