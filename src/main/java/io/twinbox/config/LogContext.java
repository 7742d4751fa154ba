package io.twinbox.config;

import org.slf4j.MDC;

/**
 * The message that a thread works on, in the log's context: every line that is written for it, also
 * by Camel or by a handler, carries its id. Structured logs show the context as fields.
 */
public final class LogContext {

  private static final String ID = "outbox_id";
  private static final String TOPIC = "topic";
  private static final String SUBSCRIPTION = "subscription";
  private static final String ATTEMPT = "attempt";

  private LogContext() {}

  /**
   * @param key the message's key, null when it has none
   * @param topic the topic's short name, empty when this process was not told
   */
  public static void begin(String key, String topic, String subscription) {
    end();
    MDC.put(ID, key == null ? "none" : key);
    if (!topic.isBlank()) {
      MDC.put(TOPIC, topic);
    }
    MDC.put(SUBSCRIPTION, subscription);
  }

  /** How many times the message has failed, this one included. */
  public static void attempt(Object number) {
    MDC.put(ATTEMPT, String.valueOf(number));
  }

  public static void end() {
    MDC.remove(ID);
    MDC.remove(TOPIC);
    MDC.remove(SUBSCRIPTION);
    MDC.remove(ATTEMPT);
  }
}
