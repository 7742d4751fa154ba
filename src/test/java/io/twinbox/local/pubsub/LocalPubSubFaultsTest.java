package io.twinbox.local.pubsub;

import static io.twinbox.local.pubsub.PubSubContractFixture.assertStatus;
import static io.twinbox.local.pubsub.PubSubContractFixture.keyed;
import static io.twinbox.local.pubsub.PubSubContractFixture.text;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import com.google.cloud.pubsub.v1.Subscriber;
import com.google.protobuf.ByteString;
import com.google.pubsub.v1.PublishRequest;
import com.google.pubsub.v1.PubsubMessage;
import com.google.pubsub.v1.StreamingPullRequest;
import com.google.pubsub.v1.Subscription;
import com.google.rpc.ErrorInfo;
import io.grpc.Status;
import io.grpc.protobuf.StatusProto;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** What goes wrong on purpose, and what is counted. */
class LocalPubSubFaultsTest {
  private static final Duration PATIENCE = Duration.ofSeconds(60);
  private static final String TOPIC = ResourceNames.topic("p", "orders");
  private static final String SUBSCRIPTION = ResourceNames.subscription("p", "ledger");

  private LocalPubSub pubSub;
  private PubSubClient client;

  @BeforeEach
  void start() throws Exception {
    pubSub = LocalPubSub.start();
    pubSub.createTopic("p", "orders");
    pubSub.createSubscription("p", "ledger", "orders");
    client = new PubSubClient(pubSub.endpoint());
  }

  @AfterEach
  void stop() {
    client.close();
    pubSub.close();
  }

  @Test
  void aShareOfTheAcknowledgedMessagesComesExactlyOnceMore() {
    pubSub.faults().redeliverAcknowledged(0.2, 1);

    Map<String, Integer> deliveries = publishAndConsume(SUBSCRIPTION, 1_000);

    long twice = deliveries.values().stream().filter(times -> times == 2).count();
    assertThat(twice).isBetween(150L, 250L).isEqualTo(pubSub.stats().redeliveriesInjected());
    assertThat(deliveries).hasSize(1_000);
    assertThat(deliveries.values()).allMatch(times -> times <= 2);
    assertThat(pubSub.stats().deliveries()).isEqualTo(1_000 + twice);
    assertThat(pubSub.stats().acks()).isEqualTo(1_000 + twice);
  }

  @Test
  void theSameSeedRedeliversTheSameMessagesAndAnotherSeedOthers() {
    pubSub.createSubscription("p", "second", "orders");
    pubSub.faults().redeliverAcknowledged(0.2, 7);
    Set<String> first = twice(publishAndConsume(SUBSCRIPTION, 500));
    Set<String> again = twice(consume(ResourceNames.subscription("p", "second"), 500));
    assertThat(again).isEqualTo(first).isNotEmpty();

    pubSub.faults().redeliverAcknowledged(0.2, 8);
    assertThat(twice(publishAndConsume(SUBSCRIPTION, 500))).isNotEmpty().isNotEqualTo(first);
  }

  @Test
  void redeliveryOfKeyedMessagesKeepsTheirOrderAndEnds() {
    String ordered = ResourceNames.subscription("p", "ordered");
    pubSub.createSubscription(
        Subscription.newBuilder()
            .setName(ordered)
            .setTopic(TOPIC)
            .setEnableMessageOrdering(true)
            .build());
    pubSub.faults().redeliverAcknowledged(1, 1);
    client.publish(TOPIC, keyed("k", "1"), keyed("k", "2"), keyed("k", "3"));
    RawStream stream = RawStream.open(client, ordered);
    await().atMost(PATIENCE).until(() -> stream.received.size() == 3);

    stream.acknowledge(stream.ackIdOf("1"));

    await().atMost(PATIENCE).until(() -> stream.received.size() == 6);
    assertThat(stream.texts()).containsExactly("1", "2", "3", "1", "2", "3");
    List.of("1", "2", "3").forEach(text -> stream.acknowledge(stream.ackIdOf(text)));
    await().atMost(PATIENCE).until(() -> pubSub.stats().backlog(ordered) == 0);
    assertThat(pubSub.stats().redeliveriesInjected()).isEqualTo(3);
    stream.cancel();
  }

  @Test
  void aMessageDeliveredTwiceIsAtTwoStreamsAtTheSameTime() {
    pubSub.faults().deliverTwice(1, 1);
    RawStream a = openStream();
    RawStream b = openStream();

    client.publish(TOPIC, text("twin"));

    await().atMost(PATIENCE).until(() -> a.texts().contains("twin") && b.texts().contains("twin"));
    assertThat(a.ackIdOf("twin")).isNotEqualTo(b.ackIdOf("twin"));
    assertThat(a.received).hasSize(1);
    a.acknowledge(a.ackIdOf("twin"));
    b.acknowledge(b.ackIdOf("twin"));
    a.cancel();
    b.cancel();
  }

  @Test
  void publishLatencyDelaysPublishesOnly() {
    pubSub.faults().publishLatency(Duration.ofMillis(800));

    assertThat(took(() -> client.publish(TOPIC, text("a")))).isGreaterThan(Duration.ofMillis(790));
    assertThat(took(() -> client.topics.getTopic(TOPIC))).isLessThan(Duration.ofMillis(790));
  }

  @Test
  void otherLatencyDelaysAllButPublishes() {
    client.topics.getTopic(TOPIC);
    client.publish(TOPIC, text("warm"));
    pubSub.faults().otherLatency(Duration.ofMillis(800));

    assertThat(took(() -> client.subscriptions.getSubscription(SUBSCRIPTION)))
        .isGreaterThan(Duration.ofMillis(790));
    assertThat(took(() -> client.publish(TOPIC, text("a")))).isLessThan(Duration.ofMillis(790));
  }

  @Test
  void theNextCallsFailAsOftenAsAsked() {
    LocalPubSubFaults.Rule rule =
        pubSub.faults().failNext(PubSubCall.PUBLISH, 2, Status.PERMISSION_DENIED);

    client.topics.getTopic(TOPIC);
    assertStatus(Status.Code.PERMISSION_DENIED, () -> client.publish(TOPIC, text("a")));
    assertStatus(Status.Code.PERMISSION_DENIED, () -> client.publish(TOPIC, text("a")));
    assertThat(client.publish(TOPIC, text("a"))).hasSize(1);
    assertThat(rule.hits()).isEqualTo(2);
    assertThat(pubSub.stats().published()).isEqualTo(1);
  }

  @Test
  void anyKindOfCallCanFailNext() {
    pubSub.faults().failNext(1, Status.INTERNAL);

    assertStatus(Status.Code.INTERNAL, () -> client.pullNow(SUBSCRIPTION, 1));
    assertThat(client.pullNow(SUBSCRIPTION, 1)).isEmpty();
  }

  @Test
  void publishesWithAMatchingMessageFailUntilTheRuleIsTakenBack() {
    PubsubMessage bad = text("bad").toBuilder().putAttributes("outbox_id", "13").build();
    LocalPubSubFaults.Rule rule =
        pubSub
            .faults()
            .failPublishWhen(
                message -> "13".equals(message.getAttributesMap().get("outbox_id")),
                Status.INVALID_ARGUMENT);

    assertThat(client.publish(TOPIC, text("good"))).hasSize(1);
    for (int i = 0; i < 3; i++) {
      assertStatus(Status.Code.INVALID_ARGUMENT, () -> client.publish(TOPIC, text("mate"), bad));
    }
    rule.close();

    assertThat(client.publish(TOPIC, bad)).hasSize(1);
    assertThat(rule.hits()).isEqualTo(3);
    assertThat(client.pull(SUBSCRIPTION, 10))
        .extracting(PubSubContractFixture::textOf)
        .containsExactly("good", "bad");
  }

  @Test
  void callsCanFailByTheirRequest() {
    pubSub
        .faults()
        .failWhen(
            PubSubCall.PUBLISH,
            request -> ((PublishRequest) request).getMessagesCount() > 1,
            Status.RESOURCE_EXHAUSTED);

    assertThat(client.publish(TOPIC, text("a"))).hasSize(1);
    assertStatus(Status.Code.RESOURCE_EXHAUSTED, () -> client.publish(TOPIC, text("a"), text("b")));
  }

  @Test
  void aLostAnswerLeavesTheMessagePublished() {
    pubSub.faults().losePublishAnswers(1);

    assertStatus(Status.Code.UNAVAILABLE, () -> client.publish(TOPIC, text("a")));

    assertThat(client.publish(TOPIC, text("b"))).hasSize(1);
    assertThat(client.pull(SUBSCRIPTION, 10))
        .extracting(PubSubContractFixture::textOf)
        .containsExactly("a", "b");
  }

  @Test
  void aLostAnswerOfAnAcknowledgementLeavesItAcknowledged() {
    client.publish(TOPIC, text("a"));
    String ackId = client.pull(SUBSCRIPTION, 1).get(0).getAckId();
    pubSub.faults().loseAnswers(PubSubCall.ACKNOWLEDGE, 1);

    assertStatus(Status.Code.UNAVAILABLE, () -> client.acknowledge(SUBSCRIPTION, ackId));

    assertThat(pubSub.stats().backlog(SUBSCRIPTION)).isZero();
  }

  @Test
  void aStreamThatWasRefusedMayStillSendAndIsRefusedOnce() {
    pubSub.faults().failNext(PubSubCall.STREAMING_PULL, 1, Status.PERMISSION_DENIED);
    RawStream stream = RawStream.open(client, SUBSCRIPTION);
    stream.send(RawStream.opening(SUBSCRIPTION));

    await().atMost(PATIENCE).until(() -> stream.end() != null);
    assertThat(stream.end().getCode()).isEqualTo(Status.Code.PERMISSION_DENIED);
  }

  @Test
  void aRefusingServerRefusesEverythingAndThenGoesOn() {
    Set<String> seen = ConcurrentHashMap.newKeySet();
    Subscriber subscriber =
        client.subscriber(
            SUBSCRIPTION,
            (message, reply) -> {
              seen.add(message.getData().toStringUtf8());
              reply.ack();
            },
            builder -> builder);
    subscriber.startAsync().awaitRunning();
    client.publish(TOPIC, text("before"));
    await().atMost(PATIENCE).until(() -> seen.contains("before"));
    RawStream stream = openStream();

    pubSub.faults().refuseAll(true);

    await().atMost(PATIENCE).until(() -> stream.end() != null);
    assertThat(stream.end().getCode()).isEqualTo(Status.Code.UNAVAILABLE);
    assertStatus(Status.Code.UNAVAILABLE, () -> client.publish(TOPIC, text("a")));
    assertStatus(Status.Code.UNAVAILABLE, () -> client.pullNow(SUBSCRIPTION, 1));
    assertThat(pubSub.stats().published()).isEqualTo(1);

    pubSub.faults().refuseAll(false);

    client.publish(TOPIC, text("after"));
    await().atMost(PATIENCE).until(() -> seen.contains("after"));
    subscriber.stopAsync().awaitTerminated();
  }

  @Test
  void aBrokenStreamIsOpenedAgainByItsClient() {
    Set<String> seen = ConcurrentHashMap.newKeySet();
    Subscriber subscriber =
        client.subscriber(
            SUBSCRIPTION,
            (message, reply) -> {
              seen.add(message.getData().toStringUtf8());
              reply.ack();
            },
            builder -> builder);
    subscriber.startAsync().awaitRunning();
    client.publish(TOPIC, text("before"));
    await().atMost(PATIENCE).until(() -> seen.contains("before"));

    pubSub.faults().breakStreams(Status.UNAVAILABLE);

    client.publish(TOPIC, text("after"));
    await().atMost(PATIENCE).until(() -> seen.contains("after"));
    subscriber.stopAsync().awaitTerminated();
  }

  @Test
  void clearedFaultsAreGone() {
    pubSub.faults().failNext(5, Status.ABORTED);
    pubSub.faults().refuseAll(true);
    pubSub.faults().redeliverAcknowledged(1, 1);

    pubSub.faults().clear();

    assertThat(publishAndConsume(SUBSCRIPTION, 10).values()).containsOnly(1);
  }

  @Test
  void aShareOutOfRangeIsRefused() {
    for (double share : new double[] {-0.1, 1.1, Double.NaN}) {
      assertThatThrownBy(() -> pubSub.faults().redeliverAcknowledged(share, 1))
          .isInstanceOf(IllegalArgumentException.class);
    }
  }

  @Test
  void whatIsNotThereIsRefusedInsteadOfIgnored() {
    Subscription plain =
        Subscription.newBuilder()
            .setName(ResourceNames.subscription("p", "other"))
            .setTopic(TOPIC)
            .build();
    Subscription asked = plain.toBuilder().setFilter("attributes.x = \"1\"").build();
    assertStatus(
        Status.Code.UNIMPLEMENTED, () -> client.subscriberStub().createSubscription(asked));
  }

  @Test
  void acknowledgementOfALeaseThatIsOverIsRefusedWithExactlyOnceDelivery() {
    String name = ResourceNames.subscription("p", "exact");
    client
        .subscriberStub()
        .createSubscription(
            Subscription.newBuilder()
                .setName(name)
                .setTopic(TOPIC)
                .setEnableExactlyOnceDelivery(true)
                .build());
    client.publish(TOPIC, numbered(1), numbered(2));
    var received = client.pull(name, 2);
    String first = received.get(0).getAckId();
    String second = received.get(1).getAckId();
    client.acknowledge(name, first);

    assertThatThrownBy(() -> client.acknowledge(name, first, second))
        .satisfies(
            refusal ->
                assertThat(StatusProto.fromThrowable(refusal).getDetails(0).unpack(ErrorInfo.class))
                    .extracting(ErrorInfo::getMetadataMap)
                    .isEqualTo(Map.of(first, "PERMANENT_FAILURE_INVALID_ACK_ID")));
    // The other one was acknowledged all the same.
    assertThat(pubSub.stats().backlog(name)).isZero();
    assertStatus(Status.Code.FAILED_PRECONDITION, () -> client.modifyAckDeadline(name, 10, second));
  }

  @Test
  void everyStageIsCounted() {
    pubSub.stats().keepPublished(2);
    client.publish(TOPIC, numbered(1), numbered(1), numbered(2));
    var received = client.pull(SUBSCRIPTION, 3);
    assertThat(pubSub.stats().backlog(SUBSCRIPTION)).isEqualTo(3);
    client.acknowledge(SUBSCRIPTION, received.get(0).getAckId(), received.get(1).getAckId());
    client.acknowledge(SUBSCRIPTION, received.get(0).getAckId());
    client.modifyAckDeadline(SUBSCRIPTION, 0, received.get(2).getAckId());

    assertThat(pubSub.stats().snapshot())
        .isEqualTo(new LocalPubSubStats.Snapshot(3, 2, 3, 0, 2, 1, 0, 0, 1));
    assertThat(pubSub.stats().backlog(SUBSCRIPTION)).isEqualTo(1);
    assertThat(pubSub.stats().backlog("projects/p/subscriptions/none")).isZero();
    assertThat(pubSub.stats().publishedMessages(TOPIC))
        .extracting(message -> message.getAttributesOrThrow("outbox_id"))
        .containsExactly("1", "2");
  }

  @Test
  void anExpiredLeaseIsCounted() {
    client.publish(TOPIC, text("a"));
    String ackId = client.pull(SUBSCRIPTION, 1).get(0).getAckId();

    client.modifyAckDeadline(SUBSCRIPTION, 1, ackId);

    await().atMost(PATIENCE).until(() -> pubSub.stats().expiredLeases() == 1);
    assertThat(pubSub.stats().nacks()).isZero();
  }

  private Map<String, Integer> publishAndConsume(String subscription, int count) {
    client.publish(
        TOPIC, IntStream.range(0, count).mapToObj(this::numbered).toArray(PubsubMessage[]::new));
    return consume(subscription, count);
  }

  /** How often each message came, once all is acknowledged. */
  private Map<String, Integer> consume(String subscription, int count) {
    Map<String, Integer> deliveries = new ConcurrentHashMap<>();
    Subscriber subscriber =
        client.subscriber(
            subscription,
            (message, reply) -> {
              deliveries.merge(message.getAttributesOrThrow("outbox_id"), 1, Integer::sum);
              reply.ack();
            },
            builder -> builder);
    subscriber.startAsync().awaitRunning();
    await()
        .atMost(PATIENCE)
        .until(() -> deliveries.size() == count && pubSub.stats().backlog(subscription) == 0);
    subscriber.stopAsync().awaitTerminated();
    return deliveries;
  }

  private static Set<String> twice(Map<String, Integer> deliveries) {
    return deliveries.entrySet().stream()
        .filter(entry -> entry.getValue() == 2)
        .map(Map.Entry::getKey)
        .collect(Collectors.toSet());
  }

  private PubsubMessage numbered(int id) {
    return PubsubMessage.newBuilder()
        .setData(ByteString.copyFromUtf8("payload"))
        .putAttributes("outbox_id", Integer.toString(id))
        .build();
  }

  /** Opens a stream and waits until the server has it: it then answers a question. */
  private RawStream openStream() {
    RawStream stream =
        RawStream.open(client, RawStream.opening(SUBSCRIPTION).setProtocolVersion(1));
    stream.send(StreamingPullRequest.newBuilder());
    await().atMost(PATIENCE).until(() -> !stream.responses.isEmpty());
    return stream;
  }

  private static Duration took(Runnable work) {
    long start = System.nanoTime();
    work.run();
    return Duration.ofNanos(System.nanoTime() - start);
  }
}
