package io.twinbox.local.pubsub;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import com.google.api.core.ApiFuture;
import com.google.api.core.ApiFutures;
import com.google.api.gax.batching.BatchingSettings;
import com.google.cloud.pubsub.v1.Publisher;
import com.google.cloud.pubsub.v1.Subscriber;
import com.google.protobuf.ByteString;
import com.google.pubsub.v1.PubsubMessage;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import org.junit.jupiter.api.Test;

/**
 * The server must not be what a measurement of Twinbox measures. On two idle cores, with Google's
 * client in the same process, it should carry 20,000 messages/s in and 5,000/s out; the floors
 * asserted here are far lower, so that a busy machine does not fail the build.
 */
class LocalPubSubThroughputTest {
  private static final int MESSAGES = 40_000;
  private static final int PUBLISHED_PER_SECOND_FLOOR = 4_000;
  private static final int DELIVERED_PER_SECOND_FLOOR = 1_500;

  @Test
  void itCarriesMoreThanTwinboxNeeds() throws Exception {
    try (LocalPubSub pubSub = LocalPubSub.start();
        PubSubClient client = new PubSubClient(pubSub.endpoint())) {
      pubSub.createTopic("p", "orders");
      pubSub.createSubscription("p", "ledger", "orders");

      double published = publish(client);
      double delivered = consume(pubSub, client);

      System.out.printf(
          "Local Pub/Sub, %,d messages of 300 bytes: %,.0f/s published, %,.0f/s delivered and"
              + " acknowledged%n",
          MESSAGES, published, delivered);
      assertThat(published).isGreaterThan(PUBLISHED_PER_SECOND_FLOOR);
      assertThat(delivered).isGreaterThan(DELIVERED_PER_SECOND_FLOOR);
    }
  }

  private static double publish(PubSubClient client) throws Exception {
    Publisher publisher =
        client.publisher(
            "projects/p/topics/orders",
            builder ->
                builder.setBatchingSettings(
                    BatchingSettings.newBuilder()
                        .setElementCountThreshold(200L)
                        .setRequestByteThreshold(1_000_000L)
                        .setDelayThresholdDuration(Duration.ofMillis(5))
                        .build()));
    ByteString payload = ByteString.copyFrom(new byte[300]);
    List<ApiFuture<String>> futures = new ArrayList<>(MESSAGES);
    long start = System.nanoTime();
    for (int i = 0; i < MESSAGES; i++) {
      futures.add(
          publisher.publish(
              PubsubMessage.newBuilder()
                  .setData(payload)
                  .putAttributes("outbox_id", Integer.toString(i))
                  .build()));
    }
    ApiFutures.allAsList(futures).get(60, TimeUnit.SECONDS);
    double perSecond = perSecond(start);
    publisher.shutdown();
    return perSecond;
  }

  private static double consume(LocalPubSub pubSub, PubSubClient client) {
    AtomicInteger received = new AtomicInteger();
    long start = System.nanoTime();
    Subscriber subscriber =
        client.subscriber(
            "projects/p/subscriptions/ledger",
            (message, reply) -> {
              received.incrementAndGet();
              reply.ack();
            },
            builder -> builder);
    subscriber.startAsync().awaitRunning();
    await()
        .atMost(Duration.ofSeconds(60))
        .pollInterval(Duration.ofMillis(10))
        .until(() -> pubSub.stats().backlog("projects/p/subscriptions/ledger") == 0);
    double perSecond = perSecond(start);
    subscriber.stopAsync().awaitTerminated();
    assertThat(received).hasValueGreaterThanOrEqualTo(MESSAGES);
    return perSecond;
  }

  private static double perSecond(long startNanos) {
    return MESSAGES * 1e9 / (System.nanoTime() - startNanos);
  }
}
