package io.twinbox.local.pubsub;

import com.google.pubsub.v1.Subscription;
import com.google.pubsub.v1.Topic;
import io.grpc.Server;
import io.grpc.Status;
import io.grpc.netty.shaded.io.grpc.netty.NettyServerBuilder;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetSocketAddress;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.ThreadFactory;
import java.util.concurrent.ThreadPoolExecutor;
import java.util.concurrent.TimeUnit;

/**
 * Pub/Sub on this machine, over the real protocol: Google's clients connect to {@link #endpoint()}
 * without credentials and without TLS, as to Google's emulator ({@code PUBSUB_EMULATOR_HOST}).
 *
 * <p>Unlike that one it brings back what a closed or killed subscriber held, enforces the service's
 * limits, and fails when told to. Everything is in memory and gone with the process.
 *
 * <p>It does pull subscriptions; with exactly-once delivery, who acknowledges or extends a lease
 * that is over is told so. Push, filters, snapshots and schemas are refused with UNIMPLEMENTED;
 * messages and subscriptions never grow too old.
 */
public final class LocalPubSub implements AutoCloseable {
  /** Well above {@link MessageLimits#REQUEST_BYTES}: it is the limit check that shall answer. */
  private static final int MAX_INBOUND_BYTES = 64 * 1024 * 1024;

  private static final int STOP_SECONDS = 2;
  private static final int WORKERS = Math.max(2, Runtime.getRuntime().availableProcessors());

  private final LocalPubSubFaults faults = new LocalPubSubFaults();
  private final LocalPubSubStats stats = new LocalPubSubStats();
  // Both drop what comes after close: gRPC reports a stream's end late, and nobody needs it then.
  private final ScheduledThreadPoolExecutor timer =
      new ScheduledThreadPoolExecutor(
          1, threads("local-pubsub-timer"), new ThreadPoolExecutor.DiscardPolicy());
  private final ThreadPoolExecutor workers =
      new ThreadPoolExecutor(
          WORKERS,
          WORKERS,
          0,
          TimeUnit.SECONDS,
          new LinkedBlockingQueue<>(),
          threads("local-pubsub"),
          new ThreadPoolExecutor.DiscardPolicy());
  private final Registry registry = new Registry(timer, faults, stats);
  private final SubscriberService subscriber;
  private final Server server;

  private LocalPubSub(int port) {
    timer.setRemoveOnCancelPolicy(true);
    Calls calls = new Calls(faults, timer);
    subscriber = new SubscriberService(registry, calls, timer);
    faults.streamsBrokenBy(subscriber::breakStreams);
    stats.backlogsFrom(registry::backlogs);
    server =
        NettyServerBuilder.forAddress(new InetSocketAddress("127.0.0.1", port))
            .executor(workers)
            .maxInboundMessageSize(MAX_INBOUND_BYTES)
            .permitKeepAliveTime(5, TimeUnit.SECONDS)
            .permitKeepAliveWithoutCalls(true)
            .addService(new PublisherService(registry, calls))
            .addService(subscriber)
            .build();
  }

  /** Starts on a free port. */
  public static LocalPubSub start() {
    return start(0);
  }

  /**
   * @param port 1 to 65535, or 0 for a free one
   * @throws UncheckedIOException when the port is taken
   */
  public static LocalPubSub start(int port) {
    LocalPubSub started = new LocalPubSub(port);
    try {
      started.server.start();
    } catch (IOException refused) {
      started.close();
      throw new UncheckedIOException(
          "The local Pub/Sub cannot listen on 127.0.0.1:" + port + ": " + rootMessage(refused),
          refused);
    }
    return started;
  }

  /** Host and port, as {@code PUBSUB_EMULATOR_HOST} wants them: {@code 127.0.0.1:1234}. */
  public String endpoint() {
    return "127.0.0.1:" + server.getPort();
  }

  public void createTopic(String project, String topic) {
    createTopic(Topic.newBuilder().setName(ResourceNames.topic(project, topic)).build());
  }

  /** A topic by its full name. */
  public void createTopic(Topic topic) {
    registry.createTopic(topic);
  }

  /** A subscription with the service's defaults. */
  public void createSubscription(String project, String subscription, String topic) {
    createSubscription(
        Subscription.newBuilder()
            .setName(ResourceNames.subscription(project, subscription))
            .setTopic(ResourceNames.topic(project, topic))
            .build());
  }

  /** A subscription with all its settings. */
  public void createSubscription(Subscription subscription) {
    registry.createSubscription(subscription);
  }

  public LocalPubSubFaults faults() {
    return faults;
  }

  public LocalPubSubStats stats() {
    return stats;
  }

  /** Waits until someone closes it. */
  void awaitTermination() throws InterruptedException {
    server.awaitTermination();
  }

  /** Breaks what is open and stops. Messages are gone. */
  @Override
  public void close() {
    server.shutdown();
    subscriber.breakStreams(
        Status.UNAVAILABLE.withDescription("The local Pub/Sub is shutting down."));
    try {
      if (!server.awaitTermination(STOP_SECONDS, TimeUnit.SECONDS)) {
        server.shutdownNow();
      }
    } catch (InterruptedException interrupted) {
      server.shutdownNow();
      Thread.currentThread().interrupt();
    }
    timer.shutdownNow();
    workers.shutdownNow();
  }

  private static ThreadFactory threads(String name) {
    return work -> {
      Thread thread = new Thread(work, name);
      thread.setDaemon(true);
      return thread;
    };
  }

  private static String rootMessage(Throwable problem) {
    return problem.getCause() == null ? problem.getMessage() : rootMessage(problem.getCause());
  }
}
