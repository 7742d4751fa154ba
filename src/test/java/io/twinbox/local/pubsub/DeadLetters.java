package io.twinbox.local.pubsub;

import com.google.protobuf.Timestamp;
import com.google.protobuf.util.Timestamps;
import com.google.pubsub.v1.PubsubMessage;

/** Where a subscription's dead letters go. */
interface DeadLetters {
  /**
   * Without its topic a dead letter stays where it is and is delivered again, as in the service.
   */
  boolean reachable(String topic);

  void forward(String topic, PubsubMessage letter);

  /**
   * The message as it arrives in the dead-letter topic, with the attributes that say where it came
   * from (cloud.google.com/pubsub/docs/handling-failures, "Track delivery attempts").
   *
   * @param subscription full name of the source
   * @param deliveries how many times it was delivered there
   */
  static PubsubMessage letter(PubsubMessage message, String subscription, int deliveries) {
    Timestamp published = message.getPublishTime();
    return message.toBuilder()
        .clearMessageId()
        .clearPublishTime()
        .putAttributes("CloudPubSubDeadLetterSourceDeliveryCount", String.valueOf(deliveries))
        .putAttributes("CloudPubSubDeadLetterSourceSubscription", ResourceNames.idOf(subscription))
        .putAttributes(
            "CloudPubSubDeadLetterSourceSubscriptionProject", ResourceNames.projectOf(subscription))
        .putAttributes(
            "CloudPubSubDeadLetterSourceTopicPublishTime", Timestamps.toString(published))
        .build();
  }
}
