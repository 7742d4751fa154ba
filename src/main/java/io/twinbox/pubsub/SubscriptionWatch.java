package io.twinbox.pubsub;

import com.google.api.core.ApiService;
import com.google.api.gax.rpc.ApiException;
import com.google.api.gax.rpc.StatusCode;
import com.google.cloud.pubsub.v1.Subscriber;
import com.google.common.util.concurrent.MoreExecutors;
import com.google.pubsub.v1.Subscription;
import io.twinbox.config.Causes;
import io.twinbox.config.TwinboxProperties;
import java.io.IOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Watches the subscription: says once when it cannot be read and once when it can again, and names
 * settings that would lose or needlessly repeat messages. Camel's consumer goes on trying by itself
 * ({@link SubscriberBackoff}).
 */
public class SubscriptionWatch {

  private static final Logger log = LoggerFactory.getLogger("io.twinbox.consume");

  /**
   * Pub/Sub's own number for a dead-letter policy that gives none (Pub/Sub REST reference,
   * DeadLetterPolicy).
   */
  private static final int ATTEMPTS_FOR_ZERO = 5;

  /** What Pub/Sub names as the topic of a subscription whose topic is gone. */
  private static final String DELETED_TOPIC = "_deleted_topic_";

  /** An outage that a consumer should be able to outlast: from an evening to the next day. */
  private static final Duration OUTAGE = Duration.ofDays(1);

  private final PubSubConnection connection;
  private final TwinboxProperties properties;
  private final String subscription;
  private volatile String trouble;

  SubscriptionWatch(
      PubSubConnection connection, TwinboxProperties properties, String subscription) {
    this.connection = connection;
    this.properties = properties;
    this.subscription = subscription;
  }

  /** What keeps messages from being received now, or null. */
  public String trouble() {
    return trouble;
  }

  void follow(Subscriber subscriber) {
    subscriber.addListener(
        new ApiService.Listener() {
          @Override
          public void running() {
            // Running says only that it tries: a missing subscription shows a moment later.
          }

          @Override
          public void failed(ApiService.State from, Throwable failure) {
            lost(Causes.describe(failure));
          }
        },
        MoreExecutors.directExecutor());
  }

  private synchronized void lost(String why) {
    if (trouble == null) {
      log.error(
          "Nothing is received from {}: {}. It is tried again at least every half minute. Check that the subscription exists and that this pod may read it.",
          subscription,
          why);
    }
    trouble = why;
  }

  void received() {
    if (trouble != null) {
      found();
    }
  }

  private synchronized void found() {
    if (trouble != null) {
      log.info("{} is received again.", subscription);
      trouble = null;
    }
  }

  /**
   * Looks at the subscription's settings and names each that is wrong. Called by the route
   * consume-watch.
   */
  public void checkSettings() {
    Subscription seen;
    try {
      seen = connection.subscriptions().getSubscription(subscription);
    } catch (ApiException e) {
      StatusCode.Code code = e.getStatusCode().getCode();
      if (code == StatusCode.Code.PERMISSION_DENIED) {
        log.warn(
            "This pod may not read the settings of {} (pubsub.subscriptions.get), so it cannot warn of wrong ones.",
            subscription);
      } else if (code == StatusCode.Code.NOT_FOUND) {
        lost(Causes.describe(e));
      }
      return;
    } catch (IOException e) {
      return;
    }
    received();
    for (String fault : faults(seen)) {
      log.warn("Subscription {}: {}", subscription, fault);
    }
  }

  /** What is wrong with a subscription's settings, each with what to do. */
  List<String> faults(Subscription seen) {
    List<String> faults = new ArrayList<>();
    if (seen.getTopic().equals(DELETED_TOPIC)) {
      faults.add(
          "its topic was deleted, so nothing comes any more, also when the topic is created again. Create the subscription anew on the new topic, and publish again what was missed.");
    }
    if (!seen.hasRetryPolicy()) {
      faults.add(
          "it has no retry policy, so a failing message comes back at once, again and again. Set a minimum and a maximum backoff (10 s and 600 s).");
    }
    if (!seen.hasDeadLetterPolicy()) {
      faults.add(
          "it has no dead-letter policy, so a message that kills its consumer comes back for ever. Set a dead-letter topic with a high maximum of delivery attempts (100).");
    } else {
      int configured = seen.getDeadLetterPolicy().getMaxDeliveryAttempts();
      int attempts = configured == 0 ? ATTEMPTS_FOR_ZERO : configured;
      int failures = properties.consume().maxAttempts();
      int deliveries = properties.consume().maxDeliveries();
      if (attempts <= failures) {
        faults.add(
            "Pub/Sub gives a message up after %d deliveries, before the inbox does after %d failures (twinbox.consume.max-attempts): it would leave without its reason. Raise maxDeliveryAttempts, to 100 at best."
                .formatted(attempts, failures));
      } else if (attempts <= deliveries) {
        faults.add(
            "Pub/Sub gives a message up after %d deliveries, before the inbox does after %d (twinbox.consume.max-deliveries): one that kills its consumer would leave without its reason. Raise maxDeliveryAttempts, to 100 at best, or lower TWINBOX_CONSUME_MAX_DELIVERIES."
                .formatted(attempts, deliveries));
      }
      String deadLetterTopic = seen.getDeadLetterPolicy().getDeadLetterTopic();
      if (!hasSubscription(deadLetterTopic)) {
        faults.add(
            "its dead-letter topic %s has no subscription, and Pub/Sub drops what is published to such a topic. Create one."
                .formatted(deadLetterTopic));
      }
    }
    if (!seen.hasExpirationPolicy() || seen.getExpirationPolicy().hasTtl()) {
      long days =
          seen.hasExpirationPolicy()
              ? Duration.ofSeconds(seen.getExpirationPolicy().getTtl().getSeconds()).toDays()
              : 31;
      faults.add(
          "it is deleted after %d days without a consumer, with all its messages. Set it to never expire."
              .formatted(days));
    }
    Duration retention = Duration.ofSeconds(seen.getMessageRetentionDuration().getSeconds());
    if (retention.compareTo(properties.maintain().payloadRetention()) > 0) {
      faults.add(
          "it keeps messages for %d days, longer than the outbox keeps payloads (%d days, twinbox.maintain.payload-retention): what it lost late could not be republished. Raise the payload retention."
              .formatted(retention.toDays(), properties.maintain().payloadRetention().toDays()));
    } else if (!retention.isZero() && retention.compareTo(OUTAGE) < 0) {
      faults.add(
          "it keeps messages for %d minutes only, so a consumer that is down longer loses them. Raise messageRetentionDuration, to 7 days at best."
              .formatted(retention.toMinutes()));
    }
    Duration deadline = Duration.ofSeconds(seen.getAckDeadlineSeconds());
    if (deadline.compareTo(properties.consume().lockTimeout()) < 0) {
      faults.add(
          "its ackDeadlineSeconds %d is shorter than a duplicate may wait for its twin (%d s, twinbox.consume.lock-timeout), so it comes a third time meanwhile. Raise it, to 60 at best."
              .formatted(deadline.toSeconds(), properties.consume().lockTimeout().toSeconds()));
    }
    return faults;
  }

  private boolean hasSubscription(String topic) {
    try {
      return connection.topics().listTopicSubscriptions(topic).iterateAll().iterator().hasNext();
    } catch (ApiException | IOException e) {
      // Another project's topic, or no permission to look: no reason to cry.
      return true;
    }
  }
}
