package io.twinbox.operate;

import io.opentelemetry.exporter.internal.FailedExportException.HttpExportException;
import io.opentelemetry.sdk.common.CompletableResultCode;
import io.opentelemetry.sdk.trace.data.SpanData;
import io.opentelemetry.sdk.trace.export.SpanExporter;
import io.twinbox.config.Causes;
import java.net.ConnectException;
import java.time.Duration;
import java.util.Collection;
import java.util.concurrent.atomic.AtomicLong;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Says in one line, at most once a minute, that the collector takes no spans. OpenTelemetry's own
 * exporter says it with a stack trace, and five times before it says it less often; its logger is
 * off (application.properties).
 */
final class LostSpans implements SpanExporter {

  private static final Logger log = LoggerFactory.getLogger("io.twinbox.operate");
  private static final Duration PAUSE = Duration.ofMinutes(1);

  private final SpanExporter exporter;
  private final AtomicLong lost = new AtomicLong();
  private final AtomicLong nextLine = new AtomicLong(System.nanoTime());

  LostSpans(SpanExporter exporter) {
    this.exporter = exporter;
  }

  @Override
  public CompletableResultCode export(Collection<SpanData> spans) {
    int number = spans.size();
    CompletableResultCode result = exporter.export(spans);
    result.whenComplete(
        () -> {
          if (!result.isSuccess()) {
            say(number, result.getFailureThrowable());
          }
        });
    return result;
  }

  private void say(int number, Throwable failure) {
    lost.addAndGet(number);
    long next = nextLine.get();
    long now = System.nanoTime();
    if (now - next >= 0 && nextLine.compareAndSet(next, now + PAUSE.toNanos())) {
      log.warn(
          "{} spans were lost since the last such line, because the collector did not take them: {}. Events go on. Check OTEL_EXPORTER_OTLP_ENDPOINT and OTEL_EXPORTER_OTLP_HEADERS (docs/traces.md).",
          lost.getAndSet(0),
          reason(failure));
    }
  }

  private static String reason(Throwable failure) {
    if (failure instanceof HttpExportException refused && refused.getResponse() != null) {
      return "HTTP %d".formatted(refused.getResponse().statusCode());
    }
    if (Causes.any(failure, ConnectException.class::isInstance)) {
      return "it cannot be reached";
    }
    return failure == null ? "no reason is given" : Causes.describe(failure);
  }

  @Override
  public CompletableResultCode flush() {
    return exporter.flush();
  }

  @Override
  public CompletableResultCode shutdown() {
    return exporter.shutdown();
  }

  @Override
  public String toString() {
    return exporter.toString();
  }
}
