package io.twinbox.bench;

import com.google.api.gax.core.NoCredentialsProvider;
import com.google.cloud.pubsub.v1.MessageReceiver;
import com.google.cloud.pubsub.v1.Publisher;
import com.google.cloud.pubsub.v1.Subscriber;
import com.google.protobuf.ByteString;
import com.google.protobuf.Timestamp;
import com.google.pubsub.v1.PubsubMessage;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Executors;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * From the insert of an event to its delivery, and from a direct publish to its delivery: both at
 * the same time, at the same subscriber, so that both suffer the same machine.
 */
final class Latency {

  private static final int BYTES = 1024;
  private static final String BEGIN = "n";

  /** Milliseconds, sorted. */
  record Sample(double[] millis) {
    double percentile(double p) {
      return millis.length == 0
          ? Double.NaN
          : millis[(int) Math.min(millis.length - 1, Math.floor(p * millis.length))];
    }
  }

  /**
   * @param insert how long the insert took, its commit included
   * @param untilPublished from before the insert until Pub/Sub says that it had the message; to the
   *     millisecond
   */
  record Result(Sample outbox, Sample direct, Sample insert, Sample untilPublished) {}

  /** When a message was sent, on the monotonic clock and on the wall's. */
  private record Sent(long nanos, Instant time) {
    double millis(long later) {
      return (later - nanos) / 1e6;
    }
  }

  private final Map<String, Sent> sent = new ConcurrentHashMap<>();
  private final ConcurrentLinkedQueue<Double> outbox = new ConcurrentLinkedQueue<>();
  private final ConcurrentLinkedQueue<Double> direct = new ConcurrentLinkedQueue<>();
  private final ConcurrentLinkedQueue<Double> inserts = new ConcurrentLinkedQueue<>();
  private final ConcurrentLinkedQueue<Double> untilPublished = new ConcurrentLinkedQueue<>();

  /**
   * @param insert SQL with two parameters, topic and payload
   */
  Result measure(
      BenchServer server,
      String database,
      BenchPubSub pubSub,
      String topic,
      String insert,
      int perSecond,
      int seconds)
      throws Exception {
    // A name that was never used: Google's emulator goes on giving messages of a subscription that
    // was deleted and made again to whoever read it before.
    String subscription = pubSub.subscribe(topic, topic + "-latency-" + UUID.randomUUID());
    Subscriber subscriber =
        Subscriber.newBuilder(
                subscription,
                (MessageReceiver)
                    (message, reply) -> {
                      received(message);
                      reply.ack();
                    })
            .setChannelProvider(pubSub.provider())
            .setCredentialsProvider(NoCredentialsProvider.create())
            .build();
    Publisher publisher =
        Publisher.newBuilder(BenchPubSub.topicPath(topic))
            .setChannelProvider(pubSub.provider())
            .setCredentialsProvider(NoCredentialsProvider.create())
            .build();
    subscriber.startAsync().awaitRunning();
    ScheduledExecutorService timers = Executors.newScheduledThreadPool(2);
    try (Connection connection = server.connect(database);
        PreparedStatement put = connection.prepareStatement(insert)) {
      // Three seconds that are not counted: connections open, code gets warm.
      run(timers, put, publisher, topic, perSecond, 3);
      List.of(outbox, direct, inserts, untilPublished).forEach(ConcurrentLinkedQueue::clear);
      run(timers, put, publisher, topic, perSecond, seconds);
      return new Result(sample(outbox), sample(direct), sample(inserts), sample(untilPublished));
    } finally {
      timers.shutdownNow();
      publisher.shutdown();
      subscriber.stopAsync().awaitTerminated(10, TimeUnit.SECONDS);
    }
  }

  private void run(
      ScheduledExecutorService timers,
      PreparedStatement put,
      Publisher publisher,
      String topic,
      int perSecond,
      int seconds)
      throws InterruptedException {
    int count = perSecond * seconds;
    long period = 1_000_000 / perSecond;
    List<Runnable> steps =
        List.of(
            () -> insert(put, topic),
            () ->
                publisher.publish(
                    PubsubMessage.newBuilder().setData(ByteString.copyFrom(payload("d"))).build()));
    CountDownLatch done = new CountDownLatch(count * steps.size());
    for (int step = 0; step < steps.size(); step++) {
      Runnable task = steps.get(step);
      AtomicInteger left = new AtomicInteger(count);
      timers.scheduleAtFixedRate(
          () -> {
            if (left.getAndDecrement() > 0) {
              task.run();
              done.countDown();
            }
          },
          step * period / 2,
          period,
          TimeUnit.MICROSECONDS);
    }
    done.await(seconds * 3L + 10, TimeUnit.SECONDS);
    long patience = System.nanoTime() + TimeUnit.SECONDS.toNanos(10);
    while (!sent.isEmpty() && System.nanoTime() < patience) {
      TimeUnit.MILLISECONDS.sleep(20);
    }
    if (!sent.isEmpty()) {
      System.out.printf(
          "  not delivered in time: %d of the outbox, %d published directly%n",
          sent.keySet().stream().filter(Latency::ofOutbox).count(),
          sent.keySet().stream().filter(name -> !ofOutbox(name)).count());
      sent.clear();
    }
  }

  private int number;

  private synchronized byte[] payload(String kind) {
    byte[] payload = new byte[BYTES];
    Arrays.fill(payload, (byte) ' ');
    String name = kind + ++number;
    byte[] text = (BEGIN + name + ";").getBytes();
    System.arraycopy(text, 0, payload, 0, text.length);
    sent.put(name, new Sent(System.nanoTime(), Instant.now()));
    return payload;
  }

  private static boolean ofOutbox(String name) {
    return name.startsWith("o");
  }

  private void insert(PreparedStatement put, String topic) {
    try {
      long start = System.nanoTime();
      put.setString(1, topic);
      put.setBytes(2, payload("o"));
      put.executeUpdate();
      inserts.add((System.nanoTime() - start) / 1e6);
    } catch (SQLException e) {
      throw new IllegalStateException(e);
    }
  }

  private void received(PubsubMessage message) {
    long now = System.nanoTime();
    String text = message.getData().toStringUtf8();
    if (!text.startsWith(BEGIN)) {
      return;
    }
    String name = text.substring(BEGIN.length(), text.indexOf(';'));
    Sent start = sent.remove(name);
    if (start != null) {
      (ofOutbox(name) ? outbox : direct).add(start.millis(now));
      if (ofOutbox(name)) {
        Timestamp published = message.getPublishTime();
        Instant had = Instant.ofEpochSecond(published.getSeconds(), published.getNanos());
        untilPublished.add(Duration.between(start.time, had).toNanos() / 1e6);
      }
    }
  }

  private static Sample sample(Iterable<Double> millis) {
    List<Double> all = new ArrayList<>();
    millis.forEach(all::add);
    return new Sample(all.stream().mapToDouble(Double::doubleValue).sorted().toArray());
  }
}
