package io.twinbox.config;

import java.time.Duration;
import java.util.Set;
import org.springframework.boot.convert.DurationStyle;

/**
 * Payloads must outlive what may still be asked for: an event that a source reads again, and one
 * that a subscription still holds or that a consumer restored to an earlier point needs again.
 */
public final class RetentionCheck {

  static final Set<String> TIMED = Set.of("TIMESTAMP", "DATETIME", "DATE");

  private RetentionCheck() {}

  /**
   * @param sets the route sets of this process; without {@code maintain} it deletes nothing
   * @throws StartupException when the payload retention is too short
   */
  public static void check(TwinboxProperties properties, Set<String> sets) {
    if (!sets.contains("maintain")) {
      return;
    }
    Duration kept = properties.maintain().payloadRetention();
    if (kept.compareTo(properties.maintain().subscriptionRetention()) < 0) {
      throw new StartupException(
          "TWINBOX_MAINTAIN_PAYLOAD_RETENTION (%s) is shorter than TWINBOX_MAINTAIN_SUBSCRIPTION_RETENTION (%s): a message that the subscription lost could not be republished."
              .formatted(text(kept), text(properties.maintain().subscriptionRetention())),
          "Keep payloads at least as long as the topic's subscriptions keep messages.");
    }
    Duration lookback = lookback(properties.produce());
    if (lookback != null && kept.compareTo(lookback) < 0) {
      throw new StartupException(
          "TWINBOX_MAINTAIN_PAYLOAD_RETENTION (%s) is shorter than TWINBOX_PRODUCE_LOOKBACK (%s): events would be read again whose payload is gone."
              .formatted(text(kept), text(lookback)),
          "Keep payloads at least as long as the source is read back.");
    }
  }

  /** Null when the watermark is no time; what is no duration, produce itself refuses. */
  private static Duration lookback(TwinboxProperties.Produce produce) {
    String lookback = produce.lookback();
    if (lookback == null || lookback.isBlank() || !TIMED.contains(produce.watermarkType())) {
      return null;
    }
    try {
      return DurationStyle.detectAndParse(lookback.strip());
    } catch (IllegalArgumentException | ArithmeticException e) {
      return null;
    }
  }

  private static String text(Duration duration) {
    if (duration.toMillis() % 86_400_000 == 0) {
      return duration.toDays() + "d";
    }
    return duration.toMillis() % 1000 == 0
        ? duration.toSeconds() + "s"
        : duration.toMillis() + "ms";
  }
}
