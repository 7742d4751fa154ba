package io.twinbox.pubsub;

import com.google.api.core.ApiService;
import com.google.api.gax.batching.FlowControlSettings;
import com.google.api.gax.core.FixedExecutorProvider;
import com.google.cloud.pubsub.v1.MessageReceiver;
import com.google.cloud.pubsub.v1.Subscriber;
import com.google.cloud.pubsub.v1.SubscriberShutdownSettings;
import com.google.common.util.concurrent.MoreExecutors;
import io.twinbox.config.TwinboxProperties.Consume;
import java.io.IOException;
import java.time.Duration;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.function.BooleanSupplier;
import org.apache.camel.Consumer;
import org.apache.camel.Endpoint;
import org.apache.camel.Processor;
import org.apache.camel.Producer;
import org.apache.camel.StatefulService;
import org.apache.camel.component.google.pubsub.GooglePubsubComponent;
import org.apache.camel.component.google.pubsub.GooglePubsubEndpoint;
import org.apache.camel.spi.annotations.Component;
import org.springframework.scheduling.concurrent.CustomizableThreadFactory;
import org.springframework.transaction.support.TransactionOperations;

/**
 * Camel's {@code google-pubsub} with what its options cannot say: publishing a list at once with
 * the outcome of each, flow control, executor size and shutdown of subscribers, and the attributes
 * that may become headers. Routes keep plain {@code google-pubsub} URIs.
 */
@Component("google-pubsub")
class TwinboxPubSubComponent extends GooglePubsubComponent {

  /** Pub/Sub's shortest, and what the client begins with. */
  private static final Duration LEASE = Duration.ofSeconds(10);

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
    TwinboxEndpoint endpoint = endpoint(uri, parts, parameters);
    if (endpoint.isSynchronousPull()) {
      throw new IllegalArgumentException(
          "google-pubsub with synchronousPull stops for good when the subscription is missing once; leave the option out.");
    }
    return endpoint;
  }

  private TwinboxEndpoint endpoint(String uri, String[] parts, Map<String, Object> parameters)
      throws Exception {
    TwinboxEndpoint endpoint = new TwinboxEndpoint(uri, parts, parameters);
    endpoint.setProjectId(parts[0]);
    endpoint.setDestinationName(parts[1]);
    endpoint.setAuthenticate(isAuthenticate());
    endpoint.setHeaderFilterStrategy(getHeaderFilterStrategy());
    setProperties(endpoint, parameters);
    return endpoint;
  }

  @Override
  public Subscriber getSubscriber(
      String subscriptionName, MessageReceiver receiver, GooglePubsubEndpoint endpoint)
      throws IOException {
    BooleanSupplier wanted = ((TwinboxEndpoint) endpoint)::reads;
    // Camel asks for a new subscriber at once when one has failed, however often that is.
    if (!backoff.beforeNext(wanted)) {
      throw new IOException("The route was stopped before its subscriber was made.");
    }
    MessageBatches batches = settings.batchSize() > 1 ? batches(receiver) : null;
    // In batch mode they only hand over to the batches' own threads.
    CustomizableThreadFactory factory = new CustomizableThreadFactory("consume-");
    factory.setDaemon(true);
    ScheduledExecutorService threads =
        Executors.newScheduledThreadPool(batches == null ? settings.concurrency() : 1, factory);
    Subscriber.Builder builder =
        Subscriber.newBuilder(
                subscriptionName, watched(batches == null ? receiver : batches, wanted))
            .setParallelPullCount(settings.streams())
            .setExecutorProvider(FixedExecutorProvider.create(threads))
            // Few, so that pods share a backlog and a stopping pod holds little back. Each stream
            // asks for so many.
            .setFlowControlSettings(
                FlowControlSettings.newBuilder()
                    .setMaxOutstandingElementCount(
                        Math.max(1L, settings.outstanding() / settings.streams()))
                    .setMaxOutstandingRequestBytes(100_000_000L)
                    .build())
            .setMaxAckExtensionPeriodDuration(settings.maxLease())
            // Extended again and again up to that. Each time by little, because what a crashed pod
            // had, and what was on its way to one that stopped, comes back after the last lease.
            .setMaxDurationPerAckExtensionDuration(LEASE)
            // What has not begun goes back at once instead of waiting out its lease here. What has
            // begun ends here, but goes back too: the inbox makes its twin wait for it.
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
    subscriber.addListener(ending(subscriber, threads, wanted), MoreExecutors.directExecutor());
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

  private ApiService.Listener closing(MessageBatches batches) {
    return new ApiService.Listener() {
      @Override
      public void stopping(ApiService.State from) {
        batches.close();
        // Camel waits for messages that are in a route; between two of them a batch is in none.
        batches.awaitEnd(settings.shutdownTimeout());
      }

      @Override
      public void failed(ApiService.State from, Throwable failure) {
        batches.close();
      }
    };
  }

  private ApiService.Listener ending(
      Subscriber subscriber, ScheduledExecutorService threads, BooleanSupplier wanted) {
    return new ApiService.Listener() {
      @Override
      public void running() {
        // A stop that came while this one was made knows nothing of it.
        if (!wanted.getAsBoolean()) {
          subscriber.stopAsync();
        }
      }

      @Override
      public void terminated(ApiService.State from) {
        threads.shutdown();
      }

      @Override
      public void failed(ApiService.State from, Throwable failure) {
        threads.shutdown();
        backoff.failed();
      }
    };
  }

  /**
   * The client's threads still bring what it had queued when it was told to stop, and has given
   * back.
   */
  private MessageReceiver watched(MessageReceiver receiver, BooleanSupplier wanted) {
    return (message, reply) -> {
      if (!wanted.getAsBoolean()) {
        reply.nack();
        return;
      }
      watch.received();
      receiver.receiveMessage(message, reply);
    };
  }

  /**
   * Camel makes a new consumer each time a route is started, and asks for subscribers in the name
   * of the endpoint only. So each consumer gets an endpoint of its own, and a subscriber can tell
   * whether it is still wanted.
   */
  private final class TwinboxEndpoint extends GooglePubsubEndpoint {

    private final String[] parts;
    private final Map<String, Object> parameters;
    private StatefulService consumer;

    TwinboxEndpoint(String uri, String[] parts, Map<String, Object> parameters) {
      super(uri, TwinboxPubSubComponent.this);
      this.parts = parts;
      this.parameters = new HashMap<>(parameters);
    }

    @Override
    public Producer createProducer() throws IOException {
      return new BatchProducer(this, connection.topics(), connection.publishTimeout());
    }

    @Override
    public Consumer createConsumer(Processor processor) throws Exception {
      return endpoint(getEndpointUri(), parts, new HashMap<>(parameters)).ownConsumer(processor);
    }

    private Consumer ownConsumer(Processor processor) throws Exception {
      Consumer created = super.createConsumer(processor);
      consumer = (StatefulService) created;
      return created;
    }

    /** Whether the route takes messages: the condition under which Camel asks for a subscriber. */
    boolean reads() {
      return consumer.isRunAllowed() && !consumer.isSuspending() && !consumer.isSuspended();
    }
  }
}
