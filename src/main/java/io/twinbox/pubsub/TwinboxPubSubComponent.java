package io.twinbox.pubsub;

import com.google.api.core.ApiService;
import com.google.api.gax.batching.FlowControlSettings;
import com.google.api.gax.core.InstantiatingExecutorProvider;
import com.google.cloud.pubsub.v1.MessageReceiver;
import com.google.cloud.pubsub.v1.Subscriber;
import com.google.cloud.pubsub.v1.SubscriberShutdownSettings;
import com.google.common.util.concurrent.MoreExecutors;
import io.twinbox.config.TwinboxProperties.Consume;
import java.io.IOException;
import java.util.Map;
import org.apache.camel.Endpoint;
import org.apache.camel.Producer;
import org.apache.camel.component.google.pubsub.GooglePubsubComponent;
import org.apache.camel.component.google.pubsub.GooglePubsubEndpoint;
import org.apache.camel.spi.annotations.Component;
import org.springframework.transaction.support.TransactionOperations;

/**
 * Camel's {@code google-pubsub} with what its options cannot say: publishing a list at once with
 * the outcome of each, flow control, executor size and shutdown of subscribers, and the attributes
 * that may become headers. Routes keep plain {@code google-pubsub} URIs.
 */
@Component("google-pubsub")
class TwinboxPubSubComponent extends GooglePubsubComponent {

  private final PubSubConnection connection;
  private final Consume settings;
  private final SubscriptionWatch watch;
  private final TransactionOperations transaction;
  private final SubscriberBackoff backoff = new SubscriberBackoff();

  TwinboxPubSubComponent(
      PubSubConnection connection,
      Consume settings,
      SubscriptionWatch watch,
      TransactionOperations transaction) {
    this.connection = connection;
    this.settings = settings;
    this.watch = watch;
    this.transaction = transaction;
    setAuthenticate(!connection.emulated());
    setHeaderFilterStrategy(new AttributeHeaders());
  }

  @Override
  protected Endpoint createEndpoint(String uri, String remaining, Map<String, Object> parameters)
      throws Exception {
    String[] parts = remaining.split(":");
    if (parts.length != 2 || parts[0].isBlank() || parts[1].isBlank()) {
      throw new IllegalArgumentException(
          "google-pubsub needs projectId and destinationName; got '%s'.".formatted(remaining));
    }
    GooglePubsubEndpoint endpoint =
        new GooglePubsubEndpoint(uri, this) {
          @Override
          public Producer createProducer() throws IOException {
            return new BatchProducer(this, connection.topics(), connection.publishTimeout());
          }
        };
    endpoint.setProjectId(parts[0]);
    endpoint.setDestinationName(parts[1]);
    endpoint.setAuthenticate(isAuthenticate());
    endpoint.setHeaderFilterStrategy(getHeaderFilterStrategy());
    setProperties(endpoint, parameters);
    if (endpoint.isSynchronousPull()) {
      throw new IllegalArgumentException(
          "google-pubsub with synchronousPull stops for good when the subscription is missing once; leave the option out.");
    }
    return endpoint;
  }

  @Override
  public Subscriber getSubscriber(
      String subscriptionName, MessageReceiver receiver, GooglePubsubEndpoint endpoint)
      throws IOException {
    // Camel asks for a new subscriber at once when one has failed, however often that is.
    backoff.beforeNext();
    MessageBatches batches = settings.batchSize() > 1 ? batches(receiver) : null;
    Subscriber.Builder builder =
        Subscriber.newBuilder(subscriptionName, watched(batches == null ? receiver : batches))
            .setParallelPullCount(1)
            .setExecutorProvider(
                InstantiatingExecutorProvider.newBuilder()
                    .setExecutorThreadCount(settings.concurrency())
                    .build())
            // Few, so that pods share a backlog and a stopping pod holds little back.
            .setFlowControlSettings(
                FlowControlSettings.newBuilder()
                    .setMaxOutstandingElementCount((long) settings.outstanding())
                    .setMaxOutstandingRequestBytes(100_000_000L)
                    .build())
            .setMaxAckExtensionPeriodDuration(settings.maxLease())
            // What has not begun goes back at once instead of waiting out its lease here. What has
            // begun goes back too:
            // the inbox makes its twin wait for it.
            .setSubscriberShutdownSettings(
                SubscriberShutdownSettings.newBuilder()
                    .setMode(SubscriberShutdownSettings.ShutdownMode.NACK_IMMEDIATELY)
                    .setTimeout(settings.shutdownTimeout())
                    .build());
    if (connection.emulated()) {
      builder
          .setChannelProvider(connection.emulatorChannel())
          .setCredentialsProvider(PubSubConnection.noCredentials());
    }
    Subscriber subscriber = builder.build();
    watch.follow(subscriber);
    if (batches != null) {
      subscriber.addListener(closing(batches), MoreExecutors.directExecutor());
    }
    return subscriber;
  }

  private MessageBatches batches(MessageReceiver receiver) {
    return new MessageBatches(
        receiver,
        transaction,
        settings.batchSize(),
        settings.concurrency(),
        settings.keyAttribute());
  }

  private static ApiService.Listener closing(MessageBatches batches) {
    return new ApiService.Listener() {
      @Override
      public void stopping(ApiService.State from) {
        batches.close();
      }

      @Override
      public void failed(ApiService.State from, Throwable failure) {
        batches.close();
      }
    };
  }

  private MessageReceiver watched(MessageReceiver receiver) {
    return (message, reply) -> {
      watch.received();
      receiver.receiveMessage(message, reply);
    };
  }
}
