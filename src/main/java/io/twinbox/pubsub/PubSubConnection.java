package io.twinbox.pubsub;

import com.google.api.gax.batching.BatchingSettings;
import com.google.api.gax.core.CredentialsProvider;
import com.google.api.gax.core.NoCredentialsProvider;
import com.google.api.gax.grpc.GrpcTransportChannel;
import com.google.api.gax.retrying.RetrySettings;
import com.google.api.gax.rpc.FixedTransportChannelProvider;
import com.google.api.gax.rpc.StatusCode;
import com.google.api.gax.rpc.TransportChannelProvider;
import com.google.cloud.pubsub.v1.SubscriptionAdminClient;
import com.google.cloud.pubsub.v1.SubscriptionAdminSettings;
import com.google.cloud.pubsub.v1.TopicAdminClient;
import com.google.cloud.pubsub.v1.TopicAdminSettings;
import io.grpc.ManagedChannel;
import io.grpc.ManagedChannelBuilder;
import java.io.IOException;
import java.time.Duration;
import java.util.concurrent.TimeUnit;
import org.springframework.beans.factory.DisposableBean;

/**
 * How this process reaches Pub/Sub: Google's service with the machine's own credentials, or a
 * stand-in at {@code PUBSUB_EMULATOR_HOST} without any. The channel to a stand-in is shared,
 * because Camel's component opens a new one with every client and closes none.
 */
class PubSubConnection implements DisposableBean {

  private static final Duration ASK_TIMEOUT = Duration.ofSeconds(5);

  private final String emulatorHost;
  private final Duration publishTimeout;
  private ManagedChannel emulatorChannel;
  private TopicAdminClient topics;
  private SubscriptionAdminClient subscriptions;

  /**
   * @param emulatorHost {@code host:port}, or blank for Google's service
   * @param publishTimeout how long a claim may take to publish, retries included
   */
  PubSubConnection(String emulatorHost, Duration publishTimeout) {
    this.emulatorHost = emulatorHost;
    this.publishTimeout = publishTimeout;
  }

  boolean emulated() {
    return !emulatorHost.isBlank();
  }

  /** The channel to the stand-in; only when {@link #emulated()}. */
  synchronized TransportChannelProvider emulatorChannel() {
    if (emulatorChannel == null) {
      emulatorChannel =
          ManagedChannelBuilder.forTarget(emulatorHost)
              .usePlaintext()
              // Pub/Sub's own limit for a pull response is below this; gRPC's default of 4 MB is
              // not.
              .maxInboundMessageSize(20 * 1024 * 1024)
              .build();
    }
    return FixedTransportChannelProvider.create(GrpcTransportChannel.create(emulatorChannel));
  }

  static CredentialsProvider noCredentials() {
    return NoCredentialsProvider.create();
  }

  /**
   * The client that publishes and looks at topics. Its publish calls retry transient failures up to
   * the publish timeout.
   */
  synchronized TopicAdminClient topics() throws IOException {
    if (topics == null) {
      TopicAdminSettings.Builder settings = TopicAdminSettings.newBuilder();
      if (emulated()) {
        settings
            .setTransportChannelProvider(emulatorChannel())
            .setCredentialsProvider(noCredentials());
      }
      settings
          .publishSettings()
          // A claim is a batch already; the client would mix ordering keys, which Pub/Sub refuses.
          .setBatchingSettings(BatchingSettings.newBuilder().setIsEnabled(false).build())
          .setRetryableCodes(
              StatusCode.Code.ABORTED,
              StatusCode.Code.CANCELLED,
              StatusCode.Code.INTERNAL,
              StatusCode.Code.RESOURCE_EXHAUSTED,
              StatusCode.Code.UNAVAILABLE,
              StatusCode.Code.UNKNOWN)
          .setRetrySettings(retriesWithin(publishTimeout));
      // Asked while polling: a Pub/Sub that does not answer must not hold up the poll for the
      // client's ten minutes.
      settings.listTopicSubscriptionsSettings().setSimpleTimeoutNoRetriesDuration(ASK_TIMEOUT);
      topics = TopicAdminClient.create(settings.build());
    }
    return topics;
  }

  /** Retries with backoff that end, last call included, within a time. */
  static RetrySettings retriesWithin(Duration total) {
    return RetrySettings.newBuilder()
        .setInitialRetryDelayDuration(Duration.ofMillis(100))
        .setRetryDelayMultiplier(2)
        .setMaxRetryDelayDuration(Duration.ofSeconds(5))
        .setInitialRpcTimeoutDuration(total)
        .setMaxRpcTimeoutDuration(total)
        .setTotalTimeoutDuration(total)
        .build();
  }

  /** How long a claim may take to publish, all its calls and their retries included. */
  Duration publishTimeout() {
    return publishTimeout;
  }

  /** The client that looks at subscriptions. */
  synchronized SubscriptionAdminClient subscriptions() throws IOException {
    if (subscriptions == null) {
      SubscriptionAdminSettings.Builder settings = SubscriptionAdminSettings.newBuilder();
      if (emulated()) {
        settings
            .setTransportChannelProvider(emulatorChannel())
            .setCredentialsProvider(noCredentials());
      }
      subscriptions = SubscriptionAdminClient.create(settings.build());
    }
    return subscriptions;
  }

  @Override
  public synchronized void destroy() {
    if (topics != null) {
      topics.shutdownNow();
    }
    if (subscriptions != null) {
      subscriptions.shutdownNow();
    }
    if (emulatorChannel != null) {
      emulatorChannel.shutdownNow();
      try {
        emulatorChannel.awaitTermination(5, TimeUnit.SECONDS);
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
      }
    }
  }
}
