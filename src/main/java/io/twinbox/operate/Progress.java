package io.twinbox.operate;

import io.micrometer.core.instrument.Gauge;
import io.micrometer.core.instrument.MeterRegistry;
import io.twinbox.config.TwinboxProperties;
import io.twinbox.inbox.DatabaseTrouble;
import io.twinbox.pubsub.PublishGate;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.ConcurrentHashMap;
import java.util.function.LongSupplier;
import org.apache.camel.CamelContext;
import org.apache.camel.Exchange;
import org.apache.camel.ServiceStatus;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.boot.actuate.health.Health;
import org.springframework.boot.actuate.health.HealthIndicator;
import org.springframework.context.annotation.Lazy;
import org.springframework.stereotype.Component;

/**
 * The health entry {@code progress}, part of liveness: down when a stage has work and a thread of
 * it has come to no end for {@code twinbox.operate.stuck-after}, which only a restart cures. It
 * judges nothing while the database, the topic or an operator is what holds the stage up.
 */
@Component("progressHealthIndicator")
class Progress implements HealthIndicator, StepObserver {

  /** The first step of every poll, by its route. */
  private static final Map<String, String> POLLS =
      Map.of(
          "dispatch-limit", "dispatch",
          "dispatch-ordered-limit", "dispatch-ordered",
          "dispatch-suspects-limit", "dispatch-suspects");

  private final TwinboxProperties properties;
  private final CamelContext camelContext;
  private final DatabaseSampler sampler;
  private final PublishGate gate;
  private final Optional<ConsumeMeters> messages;
  private final DatabaseTrouble database;
  private final String topic;
  private volatile LongSupplier nanoTime = System::nanoTime;
  private final Map<String, Long> polledAt = new ConcurrentHashMap<>();

  Progress(
      TwinboxProperties properties,
      @Lazy CamelContext camelContext,
      @Lazy DatabaseSampler sampler,
      PublishGate gate,
      Optional<ConsumeMeters> messages,
      DatabaseTrouble database,
      MeterRegistry registry,
      @Value("${topic.name}") String topic) {
    this.properties = properties;
    this.camelContext = camelContext;
    this.sampler = sampler;
    this.gate = gate;
    this.messages = messages;
    this.database = database;
    this.topic = topic;
    for (String stage : List.of("dispatch", "consume")) {
      if (properties.routeSets().contains(stage)) {
        Gauge.builder(
                "twinbox.stuck",
                this,
                p -> p.stuck().stream().anyMatch(s -> s.startsWith(stage)) ? 1 : 0)
            .description("1 while a stage has work and does not get on with it")
            .tag("stage", stage)
            .register(registry);
      }
    }
  }

  /** Another clock than {@link System#nanoTime}, to see hours pass. */
  void clock(LongSupplier clock) {
    nanoTime = clock;
  }

  @Override
  public boolean observes(String stepId) {
    return POLLS.containsKey(stepId);
  }

  @Override
  public void after(String stepId, Exchange exchange, long nanos) {
    polledAt.put(POLLS.get(stepId), nanoTime.getAsLong());
  }

  @Override
  public Health health() {
    List<String> stuck = stuck();
    return stuck.isEmpty() ? Health.up().build() : Health.down().withDetail("stuck", stuck).build();
  }

  /** What is stuck, each beginning with the route's name. */
  List<String> stuck() {
    List<String> stuck = new ArrayList<>();
    Duration limit = properties.operate().stuckAfter();
    DatabaseSample sample = sampler.sample();
    // Without a fresh look at the database nobody knows of work, and the database may be the
    // reason.
    if (sample == null || sampler.ageSeconds() > limit.toSeconds()) {
      return stuck;
    }
    if (gate.trouble() == null
        && sample.topic(topic, "due") > 0
        && sample.topic(topic, "oldest_due_seconds") > limit.toSeconds()) {
      polledAt.forEach(
          (route, at) -> {
            if (started(route) && nanoTime.getAsLong() - at > limit.toNanos()) {
              stuck.add(
                  "%s: %.0f events are due, and it has not looked for any for %d s"
                      .formatted(
                          route, sample.topic(topic, "due"), seconds(nanoTime.getAsLong() - at)));
            }
          });
    }
    messages.ifPresent(
        m -> {
          Duration lease = properties.consume().maxLease();
          Duration longest = lease.compareTo(limit) > 0 ? lease : limit;
          long quiet = nanoTime.getAsLong() - Math.max(m.finishedAt(), m.startedAt());
          if (m.inHand() > 0
              && database.waiting() == 0
              && started("consume")
              && quiet > longest.toNanos()) {
            stuck.add(
                "consume: %d messages are in hand, and none has come to an end for %d s"
                    .formatted(m.inHand(), seconds(quiet)));
          }
        });
    return stuck;
  }

  private boolean started(String route) {
    return camelContext.getRouteController().getRouteStatus(route) == ServiceStatus.Started;
  }

  private static long seconds(long nanos) {
    return Duration.ofNanos(nanos).toSeconds();
  }
}
