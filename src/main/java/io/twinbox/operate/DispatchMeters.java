package io.twinbox.operate;

import io.micrometer.core.instrument.Counter;
import io.micrometer.core.instrument.DistributionSummary;
import io.micrometer.core.instrument.Gauge;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.Timer;
import io.twinbox.pubsub.PublishGate;
import io.twinbox.pubsub.PublishOutcome;
import java.sql.Timestamp;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.apache.camel.Exchange;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.context.annotation.Conditional;
import org.springframework.stereotype.Component;

/**
 * Counts what dispatch claims and what becomes of it. docs/metrics.md says what each figure means.
 */
@Component
@Conditional(OnRouteSet.Dispatch.class)
class DispatchMeters implements StepObserver, DatabaseSampler.RateSource {

  private static final Logger log = LoggerFactory.getLogger("io.twinbox.dispatch");

  /** Of one claim: all are in {@code pubsub_outbox_status}. */
  private static final int MOST_LINES = 10;

  private static final String UNORDERED_CLAIM = "dispatch-learn-floor";
  private static final String ORDERED_CLAIM = "dispatch-ordered-advance";
  private static final String PUBLISHED = "publish-learn";
  private static final String NOT_SENT = "publish-release";
  private static final String SETTLED = "publish-settle";

  private final MeterRegistry registry;
  private final String topic;
  private final DistributionSummary claimRows;
  private final DistributionSummary batchFill;
  private final Timer age;
  private final Counter published;
  private final Rate publishedRate;
  private volatile String lastError;

  DispatchMeters(MeterRegistry registry, PublishGate gate, @Value("${topic.name}") String topic) {
    this.registry = registry;
    this.topic = topic;
    claimRows =
        DistributionSummary.builder("twinbox.dispatch.claim.rows")
            .description("Events of a claim that found any")
            .register(registry);
    batchFill =
        DistributionSummary.builder("twinbox.dispatch.batch.fill")
            .description("Events of a claim that found any, as a share of what it might take")
            .register(registry);
    age =
        Ages.timer(
            registry, "twinbox.dispatch.age", "From an event's transaction until Pub/Sub has it");
    for (String outcome : new String[] {"published", "waiting", "dead", "released"}) {
      events(outcome);
    }
    failures("message", "INVALID_ARGUMENT");
    published = events("published");
    publishedRate = new Rate(published::count);
    Gauge.builder("twinbox.dispatch.circuit.open", gate, g -> g.trouble() == null ? 0 : 1)
        .description("1 while the topic takes no messages or has no subscription")
        .register(registry);
  }

  private Counter events(String outcome) {
    return Counter.builder("twinbox.dispatch.events")
        .description("Events by what became of their claim")
        .tag("outcome", outcome)
        .register(registry);
  }

  private Counter failures(String cause, String code) {
    return Counter.builder("twinbox.dispatch.failures")
        .description("Events that a call to Pub/Sub did not publish, by whose fault it was")
        .tag("class", cause)
        .tag("code", code)
        .register(registry);
  }

  @Override
  public boolean observes(String stepId) {
    return Set.of(UNORDERED_CLAIM, ORDERED_CLAIM, PUBLISHED, NOT_SENT, SETTLED).contains(stepId);
  }

  @Override
  public void after(String stepId, Exchange exchange, long nanos) {
    if (exchange.getException() != null) {
      return;
    }
    Object body = exchange.getMessage().getBody();
    switch (stepId) {
      case UNORDERED_CLAIM, ORDERED_CLAIM -> claimed((List<?>) body, exchange);
      case PUBLISHED, NOT_SENT ->
          answered(outcomes(body), rows(exchange.getProperty("rows", List.class)));
      default -> settled((Map<?, ?>) body);
    }
  }

  private void claimed(List<?> rows, Exchange exchange) {
    if (!rows.isEmpty()) {
      claimRows.record(rows.size());
      int limit = exchange.getProperty("claimLimit", 1, Integer.class);
      batchFill.record((double) rows.size() / Math.max(1, limit));
    }
  }

  private void answered(List<PublishOutcome> outcomes, List<Map<String, Object>> rows) {
    int said = 0;
    for (int i = 0; i < outcomes.size(); i++) {
      PublishOutcome outcome = outcomes.get(i);
      if (outcome.kind() == PublishOutcome.Kind.PUBLISHED) {
        if (rows.get(i).get("created_at") instanceof Timestamp created) {
          age.record(Ages.since(created.getTime()));
        }
      } else {
        failures(outcome.faultClass(), outcome.code()).increment();
        if (outcome.error() != null) {
          lastError = outcome.error();
        }
        if (outcome.kind() == PublishOutcome.Kind.REFUSED && ++said <= MOST_LINES) {
          sayRefused(rows.get(i), outcome);
        }
      }
    }
  }

  private void sayRefused(Map<String, Object> row, PublishOutcome outcome) {
    int attempt = ((Number) row.get("attempts")).intValue() + 1;
    log.atInfo()
        .addKeyValue("outbox_id", row.get("id"))
        .addKeyValue("topic", topic)
        .addKeyValue("attempt", attempt)
        .log("Event {} was refused, attempt {}: {}", row.get("id"), attempt, outcome.error());
  }

  private void settled(Map<?, ?> counts) {
    counts.forEach(
        (outcome, count) -> events((String) outcome).increment(((Number) count).doubleValue()));
  }

  /** What Pub/Sub or the network said of the last event that was not published, or null. */
  String lastError() {
    return lastError;
  }

  Rate publishedRate() {
    return publishedRate;
  }

  @SuppressWarnings("unchecked")
  private static List<PublishOutcome> outcomes(Object body) {
    return (List<PublishOutcome>) body;
  }

  @SuppressWarnings("unchecked")
  private static List<Map<String, Object>> rows(Object property) {
    return (List<Map<String, Object>>) property;
  }

  @Override
  public List<Rate> rates() {
    return List.of(publishedRate);
  }
}
