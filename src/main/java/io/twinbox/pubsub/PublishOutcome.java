package io.twinbox.pubsub;

import com.google.api.gax.rpc.StatusCode;
import java.util.Arrays;
import java.util.Set;
import java.util.stream.Collectors;

/**
 * What became of one message that was given to Pub/Sub.
 *
 * @param kind what its row does next
 * @param messageId Pub/Sub's id of the published message, else null
 * @param error what Pub/Sub or the network said, else null
 */
public record PublishOutcome(Kind kind, String messageId, String error) {

  private static final Set<String> CODES =
      Arrays.stream(StatusCode.Code.values()).map(Enum::name).collect(Collectors.toSet());

  /** The classes of outcome. */
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

  /**
   * Pub/Sub's code of the failure, UNKNOWN for one without, NONE where the message was not sent.
   */
  public String code() {
    if (error == null) {
      return "NONE";
    }
    int colon = error.indexOf(':');
    String first = colon < 0 ? "" : error.substring(0, colon);
    return CODES.contains(first) ? first : "UNKNOWN";
  }

  /** Whose fault the failure was: message, destination, transient, or not_sent. */
  public String faultClass() {
    if (kind == Kind.REFUSED) {
      return "message";
    }
    return switch (code()) {
      case "NONE" -> "not_sent";
      // A topic that refuses everything is at fault, not its messages.
      case "NOT_FOUND", "PERMISSION_DENIED", "UNAUTHENTICATED", "INVALID_ARGUMENT" -> "destination";
      default -> "transient";
    };
  }
}
