package io.twinbox.operate;

import com.google.pubsub.v1.PubsubMessage;
import io.opentelemetry.api.OpenTelemetry;
import io.opentelemetry.api.common.AttributeKey;
import io.opentelemetry.api.common.Attributes;
import io.opentelemetry.api.trace.Span;
import io.opentelemetry.api.trace.SpanBuilder;
import io.opentelemetry.api.trace.SpanContext;
import io.opentelemetry.api.trace.SpanKind;
import io.opentelemetry.api.trace.StatusCode;
import io.opentelemetry.api.trace.Tracer;
import io.opentelemetry.api.trace.propagation.W3CTraceContextPropagator;
import io.opentelemetry.context.Context;
import io.opentelemetry.context.propagation.TextMapGetter;
import io.twinbox.pubsub.PublishOutcome;
import java.util.List;
import java.util.Map;
import org.apache.camel.Exchange;
import org.apache.camel.component.google.pubsub.GooglePubsubConstants;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.boot.autoconfigure.condition.ConditionalOnProperty;
import org.springframework.stereotype.Component;

/**
 * Writes a span per claim that is published and per message that is applied, and ties them to the
 * traces that the events bring in their own attribute {@code traceparent} (W3C Trace Context). It
 * reads messages and never changes them. A {@code traceparent} that is none is as good as absent.
 *
 * <p>Names and relations are those of OpenTelemetry's semantic conventions for messaging: many
 * events are published by one call, so its span has a link to each; one message is processed at a
 * time, so its span has the link and also is the child of what the link leads to. No payload, no
 * error text and no attribute of an event is in a span, but its id.
 */
@Component
@ConditionalOnProperty("twinbox.traces.enabled")
class Traces implements StepObserver {

  private static final String SEND = "publish-send";
  private static final String MESSAGE = "consume-key-usable";
  private static final String DATABASE_FAILED = "consume-await-database";
  private static final String HANDLER_FAILED = "consume-count-failure";
  private static final String BURIED = "bury-store";
  private static final String REPLAYED = "inbox-replay-letter";

  /** Where an exchange holds what is written about it. */
  private static final String RUNNING = "CamelTwinboxSpan";

  /** Characters; a longer key is refused anyway, and its beginning says which it was. */
  private static final int LONGEST_ID = 255;

  private static final AttributeKey<String> OUTBOX_ID = AttributeKey.stringKey("outbox_id");
  private static final AttributeKey<String> OUTCOME = AttributeKey.stringKey("outcome");
  private static final AttributeKey<String> ERROR_TYPE = AttributeKey.stringKey("error.type");

  private static final TextMapGetter<Map<String, String>> ATTRIBUTES =
      new TextMapGetter<>() {
        @Override
        public Iterable<String> keys(Map<String, String> attributes) {
          return attributes.keySet();
        }

        @Override
        public String get(Map<String, String> attributes, String name) {
          return attributes.get(name);
        }
      };

  private final Tracer tracer;
  private final String topic;
  private final String subscription;

  Traces(
      OpenTelemetry openTelemetry,
      @Value("${topic.name}") String topic,
      @Value("${subscription.name}") String subscription) {
    tracer = openTelemetry.getTracer("io.twinbox");
    this.topic = topic;
    this.subscription = subscription;
  }

  /** A span that is not finished, and what is known of its end so far. */
  private static final class Running {
    final Span span;
    String outcome;
    String error;

    Running(Span span) {
      this.span = span;
    }
  }

  @Override
  public boolean observes(String stepId) {
    return switch (stepId) {
      case SEND, MESSAGE, DATABASE_FAILED, HANDLER_FAILED, BURIED, REPLAYED -> true;
      default -> false;
    };
  }

  @Override
  public void before(String stepId, Exchange exchange) {
    switch (stepId) {
      case SEND -> exchange.setProperty(RUNNING, new Running(send(exchange)));
      case MESSAGE, REPLAYED -> exchange.setProperty(RUNNING, new Running(process(exchange)));
      case DATABASE_FAILED -> failed(exchange, "database");
      case HANDLER_FAILED -> failed(exchange, "handler");
      default -> {
        // Said after it.
      }
    }
  }

  @Override
  public void after(String stepId, Exchange exchange, long nanos) {
    switch (stepId) {
      case SEND -> sent(exchange);
      case MESSAGE, REPLAYED -> processed(exchange);
      case BURIED -> buried(exchange);
      default -> {
        // Said before it.
      }
    }
  }

  private Span send(Exchange exchange) {
    List<?> messages = exchange.getMessage().getBody() instanceof List<?> list ? list : List.of();
    SpanBuilder span =
        tracer
            .spanBuilder("send " + topic)
            .setNoParent()
            .setSpanKind(SpanKind.PRODUCER)
            .setAttribute("messaging.system", "gcp_pubsub")
            .setAttribute("messaging.operation.name", "send")
            .setAttribute("messaging.operation.type", "send")
            .setAttribute("messaging.destination.name", topic)
            .setAttribute("messaging.batch.message_count", messages.size());
    for (Object line : messages) {
      if (line instanceof PubsubMessage message) {
        SpanContext origin = origin(message.getAttributesMap());
        if (origin.isValid()) {
          // The SDK keeps as many as otel.span.link.count.limit says, and counts the others.
          span.addLink(
              origin,
              Attributes.of(OUTBOX_ID, message.getAttributesOrDefault("outbox_id", "none")));
        }
      }
    }
    return span.startSpan();
  }

  private void sent(Exchange exchange) {
    Running running = take(exchange);
    if (running == null) {
      return;
    }
    if (exchange.getException() != null) {
      fail(running.span, exchange.getException().getClass().getName());
    } else if (exchange.getMessage().getBody() instanceof List<?> outcomes) {
      long published = 0;
      String error = null;
      for (Object each : outcomes) {
        if (each instanceof PublishOutcome outcome) {
          if (outcome.kind() == PublishOutcome.Kind.PUBLISHED) {
            published++;
          } else if (error == null || error.equals("NONE")) {
            error = outcome.code();
          }
        }
      }
      running.span.setAttribute("published", published);
      if (error != null) {
        fail(running.span, error);
      }
    }
    running.span.end();
  }

  private Span process(Exchange exchange) {
    Map<String, String> attributes = attributes(exchange);
    Context origin = context(attributes);
    SpanBuilder span =
        tracer
            .spanBuilder("process " + subscription)
            .setParent(origin)
            .setSpanKind(SpanKind.CONSUMER)
            .setAttribute("messaging.system", "gcp_pubsub")
            .setAttribute("messaging.operation.name", "process")
            .setAttribute("messaging.operation.type", "process")
            .setAttribute("messaging.destination.subscription.name", subscription);
    if (!topic.isBlank()) {
      span.setAttribute("messaging.destination.name", topic);
    }
    SpanContext link = Span.fromContext(origin).getSpanContext();
    if (link.isValid()) {
      span.addLink(link);
    }
    String message =
        exchange.getMessage().getHeader(GooglePubsubConstants.MESSAGE_ID, String.class);
    if (message != null) {
      span.setAttribute("messaging.message.id", message);
    }
    String key = exchange.getProperty("idempotencyKey", String.class);
    if (key != null && !key.isEmpty()) {
      span.setAttribute(OUTBOX_ID, key.substring(0, Math.min(key.length(), LONGEST_ID)));
    }
    return span.startSpan();
  }

  private void processed(Exchange exchange) {
    Running running = take(exchange);
    if (running == null) {
      return;
    }
    String outcome = running.outcome;
    if (exchange.getException() != null) {
      outcome = "failed";
      if (running.error == null) {
        running.error = exchange.getException().getClass().getName();
      }
    } else if (outcome == null) {
      outcome =
          Boolean.TRUE.equals(exchange.getProperty(Exchange.DUPLICATE_MESSAGE, Boolean.class))
              ? "duplicate"
              : "applied";
    }
    running.span.setAttribute(OUTCOME, outcome);
    if (outcome.equals("failed") || outcome.equals("dead_letter")) {
      fail(running.span, running.error == null ? "message" : running.error);
    }
    running.span.end();
  }

  /** It is stored for the operator, unless its twin has taken effect meanwhile. */
  private void buried(Exchange exchange) {
    Running running = exchange.getProperty(RUNNING, Running.class);
    if (running != null && exchange.getException() == null) {
      boolean stored = exchange.getMessage().getHeader("CamelSqlUpdateCount", 0, Integer.class) > 0;
      running.outcome = stored ? "dead_letter" : "duplicate";
    }
  }

  private static void failed(Exchange exchange, String error) {
    Running running = exchange.getProperty(RUNNING, Running.class);
    if (running != null) {
      running.error = error;
    }
  }

  private static void fail(Span span, String error) {
    span.setStatus(StatusCode.ERROR);
    span.setAttribute(ERROR_TYPE, error);
  }

  private static Running take(Exchange exchange) {
    return (Running) exchange.removeProperty(RUNNING);
  }

  @SuppressWarnings("unchecked")
  private static Map<String, String> attributes(Exchange exchange) {
    Map<String, String> attributes =
        exchange.getMessage().getHeader(GooglePubsubConstants.ATTRIBUTES, Map.class);
    return attributes == null ? Map.of() : attributes;
  }

  /** An event's trace; the root context when it has none, or one that cannot be read. */
  private static Context context(Map<String, String> attributes) {
    return W3CTraceContextPropagator.getInstance().extract(Context.root(), attributes, ATTRIBUTES);
  }

  private static SpanContext origin(Map<String, String> attributes) {
    return Span.fromContext(context(attributes)).getSpanContext();
  }
}
