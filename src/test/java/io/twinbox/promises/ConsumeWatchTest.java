package io.twinbox.promises;

import static org.assertj.core.api.Assertions.assertThat;

import com.google.protobuf.Duration;
import com.google.pubsub.v1.DeadLetterPolicy;
import com.google.pubsub.v1.ExpirationPolicy;
import com.google.pubsub.v1.RetryPolicy;
import com.google.pubsub.v1.Subscription;
import io.twinbox.inbox.DurabilityCheck;
import java.util.List;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.springframework.boot.test.system.CapturedOutput;
import org.springframework.boot.test.system.OutputCaptureExtension;

/** What consume looks at by itself, at start and again and again: what it says, and when not. */
@ExtendWith(OutputCaptureExtension.class)
class ConsumeWatchTest extends PromiseTest {

  private CapturedOutput output;

  @BeforeEach
  void listen(CapturedOutput captured) {
    output = captured;
  }

  /** What consume itself said at a level, in order. */
  private List<String> said(String level) {
    return output
        .toString()
        .lines()
        .filter(line -> line.contains(" " + level + " ") && line.contains(" io.twinbox.consume "))
        .toList();
  }

  private List<String> faults() {
    return said("WARN").stream()
        .filter(line -> line.contains("Subscription projects/promises/subscriptions/"))
        .toList();
  }

  private static Duration days(int days) {
    return Duration.newBuilder().setSeconds(days * 86_400L).build();
  }

  private static Duration seconds(int seconds) {
    return Duration.newBuilder().setSeconds(seconds).build();
  }

  private Subscription.Builder flawless() {
    pubSub.createTopic(PROJECT, TOPIC);
    pubSub.createTopic(PROJECT, "given-up");
    pubSub.createSubscription(PROJECT, "given-up-keeper", "given-up");
    return Subscription.newBuilder()
        .setName(SUBSCRIPTION_PATH)
        .setTopic(TOPIC_PATH)
        .setAckDeadlineSeconds(60)
        .setMessageRetentionDuration(days(7))
        .setExpirationPolicy(ExpirationPolicy.getDefaultInstance())
        .setRetryPolicy(
            RetryPolicy.newBuilder().setMinimumBackoff(seconds(10)).setMaximumBackoff(seconds(600)))
        .setDeadLetterPolicy(
            DeadLetterPolicy.newBuilder()
                .setDeadLetterTopic("projects/promises/topics/given-up")
                .setMaxDeliveryAttempts(100));
  }

  private void awaitWatched() {
    // The server's identity is looked at after the subscription.
    eventually().until(() -> count("transactional_inbox_server") == 1);
    long seen = watched();
    eventually().until(() -> watched() > seen);
  }

  private long watched() {
    return jdbc.queryForObject(
        "SELECT CAST(extract(epoch FROM seen_at) * 1000000 AS bigint) FROM transactional_inbox_server",
        Long.class);
  }

  private static final String INFO = "logging.level.io.twinbox.consume=INFO";
  private static final String OFTEN = "twinbox.consume.watch-interval=100ms";

  @Test
  void flawlessSubscriptionIsPassedOverInSilence() {
    pubSub.createSubscription(flawless().build());
    start("consume", OFTEN, INFO);

    awaitWatched();
    assertThat(said("WARN")).isEmpty();
    assertThat(said("ERROR")).isEmpty();
  }

  @Test
  void everyWrongValueOfTheSubscriptionIsNamed() {
    Subscription.Builder wrong = flawless().clearRetryPolicy().clearExpirationPolicy();
    pubSub.createTopic(PROJECT, "nobody-reads");
    wrong
        .setAckDeadlineSeconds(10)
        .setMessageRetentionDuration(seconds(600))
        .setDeadLetterPolicy(
            DeadLetterPolicy.newBuilder()
                .setDeadLetterTopic("projects/promises/topics/nobody-reads")
                // 5 is what Pub/Sub makes of none.
                .setMaxDeliveryAttempts(0));
    pubSub.createSubscription(wrong.build());
    start("consume", OFTEN, INFO, "twinbox.consume.lock-timeout=15s");

    eventually().until(() -> faults().size() >= 6);
    List<String> found = faults().subList(0, 6);
    for (String part :
        List.of(
            "no retry policy",
            "gives a message up after 5 deliveries, before the inbox does after 10 failures",
            "dead-letter topic projects/promises/topics/nobody-reads has no subscription",
            "deleted after 31 days",
            "keeps messages for 10 minutes only",
            "ackDeadlineSeconds 10 is shorter")) {
      assertThat(found).as(part).anyMatch(fault -> fault.contains(part));
    }
    // Said again each time, because nobody may have seen it.
    eventually().until(() -> faults().size() >= 12);
  }

  @Test
  void valuesThatWouldGiveUpTooEarlyOrKeepTooLongAreNamed() {
    Subscription.Builder wrong = flawless();
    wrong.getDeadLetterPolicyBuilder().setMaxDeliveryAttempts(40);
    wrong.setExpirationPolicy(ExpirationPolicy.newBuilder().setTtl(days(2)));
    pubSub.createSubscription(wrong.build());
    start("consume", OFTEN, "twinbox.maintain.payload-retention=5d");

    eventually().until(() -> faults().size() >= 3);
    List<String> found = faults().subList(0, 3);
    for (String part :
        List.of(
            "after 40 deliveries, before the inbox does after 50",
            "deleted after 2 days",
            "keeps messages for 7 days, longer than the outbox keeps payloads (5 days")) {
      assertThat(found).as(part).anyMatch(fault -> fault.contains(part));
    }
  }

  @Test
  void missingSubscriptionIsSaidOnce() {
    pubSub.createTopic(PROJECT, TOPIC);
    start("consume", OFTEN, INFO);

    eventually().until(() -> !said("ERROR").isEmpty());
    awaitWatched();
    awaitWatched();
    assertThat(said("ERROR")).hasSize(1).first().asString().contains("orders-ledger");

    // Nor by the client, with a stack trace.
    assertThat(output.toString().lines().filter(line -> line.contains(" ERROR "))).hasSize(1);

    pubSub.createSubscription(flawlessOfExistingTopic());
    publish("event", java.util.Map.of("outbox_id", "late"));
    eventually().until(() -> effects().equals(List.of("event")));
    assertThat(said("INFO")).anyMatch(line -> line.contains("is received again"));
  }

  private static Subscription flawlessOfExistingTopic() {
    return Subscription.newBuilder().setName(SUBSCRIPTION_PATH).setTopic(TOPIC_PATH).build();
  }

  @Test
  void anotherServerOrHistoryOfTheDatabaseIsAnAlertThatNamesTheRunbook() {
    pubSub.createSubscription(flawless().build());
    DurabilityCheck check = start("consume", OFTEN, INFO).getBean(DurabilityCheck.class);
    awaitWatched();
    assertThat(said("ERROR")).isEmpty();
    assertThat(check.serverChanged()).isFalse();

    // What it remembers is made another one's, as after a failover that gave this server the name.
    jdbc.update("UPDATE transactional_inbox_server SET timeline_id = timeline_id + 1");
    eventually().until(() -> !said("ERROR").isEmpty());
    assertThat(check.serverChanged()).isTrue();
    assertThat(said("ERROR").get(0))
        .contains("timeline")
        .contains("docs/runbook.md, \"The database is another one\"");

    jdbc.update("UPDATE transactional_inbox_server SET system_identifier = '1'");
    eventually().until(() -> said("ERROR").size() >= 2);
    awaitWatched();
    assertThat(said("ERROR")).as("once for each change").hasSize(2);
  }
}
