package io.twinbox.operate;

import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.Timer;
import java.time.Duration;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;
import org.apache.camel.Exchange;
import org.springframework.stereotype.Component;

/** How long the steps take that wait for the database, for Google or for the topic's handler. */
@Component
class StepTimes implements StepObserver {

  /** The ids are part of the metrics: never rename one. */
  static final Set<String> STEPS =
      Set.of(
          "dispatch-claim",
          "dispatch-ordered-claim",
          "publish-send",
          "publish-settle",
          "consume-apply-once",
          "apply-handle",
          "consume-count-failure",
          "bury-store",
          "inbox-replay-letter",
          "produce-price",
          "produce-query",
          "produce-queue",
          "maintain-delete");

  private static final Duration[] BUCKETS = {
    Duration.ofMillis(5),
    Duration.ofMillis(20),
    Duration.ofMillis(100),
    Duration.ofMillis(500),
    Duration.ofSeconds(2),
    Duration.ofSeconds(10),
    Duration.ofSeconds(30)
  };

  private final MeterRegistry registry;
  private final Map<String, Timer> timers = new ConcurrentHashMap<>();

  StepTimes(MeterRegistry registry) {
    this.registry = registry;
  }

  @Override
  public boolean observes(String stepId) {
    return STEPS.contains(stepId);
  }

  @Override
  public void after(String stepId, Exchange exchange, long nanos) {
    String outcome = exchange.getException() == null ? "ok" : "failed";
    timers
        .computeIfAbsent(
            stepId + " " + outcome,
            key ->
                Timer.builder("twinbox.step")
                    .description("How long a step of the routes took")
                    .tag("step", stepId)
                    .tag("outcome", outcome)
                    .serviceLevelObjectives(BUCKETS)
                    .register(registry))
        .record(nanos, TimeUnit.NANOSECONDS);
  }
}
