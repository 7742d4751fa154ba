package io.twinbox.bench;

import com.google.api.gax.core.NoCredentialsProvider;
import com.google.api.gax.grpc.GrpcTransportChannel;
import com.google.api.gax.rpc.FixedTransportChannelProvider;
import com.google.api.gax.rpc.TransportChannelProvider;
import com.google.cloud.pubsub.v1.SubscriptionAdminClient;
import com.google.cloud.pubsub.v1.SubscriptionAdminSettings;
import com.google.cloud.pubsub.v1.TopicAdminClient;
import com.google.cloud.pubsub.v1.TopicAdminSettings;
import com.google.protobuf.ByteString;
import com.google.pubsub.v1.PubsubMessage;
import com.google.pubsub.v1.Subscription;
import io.grpc.ManagedChannel;
import io.grpc.ManagedChannelBuilder;
import io.twinbox.local.pubsub.GooglePubSubEmulator;
import io.twinbox.local.pubsub.LocalPubSubMain;
import io.twinbox.process.TwinboxProcess;
import java.io.IOException;
import java.nio.file.Path;
import java.util.List;
import java.util.Optional;
import java.util.UUID;

/** Google's emulator where it is found, else the local Pub/Sub; a process of its own either way. */
final class BenchPubSub implements AutoCloseable {

  static final String PROJECT = "bench";

  /** It keeps what nobody reads. */
  private static final String HEAP = "-Xmx1g";

  private static final String LISTENING = "Local Pub/Sub listening on ";

  private final Child process;
  private final String name;
  private final String endpoint;
  private final ManagedChannel channel;
  private final TopicAdminClient topics;
  private final SubscriptionAdminClient subscriptions;
  private int count;

  private BenchPubSub(Child process, String name, String endpoint) throws IOException {
    this.process = process;
    this.name = name;
    this.endpoint = endpoint;
    this.channel = channel(endpoint);
    this.topics =
        TopicAdminClient.create(
            TopicAdminSettings.newBuilder()
                .setTransportChannelProvider(provider(channel))
                .setCredentialsProvider(NoCredentialsProvider.create())
                .build());
    this.subscriptions =
        SubscriptionAdminClient.create(
            SubscriptionAdminSettings.newBuilder()
                .setTransportChannelProvider(provider(channel))
                .setCredentialsProvider(NoCredentialsProvider.create())
                .build());
  }

  static BenchPubSub start(boolean preferGoogle) throws IOException {
    Optional<Path> google = preferGoogle ? GooglePubSubEmulator.find() : Optional.empty();
    if (google.isEmpty()) {
      return local(0);
    }
    int port = TwinboxProcess.freePort();
    Child process =
        Child.jar("google-pubsub", HEAP, google.get(), "--host=127.0.0.1", "--port=" + port);
    process.awaitLine("Server started, listening on");
    return new BenchPubSub(process, "Google's emulator", "127.0.0.1:" + port);
  }

  /** The local Pub/Sub, which can be slow on purpose. */
  static BenchPubSub local(int publishLatencyMillis) throws IOException {
    Child process =
        Child.main(
            "local-pubsub",
            HEAP,
            LocalPubSubMain.class,
            "--publish-latency-ms",
            String.valueOf(publishLatencyMillis));
    String endpoint = process.awaitLine(LISTENING).replace(LISTENING, "");
    return new BenchPubSub(
        process,
        "local Pub/Sub"
            + (publishLatencyMillis > 0 ? ", publish " + publishLatencyMillis + " ms" : ""),
        endpoint);
  }

  static ManagedChannel channel(String endpoint) {
    return ManagedChannelBuilder.forTarget(endpoint)
        .usePlaintext()
        .maxInboundMessageSize(20 * 1024 * 1024)
        .build();
  }

  static TransportChannelProvider provider(ManagedChannel channel) {
    return FixedTransportChannelProvider.create(GrpcTransportChannel.create(channel));
  }

  TransportChannelProvider provider() {
    return provider(channel);
  }

  /** A new topic with one subscription that nobody reads; returns its short name. */
  String createTopic(String prefix) {
    String topic = prefix + "-" + ++count;
    topics.createTopic(topicPath(topic));
    subscribe(topic, topic + "-a");
    return topic;
  }

  /** What was published so far is forgotten: its memory belongs to the next measurement. */
  void forget(String topic) {
    subscribe(topic, topic + "-" + ++count);
    for (String path : topics.listTopicSubscriptions(topicPath(topic)).iterateAll()) {
      if (!path.endsWith("/" + topic + "-" + count)) {
        subscriptions.deleteSubscription(path);
      }
    }
  }

  String subscribe(String topic, String subscription) {
    String path = "projects/%s/subscriptions/%s".formatted(PROJECT, subscription);
    subscriptions.createSubscription(
        Subscription.newBuilder()
            .setName(path)
            .setTopic(topicPath(topic))
            .setAckDeadlineSeconds(60)
            .build());
    return path;
  }

  /**
   * Publishes one message per id: the event, and the id as the attribute {@code outbox_id}.
   *
   * @param block begins the events' names
   */
  void publish(String topic, List<UUID> ids, int block) {
    String padding = "x".repeat(900);
    for (int from = 0; from < ids.size(); from += 500) {
      List<PubsubMessage> batch =
          ids.subList(from, Math.min(from + 500, ids.size())).stream()
              .map(
                  id ->
                      PubsubMessage.newBuilder()
                          .setData(
                              ByteString.copyFromUtf8(
                                  "{\"event\": \"%d-%s\", \"note\": \"%s\"}"
                                      .formatted(block, id, padding)))
                          .putAttributes("outbox_id", id.toString())
                          .build())
              .toList();
      topics.publish(topicPath(topic), batch);
    }
  }

  static String topicPath(String topic) {
    return "projects/%s/topics/%s".formatted(PROJECT, topic);
  }

  String name() {
    return name;
  }

  long pid() {
    return process.pid();
  }

  String endpoint() {
    return endpoint;
  }

  @Override
  public void close() {
    topics.shutdownNow();
    subscriptions.shutdownNow();
    channel.shutdownNow();
    process.close();
  }
}
