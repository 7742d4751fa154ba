package io.twinbox.pubsub;

import com.google.api.gax.rpc.ApiException;
import com.google.api.gax.rpc.StatusCode;
import com.google.cloud.pubsub.v1.SubscriptionAdminClient;
import com.google.cloud.pubsub.v1.TopicAdminClient;
import com.google.pubsub.v1.Subscription;
import io.twinbox.config.Causes;
import io.twinbox.config.TwinboxProperties;
import java.io.IOException;
import java.util.ArrayList;
import java.util.List;

/** Looks at a topic and a subscription as a check before the deployment does: once, and only so. */
public final class PubSubCheck {

  /** Pub/Sub cannot be asked. */
  public static final class Unreachable extends Exception {
    Unreachable(String message) {
      super(message);
    }
  }

  private PubSubCheck() {}

  /**
   * What is wrong, each as a sentence with what to do.
   *
   * @param topic full name, or null for no topic
   * @param subscription full name, or null for no subscription
   * @throws Unreachable when Pub/Sub does not answer, or says that one may not ask
   */
  public static List<String> faults(
      String emulatorHost, TwinboxProperties properties, String topic, String subscription)
      throws Unreachable {
    PubSubConnection connection =
        new PubSubConnection(emulatorHost, properties.dispatch().publishTimeout());
    List<String> faults = new ArrayList<>();
    try {
      if (topic != null) {
        topic(connection.topics(), topic, faults);
      }
      if (subscription != null) {
        subscription(connection, properties, subscription, faults);
      }
      return faults;
    } catch (ApiException | IOException e) {
      throw new Unreachable(Causes.describe(e));
    } finally {
      connection.destroy();
    }
  }

  private static void topic(TopicAdminClient topics, String topic, List<String> faults) {
    try {
      if (!topics.listTopicSubscriptions(topic).iterateAll().iterator().hasNext()) {
        faults.add(
            "Topic %s has no subscription, and Pub/Sub drops what is published to such a topic. Create the subscription first."
                .formatted(topic));
      }
    } catch (ApiException e) {
      if (e.getStatusCode().getCode() != StatusCode.Code.NOT_FOUND) {
        throw e;
      }
      faults.add("Topic %s does not exist. Create it, or correct topic.name.".formatted(topic));
    }
  }

  private static void subscription(
      PubSubConnection connection, TwinboxProperties properties, String name, List<String> faults)
      throws IOException {
    SubscriptionAdminClient subscriptions = connection.subscriptions();
    try {
      Subscription seen = subscriptions.getSubscription(name);
      new SubscriptionWatch(connection, properties, name)
          .faults(seen)
          .forEach(fault -> faults.add("Subscription %s: %s".formatted(name, fault)));
    } catch (ApiException e) {
      if (e.getStatusCode().getCode() != StatusCode.Code.NOT_FOUND) {
        throw e;
      }
      faults.add(
          "Subscription %s does not exist. Create it, or correct subscription.name."
              .formatted(name));
    }
  }
}
