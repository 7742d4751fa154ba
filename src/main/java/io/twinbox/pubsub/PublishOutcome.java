package io.twinbox.pubsub;

/**
 * What became of one message that was given to Pub/Sub.
 *
 * @param kind what its row does next
 * @param messageId Pub/Sub's id of the published message, else null
 * @param error what Pub/Sub or the network said, else null
 */
public record PublishOutcome(Kind kind, String messageId, String error) {

  /** The classes of outcome; the names are those that {@code sql/dispatch/settle.sql} reads. */
  public enum Kind {
    /** Pub/Sub has it. */
    PUBLISHED,
    /** Pub/Sub refused this very message: it waits, and dies after too many refusals. */
    REFUSED,
    /** No fault of the message (destination, network, or not sent at all): due again, uncounted. */
    RELEASED
  }

  static PublishOutcome published(String messageId) {
    return new PublishOutcome(Kind.PUBLISHED, messageId, null);
  }

  static PublishOutcome refused(String error) {
    return new PublishOutcome(Kind.REFUSED, null, error);
  }

  /** Not published, through no fault of the message; error is null when it was not sent. */
  public static PublishOutcome released(String error) {
    return new PublishOutcome(Kind.RELEASED, null, error);
  }
}
