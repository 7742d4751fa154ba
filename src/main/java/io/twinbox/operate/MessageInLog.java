package io.twinbox.operate;

import io.twinbox.config.LogContext;
import org.apache.camel.Exchange;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.context.annotation.Conditional;
import org.springframework.stereotype.Component;

/**
 * Puts the message into the log's context while its steps run, so that every line that is written
 * for it, also by Camel or by a handler, carries its id. Structured logs show the context as
 * fields.
 */
@Component
@Conditional(OnRouteSet.Consume.class)
class MessageInLog implements StepObserver {

  private static final String MESSAGE = "consume-key-usable";
  private static final String FAILURE_COUNTED = "consume-count-failure";
  private static final String LETTER_RESTORED = "inbox-replay-restore";
  private static final String LETTER_DONE = "inbox-replay-if-found";

  private final String topic;
  private final String subscription;

  MessageInLog(
      @Value("${topic.name}") String topic, @Value("${subscription.name}") String subscription) {
    this.topic = topic;
    this.subscription = subscription;
  }

  @Override
  public boolean observes(String stepId) {
    return switch (stepId) {
      case MESSAGE, FAILURE_COUNTED, LETTER_RESTORED, LETTER_DONE -> true;
      default -> false;
    };
  }

  @Override
  public void before(String stepId, Exchange exchange) {
    if (stepId.equals(MESSAGE)) {
      show(exchange);
    }
  }

  @Override
  public void after(String stepId, Exchange exchange, long nanos) {
    switch (stepId) {
      case MESSAGE -> {
        // What failed is said right after, by the exception handler of the route (LogOneLine).
        if (exchange.getException() == null) {
          LogContext.end();
        }
      }
      case LETTER_DONE -> LogContext.end();
      case LETTER_RESTORED -> show(exchange);
      default -> LogContext.attempt(exchange.getMessage().getHeader("CamelTwinboxFailures", ""));
    }
  }

  private void show(Exchange exchange) {
    LogContext.begin(exchange.getProperty("idempotencyKey", String.class), topic, subscription);
  }
}
