package io.twinbox.pubsub;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;

class SubscriberBackoffTest {

  private final SubscriberBackoff backoff = new SubscriberBackoff();
  private final AtomicInteger asked = new AtomicInteger();

  /** Whether the next one is started, when it is no longer wanted at the second look. */
  private boolean startsAtOnce() {
    asked.set(0);
    return backoff.beforeNext(() -> asked.incrementAndGet() < 2);
  }

  @Test
  void subscriberThatFailedSoonIsFollowedByAPauseThatAStopEnds() {
    assertThat(startsAtOnce()).isTrue();
    backoff.failed();
    // It waited, and saw that it was no longer wanted.
    assertThat(startsAtOnce()).isFalse();
    assertThat(asked).hasValueGreaterThan(1);
  }

  @Test
  void subscriberThatWasStoppedIsFollowedAtOnce() {
    assertThat(startsAtOnce()).isTrue();
    assertThat(startsAtOnce()).isTrue();
    backoff.failed();
    assertThat(startsAtOnce()).isFalse();
    // The failure is forgotten.
    assertThat(startsAtOnce()).isTrue();
  }
}
