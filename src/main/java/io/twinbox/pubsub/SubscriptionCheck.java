package io.twinbox.pubsub;

import com.google.api.gax.rpc.ApiException;
import com.google.api.gax.rpc.StatusCode;
import java.io.IOException;
import java.time.Clock;
import java.time.Duration;
import java.time.Instant;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Whether the topic has a subscription, asked at most every half minute, or every two seconds while
 * it has none. Pub/Sub keeps nothing for a topic without subscriptions: what is published to it is
 * gone.
 */
class SubscriptionCheck {

  private static final Logger log = LoggerFactory.getLogger("io.twinbox.dispatch");
  private static final Duration WHILE_PRESENT = Duration.ofSeconds(30);
  private static final Duration WHILE_ABSENT = Duration.ofSeconds(2);

  private final PubSubConnection connection;
  private final String topic;
  private final Clock clock;
  private boolean present = true;
  private boolean cannotAsk;
  private Instant nextAsk = Instant.MIN;

  SubscriptionCheck(PubSubConnection connection, String topic, Clock clock) {
    this.connection = connection;
    this.topic = topic;
    this.clock = clock;
  }

  synchronized boolean present() {
    Instant now = clock.instant();
    if (!now.isBefore(nextAsk)) {
      boolean before = present;
      present = ask();
      nextAsk = now.plus(present ? WHILE_PRESENT : WHILE_ABSENT);
      if (before && !present) {
        log.warn(
            "Topic {} has no subscription, and Pub/Sub drops what is published to such a topic: rows are held. Create the subscription, or set TWINBOX_DISPATCH_REQUIRE_SUBSCRIPTION=false.",
            topic);
      } else if (!before && present) {
        log.info("Topic {} has a subscription now: rows are published.", topic);
      }
    }
    return present;
  }

  synchronized String trouble() {
    return present ? null : "topic " + topic + " has no subscription";
  }

  private boolean ask() {
    try {
      return connection.topics().listTopicSubscriptions(topic).iterateAll().iterator().hasNext();
    } catch (ApiException e) {
      StatusCode.Code code = e.getStatusCode().getCode();
      if (code == StatusCode.Code.PERMISSION_DENIED && !cannotAsk) {
        cannotAsk = true;
        log.warn(
            "This pod may not list the subscriptions of {} (pubsub.topics.get), so it cannot hold rows when the topic has none.",
            topic);
      }
      // A missing topic or an unreachable Pub/Sub shows when a row is published, and is handled
      // there.
      return true;
    } catch (IOException e) {
      return true;
    }
  }
}
