package io.twinbox.local.pubsub;

import java.util.Comparator;
import java.util.HashMap;
import java.util.Map;
import java.util.TreeSet;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledFuture;
import java.util.concurrent.TimeUnit;
import java.util.function.LongConsumer;

/**
 * What waits for a time to come: leases for their ack deadline, failed messages for their backoff.
 * Guarded by its queue's lock.
 *
 * <p>Sorted by time, with one timer armed for the earliest: neither a thread per message nor a look
 * at all of them.
 */
final class LeaseTable {
  private final Map<String, Entry> byAckId = new HashMap<>();
  private final TreeSet<Entry> byTime =
      new TreeSet<>(
          Comparator.<Entry>comparingLong(entry -> entry.wakeAtNanos)
              .thenComparingLong(entry -> entry.position));
  private final ScheduledExecutorService timer;
  private final LongConsumer onDue;
  private ScheduledFuture<?> armed;
  private long armedForNanos;
  private long generation;

  /**
   * @param onDue run on the timer's thread, without the lock, when something is due; what it is
   *     given is for {@link #disarmed}
   */
  LeaseTable(ScheduledExecutorService timer, LongConsumer onDue) {
    this.timer = timer;
    this.onDue = onDue;
  }

  /** Null when the id was never given out, or its lease is over. */
  Entry find(String ackId) {
    return byAckId.get(ackId);
  }

  void lease(Entry entry, String ackId, long untilNanos) {
    entry.state = Entry.State.LEASED;
    entry.ackId = ackId;
    entry.wakeAtNanos = untilNanos;
    byAckId.put(ackId, entry);
    byTime.add(entry);
  }

  void extend(Entry entry, long untilNanos) {
    byTime.remove(entry);
    entry.wakeAtNanos = untilNanos;
    byTime.add(entry);
  }

  /** Ends a lease; its ack id means nothing from now on. */
  void end(Entry entry) {
    byTime.remove(entry);
    byAckId.remove(entry.ackId);
    entry.ackId = null;
    entry.receiver.settled(entry.bytes);
    entry.receiver = null;
  }

  void waitUntil(Entry entry, long untilNanos) {
    entry.state = Entry.State.WAITING;
    entry.wakeAtNanos = untilNanos;
    byTime.add(entry);
  }

  /** The next entry whose time has come, or null. A WAITING one is taken out. */
  Entry due(long nowNanos) {
    if (byTime.isEmpty() || byTime.first().wakeAtNanos - nowNanos > 0) {
      return null;
    }
    Entry entry = byTime.first();
    if (entry.state == Entry.State.WAITING) {
      byTime.pollFirst();
    }
    return entry;
  }

  /** Sets the timer for the earliest time. A timer that turns out too early just sets the next. */
  void arm(long nowNanos) {
    if (byTime.isEmpty()) {
      return;
    }
    long earliest = byTime.first().wakeAtNanos;
    if (armed != null) {
      if (armedForNanos - earliest <= 0) {
        return;
      }
      armed.cancel(false);
    }
    armedForNanos = earliest;
    long mine = ++generation;
    armed =
        timer.schedule(
            () -> onDue.accept(mine), Math.max(0, earliest - nowNanos), TimeUnit.NANOSECONDS);
  }

  /** A timer has run. One that was replaced while it waited for the lock changes nothing. */
  void disarmed(long which) {
    if (which == generation) {
      armed = null;
    }
  }

  void clear() {
    if (armed != null) {
      armed.cancel(false);
    }
    byAckId.clear();
    byTime.clear();
  }
}
