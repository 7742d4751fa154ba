package io.twinbox.operate;

import io.micrometer.core.instrument.Counter;
import io.micrometer.core.instrument.FunctionCounter;
import io.micrometer.core.instrument.MeterRegistry;
import io.twinbox.bigquery.ProduceFigures;
import java.util.Map;
import java.util.Set;
import org.apache.camel.Exchange;
import org.springframework.context.annotation.Conditional;
import org.springframework.stereotype.Component;

/**
 * Counts what the runs of this process did. A run that is a job of its own ends before anybody asks
 * it: for those {@link DatabaseSampler} reads {@code produce_run}.
 */
@Component
@Conditional(OnRouteSet.Produce.class)
class ProduceMeters implements StepObserver {

  private static final String ENDED = "produce-end";
  static final Set<String> ROWS = Set.of("read", "queued", "changed", "revived", "rejected");

  private final MeterRegistry registry;

  ProduceMeters(MeterRegistry registry, ProduceFigures figures) {
    this.registry = registry;
    FunctionCounter.builder(
            "twinbox.produce.bytes.processed", figures, ProduceFigures::bytesProcessed)
        .description("Bytes that the query jobs processed")
        .register(registry);
    FunctionCounter.builder("twinbox.produce.slot", figures, f -> f.slotMillis() / 1000.0)
        .description("Slot time of the query jobs")
        .baseUnit("seconds")
        .register(registry);
    FunctionCounter.builder("twinbox.produce.jobs", figures, ProduceFigures::jobs)
        .description("Query jobs that ended, well or not")
        .register(registry);
    ROWS.forEach(this::rows);
    runs("succeeded");
    runs("failed");
    billed();
  }

  private Counter rows(String outcome) {
    return Counter.builder("twinbox.produce.rows")
        .description("Rows of the query by what became of them")
        .tag("outcome", outcome)
        .register(registry);
  }

  private Counter runs(String outcome) {
    return Counter.builder("twinbox.produce.runs")
        .description("Runs that ended")
        .tag("outcome", outcome)
        .register(registry);
  }

  private Counter billed() {
    return Counter.builder("twinbox.produce.bytes.billed")
        .description("Bytes that BigQuery billed")
        .register(registry);
  }

  @Override
  public boolean observes(String stepId) {
    return stepId.equals(ENDED);
  }

  @Override
  public void after(String stepId, Exchange exchange, long nanos) {
    if (exchange.getMessage().getBody() instanceof Map<?, ?> run) {
      runs((String) run.get("state")).increment();
      ROWS.forEach(name -> rows(name).increment(number(run.get(name))));
      billed().increment(number(run.get("bytesBilled")));
    } else {
      // It never began: no price, no day's money, no watermark.
      runs("failed").increment();
    }
  }

  private static double number(Object value) {
    return value instanceof Number number ? number.doubleValue() : 0;
  }
}
