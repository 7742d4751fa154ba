package io.twinbox.operate;

import io.micrometer.core.instrument.Counter;
import io.micrometer.core.instrument.MeterRegistry;
import org.apache.camel.Exchange;
import org.apache.camel.component.sql.SqlConstants;
import org.springframework.context.annotation.Conditional;
import org.springframework.stereotype.Component;

/** Counts the payloads that retention deletes. */
@Component
@Conditional(OnRouteSet.Maintain.class)
class MaintainMeters implements StepObserver {

  private static final String BATCH_DONE = "maintain-delete";

  private final Counter published;
  private final Counter discarded;

  MaintainMeters(MeterRegistry registry) {
    published = deleted(registry, "published");
    discarded = deleted(registry, "discarded");
  }

  private static Counter deleted(MeterRegistry registry, String kind) {
    return Counter.builder("twinbox.maintain.deleted.payloads")
        .description("Payloads deleted after their retention")
        .tag("kind", kind)
        .register(registry);
  }

  @Override
  public boolean observes(String stepId) {
    return stepId.equals(BATCH_DONE);
  }

  @Override
  public void after(String stepId, Exchange exchange, long nanos) {
    if (exchange.getException() == null) {
      published.increment(exchange.getProperty("published", 0, Integer.class));
      discarded.increment(
          exchange.getMessage().getHeader(SqlConstants.SQL_UPDATE_COUNT, 0, Integer.class));
    }
  }
}
