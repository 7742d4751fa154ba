package io.twinbox.operate;

import io.opentelemetry.sdk.autoconfigure.spi.ConfigProperties;
import io.opentelemetry.sdk.autoconfigure.spi.traces.ConfigurableSpanExporterProvider;
import io.opentelemetry.sdk.testing.exporter.InMemorySpanExporter;
import io.opentelemetry.sdk.trace.export.SpanExporter;

/** OpenTelemetry's exporter {@code memory}: spans go where a test reads them. */
public final class SpansInMemory implements ConfigurableSpanExporterProvider {

  private static volatile InMemorySpanExporter newest;

  @Override
  public SpanExporter createExporter(ConfigProperties config) {
    newest = InMemorySpanExporter.create();
    return newest;
  }

  @Override
  public String getName() {
    return "memory";
  }

  /** Of the instance that was started last. */
  static InMemorySpanExporter newest() {
    return newest;
  }
}
