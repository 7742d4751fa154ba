package io.twinbox.local.pubsub;

import com.google.api.gax.core.NoCredentialsProvider;
import com.google.api.gax.grpc.GrpcTransportChannel;
import com.google.api.gax.rpc.FixedTransportChannelProvider;
import com.google.api.gax.rpc.TransportChannelProvider;
import com.google.cloud.pubsub.v1.MessageReceiver;
import com.google.cloud.pubsub.v1.Publisher;
import com.google.cloud.pubsub.v1.Subscriber;
import com.google.cloud.pubsub.v1.SubscriptionAdminClient;
import com.google.cloud.pubsub.v1.SubscriptionAdminSettings;
import com.google.cloud.pubsub.v1.TopicAdminClient;
import com.google.cloud.pubsub.v1.TopicAdminSettings;
import com.google.pubsub.v1.AcknowledgeRequest;
import com.google.pubsub.v1.ModifyAckDeadlineRequest;
import com.google.pubsub.v1.PublishRequest;
import com.google.pubsub.v1.PublisherGrpc;
import com.google.pubsub.v1.PubsubMessage;
import com.google.pubsub.v1.PullRequest;
import com.google.pubsub.v1.ReceivedMessage;
import com.google.pubsub.v1.SubscriberGrpc;
import io.grpc.ManagedChannel;
import io.grpc.ManagedChannelBuilder;
import java.io.IOException;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.function.UnaryOperator;

/** Google's own clients, and the bare stubs where those hide what a test looks at. */
final class PubSubClient implements AutoCloseable {
  /** As the client's own default for what it accepts: a pull may answer with 10 MB. */
  private static final int MAX_INBOUND_BYTES = 20 * 1024 * 1024;

  private static final int CALL_SECONDS = 60;

  final TopicAdminClient topics;
  final SubscriptionAdminClient subscriptions;
  private final ManagedChannel channel;
  private final TransportChannelProvider provider;

  PubSubClient(String endpoint) throws IOException {
    channel =
        ManagedChannelBuilder.forTarget(endpoint)
            .usePlaintext()
            .maxInboundMessageSize(MAX_INBOUND_BYTES)
            .build();
    provider = FixedTransportChannelProvider.create(GrpcTransportChannel.create(channel));
    topics =
        TopicAdminClient.create(
            TopicAdminSettings.newBuilder()
                .setTransportChannelProvider(provider)
                .setCredentialsProvider(NoCredentialsProvider.create())
                .build());
    subscriptions =
        SubscriptionAdminClient.create(
            SubscriptionAdminSettings.newBuilder()
                .setTransportChannelProvider(provider)
                .setCredentialsProvider(NoCredentialsProvider.create())
                .build());
  }

  Publisher publisher(String topic, UnaryOperator<Publisher.Builder> settings) throws IOException {
    return settings
        .apply(
            Publisher.newBuilder(topic)
                .setChannelProvider(provider)
                .setCredentialsProvider(NoCredentialsProvider.create()))
        .build();
  }

  /** Not yet started; one stream. */
  Subscriber subscriber(
      String subscription, MessageReceiver receiver, UnaryOperator<Subscriber.Builder> settings) {
    return settings
        .apply(
            Subscriber.newBuilder(subscription, receiver)
                .setChannelProvider(provider)
                .setCredentialsProvider(NoCredentialsProvider.create())
                .setParallelPullCount(1))
        .build();
  }

  PublisherGrpc.PublisherBlockingStub publisherStub() {
    return PublisherGrpc.newBlockingStub(channel).withDeadlineAfter(CALL_SECONDS, TimeUnit.SECONDS);
  }

  SubscriberGrpc.SubscriberBlockingStub subscriberStub() {
    return SubscriberGrpc.newBlockingStub(channel)
        .withDeadlineAfter(CALL_SECONDS, TimeUnit.SECONDS);
  }

  SubscriberGrpc.SubscriberStub streamingStub() {
    return SubscriberGrpc.newStub(channel);
  }

  /** One publish call. */
  List<String> publish(String topic, PubsubMessage... messages) {
    return publisherStub()
        .publish(
            PublishRequest.newBuilder()
                .setTopic(topic)
                .addAllMessages(Arrays.asList(messages))
                .build())
        .getMessageIdsList();
  }

  /** One pull call that waits for a first message for as long as the service does. */
  List<ReceivedMessage> pull(String subscription, int max) {
    return subscriberStub()
        .pull(PullRequest.newBuilder().setSubscription(subscription).setMaxMessages(max).build())
        .getReceivedMessagesList();
  }

  /** One pull call that does not wait. */
  @SuppressWarnings("deprecation")
  List<ReceivedMessage> pullNow(String subscription, int max) {
    return subscriberStub()
        .pull(
            PullRequest.newBuilder()
                .setSubscription(subscription)
                .setMaxMessages(max)
                .setReturnImmediately(true)
                .build())
        .getReceivedMessagesList();
  }

  void acknowledge(String subscription, String... ackIds) {
    subscriberStub()
        .acknowledge(
            AcknowledgeRequest.newBuilder()
                .setSubscription(subscription)
                .addAllAckIds(Arrays.asList(ackIds))
                .build());
  }

  void modifyAckDeadline(String subscription, int seconds, String... ackIds) {
    subscriberStub()
        .modifyAckDeadline(
            ModifyAckDeadlineRequest.newBuilder()
                .setSubscription(subscription)
                .setAckDeadlineSeconds(seconds)
                .addAllAckIds(Arrays.asList(ackIds))
                .build());
  }

  @Override
  public void close() {
    topics.close();
    subscriptions.close();
    channel.shutdownNow();
  }
}
