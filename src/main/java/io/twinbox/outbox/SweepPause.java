package io.twinbox.outbox;

import java.time.Duration;

/**
 * How long there is no sweep after one: five seconds, and more after one that took long, up to a
 * minute. Behind a pinned vacuum horizon a sweep reads all rows that were published since; so
 * sweeps take two per cent of a connection's time, however many these are.
 */
final class SweepPause {

  private static final long SHORTEST = Duration.ofSeconds(5).toNanos();
  private static final long LONGEST = Duration.ofMinutes(1).toNanos();
  private static final int TIMES_THE_SWEEP = 50;

  private long from;
  private long nanos;

  /**
   * @param nanoTime when it begins
   * @param took how long the sweep took, in nanoseconds
   */
  void begin(long nanoTime, long took) {
    from = nanoTime;
    nanos = Math.min(LONGEST, Math.max(SHORTEST, took * TIMES_THE_SWEEP));
  }

  boolean isOverAt(long nanoTime) {
    return nanoTime - from >= nanos;
  }
}
