package io.twinbox.pubsub;

import java.time.Duration;
import java.time.Instant;
import java.util.concurrent.locks.LockSupport;
import java.util.function.BooleanSupplier;

/**
 * Spaces out new subscribers while they keep failing. Camel's consumer starts the next at once (44
 * in 4 seconds were seen while a subscription was missing): from half a second the pause doubles to
 * half a minute, and is forgotten after a subscriber that lasted a minute. One that was stopped has
 * not failed: a route that is started again reads at once.
 */
final class SubscriberBackoff {

  private static final Duration FIRST = Duration.ofMillis(500);
  private static final Duration LONGEST = Duration.ofSeconds(30);
  private static final Duration LASTED = Duration.ofMinutes(1);
  private static final Duration LOOK = Duration.ofMillis(50);

  private volatile boolean failed;
  private Instant lastStart = Instant.MIN;
  private Duration pause = Duration.ZERO;

  /** To be told when a subscriber ends by itself. */
  void failed() {
    failed = true;
  }

  /**
   * Returns at once, or after the pause when the last subscriber failed; earlier when no subscriber
   * is wanted any more.
   *
   * @return whether one is still wanted
   */
  synchronized boolean beforeNext(BooleanSupplier wanted) {
    if (failed && lastStart.plus(LASTED).isAfter(Instant.now())) {
      pause = pause.isZero() ? FIRST : pause.multipliedBy(2);
      pause = pause.compareTo(LONGEST) > 0 ? LONGEST : pause;
      Instant end = Instant.now().plus(pause);
      while (wanted.getAsBoolean()
          && Instant.now().isBefore(end)
          && !Thread.currentThread().isInterrupted()) {
        LockSupport.parkNanos(LOOK.toNanos());
      }
    } else {
      pause = Duration.ZERO;
    }
    failed = false;
    lastStart = Instant.now();
    return wanted.getAsBoolean();
  }
}
