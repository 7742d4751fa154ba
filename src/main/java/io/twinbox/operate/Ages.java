package io.twinbox.operate;

import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.Timer;
import java.time.Duration;

/** Timers of how old an event is, from a tenth of a second to a day. */
final class Ages {

  private static final Duration[] BUCKETS = {
    Duration.ofMillis(100),
    Duration.ofMillis(500),
    Duration.ofSeconds(1),
    Duration.ofSeconds(5),
    Duration.ofSeconds(30),
    Duration.ofMinutes(1),
    Duration.ofMinutes(5),
    Duration.ofMinutes(30),
    Duration.ofHours(3),
    Duration.ofDays(1)
  };

  private Ages() {}

  static Timer timer(MeterRegistry registry, String name, String description) {
    return Timer.builder(name)
        .description(description)
        .serviceLevelObjectives(BUCKETS)
        .register(registry);
  }

  /** Clocks of two machines differ: an age is never below zero. */
  static Duration since(long epochMillis) {
    return Duration.ofMillis(Math.max(0, System.currentTimeMillis() - epochMillis));
  }
}
