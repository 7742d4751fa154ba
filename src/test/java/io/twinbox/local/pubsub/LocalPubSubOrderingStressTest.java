package io.twinbox.local.pubsub;

import static io.twinbox.local.pubsub.PubSubContractFixture.keyed;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import com.google.api.gax.batching.FlowControlSettings;
import com.google.cloud.pubsub.v1.Subscriber;
import com.google.protobuf.util.Durations;
import com.google.pubsub.v1.DeadLetterPolicy;
import com.google.pubsub.v1.PubsubMessage;
import com.google.pubsub.v1.RetryPolicy;
import com.google.pubsub.v1.Subscription;
import io.grpc.Status;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

/** Everything at once: what single tests do not meet is a lease that leaks or a key that hangs. */
class LocalPubSubOrderingStressTest {
  private static final int KEYS = 20;
  private static final int MESSAGES_PER_KEY = 40;
  private static final double NACKED_SHARE = 0.05;
  private static final String POISON = "17";
  private static final String TOPIC = ResourceNames.topic("p", "orders");
  private static final String DEAD_TOPIC = ResourceNames.topic("p", "orders-dead");
  private static final String SUBSCRIPTION = ResourceNames.subscription("p", "ledger");
  private static final String DEAD_SUBSCRIPTION = ResourceNames.subscription("p", "dead");

  /** Fixed: a failure is to be seen again. The interleaving of threads stays free. */
  private final Random random = new Random(42);

  @Test
  void everyKeyArrivesInOrderWhateverFails() throws Exception {
    try (LocalPubSub pubSub = LocalPubSub.start();
        PubSubClient client = new PubSubClient(pubSub.endpoint())) {
      createAll(pubSub);
      pubSub.faults().redeliverAcknowledged(0.1, 1);
      for (int i = 0; i < MESSAGES_PER_KEY; i++) {
        for (int key = 0; key < KEYS; key++) {
          client.publish(TOPIC, keyed("k" + key, Integer.toString(i)));
        }
      }
      Map<String, List<Integer>> firstSeen = new ConcurrentHashMap<>();
      List<Subscriber> subscribers =
          IntStream.range(0, 3).mapToObj(i -> subscriber(client, firstSeen)).toList();
      subscribers.forEach(subscriber -> subscriber.startAsync().awaitRunning());

      await()
          .atMost(Duration.ofSeconds(60))
          .until(() -> pubSub.stats().acks() > KEYS * MESSAGES_PER_KEY / 4);
      pubSub.faults().breakStreams(Status.UNAVAILABLE);
      subscribers.get(0).stopAsync().awaitTerminated();

      await().atMost(Duration.ofSeconds(60)).until(() -> pubSub.stats().backlog(SUBSCRIPTION) == 0);
      subscribers.forEach(subscriber -> subscriber.stopAsync().awaitTerminated());
      assertThat(firstSeen).hasSize(KEYS);
      firstSeen.forEach(
          (key, seen) ->
              assertThat(seen)
                  .as(key)
                  .isEqualTo(IntStream.range(0, MESSAGES_PER_KEY).boxed().toList()));
      assertThat(pubSub.stats().deadLetters()).isEqualTo(1);
      assertThat(client.pull(DEAD_SUBSCRIPTION, 10))
          .singleElement()
          .satisfies(
              letter -> {
                assertThat(letter.getMessage().getData().toStringUtf8()).isEqualTo(POISON);
                assertThat(letter.getMessage().getOrderingKey()).isEqualTo("k0");
              });
    }
  }

  private static void createAll(LocalPubSub pubSub) {
    pubSub.createTopic("p", "orders");
    pubSub.createTopic("p", "orders-dead");
    pubSub.createSubscription("p", "dead", "orders-dead");
    pubSub.createSubscription(
        Subscription.newBuilder()
            .setName(SUBSCRIPTION)
            .setTopic(TOPIC)
            .setEnableMessageOrdering(true)
            .setRetryPolicy(
                RetryPolicy.newBuilder()
                    .setMinimumBackoff(Durations.fromMillis(20))
                    .setMaximumBackoff(Durations.fromMillis(200)))
            .setDeadLetterPolicy(
                DeadLetterPolicy.newBuilder()
                    .setDeadLetterTopic(DEAD_TOPIC)
                    .setMaxDeliveryAttempts(20))
            .build());
  }

  private Subscriber subscriber(PubSubClient client, Map<String, List<Integer>> firstSeen) {
    return client.subscriber(
        SUBSCRIPTION,
        (message, reply) -> {
          note(message, firstSeen);
          if (isPoison(message) || nacks()) {
            reply.nack();
          } else {
            reply.ack();
          }
        },
        builder ->
            builder
                .setMaxDurationPerAckExtensionDuration(Duration.ofSeconds(10))
                .setFlowControlSettings(
                    FlowControlSettings.newBuilder().setMaxOutstandingElementCount(50L).build()));
  }

  private static void note(PubsubMessage message, Map<String, List<Integer>> firstSeen) {
    List<Integer> seen =
        firstSeen.computeIfAbsent(message.getOrderingKey(), key -> new ArrayList<>());
    Integer number = Integer.valueOf(message.getData().toStringUtf8());
    synchronized (seen) {
      if (!seen.contains(number)) {
        seen.add(number);
      }
    }
  }

  private static boolean isPoison(PubsubMessage message) {
    return message.getOrderingKey().equals("k0") && message.getData().toStringUtf8().equals(POISON);
  }

  private boolean nacks() {
    synchronized (random) {
      return random.nextDouble() < NACKED_SHARE;
    }
  }
}
