package io.twinbox.pubsub;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import com.google.protobuf.ByteString;
import com.google.pubsub.v1.PublishRequest;
import com.google.pubsub.v1.PubsubMessage;
import io.grpc.Status;
import io.twinbox.local.pubsub.LocalPubSub;
import io.twinbox.local.pubsub.LocalPubSubFaults.Hold;
import io.twinbox.local.pubsub.LocalPubSubFaults.Rule;
import io.twinbox.local.pubsub.PubSubCall;
import java.io.IOException;
import java.time.Duration;
import java.util.List;
import java.util.Set;
import java.util.concurrent.FutureTask;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.EnumSource;

/** How a claim's messages are sent, and what each answer of Pub/Sub means for their rows. */
class BatchPublisherTest {

  private static final String TOPIC = "projects/local/topics/orders";
  private static final Duration PATIENCE = Duration.ofSeconds(60);
  private static final Set<String> OF_THE_DESTINATION =
      Set.of("NOT_FOUND", "PERMISSION_DENIED", "UNAUTHENTICATED");

  private static LocalPubSub pubSub;
  private static PubSubConnection connection;

  @BeforeAll
  static void startPubSub() {
    pubSub = LocalPubSub.start();
    pubSub.createTopic("local", "orders");
    connection = new PubSubConnection(pubSub.endpoint(), PATIENCE);
  }

  @AfterAll
  static void stopPubSub() {
    connection.destroy();
    pubSub.close();
  }

  @AfterEach
  void clearFaults() {
    pubSub.faults().clear();
  }

  private static PubsubMessage message(String key) {
    return PubsubMessage.newBuilder()
        .setData(ByteString.copyFromUtf8("event"))
        .setOrderingKey(key)
        .build();
  }

  private static List<PublishOutcome> publish(List<PubsubMessage> messages, Duration time)
      throws IOException, InterruptedException {
    return new BatchPublisher(connection.topics(), TOPIC, messages, time).publish();
  }

  /** Whatever it is called, it is no row's fault: not counted, and another try is made. */
  @ParameterizedTest
  @EnumSource(
      value = Status.Code.class,
      mode = EnumSource.Mode.EXCLUDE,
      names = {"OK", "INVALID_ARGUMENT"})
  void everyCodeButOneIsNoRowsFault(Status.Code code) throws Exception {
    try (Rule rule = pubSub.faults().failPublishWhen(m -> true, code.toStatus())) {
      List<PublishOutcome> outcomes =
          publish(List.of(message(""), message("key")), Duration.ofMillis(200));

      assertThat(rule.hits()).isPositive();
      assertThat(outcomes)
          .hasSize(2)
          .allSatisfy(
              outcome -> {
                assertThat(outcome.kind()).isEqualTo(PublishOutcome.Kind.RELEASED);
                assertThat(outcome.faultClass())
                    .isEqualTo(
                        OF_THE_DESTINATION.contains(code.name()) ? "destination" : "transient");
              });
    }
  }

  @Test
  void messageThatIsRefusedAloneIsRefused() throws Exception {
    pubSub.faults().failPublishWhen(m -> true, Status.INVALID_ARGUMENT.withDescription("too old"));

    assertThat(publish(List.of(message("")), PATIENCE))
        .singleElement()
        .satisfies(
            outcome -> {
              assertThat(outcome.kind()).isEqualTo(PublishOutcome.Kind.REFUSED);
              assertThat(outcome.error()).contains("INVALID_ARGUMENT", "too old");
            });
  }

  @Test
  void pubSubThatNeverAnswersEndsTheClaimAndWhatIsBehindTheCallIsNotSent() throws Exception {
    try (Hold hold = pubSub.faults().holdPublishWhen(m -> true)) {
      // Two calls' worth of one key, and a third beside them.
      List<PubsubMessage> messages =
          IntStream.rangeClosed(0, BatchPublisher.MESSAGES_PER_CALL + 1)
              .mapToObj(i -> message(i == 0 ? "" : "key"))
              .toList();

      List<PublishOutcome> outcomes = publish(messages, Duration.ofMillis(500));

      assertThat(outcomes)
          .allMatch(outcome -> outcome.kind() == PublishOutcome.Kind.RELEASED)
          .hasSize(messages.size());
      assertThat(outcomes.get(0).error()).startsWith("DEADLINE_EXCEEDED");
      assertThat(outcomes.get(1).error()).startsWith("DEADLINE_EXCEEDED");
      assertThat(outcomes.get(messages.size() - 1).error()).as("was not sent").isNull();
      assertThat(hold.calls()).isEqualTo(2);
    }
  }

  @Test
  void callsOfDifferentKeysAndOfNoneAreOutAtTheSameTime() throws Exception {
    int keys = 10;
    List<PubsubMessage> messages =
        IntStream.rangeClosed(-BatchPublisher.MESSAGES_PER_CALL, keys)
            .mapToObj(i -> message(i <= 0 ? "" : "key " + i))
            .toList();
    FutureTask<List<PublishOutcome>> publishing =
        new FutureTask<>(() -> publish(messages, PATIENCE));
    try (Hold hold = pubSub.faults().holdPublishWhen(m -> true)) {
      new Thread(publishing).start();
      await().atMost(PATIENCE).until(() -> hold.calls() == keys + 2);
    }

    assertThat(publishing.get(PATIENCE.toSeconds(), TimeUnit.SECONDS))
        .allMatch(outcome -> outcome.kind() == PublishOutcome.Kind.PUBLISHED);
  }

  @Test
  void keysAreNeverInOneCall() throws Exception {
    AtomicInteger calls = new AtomicInteger();
    AtomicInteger mixed = new AtomicInteger();
    pubSub
        .faults()
        .failWhen(
            PubSubCall.PUBLISH,
            request -> {
              calls.incrementAndGet();
              if (((PublishRequest) request)
                      .getMessagesList().stream()
                          .map(PubsubMessage::getOrderingKey)
                          .distinct()
                          .count()
                  > 1) {
                mixed.incrementAndGet();
              }
              return false;
            },
            Status.INTERNAL);

    publish(List.of(message("a"), message(""), message("b"), message("a"), message("")), PATIENCE);

    assertThat(calls).hasValue(3);
    assertThat(mixed).hasValue(0);
  }

  /** Then it says nothing, so that the rows wait out their lease. */
  @Test
  void processThatGivesUpWaitingKnowsNoOutcome() throws Exception {
    try (Hold hold = pubSub.faults().holdPublishWhen(m -> true)) {
      FutureTask<List<PublishOutcome>> publishing =
          new FutureTask<>(() -> publish(List.of(message("")), PATIENCE));
      Thread thread = new Thread(publishing);
      thread.start();
      await().atMost(PATIENCE).until(() -> hold.calls() == 1);

      thread.interrupt();

      assertThat(publishing)
          .failsWithin(PATIENCE)
          .withThrowableThat()
          .withCauseInstanceOf(InterruptedException.class);
    }
  }
}
