package io.twinbox.local.pubsub;

import com.google.pubsub.v1.PubsubMessage;
import com.google.pubsub.v1.Topic;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;

/** A topic and the subscriptions that get what is published to it. */
record LocalTopic(Topic settings, CopyOnWriteArrayList<SubscriptionQueue> subscriptions) {
  LocalTopic(Topic settings) {
    this(settings, new CopyOnWriteArrayList<>());
  }

  /** Without a subscription the messages are gone, as in the service. */
  void deliver(List<PubsubMessage> messages) {
    for (SubscriptionQueue subscription : subscriptions) {
      subscription.add(messages);
    }
  }
}
