package io.twinbox.local.pubsub;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import com.google.api.core.ApiFuture;
import com.google.api.core.ApiFutures;
import com.google.api.gax.batching.BatchingSettings;
import com.google.cloud.pubsub.v1.Publisher;
import com.google.cloud.pubsub.v1.Subscriber;
import com.google.protobuf.ByteString;
import com.google.protobuf.util.Durations;
import com.google.pubsub.v1.DeadLetterPolicy;
import com.google.pubsub.v1.PubsubMessage;
import com.google.pubsub.v1.ReceivedMessage;
import com.google.pubsub.v1.RetryPolicy;
import com.google.pubsub.v1.StreamingPullRequest;
import com.google.pubsub.v1.Subscription;
import io.grpc.Status;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;
import java.util.stream.IntStream;
import org.junit.jupiter.api.Test;

/**
 * What Twinbox relies on in Pub/Sub, seen through Google's own clients. Each backend that stands in
 * for the service has a subclass.
 */
abstract class PubSubContractTest extends PubSubSettingsContract {
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
        .extracting(PubSubContractFixture::textOf)
        .containsExactly("one");
  }

  @Test
  void aTopicWithoutSubscriptionLosesWhatIsPublished() {
    client.topics.createTopic(topic);
    client.publish(topic, text("lost"));
    create(Subscription.newBuilder().setName(subscription));
    client.publish(topic, text("kept"));

    assertThat(client.pull(subscription, 10))
        .extracting(PubSubContractFixture::textOf)
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
    // One message a call: where the Publisher keeps keyed messages back to batch them, an answer
    // that comes at once makes it forget the other keys (java-pubsub#2377).
    Publisher publisher =
        client.publisher(
            topic,
            builder ->
                builder
                    .setEnableMessageOrdering(true)
                    .setBatchingSettings(
                        BatchingSettings.newBuilder().setElementCountThreshold(1L).build()));
    List<ApiFuture<String>> futures = new ArrayList<>();
    for (int i = 0; i < 200; i++) {
      futures.add(publisher.publish(keyed("k" + i % 4, Integer.toString(i))));
    }
    ApiFutures.allAsList(futures).get(PATIENCE.toSeconds(), TimeUnit.SECONDS);
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
}
