package io.twinbox.pubsub;

import java.time.Duration;
import java.time.Instant;
import java.util.concurrent.locks.LockSupport;

/**
 * Spaces out new subscribers while they keep failing. Camel's consumer starts the next at once (44
 * in 4 seconds were seen while a subscription was missing): from half a second the pause doubles to
 * half a minute, and is forgotten after a subscriber that lasted a minute.
 */
final class SubscriberBackoff {

  private static final Duration FIRST = Duration.ofMillis(500);
  private static final Duration LONGEST = Duration.ofSeconds(30);
  private static final Duration LASTED = Duration.ofMinutes(1);

  private Instant lastStart;
  private Duration pause = Duration.ZERO;

  /**
   * Returns at once for the first subscriber, else after the pause, or when the thread is
   * interrupted.
   */
  synchronized void beforeNext() {
    Instant now = Instant.now();
    if (lastStart == null || Duration.between(lastStart, now).compareTo(LASTED) > 0) {
      pause = Duration.ZERO;
    } else {
      pause = pause.isZero() ? FIRST : pause.multipliedBy(2);
      pause = pause.compareTo(LONGEST) > 0 ? LONGEST : pause;
      LockSupport.parkNanos(pause.toNanos());
    }
    lastStart = Instant.now();
  }
}
