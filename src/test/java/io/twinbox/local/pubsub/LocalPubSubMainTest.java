package io.twinbox.local.pubsub;

import static io.twinbox.local.pubsub.PubSubContractFixture.text;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.awaitility.Awaitility.await;

import com.google.pubsub.v1.ReceivedMessage;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The server as its own process, and its clients as processes that die. */
class LocalPubSubMainTest {
  private static final Duration PATIENCE = Duration.ofSeconds(60);
  private static final String TOPIC = "projects/p/topics/orders";
  private static final String SUBSCRIPTION = "projects/p/subscriptions/ledger";

  @Test
  void servesWhatItWasToldOnThePortItPrints() throws Exception {
    try (ChildProcess server =
        ChildProcess.java(
            LocalPubSubMain.class,
            "--port",
            "0",
            "--topic",
            TOPIC,
            "--subscription",
            SUBSCRIPTION + "=" + TOPIC,
            "--redeliver-share",
            "1",
            "--publish-latency-ms",
            "200")) {
      String endpoint =
          server
              .awaitLine("Local Pub/Sub listening on ", PATIENCE)
              .replace("Local Pub/Sub listening on ", "");
      assertThat(endpoint).matches("127\\.0\\.0\\.1:[1-9][0-9]*");
      try (PubSubClient client = new PubSubClient(endpoint)) {
        long start = System.nanoTime();
        client.publish(TOPIC, text("a"));
        assertThat(Duration.ofNanos(System.nanoTime() - start))
            .isGreaterThan(Duration.ofMillis(190));

        ReceivedMessage first = client.pull(SUBSCRIPTION, 1).get(0);
        client.acknowledge(SUBSCRIPTION, first.getAckId());
        ReceivedMessage again = client.pull(SUBSCRIPTION, 1).get(0);
        assertThat(again.getMessage()).isEqualTo(first.getMessage());
      }
    }
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "--prot 1",
        "--port",
        "--port x",
        "--port 65536",
        "--redeliver-share 1.5",
        "--publish-latency-ms -1",
        "--subscription " + SUBSCRIPTION
      })
  void aBadArgumentIsNamed(String arguments) {
    assertThatThrownBy(() -> LocalPubSubMain.parse(arguments.split(" ")))
        .isInstanceOf(LocalPubSubMain.BadArgument.class)
        .hasMessageContaining(arguments.split(" ")[0]);
  }

  @ParameterizedTest
  @ValueSource(
      strings = {"--prot 1", "--topic orders", "--subscription " + SUBSCRIPTION + "=" + TOPIC})
  void aBadArgumentEndsItWithOneMessageAndTheUsage(String arguments) throws Exception {
    try (ChildProcess server = ChildProcess.java(LocalPubSubMain.class, arguments.split(" "))) {
      assertThat(server.exitCode(PATIENCE)).isEqualTo(2);
      assertThat(server.lines().get(0)).isNotBlank().doesNotStartWith("Usage");
      assertThat(server.lines().get(1)).startsWith("Usage: LocalPubSubMain");
      assertThat(server.lines()).noneMatch(line -> line.contains("\tat "));
    }
  }

  @Test
  void aPortInUseEndsItWithOneMessage() throws Exception {
    try (LocalPubSub other = LocalPubSub.start();
        ChildProcess server =
            ChildProcess.java(
                LocalPubSubMain.class, "--port", other.endpoint().replaceAll(".*:", ""))) {
      assertThat(server.exitCode(PATIENCE)).isEqualTo(1);
      assertThat(server.lines())
          .singleElement()
          .asString()
          .startsWith("The local Pub/Sub cannot listen on " + other.endpoint());
    }
  }

  @Test
  void whatAKilledClientHeldComesToTheNextOneWhenItsLeaseEnds() throws Exception {
    try (LocalPubSub pubSub = LocalPubSub.start();
        PubSubClient client = new PubSubClient(pubSub.endpoint())) {
      pubSub.createTopic("p", "orders");
      pubSub.createSubscription("p", "ledger", "orders");
      client.publish(TOPIC, text("1"), text("2"), text("3"));
      ChildProcess holder =
          ChildProcess.java(HoldingSubscriberMain.class, pubSub.endpoint(), SUBSCRIPTION);
      try {
        for (int i = 1; i <= 3; i++) {
          holder.awaitLine("holding " + i + ".", PATIENCE);
        }
      } finally {
        holder.kill();
      }
      long killed = System.nanoTime();

      RawStream next = RawStream.open(client, SUBSCRIPTION);

      await().atMost(PATIENCE).until(() -> next.received.size() == 3);
      assertThat(next.texts()).containsExactlyInAnyOrderElementsOf(List.of("1", "2", "3"));
      // Not sooner than its last extension allows, and not later than the longest lease it asked.
      assertThat(Duration.ofNanos(System.nanoTime() - killed))
          .isBetween(Duration.ofSeconds(2), Duration.ofSeconds(15));
      assertThat(pubSub.stats().expiredLeases()).isEqualTo(3);
      next.cancel();
    }
  }
}
