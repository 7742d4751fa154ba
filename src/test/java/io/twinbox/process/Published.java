package io.twinbox.process;

import com.google.pubsub.v1.AcknowledgeRequest;
import com.google.pubsub.v1.PublisherGrpc;
import com.google.pubsub.v1.PullRequest;
import com.google.pubsub.v1.ReceivedMessage;
import com.google.pubsub.v1.SubscriberGrpc;
import com.google.pubsub.v1.Subscription;
import com.google.pubsub.v1.Topic;
import io.grpc.ManagedChannel;
import io.grpc.ManagedChannelBuilder;
import io.grpc.StatusRuntimeException;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.TimeUnit;

/**
 * What was published to a topic, seen through a subscription of the test's own: which {@code
 * outbox_id} in which messages. Message ids tell a second publish from a second delivery.
 */
final class Published implements AutoCloseable {
  private final ManagedChannel channel;
  private final String subscription;
  private final Map<String, Set<String>> messages = new ConcurrentHashMap<>();
  private final Thread reader = new Thread(this::read, "published");
  private volatile boolean closed;

  Published(String endpoint, String project, String subscription) {
    this.channel =
        ManagedChannelBuilder.forTarget(endpoint)
            .usePlaintext()
            .maxInboundMessageSize(20 * 1024 * 1024)
            .build();
    this.subscription = "projects/%s/subscriptions/%s".formatted(project, subscription);
    reader.setDaemon(true);
    reader.start();
  }

  static void createTopicAndSubscription(
      String endpoint, String project, String topic, String subscription) {
    ManagedChannel channel = ManagedChannelBuilder.forTarget(endpoint).usePlaintext().build();
    try {
      String topicName = "projects/%s/topics/%s".formatted(project, topic);
      PublisherGrpc.newBlockingStub(channel)
          .withDeadlineAfter(30, TimeUnit.SECONDS)
          .createTopic(Topic.newBuilder().setName(topicName).build());
      SubscriberGrpc.newBlockingStub(channel)
          .withDeadlineAfter(30, TimeUnit.SECONDS)
          .createSubscription(
              Subscription.newBuilder()
                  .setName("projects/%s/subscriptions/%s".formatted(project, subscription))
                  .setTopic(topicName)
                  .build());
    } finally {
      channel.shutdownNow();
    }
  }

  private void read() {
    while (!closed) {
      try {
        SubscriberGrpc.SubscriberBlockingStub stub =
            SubscriberGrpc.newBlockingStub(channel).withDeadlineAfter(100, TimeUnit.SECONDS);
        List<ReceivedMessage> received =
            stub.pull(
                    PullRequest.newBuilder()
                        .setSubscription(subscription)
                        .setMaxMessages(1000)
                        .build())
                .getReceivedMessagesList();
        for (ReceivedMessage message : received) {
          messages
              .computeIfAbsent(
                  message.getMessage().getAttributesOrThrow("outbox_id"),
                  id -> ConcurrentHashMap.newKeySet())
              .add(message.getMessage().getMessageId());
        }
        if (!received.isEmpty()) {
          stub.acknowledge(
              AcknowledgeRequest.newBuilder()
                  .setSubscription(subscription)
                  .addAllAckIds(received.stream().map(ReceivedMessage::getAckId).toList())
                  .build());
        }
      } catch (StatusRuntimeException e) {
        // Closed, or the next pull does it.
      }
    }
  }

  /** How many different events were published. */
  int events() {
    return messages.size();
  }

  /** How many messages are more than one per event. */
  int repeated() {
    return messages.values().stream().mapToInt(ids -> ids.size() - 1).sum();
  }

  /** In how many messages an event was published. */
  int times(String outboxId) {
    return messages.getOrDefault(outboxId, Set.of()).size();
  }

  @Override
  public void close() {
    closed = true;
    channel.shutdownNow();
  }
}
