package io.twinbox.local.pubsub;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import com.google.api.core.ApiFuture;
import com.google.api.core.ApiFutures;
import com.google.api.gax.batching.FlowControlSettings;
import com.google.cloud.pubsub.v1.Publisher;
import com.google.cloud.pubsub.v1.Subscriber;
import com.google.protobuf.ByteString;
import com.google.protobuf.FieldMask;
import com.google.protobuf.util.Durations;
import com.google.pubsub.v1.DeadLetterPolicy;
import com.google.pubsub.v1.ListTopicsRequest;
import com.google.pubsub.v1.PubsubMessage;
import com.google.pubsub.v1.ReceivedMessage;
import com.google.pubsub.v1.RetryPolicy;
import com.google.pubsub.v1.StreamingPullRequest;
import com.google.pubsub.v1.Subscription;
import com.google.pubsub.v1.Topic;
import com.google.pubsub.v1.UpdateSubscriptionRequest;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Collections;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.assertj.core.api.ThrowableAssert.ThrowingCallable;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.TestInstance;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * What Twinbox relies on in Pub/Sub, seen through Google's own clients. Each backend that stands in
 * for the service has a subclass.
 */
@TestInstance(TestInstance.Lifecycle.PER_CLASS)
abstract class PubSubContractTest {
  private static final String PROJECT = "contract";
  private static final Duration PATIENCE = Duration.ofSeconds(20);

  /** Longer than the 1 s leases that tests set. */
  private static final Duration PAST_A_SHORT_LEASE = Duration.ofMillis(2_200);

  private final AtomicInteger test = new AtomicInteger();
  private PubSubClient client;
  private String topic;
  private String subscription;

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

  // Publish and pull

  @Test
  void aPublishedMessageArrivesWholeWithAnIdAndATime() {
    createBoth();
    PubsubMessage sent =
        PubsubMessage.newBuilder()
            .setData(ByteString.copyFrom(new byte[] {0, -1, 10, 127}))
            .putAttributes("outbox_id", "grüße-😀")
            .putAttributes("empty", "")
            .setOrderingKey("k")
            .build();
    Instant before = Instant.now();

    List<String> ids = client.publish(topic, sent);

    List<ReceivedMessage> received = client.pull(subscription, 10);
    assertThat(received).hasSize(1);
    PubsubMessage got = received.get(0).getMessage();
    assertThat(got.toBuilder().clearMessageId().clearPublishTime().build()).isEqualTo(sent);
    assertThat(ids).containsExactly(got.getMessageId());
    assertThat(Instant.ofEpochSecond(got.getPublishTime().getSeconds()))
        .isBetween(before.minusSeconds(2), Instant.now().plusSeconds(2));
  }

  @Test
  void everyMessageOfARequestHasAnIdOfItsOwn() {
    createBoth();

    List<String> ids = new ArrayList<>();
    ids.addAll(client.publish(topic, text("a"), text("a"), text("b")));
    ids.addAll(client.publish(topic, text("a")));

    assertThat(ids).hasSize(4).doesNotHaveDuplicates();
  }

  @Test
  void everySubscriptionOfATopicGetsItsOwnCopy() {
    createBoth();
    String second = subscription + "-b";
    create(Subscription.newBuilder().setName(second));
    client.publish(topic, text("one"));

    ReceivedMessage first = client.pull(subscription, 1).get(0);
    client.acknowledge(subscription, first.getAckId());

    assertThat(client.pull(second, 1))
        .extracting(PubSubContractTest::textOf)
        .containsExactly("one");
  }

  @Test
  void aTopicWithoutSubscriptionLosesWhatIsPublished() {
    client.topics.createTopic(topic);
    client.publish(topic, text("lost"));
    create(Subscription.newBuilder().setName(subscription));
    client.publish(topic, text("kept"));

    assertThat(client.pull(subscription, 10))
        .extracting(PubSubContractTest::textOf)
        .containsExactly("kept");
  }

  @Test
  void anAcknowledgedMessageDoesNotComeAgain() {
    createBoth();
    client.publish(topic, text("a"));
    String ackId = client.pull(subscription, 1).get(0).getAckId();
    client.modifyAckDeadline(subscription, 1, ackId);

    client.acknowledge(subscription, ackId);

    staysEmpty();
  }

  @Test
  void aMissingTopicOrSubscriptionIsNotFound() {
    assertStatus(Status.Code.NOT_FOUND, () -> client.publish(topic, text("a")));
    assertStatus(Status.Code.NOT_FOUND, () -> client.pullNow(subscription, 1));
    RawStream stream = RawStream.open(client, subscription);
    await().atMost(PATIENCE).until(() -> stream.end() != null);
    assertThat(stream.end().getCode()).isEqualTo(Status.Code.NOT_FOUND);
  }

  // Leases

  @Test
  void aNackedMessageComesAgainAtOnce() {
    createBoth();
    client.publish(topic, text("a"));
    ReceivedMessage first = client.pull(subscription, 1).get(0);

    client.modifyAckDeadline(subscription, 0, first.getAckId());

    ReceivedMessage again = client.pull(subscription, 1).get(0);
    assertThat(again.getMessage().getMessageId()).isEqualTo(first.getMessage().getMessageId());
    assertThat(again.getAckId()).isNotEqualTo(first.getAckId());
  }

  @Test
  void anExpiredLeaseBringsTheMessageBack() {
    createBoth();
    client.publish(topic, text("a"));
    String ackId = client.pull(subscription, 1).get(0).getAckId();

    client.modifyAckDeadline(subscription, 1, ackId);

    await().atMost(PATIENCE).until(() -> !client.pullNow(subscription, 1).isEmpty());
  }

  @Test
  void anExtendedLeaseKeepsTheMessageAway() {
    createBoth();
    client.publish(topic, text("a"));
    String ackId = client.pull(subscription, 1).get(0).getAckId();
    client.modifyAckDeadline(subscription, 1, ackId);

    client.modifyAckDeadline(subscription, 60, ackId);

    staysEmpty();
  }

  @Test
  void theAckOfALeaseThatIsOverIsIgnored() {
    createBoth();
    client.publish(topic, text("a"));
    String stale = client.pull(subscription, 1).get(0).getAckId();
    client.modifyAckDeadline(subscription, 0, stale);
    String current = client.pull(subscription, 1).get(0).getAckId();

    client.acknowledge(subscription, stale);

    client.modifyAckDeadline(subscription, 0, current);
    assertThat(client.pull(subscription, 1)).hasSize(1);
  }

  @Test
  void acksAndNacksAlsoComeOverTheStream() {
    createBoth();
    RawStream stream = RawStream.open(client, subscription);
    client.publish(topic, text("a"), text("b"));
    await().atMost(PATIENCE).until(() -> stream.received.size() == 2);

    stream.acknowledge(stream.ackIdOf("a"));
    stream.modifyAckDeadline(stream.ackIdOf("b"), 0);

    await().atMost(PATIENCE).until(() -> stream.received.size() == 3);
    assertThat(stream.texts()).containsExactlyInAnyOrder("a", "b", "b");
    stream.cancel();
  }

  // Streams

  @Test
  @KnownEmulatorFault.Affects(KnownEmulatorFault.LOSES_MESSAGES_AFTER_A_SUBSCRIBER_STOPPED)
  void whatAClosedStreamHeldComesToTheNextOneWhenItsLeaseEnds() {
    createBoth();
    RawStream first = RawStream.open(client, subscription);
    client.publish(topic, text("held"));
    await().atMost(PATIENCE).until(() -> first.received.size() == 1);
    // Not over the stream: cancelling it may overtake what was last sent.
    client.modifyAckDeadline(subscription, 1, first.ackIdOf("held"));
    first.cancel();

    RawStream next = RawStream.open(client, subscription);

    await().atMost(PATIENCE).until(() -> next.texts().equals(List.of("held")));
    next.cancel();
  }

  @Test
  @KnownEmulatorFault.Affects(KnownEmulatorFault.LOSES_MESSAGES_AFTER_A_SUBSCRIBER_STOPPED)
  void whatIsPublishedAfterASubscriberStoppedReachesTheNext() {
    createBoth();
    Set<String> seen = ConcurrentHashMap.newKeySet();
    Subscriber first = start(seen, 100);
    client.publish(topic, text("before"));
    await().atMost(PATIENCE).until(() -> seen.contains("before"));
    first.stopAsync().awaitTerminated();
    client.publish(topic, text("after"));

    Subscriber next = start(seen, 100);

    await().atMost(PATIENCE).until(() -> seen.contains("after"));
    next.stopAsync().awaitTerminated();
  }

  @Test
  void whatAClosedStreamHeldCanStillBeAcknowledged() {
    createBoth();
    RawStream stream = RawStream.open(client, subscription);
    client.publish(topic, text("held"));
    await().atMost(PATIENCE).until(() -> stream.received.size() == 1);
    String ackId = stream.ackIdOf("held");
    client.modifyAckDeadline(subscription, 1, ackId);
    stream.cancel();

    client.acknowledge(subscription, ackId);

    staysEmpty();
  }

  @Test
  @KnownEmulatorFault.Affects(KnownEmulatorFault.SHARES_A_BACKLOG_UNEVENLY)
  void twoStreamsShareABacklog() {
    createBoth();
    RawStream a =
        RawStream.open(client, RawStream.opening(subscription).setMaxOutstandingMessages(1_000));
    RawStream b =
        RawStream.open(client, RawStream.opening(subscription).setMaxOutstandingMessages(1_000));
    // Both streams stand before there is anything to share.
    await()
        .atMost(PATIENCE)
        .until(
            () -> {
              client.publish(topic, text("warm-up"));
              return !a.received.isEmpty() && !b.received.isEmpty();
            });

    for (int i = 0; i < 50; i++) {
      client.publish(topic, text("m" + i), text("n" + i));
    }

    await().atMost(PATIENCE).until(() -> withoutWarmUp(a).size() + withoutWarmUp(b).size() == 100);
    assertThat(withoutWarmUp(a))
        .hasSizeBetween(20, 80)
        .doesNotContainAnyElementsOf(withoutWarmUp(b));
    a.cancel();
    b.cancel();
  }

  private static Set<String> withoutWarmUp(RawStream stream) {
    Set<String> rest = new HashSet<>(stream.texts());
    rest.remove("warm-up");
    return rest;
  }

  @Test
  @KnownEmulatorFault.Affects(KnownEmulatorFault.IGNORES_FLOW_CONTROL_OF_STREAMS)
  void aStreamIsNeverOwedMoreMessagesThanItAskedFor() {
    createBoth();
    client.publish(topic, texts(20));
    RawStream stream =
        RawStream.open(client, RawStream.opening(subscription).setMaxOutstandingMessages(5));
    await().atMost(PATIENCE).until(() -> stream.received.size() >= 5);

    settlesAt(5, stream);
    stream.acknowledge(stream.received.get(0).getAckId());
    stream.acknowledge(stream.received.get(1).getAckId());

    settlesAt(7, stream);
    stream.cancel();
  }

  @Test
  @KnownEmulatorFault.Affects(KnownEmulatorFault.IGNORES_FLOW_CONTROL_OF_STREAMS)
  void aStreamIsNeverOwedMoreBytesThanItAskedFor() {
    createBoth();
    PubsubMessage[] messages = new PubsubMessage[20];
    for (int i = 0; i < messages.length; i++) {
      messages[i] = PubsubMessage.newBuilder().setData(bytes(1_000)).build();
    }
    client.publish(topic, messages);

    RawStream stream =
        RawStream.open(client, RawStream.opening(subscription).setMaxOutstandingBytes(5_000));

    // The one that reaches the limit may still be sent.
    await().atMost(PATIENCE).until(() -> stream.received.size() >= 4);
    settlesBelow(7, stream);
    stream.cancel();
  }

  @Test
  void aLeaseOfAStreamOutOfRangeIsRefused() {
    createBoth();
    RawStream stream =
        RawStream.open(client, RawStream.opening(subscription).setStreamAckDeadlineSeconds(9));
    await().atMost(PATIENCE).until(() -> stream.end() != null);
    assertThat(stream.end().getCode()).isEqualTo(Status.Code.INVALID_ARGUMENT);
  }

  @Test
  @KnownEmulatorFault.Affects(KnownEmulatorFault.NEVER_ANSWERS_KEEPALIVE)
  void aClientThatAsksWhetherTheStreamLivesIsAnswered() {
    createBoth();
    RawStream stream =
        RawStream.open(client, RawStream.opening(subscription).setProtocolVersion(1));

    stream.send(StreamingPullRequest.newBuilder());

    await().atMost(PATIENCE).until(() -> !stream.responses.isEmpty());
    stream.cancel();
  }

  @Test
  void aStreamEndsWhenItsSubscriptionIsDeleted() {
    createBoth();
    RawStream stream = RawStream.open(client, subscription);
    client.publish(topic, text("a"));
    await().atMost(PATIENCE).until(() -> stream.received.size() == 1);

    client.subscriptions.deleteSubscription(subscription);

    await().atMost(PATIENCE).until(() -> stream.end() != null);
    assertThat(stream.end().getCode()).isEqualTo(Status.Code.NOT_FOUND);
  }

  // Ordering

  @Test
  void messagesOfAKeyArriveInTheOrderOfPublishing() throws Exception {
    createOrdered();
    Publisher publisher =
        client.publisher(topic, builder -> builder.setEnableMessageOrdering(true));
    List<ApiFuture<String>> futures = new ArrayList<>();
    for (int i = 0; i < 200; i++) {
      futures.add(publisher.publish(keyed("k" + i % 4, Integer.toString(i))));
    }
    ApiFutures.allAsList(futures).get(20, TimeUnit.SECONDS);
    publisher.shutdown();
    Map<String, List<Integer>> byKey = new ConcurrentHashMap<>();

    Subscriber subscriber =
        client.subscriber(
            subscription,
            (message, reply) -> {
              byKey
                  .computeIfAbsent(message.getOrderingKey(), key -> new CopyOnWriteArrayList<>())
                  .add(Integer.valueOf(message.getData().toStringUtf8()));
              reply.ack();
            },
            builder -> builder);
    subscriber.startAsync().awaitRunning();

    await().atMost(PATIENCE).until(() -> byKey.values().stream().mapToInt(List::size).sum() >= 200);
    subscriber.stopAsync().awaitTerminated();
    assertThat(byKey).hasSize(4);
    byKey.forEach(
        (key, values) ->
            assertThat(values)
                .as(key)
                .isEqualTo(
                    IntStream.range(0, 50)
                        .mapToObj(i -> i * 4 + Integer.parseInt(key.substring(1)))
                        .toList()));
  }

  @Test
  @KnownEmulatorFault.Affects(KnownEmulatorFault.REDELIVERS_ONE_MESSAGE_OF_A_KEY)
  void aNackedMessageOfAKeyBringsTheLaterOnesAgainInOrder() {
    createOrdered();
    client.publish(topic, keyed("k", "1"), keyed("k", "2"), keyed("k", "3"));
    RawStream stream = RawStream.open(client, subscription);
    await().atMost(PATIENCE).until(() -> stream.received.size() == 3);

    stream.acknowledge(stream.ackIdOf("1"));
    stream.modifyAckDeadline(stream.ackIdOf("2"), 0);

    await().atMost(PATIENCE).until(() -> stream.received.size() >= 5);
    assertThat(stream.texts()).containsExactly("1", "2", "3", "2", "3");
    stream.cancel();
  }

  @Test
  @KnownEmulatorFault.Affects(KnownEmulatorFault.REDELIVERS_ONE_MESSAGE_OF_A_KEY)
  void aNackedMessageOfAKeyBringsAcknowledgedLaterOnesAgainToo() {
    createOrdered();
    client.publish(topic, keyed("k", "1"), keyed("k", "2"), keyed("k", "3"));
    RawStream stream = RawStream.open(client, subscription);
    await().atMost(PATIENCE).until(() -> stream.received.size() == 3);

    stream.acknowledge(stream.ackIdOf("2"));
    stream.modifyAckDeadline(stream.ackIdOf("1"), 0);

    await().atMost(PATIENCE).until(() -> stream.received.size() >= 6);
    assertThat(stream.texts()).containsExactly("1", "2", "3", "1", "2", "3");
    stream.cancel();
  }

  @Test
  @KnownEmulatorFault.Affects(KnownEmulatorFault.IGNORES_FLOW_CONTROL_OF_STREAMS)
  void messagesOfOneKeyAreOutAtOneStreamOnly() {
    createOrdered();
    RawStream a =
        RawStream.open(client, RawStream.opening(subscription).setMaxOutstandingMessages(2));
    RawStream b =
        RawStream.open(client, RawStream.opening(subscription).setMaxOutstandingMessages(2));
    for (int i = 1; i <= 4; i++) {
      client.publish(topic, keyed("k", Integer.toString(i)));
    }

    await().atMost(PATIENCE).until(() -> a.received.size() + b.received.size() == 2);
    RawStream holder = a.received.isEmpty() ? b : a;
    settlesAt(2, holder);
    assertThat(a.received.size() + b.received.size()).isEqualTo(2);
    assertThat(holder.texts()).containsExactly("1", "2");
    a.cancel();
    b.cancel();
  }

  @Test
  @KnownEmulatorFault.Affects(KnownEmulatorFault.ACCEPTS_TWO_ORDERING_KEYS_IN_A_REQUEST)
  void aRequestWithTwoOrderingKeysIsRefused() {
    createBoth();
    assertStatus(
        Status.Code.FAILED_PRECONDITION,
        () -> client.publish(topic, keyed("a", "1"), keyed("b", "2")));
  }

  // Retry and dead letters

  @Test
  @KnownEmulatorFault.Affects(KnownEmulatorFault.IGNORES_RETRY_POLICY)
  void aRetryPolicyDelaysTheNextDelivery() {
    client.topics.createTopic(topic);
    create(
        Subscription.newBuilder()
            .setName(subscription)
            .setRetryPolicy(
                RetryPolicy.newBuilder()
                    .setMinimumBackoff(Durations.fromMillis(1_000))
                    .setMaximumBackoff(Durations.fromSeconds(60))));
    client.publish(topic, text("a"));
    String ackId = client.pull(subscription, 1).get(0).getAckId();

    long nacked = System.nanoTime();
    client.modifyAckDeadline(subscription, 0, ackId);
    assertThat(client.pullNow(subscription, 1)).isEmpty();

    await().atMost(PATIENCE).until(() -> !client.pullNow(subscription, 1).isEmpty());
    assertThat(Duration.ofNanos(System.nanoTime() - nacked))
        .isBetween(Duration.ofMillis(900), Duration.ofMillis(5_000));
  }

  @Test
  void aMessageThatFailsTooOftenGoesToTheDeadLetterTopic() {
    String deadTopic = topic + "-dead";
    String deadSubscription = subscription + "-dead";
    client.topics.createTopic(deadTopic);
    create(Subscription.newBuilder().setName(deadSubscription).setTopic(deadTopic));
    client.topics.createTopic(topic);
    create(
        Subscription.newBuilder()
            .setName(subscription)
            .setDeadLetterPolicy(DeadLetterPolicy.newBuilder().setDeadLetterTopic(deadTopic)));
    client.publish(topic, text("poison").toBuilder().putAttributes("outbox_id", "7").build());

    List<Integer> attempts = new ArrayList<>();
    for (int i = 0; i < 5; i++) {
      ReceivedMessage message = client.pull(subscription, 1).get(0);
      attempts.add(message.getDeliveryAttempt());
      client.modifyAckDeadline(subscription, 0, message.getAckId());
    }

    assertThat(attempts).containsExactly(1, 2, 3, 4, 5);
    List<ReceivedMessage> letters = new ArrayList<>();
    await()
        .atMost(PATIENCE)
        .until(
            () -> {
              assertThat(client.pullNow(subscription, 1)).isEmpty();
              return letters.addAll(client.pullNow(deadSubscription, 1));
            });
    PubsubMessage letter = letters.get(0).getMessage();
    assertThat(letter.getData().toStringUtf8()).isEqualTo("poison");
    assertThat(letter.getAttributesMap())
        .containsEntry("outbox_id", "7")
        .containsEntry("CloudPubSubDeadLetterSourceDeliveryCount", "5")
        .containsEntry("CloudPubSubDeadLetterSourceSubscription", ResourceNames.idOf(subscription))
        .containsEntry("CloudPubSubDeadLetterSourceSubscriptionProject", PROJECT)
        .containsKey("CloudPubSubDeadLetterSourceTopicPublishTime");
  }

  @Test
  void deliveryAttemptsAreToldOnlyWithADeadLetterPolicy() {
    createBoth();
    client.publish(topic, text("a"));
    ReceivedMessage first = client.pull(subscription, 1).get(0);
    client.modifyAckDeadline(subscription, 0, first.getAckId());

    assertThat(client.pull(subscription, 1).get(0).getDeliveryAttempt()).isZero();
  }

  // Limits

  static Stream<Arguments> overTheLimit() {
    return Stream.of(
        Arguments.of("a request above 10,000,000 bytes", List.of(data(10_000_000))),
        Arguments.of(
            "messages together above 10,000,000 bytes", List.of(data(5_000_000), data(5_000_000))),
        Arguments.of("1,001 messages", Collections.nCopies(1_001, text("a"))),
        Arguments.of("101 attributes", List.of(withAttributes(101))),
        Arguments.of("a key of 257 bytes", List.of(withAttribute("k".repeat(257), "v"))),
        Arguments.of("a key of 129 two-byte letters", List.of(withAttribute("ü".repeat(129), "v"))),
        Arguments.of("an empty key", List.of(withAttribute("", "v"))),
        Arguments.of("a value of 1,025 bytes", List.of(withAttribute("k", "v".repeat(1_025)))),
        Arguments.of("a key starting with goog", List.of(withAttribute("google_id", "v"))),
        Arguments.of("an ordering key of 1,025 bytes", List.of(keyed("k".repeat(1_025), "a"))));
  }

  @ParameterizedTest(name = "{0}")
  @MethodSource("overTheLimit")
  @KnownEmulatorFault.Affects(KnownEmulatorFault.ACCEPTS_OVER_LIMIT_MESSAGES)
  void aRequestOverALimitIsRefusedWhole(String limit, List<PubsubMessage> messages) {
    createBoth();
    List<PubsubMessage> request = new ArrayList<>(messages);
    if (messages.size() == 1 && messages.get(0).getOrderingKey().isEmpty()) {
      request.add(0, text("innocent"));
    }

    assertStatus(
        Status.Code.INVALID_ARGUMENT,
        () -> client.publish(topic, request.toArray(PubsubMessage[]::new)));

    assertThat(client.pullNow(subscription, 10)).isEmpty();
  }

  static Stream<Arguments> atTheLimit() {
    return Stream.of(
        Arguments.of("nearly 10,000,000 bytes", List.of(data(9_999_900))),
        Arguments.of("1,000 messages", Collections.nCopies(1_000, text("a"))),
        Arguments.of("100 attributes", List.of(withAttributes(100))),
        Arguments.of("a key of 256 bytes", List.of(withAttribute("k".repeat(256), "v"))),
        Arguments.of("a value of 1,024 bytes", List.of(withAttribute("k", "v".repeat(1_024)))),
        Arguments.of("an ordering key of 1,024 bytes", List.of(keyed("k".repeat(1_024), "a"))));
  }

  @ParameterizedTest(name = "{0}")
  @MethodSource("atTheLimit")
  void aRequestAtALimitIsAccepted(String limit, List<PubsubMessage> messages) {
    createBoth();

    assertThat(client.publish(topic, messages.toArray(PubsubMessage[]::new)))
        .hasSize(messages.size());
  }

  @Test
  void aMessageWithNeitherDataNorAttributesIsRefused() {
    createBoth();
    assertStatus(
        Status.Code.INVALID_ARGUMENT,
        () -> client.publish(topic, PubsubMessage.getDefaultInstance()));
    assertThat(client.publish(topic, withAttribute("k", ""))).hasSize(1);
  }

  // Topics and subscriptions

  @Test
  void whatExistsCannotBeCreatedAgain() {
    createBoth();
    assertStatus(
        Status.Code.ALREADY_EXISTS,
        () -> client.publisherStub().createTopic(Topic.newBuilder().setName(topic).build()));
    assertStatus(
        Status.Code.ALREADY_EXISTS,
        () ->
            client
                .subscriberStub()
                .createSubscription(
                    Subscription.newBuilder().setName(subscription).setTopic(topic).build()));
  }

  @Test
  void aSubscriptionNeedsItsTopic() {
    assertStatus(
        Status.Code.NOT_FOUND,
        () ->
            client
                .subscriberStub()
                .createSubscription(
                    Subscription.newBuilder().setName(subscription).setTopic(topic).build()));
  }

  @Test
  void aNewSubscriptionHasTheDefaultsOfTheService() {
    createBoth();
    client.topics.createTopic(topic + "-dead");
    create(
        Subscription.newBuilder()
            .setName(subscription + "-b")
            .setDeadLetterPolicy(
                DeadLetterPolicy.newBuilder().setDeadLetterTopic(topic + "-dead")));

    assertThat(client.subscriptions.getSubscription(subscription).getAckDeadlineSeconds())
        .isEqualTo(10);
    assertThat(
            client
                .subscriptions
                .getSubscription(subscription + "-b")
                .getDeadLetterPolicy()
                .getMaxDeliveryAttempts())
        .isEqualTo(5);
  }

  @Test
  @KnownEmulatorFault.Affects(KnownEmulatorFault.ACCEPTS_SETTINGS_OUT_OF_RANGE)
  void settingsOutOfRangeAreRefused() {
    client.topics.createTopic(topic);
    Subscription valid = Subscription.newBuilder().setName(subscription).setTopic(topic).build();
    for (int seconds : new int[] {9, 601}) {
      assertStatus(
          Status.Code.INVALID_ARGUMENT,
          () ->
              client
                  .subscriberStub()
                  .createSubscription(valid.toBuilder().setAckDeadlineSeconds(seconds).build()));
    }
    for (int attempts : new int[] {4, 101}) {
      assertStatus(
          Status.Code.INVALID_ARGUMENT,
          () ->
              client
                  .subscriberStub()
                  .createSubscription(
                      valid.toBuilder()
                          .setDeadLetterPolicy(
                              DeadLetterPolicy.newBuilder()
                                  .setDeadLetterTopic(topic)
                                  .setMaxDeliveryAttempts(attempts))
                          .build()));
    }
  }

  @Test
  @KnownEmulatorFault.Affects(KnownEmulatorFault.ACCEPTS_SETTINGS_OUT_OF_RANGE)
  void aLeaseLongerThanTenMinutesIsRefused() {
    createBoth();
    client.publish(topic, text("a"));
    String ackId = client.pull(subscription, 1).get(0).getAckId();

    assertStatus(
        Status.Code.INVALID_ARGUMENT, () -> client.modifyAckDeadline(subscription, 601, ackId));
  }

  @Test
  void anUpdateChangesWhatItsMaskNamesOnly() {
    createBoth();

    client.subscriptions.updateSubscription(
        UpdateSubscriptionRequest.newBuilder()
            .setSubscription(
                Subscription.newBuilder()
                    .setName(subscription)
                    .setAckDeadlineSeconds(77)
                    .putLabels("not", "named"))
            .setUpdateMask(FieldMask.newBuilder().addPaths("ack_deadline_seconds"))
            .build());

    Subscription changed = client.subscriptions.getSubscription(subscription);
    assertThat(changed.getAckDeadlineSeconds()).isEqualTo(77);
    assertThat(changed.getLabelsMap()).isEmpty();
    assertThat(changed.getTopic()).isEqualTo(topic);
  }

  @Test
  void aDeletedTopicLeavesItsSubscriptionWithWhatItHolds() {
    createBoth();
    client.publish(topic, text("a"));

    client.topics.deleteTopic(topic);

    assertThat(client.subscriptions.getSubscription(subscription).getTopic())
        .isEqualTo("_deleted-topic_");
    assertThat(client.pull(subscription, 1)).hasSize(1);
    assertStatus(Status.Code.NOT_FOUND, () -> client.publish(topic, text("b")));
  }

  @Test
  void aTopicCreatedAgainDoesNotFeedItsOldSubscription() {
    createBoth();
    client.topics.deleteTopic(topic);
    client.topics.createTopic(topic);

    client.publish(topic, text("a"));

    assertThat(client.pullNow(subscription, 1)).isEmpty();
    assertThat(client.topics.listTopicSubscriptions(topic).iterateAll()).isEmpty();
  }

  @Test
  void listsComeInPages() {
    String project = "pages-" + test.get();
    Set<String> names =
        IntStream.range(0, 5)
            .mapToObj(i -> ResourceNames.topic(project, "topic-" + i))
            .collect(Collectors.toSet());
    names.forEach(client.topics::createTopic);
    names.forEach(
        name ->
            client.subscriptions.createSubscription(
                Subscription.newBuilder()
                    .setName(name.replace("/topics/", "/subscriptions/"))
                    .setTopic(ResourceNames.topic(project, "topic-0"))
                    .build()));

    var firstPage =
        client
            .publisherStub()
            .listTopics(
                ListTopicsRequest.newBuilder()
                    .setProject("projects/" + project)
                    .setPageSize(2)
                    .build());
    assertThat(firstPage.getTopicsCount()).isEqualTo(2);
    assertThat(firstPage.getNextPageToken()).isNotEmpty();
    assertThat(client.topics.listTopics("projects/" + project).iterateAll())
        .extracting(Topic::getName)
        .containsExactlyInAnyOrderElementsOf(names);
    assertThat(client.subscriptions.listSubscriptions("projects/" + project).iterateAll())
        .hasSize(5);
    assertThat(
            client
                .topics
                .listTopicSubscriptions(ResourceNames.topic(project, "topic-0"))
                .iterateAll())
        .hasSize(5);
  }

  @Test
  void aBadNameIsRefused() {
    for (String bad : List.of("projects/p/topics/1", "projects/p/topics/goog-x", "t")) {
      assertStatus(
          Status.Code.INVALID_ARGUMENT,
          () -> client.publisherStub().createTopic(Topic.newBuilder().setName(bad).build()));
    }
  }

  // Helpers

  private void createBoth() {
    client.topics.createTopic(topic);
    create(Subscription.newBuilder().setName(subscription));
  }

  private void createOrdered() {
    client.topics.createTopic(topic);
    create(Subscription.newBuilder().setName(subscription).setEnableMessageOrdering(true));
  }

  /** Of the test's own topic unless another is set. */
  private void create(Subscription.Builder settings) {
    if (settings.getTopic().isEmpty()) {
      settings.setTopic(topic);
    }
    client.subscriptions.createSubscription(settings.build());
  }

  private Subscriber start(Set<String> seen, long outstanding) {
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

  private void staysEmpty() {
    await()
        .during(PAST_A_SHORT_LEASE)
        .atMost(PATIENCE)
        .until(() -> client.pullNow(subscription, 1).isEmpty());
  }

  private static void settlesAt(int messages, RawStream stream) {
    await().atMost(PATIENCE).until(() -> stream.received.size() >= messages);
    settlesBelow(messages + 1, stream);
  }

  private static void settlesBelow(int messages, RawStream stream) {
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

  private static PubsubMessage[] texts(int count) {
    return IntStream.range(0, count).mapToObj(i -> text("m" + i)).toArray(PubsubMessage[]::new);
  }

  static PubsubMessage keyed(String key, String text) {
    return text(text).toBuilder().setOrderingKey(key).build();
  }

  private static PubsubMessage withAttribute(String key, String value) {
    return PubsubMessage.newBuilder().putAttributes(key, value).build();
  }

  private static PubsubMessage withAttributes(int count) {
    PubsubMessage.Builder message = PubsubMessage.newBuilder();
    IntStream.range(0, count).forEach(i -> message.putAttributes("k" + i, "v"));
    return message.build();
  }

  private static PubsubMessage data(int size) {
    return PubsubMessage.newBuilder().setData(bytes(size)).build();
  }

  private static ByteString bytes(int size) {
    return ByteString.copyFrom(new byte[size]);
  }

  static String textOf(ReceivedMessage message) {
    return message.getMessage().getData().toStringUtf8();
  }
}
