package io.twinbox.local.pubsub;

import com.google.protobuf.Duration;
import com.google.protobuf.util.Durations;
import com.google.pubsub.v1.DeadLetterPolicy;
import com.google.pubsub.v1.RetryPolicy;
import com.google.pubsub.v1.Subscription;

/**
 * What a subscription's settings say about a failed delivery, and which settings are valid.
 *
 * <p>Ranges and defaults: google/pubsub/v1/pubsub.proto, messages Subscription, RetryPolicy and
 * DeadLetterPolicy.
 */
final class RedeliveryPolicy {
  static final int MIN_ACK_DEADLINE_SECONDS = 10;
  static final int MAX_ACK_DEADLINE_SECONDS = 600;
  private static final int DEFAULT_ACK_DEADLINE_SECONDS = 10;
  private static final int DEFAULT_DELIVERY_ATTEMPTS = 5;
  private static final Duration DEFAULT_MINIMUM_BACKOFF = Durations.fromSeconds(10);
  private static final Duration DEFAULT_MAXIMUM_BACKOFF = Durations.fromSeconds(600);
  private static final long MAX_BACKOFF_NANOS = Durations.toNanos(Durations.fromSeconds(600));

  private RedeliveryPolicy() {}

  /** The settings with the service's defaults filled in; INVALID_ARGUMENT out of range. */
  static Subscription normalize(Subscription given) {
    refuseUnsupported(given);
    Subscription.Builder settings = given.toBuilder().setState(Subscription.State.ACTIVE);
    if (settings.getAckDeadlineSeconds() == 0) {
      settings.setAckDeadlineSeconds(DEFAULT_ACK_DEADLINE_SECONDS);
    }
    requireAckDeadline(settings.getAckDeadlineSeconds());
    if (settings.hasRetryPolicy()) {
      RetryPolicy.Builder retry = settings.getRetryPolicyBuilder();
      if (!retry.hasMinimumBackoff()) {
        retry.setMinimumBackoff(DEFAULT_MINIMUM_BACKOFF);
      }
      if (!retry.hasMaximumBackoff()) {
        retry.setMaximumBackoff(DEFAULT_MAXIMUM_BACKOFF);
      }
      requireBackoff("minimum_backoff", retry.getMinimumBackoff());
      requireBackoff("maximum_backoff", retry.getMaximumBackoff());
      if (Durations.compare(retry.getMinimumBackoff(), retry.getMaximumBackoff()) > 0) {
        throw Errors.invalid("minimum_backoff must not be greater than maximum_backoff.");
      }
    }
    if (settings.hasDeadLetterPolicy()) {
      DeadLetterPolicy.Builder policy = settings.getDeadLetterPolicyBuilder();
      if (policy.getMaxDeliveryAttempts() == 0) {
        policy.setMaxDeliveryAttempts(DEFAULT_DELIVERY_ATTEMPTS);
      }
      if (policy.getMaxDeliveryAttempts() < 5 || policy.getMaxDeliveryAttempts() > 100) {
        throw Errors.invalid(
            "max_delivery_attempts must be between 5 and 100, inclusive (given: "
                + policy.getMaxDeliveryAttempts()
                + ").");
      }
      ResourceNames.requireTopic(policy.getDeadLetterTopic());
    }
    return settings.build();
  }

  static void requireAckDeadline(int seconds) {
    if (seconds < MIN_ACK_DEADLINE_SECONDS || seconds > MAX_ACK_DEADLINE_SECONDS) {
      throw Errors.invalid(
          "Invalid ack deadline given: (ack_deadline=%d). Must be between %d and %d seconds."
              .formatted(seconds, MIN_ACK_DEADLINE_SECONDS, MAX_ACK_DEADLINE_SECONDS));
    }
  }

  /**
   * How long a message that failed waits, in nanoseconds: nothing without a retry policy, else the
   * minimum backoff doubled by every further failure, up to the maximum.
   *
   * @param failures 1 or more
   */
  static long backoffNanos(Subscription settings, int failures) {
    if (!settings.hasRetryPolicy()) {
      return 0;
    }
    long minimum = Durations.toNanos(settings.getRetryPolicy().getMinimumBackoff());
    long maximum = Durations.toNanos(settings.getRetryPolicy().getMaximumBackoff());
    // 600 s (under 2^40 ns) shifted by 20 still fits a long; minimum 0 stays 0, as documented: no
    // delay.
    return Math.min(maximum, minimum << Math.min(failures - 1, 20));
  }

  static boolean exhausted(Subscription settings, int failures) {
    return settings.hasDeadLetterPolicy()
        && failures >= settings.getDeadLetterPolicy().getMaxDeliveryAttempts();
  }

  private static void requireBackoff(String field, Duration backoff) {
    long nanos = Durations.toNanos(backoff);
    if (nanos < 0 || nanos > MAX_BACKOFF_NANOS) {
      throw Errors.invalid(field + " must be between 0 and 600 seconds, inclusive.");
    }
  }

  private static void refuseUnsupported(Subscription given) {
    if (!given.getPushConfig().getPushEndpoint().isEmpty()
        || given.hasBigqueryConfig()
        || given.hasCloudStorageConfig()) {
      throw Errors.unsupported("push, BigQuery or Cloud Storage subscriptions");
    }
    if (!given.getFilter().isEmpty()) {
      throw Errors.unsupported("subscription filters");
    }
    if (given.getMessageTransformsCount() > 0) {
      throw Errors.unsupported("message transforms");
    }
  }
}
