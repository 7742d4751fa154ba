package io.twinbox.local.pubsub;

import java.lang.annotation.ElementType;
import java.lang.annotation.Retention;
import java.lang.annotation.RetentionPolicy;
import java.lang.annotation.Target;

/**
 * Where Google's emulator does not do what the service does. Seen in version 0.8.20; a newer one
 * may do better, then its line goes.
 */
enum KnownEmulatorFault {
  ACCEPTS_OVER_LIMIT_MESSAGES(
      "it accepts messages that the service refuses: too large, too many or too long attributes,"
          + " reserved or empty keys"),
  ACCEPTS_SETTINGS_OUT_OF_RANGE(
      "it accepts ack deadlines and delivery attempts outside of the service's ranges"),
  ACCEPTS_TWO_ORDERING_KEYS_IN_A_REQUEST("it accepts a publish request with two ordering keys"),
  IGNORES_FLOW_CONTROL_OF_STREAMS(
      "it sends a stream whatever there is, not the outstanding messages or bytes asked for"),
  SHARES_A_BACKLOG_UNEVENLY("of two streams one may get nearly all messages"),
  IGNORES_RETRY_POLICY("it delivers a nacked message at once in spite of a retry policy"),
  REDELIVERS_ONE_MESSAGE_OF_A_KEY(
      "it brings a nacked message of an ordering key again without the later ones of its key, which"
          + " come when their own leases end"),
  NEVER_ANSWERS_KEEPALIVE("it does not answer a client that asks whether the stream lives"),
  LOSES_MESSAGES_AFTER_A_SUBSCRIBER_STOPPED(
      "what is published after a subscriber stopped is never delivered to the next one");

  private final String reason;

  KnownEmulatorFault(String reason) {
    this.reason = reason;
  }

  String reason() {
    return reason;
  }

  /** Marks a contract test that the emulator would fail for a known reason. */
  @Retention(RetentionPolicy.RUNTIME)
  @Target(ElementType.METHOD)
  @interface Affects {
    KnownEmulatorFault value();
  }
}
