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
