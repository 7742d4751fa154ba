package io.twinbox.local.pubsub;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import com.google.api.gax.batching.FlowControlSettings;
import com.google.cloud.pubsub.v1.Subscriber;
import com.google.protobuf.ByteString;
import com.google.pubsub.v1.PubsubMessage;
import com.google.pubsub.v1.ReceivedMessage;
import com.google.pubsub.v1.Subscription;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.IntStream;
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.TestInstance;

/** Backend, clients, fresh names for each test, and what the contract's tests share. */
@TestInstance(TestInstance.Lifecycle.PER_CLASS)
abstract class PubSubContractFixture {
  static final String PROJECT = "contract";
  static final Duration PATIENCE = Duration.ofSeconds(60);

  /** Longer than the 1 s leases that tests set. */
  private static final Duration PAST_A_SHORT_LEASE = Duration.ofMillis(1_600);

  final AtomicInteger test = new AtomicInteger();
  PubSubClient client;
  String topic;
  String subscription;

  /** Returns host and port. */
  abstract String startBackend() throws Exception;

  abstract void stopBackend() throws Exception;

  @BeforeAll
  void connect() throws Exception {
    client = new PubSubClient(startBackend());
  }

  @AfterAll
  void disconnect() throws Exception {
    if (client != null) {
      client.close();
    }
    stopBackend();
  }

  @BeforeEach
  void freshNames() {
    int number = test.incrementAndGet();
    topic = ResourceNames.topic(PROJECT, "topic-" + number);
    subscription = ResourceNames.subscription(PROJECT, "subscription-" + number);
  }

  // Helpers

  void createBoth() {
    client.topics.createTopic(topic);
    create(Subscription.newBuilder().setName(subscription));
  }

  void createOrdered() {
    client.topics.createTopic(topic);
    create(Subscription.newBuilder().setName(subscription).setEnableMessageOrdering(true));
  }

  /** Of the test's own topic unless another is set. */
  void create(Subscription.Builder settings) {
    if (settings.getTopic().isEmpty()) {
      settings.setTopic(topic);
    }
    client.subscriptions.createSubscription(settings.build());
  }

  Subscriber start(Set<String> seen, long outstanding) {
    Subscriber subscriber =
        client.subscriber(
            subscription,
            (message, reply) -> {
              seen.add(message.getData().toStringUtf8());
              reply.ack();
            },
            builder ->
                builder.setFlowControlSettings(
                    FlowControlSettings.newBuilder()
                        .setMaxOutstandingElementCount(outstanding)
                        .build()));
    subscriber.startAsync().awaitRunning();
    return subscriber;
  }

  void staysEmpty() {
    // Collected: a message that came once and is leased now must not pass for one that stayed away.
    List<ReceivedMessage> came = new ArrayList<>();
    await()
        .during(PAST_A_SHORT_LEASE)
        .atMost(PATIENCE)
        .until(
            () -> {
              came.addAll(client.pullNow(subscription, 10));
              return true;
            });
    assertThat(came).isEmpty();
  }

  static void settlesAt(int messages, RawStream stream) {
    await().atMost(PATIENCE).until(() -> stream.received.size() >= messages);
    settlesBelow(messages + 1, stream);
  }

  static void settlesBelow(int messages, RawStream stream) {
    await()
        .during(Duration.ofMillis(400))
        .atMost(PATIENCE)
        .failFast("more than " + (messages - 1), () -> stream.received.size() >= messages)
        .until(() -> stream.received.size() < messages);
  }

  static void assertStatus(Status.Code code, ThrowingCallable call) {
    assertThatThrownBy(call)
        .isInstanceOfSatisfying(
            StatusRuntimeException.class,
            refused -> assertThat(refused.getStatus().getCode()).isEqualTo(code));
  }

  static PubsubMessage text(String text) {
    return PubsubMessage.newBuilder().setData(ByteString.copyFromUtf8(text)).build();
  }

  static PubsubMessage[] texts(int count) {
    return IntStream.range(0, count).mapToObj(i -> text("m" + i)).toArray(PubsubMessage[]::new);
  }

  static PubsubMessage keyed(String key, String text) {
    return text(text).toBuilder().setOrderingKey(key).build();
  }

  static PubsubMessage withAttribute(String key, String value) {
    return PubsubMessage.newBuilder().putAttributes(key, value).build();
  }

  static PubsubMessage withAttributes(int count) {
    PubsubMessage.Builder message = PubsubMessage.newBuilder();
    IntStream.range(0, count).forEach(i -> message.putAttributes("k" + i, "v"));
    return message.build();
  }

  static PubsubMessage data(int size) {
    return PubsubMessage.newBuilder().setData(bytes(size)).build();
  }

  static ByteString bytes(int size) {
    return ByteString.copyFrom(new byte[size]);
  }

  static String textOf(ReceivedMessage message) {
    return message.getMessage().getData().toStringUtf8();
  }
}
