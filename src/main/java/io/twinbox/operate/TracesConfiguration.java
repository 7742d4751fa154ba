package io.twinbox.operate;

import io.opentelemetry.api.common.AttributeKey;
import io.opentelemetry.api.common.Attributes;
import io.opentelemetry.sdk.OpenTelemetrySdk;
import io.opentelemetry.sdk.autoconfigure.AutoConfiguredOpenTelemetrySdk;
import io.opentelemetry.sdk.resources.Resource;
import io.twinbox.config.Causes;
import io.twinbox.config.StartupException;
import io.twinbox.config.TwinboxProperties;
import java.util.HashMap;
import java.util.Map;
import org.springframework.boot.autoconfigure.condition.ConditionalOnProperty;
import org.springframework.boot.context.properties.bind.Bindable;
import org.springframework.boot.context.properties.bind.Binder;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.core.env.Environment;

/**
 * OpenTelemetry, set up by its own settings. Only where traces are on: else none of its SDK is
 * loaded. It is not made the JVM's global one, so Google's clients write no spans of their own.
 */
@Configuration(proxyBeanMethods = false)
@ConditionalOnProperty("twinbox.traces.enabled")
class TracesConfiguration {

  /** What holds unless the {@code OTEL_} variables say otherwise. */
  private static final Map<String, String> DEFAULTS =
      Map.of(
          "otel.service.name", "twinbox",
          "otel.exporter.otlp.protocol", "http/protobuf",
          // A claim of the default size has a link to each of its events; the SDK's 128 would not.
          "otel.span.link.count.limit", "500");

  /** Metrics go to Prometheus, and logs to the console. */
  private static final Map<String, String> FIXED =
      Map.of("otel.metrics.exporter", "none", "otel.logs.exporter", "none");

  /**
   * Closing it sends what is not yet sent, for at most ten seconds.
   *
   * @throws StartupException when a setting cannot be used
   */
  @Bean(destroyMethod = "close")
  OpenTelemetrySdk openTelemetry(Environment environment, TwinboxProperties properties) {
    Map<String, String> settings = new HashMap<>(DEFAULTS);
    Binder.get(environment)
        .bind("otel", Bindable.mapOf(String.class, String.class))
        .ifBound(given -> given.forEach((name, value) -> settings.put("otel." + name, value)));
    Resource instance =
        Resource.create(
            Attributes.of(AttributeKey.stringKey("service.instance.id"), properties.pod()));
    try {
      return AutoConfiguredOpenTelemetrySdk.builder()
          .addPropertiesSupplier(() -> settings)
          .addPropertiesCustomizer(config -> FIXED)
          .addResourceCustomizer((resource, config) -> instance.merge(resource))
          .addSpanExporterCustomizer((exporter, config) -> new LostSpans(exporter))
          .disableShutdownHook()
          .build()
          .getOpenTelemetrySdk();
    } catch (RuntimeException e) {
      throw new StartupException(
          "Traces are on (TWINBOX_TRACES_ENABLED), and OpenTelemetry refuses its settings: %s"
              .formatted(Causes.describe(e)),
          "Correct the OTEL_ variable; docs/traces.md has those that matter. OTLP goes by http/protobuf here, so OTEL_EXPORTER_OTLP_PROTOCOL=grpc cannot be used. Or set TWINBOX_TRACES_ENABLED=false.");
    }
  }
}
