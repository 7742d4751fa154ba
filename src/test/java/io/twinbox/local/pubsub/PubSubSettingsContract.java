package io.twinbox.local.pubsub;

import static org.assertj.core.api.Assertions.assertThat;

import com.google.protobuf.FieldMask;
import com.google.pubsub.v1.DeadLetterPolicy;
import com.google.pubsub.v1.ListTopicsRequest;
import com.google.pubsub.v1.PubsubMessage;
import com.google.pubsub.v1.Subscription;
import com.google.pubsub.v1.Topic;
import com.google.pubsub.v1.UpdateSubscriptionRequest;
import io.grpc.Status;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Set;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/** The contract's part on limits, names and settings. */
abstract class PubSubSettingsContract extends PubSubContractFixture {
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
}
