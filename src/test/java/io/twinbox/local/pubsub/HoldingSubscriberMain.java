package io.twinbox.local.pubsub;

import com.google.cloud.pubsub.v1.Subscriber;
import java.time.Duration;
import java.util.concurrent.CountDownLatch;

/**
 * A client that takes messages and never finishes with them, to be killed. Arguments: endpoint,
 * full name of the subscription.
 */
final class HoldingSubscriberMain {
  private HoldingSubscriberMain() {}

  public static void main(String[] arguments) throws Exception {
    PubSubClient client = new PubSubClient(arguments[0]);
    Subscriber subscriber =
        client.subscriber(
            arguments[1],
            (message, reply) ->
                System.out.println("holding " + message.getData().toStringUtf8() + "."),
            builder -> builder.setMaxDurationPerAckExtensionDuration(Duration.ofSeconds(10)));
    subscriber.startAsync().awaitRunning();
    new CountDownLatch(1).await();
  }
}
