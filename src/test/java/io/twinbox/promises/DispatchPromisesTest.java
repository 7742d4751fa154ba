package io.twinbox.promises;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import com.google.pubsub.v1.ListTopicSubscriptionsRequest;
import com.google.pubsub.v1.PubsubMessage;
import io.grpc.Status;
import io.twinbox.local.LocalPostgres;
import io.twinbox.local.pubsub.LocalPubSubFaults;
import io.twinbox.local.pubsub.PubSubCall;
import java.net.URI;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.Statement;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.IntStream;
import org.apache.camel.CamelContext;
import org.apache.camel.Exchange;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.springframework.boot.test.system.CapturedOutput;
import org.springframework.boot.test.system.OutputCaptureExtension;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.jdbc.core.StatementCallback;

/** What README promises of the way from the outbox to Pub/Sub. */
@ExtendWith(OutputCaptureExtension.class)
class DispatchPromisesTest extends PromiseTest {

  @Test
  void committedEventIsPublishedWithItsOwnAttributesAndItsId() {
    createTopicAndSubscription();
    UUID id =
        put("{\"amount\": \"12.50\"}", "{\"type\": \"issued\", \"Authorization\": \"mine\"}", null);
    start("dispatch");

    eventually().until(() -> !published().isEmpty());

    PubsubMessage message = published().get(0);
    assertThat(message.getData().toStringUtf8()).isEqualTo("{\"amount\": \"12.50\"}");
    assertThat(message.getAttributesMap())
        .isEqualTo(Map.of("type", "issued", "Authorization", "mine", "outbox_id", id.toString()));
    eventually().until(() -> count("pubsub_outbox_published") == 1);
    assertThat(state(id)).isEqualTo("published");
    assertThat(count("pubsub_outbox_due")).isZero();
  }

  @Test
  void rolledBackTransactionPublishesNothing() throws Exception {
    createTopicAndSubscription();
    start("dispatch");
    try (Connection connection =
            DriverManager.getConnection(databaseUrl, LocalPostgres.USER, LocalPostgres.PASSWORD);
        Statement statement = connection.createStatement()) {
      connection.setAutoCommit(false);
      statement.execute("SELECT outbox_put('orders', 'rolled back')");
      connection.rollback();
    }
    put("committed");

    eventually().until(() -> count("pubsub_outbox_published") == 1);
    assertThat(publishedTexts()).containsExactly("committed");
  }

  @Test
  void poisonRowDoesNotDelayOthers() {
    createTopicAndSubscription();
    pubSub
        .faults()
        .failPublishWhen(m -> m.getData().toStringUtf8().equals("poison"), Status.INVALID_ARGUMENT);
    List<UUID> ids = new ArrayList<>();
    for (int i = 0; i < 100; i++) {
      ids.add(put(i == 50 ? "poison" : "event " + i));
    }
    start("dispatch", "twinbox.dispatch.backoff-base=1h", "twinbox.dispatch.backoff-cap=1h");

    eventually().until(() -> count("pubsub_outbox_published") == 99);
    Map<String, Object> poison = status(ids.get(50));
    assertThat(poison.get("attempts")).isEqualTo(1);
    assertThat((String) poison.get("last_error")).contains("INVALID_ARGUMENT");
    assertThat(publishedTexts()).doesNotHaveDuplicates().hasSize(99);
  }

  @Test
  void messageRefusedTooOftenIsDeadAndKept() {
    createTopicAndSubscription();
    pubSub.faults().failPublishWhen(m -> true, Status.INVALID_ARGUMENT);
    UUID id = put("never");
    start(
        "dispatch",
        "twinbox.dispatch.max-attempts=3",
        "twinbox.dispatch.backoff-base=10ms",
        "twinbox.dispatch.backoff-cap=20ms");

    eventually().until(() -> state(id).equals("dead"));
    assertThat(status(id).get("attempts")).isEqualTo(3);
    assertThat(count("pubsub_outbox")).isEqualTo(1);
  }

  @Test
  void missingTopicKillsNoRowAndNothingWaitsOnAfterItIsThere() {
    List<UUID> ids = IntStream.range(0, 20).mapToObj(i -> put("event " + i)).toList();
    start("dispatch", "twinbox.dispatch.max-attempts=1", "twinbox.dispatch.probe-cap=1s");
    eventually().until(() -> status(ids.get(0)).get("last_error") != null);
    assertThat((String) status(ids.get(0)).get("last_error")).contains("NOT_FOUND");

    createTopicAndSubscription();

    eventually().until(() -> count("pubsub_outbox_published") == 20);
    assertThat(
            jdbc.queryForList("SELECT DISTINCT attempts FROM pubsub_outbox_status", Integer.class))
        .containsExactly(0);
  }

  @Test
  void unavailablePubSubKillsNoRow() {
    createTopicAndSubscription();
    pubSub.faults().refuseAll(true);
    UUID id = put("event");
    start(
        "dispatch",
        "twinbox.dispatch.max-attempts=1",
        "twinbox.dispatch.publish-timeout=1s",
        "twinbox.dispatch.probe-cap=1s");
    eventually().until(() -> status(id).get("last_error") != null);
    assertThat(state(id)).isNotEqualTo("dead");
    assertThat(status(id).get("attempts")).isEqualTo(0);

    pubSub.faults().refuseAll(false);

    eventually().until(() -> state(id).equals("published"));
  }

  @Test
  void codeThatNoListNamesIsNoRowsFault() {
    createTopicAndSubscription();
    LocalPubSubFaults.Rule rule =
        pubSub.faults().failWhen(PubSubCall.PUBLISH, r -> true, Status.DATA_LOSS);
    UUID id = put("event");
    start("dispatch", "twinbox.dispatch.max-attempts=1", "twinbox.dispatch.probe-cap=1s");
    eventually().until(() -> rule.hits() >= 2);
    assertThat(status(id).get("attempts")).isEqualTo(0);
    rule.close();
    eventually().until(() -> state(id).equals("published"));
  }

  @Test
  void topicThatRefusesEverythingAsInvalidKillsNoRow() {
    createTopicAndSubscription();
    LocalPubSubFaults.Rule rule =
        pubSub.faults().failPublishWhen(m -> true, Status.INVALID_ARGUMENT);
    for (int i = 0; i < 12; i++) {
      put("event " + i);
    }
    start(
        "dispatch",
        "twinbox.dispatch.max-attempts=1",
        "twinbox.dispatch.backoff-base=10ms",
        "twinbox.dispatch.probe-cap=1s");
    // The whole, each singly, and then probe after probe.
    eventually().until(() -> rule.hits() >= 17);
    assertThat(jdbc.queryForList("SELECT DISTINCT attempts FROM pubsub_outbox_due", Integer.class))
        .containsExactly(0);
    rule.close();

    eventually().until(() -> count("pubsub_outbox_published") == 12);
  }

  @Test
  void topicWithoutSubscriptionHoldsItsRows() {
    pubSub.createTopic(PROJECT, TOPIC);
    UUID id = put("event");
    AtomicInteger checks = new AtomicInteger();
    pubSub
        .faults()
        .failWhen(
            PubSubCall.ADMIN,
            request ->
                request instanceof ListTopicSubscriptionsRequest && checks.incrementAndGet() < 0,
            Status.INTERNAL);
    start("dispatch");
    // The second check comes two seconds after the first: many polls later.
    eventually().until(() -> checks.get() >= 2);
    assertThat(published()).isEmpty();
    assertThat(state(id)).isEqualTo("due");

    pubSub.createSubscription(PROJECT, SUBSCRIPTION, TOPIC);

    eventually().until(() -> state(id).equals("published"));
    assertThat(backlog()).isEqualTo(1);
  }

  @Test
  void lostAnswerIsPublishedAgainUnderTheSameId() {
    createTopicAndSubscription();
    pubSub.faults().losePublishAnswers(1);
    UUID id = put("event");
    start("dispatch");

    eventually().until(() -> state(id).equals("published"));
    assertThat(published()).hasSize(2);
    assertThat(published())
        .allSatisfy(m -> assertThat(m.getAttributesOrThrow("outbox_id")).isEqualTo(id.toString()));
  }

  @Test
  void eventsOfOneOrderingKeyAreFirstPublishedInOrderThroughFailures() {
    createTopicAndSubscription();
    List<String> keys = List.of("a", "b", "c", "ä");
    for (int i = 0; i < 400; i++) {
      put("%s %03d".formatted(keys.get(i % 4), i), "{}", keys.get(i % 4));
    }
    pubSub.faults().failNext(PubSubCall.PUBLISH, 3, Status.UNAVAILABLE);
    pubSub.faults().losePublishAnswers(2);
    pubSub.faults().failNext(PubSubCall.PUBLISH, 2, Status.NOT_FOUND);
    String[] settings = {"twinbox.dispatch.batch-rows=40", "twinbox.dispatch.probe-cap=1s"};
    start("dispatch", settings);
    start("dispatch", settings);

    eventually().until(() -> count("pubsub_outbox_published") == 400);
    Map<String, List<String>> firstPublications = new HashMap<>();
    for (PubsubMessage message : published()) {
      List<String> ofKey =
          firstPublications.computeIfAbsent(message.getOrderingKey(), k -> new ArrayList<>());
      String text = message.getData().toStringUtf8();
      if (!ofKey.contains(text)) {
        ofKey.add(text);
      }
    }
    assertThat(firstPublications).containsOnlyKeys(keys);
    firstPublications.forEach((key, texts) -> assertThat(texts).hasSize(100).isSorted());
  }

  @Test
  void refusedEventBlocksOnlyItsOwnOrderingKey() {
    createTopicAndSubscription();
    pubSub
        .faults()
        .failPublishWhen(m -> m.getData().toStringUtf8().equals("a 1"), Status.INVALID_ARGUMENT);
    for (int i = 0; i < 3; i++) {
      put("a " + i, "{}", "a");
      put("b " + i, "{}", "b");
      put("no key " + i);
    }
    start("dispatch", "twinbox.dispatch.max-attempts=1");

    eventually().until(() -> count("pubsub_outbox_published") == 7);
    eventually().until(() -> count("pubsub_outbox_status WHERE state = 'dead'") == 1);
    assertThat(publishedTexts())
        .containsExactlyInAnyOrder("a 0", "b 0", "b 1", "b 2", "no key 0", "no key 1", "no key 2");
    assertThat(count("pubsub_outbox_status WHERE state = 'due' AND ordering_key = 'a'"))
        .isEqualTo(1);
  }

  /** A key's rows of one claim take several calls, each 250 messages at most. */
  @Test
  void callsBehindAFailedOneOfTheirKeyAreNotMadeAndTheirRowsNotCounted() {
    createTopicAndSubscription();
    List<UUID> ids = putOfOneKey(600);
    LocalPubSubFaults.Rule rule =
        pubSub
            .faults()
            .failPublishWhen(
                m -> m.getData().toStringUtf8().equals("event 010"), Status.FAILED_PRECONDITION);
    start("dispatch", "twinbox.dispatch.batch-rows=600", "twinbox.dispatch.probe-cap=1s");
    eventually().until(() -> status(ids.get(0)).get("last_error") != null);

    assertThat((String) status(ids.get(249)).get("last_error")).contains("FAILED_PRECONDITION");
    assertThat(status(ids.get(250)).get("last_error")).as("of the second call").isNull();
    // Probes publish one by one what is before the row at fault.
    assertThat(publishedTexts()).allMatch(text -> text.compareTo("event 010") < 0);
    rule.close();

    eventually().until(() -> count("pubsub_outbox_published") == 600);
    assertThat(publishedTexts()).hasSize(600).isSorted();
  }

  @Test
  void refusedEventOfALongRunIsCountedAloneAndWhatIsBehindItWaits() {
    createTopicAndSubscription();
    List<UUID> ids = putOfOneKey(600);
    pubSub
        .faults()
        .failPublishWhen(
            m -> m.getData().toStringUtf8().equals("event 010"), Status.INVALID_ARGUMENT);
    start(
        "dispatch",
        "twinbox.dispatch.batch-rows=600",
        "twinbox.dispatch.backoff-base=1h",
        "twinbox.dispatch.backoff-cap=1h");
    eventually().until(() -> status(ids.get(10)).get("last_error") != null);

    assertThat(publishedTexts())
        .containsExactlyElementsOf(
            IntStream.range(0, 10).mapToObj("event %03d"::formatted).toList());
    assertThat(
            jdbc.queryForList(
                "SELECT id FROM pubsub_outbox_status WHERE attempts > 0 OR last_error IS NOT NULL",
                UUID.class))
        .containsExactly(ids.get(10));
    assertThat(count("pubsub_outbox_status WHERE state = 'due'")).isEqualTo(589);
  }

  private List<UUID> putOfOneKey(int events) {
    return IntStream.range(0, events)
        .mapToObj(i -> put("event %03d".formatted(i), "{}", "key"))
        .toList();
  }

  @Test
  void publishedPayloadsLeaveAfterTheirRetentionAndIdentitiesStay() {
    createTopicAndSubscription();
    UUID id =
        jdbc.queryForObject(
            "SELECT outbox_put('orders', 'event', '{}', NULL, 'order-1', 'shop')", UUID.class);
    start(
        "dispatch,maintain",
        "twinbox.maintain.payload-retention=1ms",
        "twinbox.maintain.subscription-retention=1ms",
        "twinbox.produce.lookback=1ms",
        "twinbox.maintain.interval=100ms");
    eventually().until(() -> count("pubsub_outbox") == 0 && count("pubsub_outbox_published") == 1);
    assertThat(state(id)).isEqualTo("published");

    UUID again =
        jdbc.queryForObject(
            "SELECT outbox_put('orders', 'event', '{}', NULL, 'order-1', 'shop')", UUID.class);
    assertThat(again).isEqualTo(id);
    assertThat(count("pubsub_outbox")).isZero();
  }

  @Test
  void failoverThatLeavesAReadOnlyServerBehindIsSurvived() {
    createTopicAndSubscription();
    UUID first = put("before");
    // Without the choice of a primary at connect, so that the pool holds sessions of the old one.
    start("dispatch", "spring.datasource.hikari.data-source-properties.targetServerType=any");
    eventually().until(() -> state(first).equals("published"));
    UUID second = put("after");
    // Sessions that begin now are those of a server that was the primary and is a standby.
    String database = jdbc.queryForObject("SELECT current_database()", String.class);
    jdbc.execute("UPDATE pubsub_outbox_due SET next_retry_at = now() + interval '1 hour'");
    jdbc.execute("ALTER DATABASE " + database + " SET default_transaction_read_only = on");
    jdbc.execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND pid <> pg_backend_pid()");
    eventually()
        .until(
            () ->
                jdbc.queryForObject(
                        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND application_name = 'twinbox'",
                        Integer.class)
                    > 0);
    jdbc.execute(
        (StatementCallback<Boolean>)
            statement -> {
              statement.execute("SET default_transaction_read_only = off");
              return statement.execute(
                  "ALTER DATABASE " + database + " RESET default_transaction_read_only");
            });
    jdbc.execute("UPDATE pubsub_outbox_due SET next_retry_at = now()");

    eventually().until(() -> state(second).equals("published"));
  }

  @Test
  void settlementThatTheDatabaseCutOffIsMadeAgainAndPublishesNothingAgain() throws Exception {
    createTopicAndSubscription();
    start("dispatch");
    try (Connection connection =
            DriverManager.getConnection(databaseUrl, LocalPostgres.USER, LocalPostgres.PASSWORD);
        Statement statement = connection.createStatement()) {
      connection.setAutoCommit(false);
      // What was published cannot be written down.
      statement.execute("LOCK TABLE pubsub_outbox_published IN SHARE MODE");
      put("event");
      put("event of a key", "{}", "key");
      eventually().until(() -> published().size() == 2);
      for (int cut = 0; cut < 3; cut++) {
        awaitBlockedSessions(2);
        jdbc.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                + " WHERE datname = current_database() AND wait_event_type = 'Lock'");
      }
      connection.rollback();
    }

    // Long before the leases of 60 s end.
    eventually().until(() -> count("pubsub_outbox_published") == 2);
    assertThat(count("pubsub_outbox_due")).isZero();
    assertThat(publishedTexts()).containsExactlyInAnyOrder("event", "event of a key");
  }

  @Test
  void rowsOfAPodThatDiedArePublishedOneByOneAndDelayNoOthers() throws Exception {
    createTopicAndSubscription();
    for (int i = 0; i < 20; i++) {
      put("suspect " + i, "{}", i < 10 ? null : "key " + i);
    }
    jdbc.execute(
        "UPDATE pubsub_outbox_due SET lock_id = 'dead', claim_token = gen_random_uuid(),"
            + " locked_at = now() - interval '2 minutes', next_retry_at = now() - interval '1 minute'");
    // Held in their calls: as long as one is, no other may be.
    LocalPubSubFaults.Hold held =
        pubSub.faults().holdPublishWhen(m -> m.getData().toStringUtf8().startsWith("suspect"));
    start("dispatch");
    eventually().until(() -> held.calls() == 1);

    for (int i = 0; i < 5; i++) {
      put("fresh");
      put("fresh", "{}", "another key");
    }
    eventually().until(() -> count("pubsub_outbox_published") == 10);
    assertThat(publishedTexts()).hasSize(10).containsOnly("fresh");
    assertThat(held.calls()).as("suspects that were published at once").isEqualTo(1);
    held.close();

    eventually().until(() -> count("pubsub_outbox_published") == 30);
    assertThat(publishedTexts()).hasSize(30);
  }

  @Test
  void rowThatQuarantineGivesUpIsNamedInTheLog(CapturedOutput output) {
    createTopicAndSubscription();
    UUID id = put("killer");
    jdbc.execute(
        "UPDATE pubsub_outbox_due SET lock_id = 'pod-7', claim_token = gen_random_uuid(), solo = true,"
            + " crashes = 4, locked_at = now() - interval '2 minutes', next_retry_at = now() - interval '1 minute'");
    start("dispatch");

    eventually().until(() -> state(id).equals("dead"));
    assertThat(published()).isEmpty();
    eventually()
        .untilAsserted(
            () ->
                assertThat(output.getAll())
                    .contains(
                        "Topic orders: event "
                            + id
                            + " is dead, quarantined: 5 times in a row the process that published this event alone ended without an outcome, last pod-7"));
  }

  /** As an operator does it over JMX. */
  @Test
  void routesThatAreStoppedAndStartedAgainPollOnAndLeaveNoThreadsBehind() throws Exception {
    createTopicAndSubscription();
    CamelContext camel = start("dispatch").getBean(CamelContext.class);
    for (int i = 0; i < 50; i++) {
      for (String route : List.of("dispatch", "dispatch-ordered", "dispatch-suspects")) {
        camel.getRouteController().stopRoute(route);
        camel.getRouteController().startRoute(route);
      }
    }
    UUID id = put("event");
    UUID ordered = put("event", "{}", "key");

    eventually().until(() -> state(id).equals("published") && state(ordered).equals("published"));
    eventually()
        .untilAsserted(
            () ->
                assertThat(
                        Thread.getAllStackTraces().keySet().stream()
                            .filter(thread -> thread.getName().contains("scheduler://dispatch")))
                    .hasSize(3));
  }

  /** And no more of them: what waits for a publisher waits in the database. */
  @Test
  void claimsWithOrderingKeysThatTakeLongHoldUpNoRowWithoutOne() {
    createTopicAndSubscription();
    for (int i = 0; i < 10; i++) {
      put("ordered " + i, "{}", "key " + i);
    }
    LocalPubSubFaults.Hold held =
        pubSub.faults().holdPublishWhen(m -> !m.getOrderingKey().isEmpty());
    start("dispatch", "twinbox.dispatch.batch-rows=1", "twinbox.dispatch.publishers=3");
    // Three in their calls, one next, one at the door.
    eventually().until(() -> claims() == 5);

    for (int i = 0; i < 5; i++) {
      put("free");
    }
    eventually().until(() -> count("pubsub_outbox_published") == 5);
    assertThat(publishedTexts()).hasSize(5).containsOnly("free");
    assertThat(held.calls()).as("claims that are published side by side").isEqualTo(3);
    assertThat(claims()).as("claims that are held").isEqualTo(5);
    held.close();

    eventually().until(() -> count("pubsub_outbox_published") == 15);
    assertThat(publishedTexts()).hasSize(15);
  }

  private int claims() {
    return jdbc.queryForObject(
        "SELECT count(DISTINCT claim_token) FROM pubsub_outbox_due", Integer.class);
  }

  @Test
  void stoppingDispatchFinishesWhatIsInFlightAndReleasesTheRestAtOnce() throws Exception {
    createTopicAndSubscription();
    for (int i = 0; i < 5; i++) {
      put("event " + i);
      put("event " + i, "{}", "key " + i);
    }
    LocalPubSubFaults.Hold held = pubSub.faults().holdPublishWhen(m -> true);
    ConfigurableApplicationContext context =
        start("dispatch", "twinbox.dispatch.batch-rows=1", "twinbox.dispatch.publishers=1");
    CamelContext camel = context.getBean(CamelContext.class);
    // Of each kind one in its call, one next, one at the door.
    eventually().until(() -> claims() == 6 && held.calls() == 2);

    Thread stopper = new Thread(() -> stop(context));
    stopper.start();
    eventually().until(camel::isStopping);
    held.close();
    stopper.join(60_000);
    assertThat(stopper.isAlive()).isFalse();

    assertThat(published()).hasSize(2);
    assertThat(count("pubsub_outbox_published")).isEqualTo(2);
    assertThat(
            count(
                "pubsub_outbox_due WHERE claim_token IS NULL AND next_retry_at <= now() AND attempts = 0"))
        .isEqualTo(8);
  }

  @Test
  void stopThatDoesNotHearWhatBecameOfRowsLeavesThemToTheirLease() {
    createTopicAndSubscription();
    UUID id = put("event");
    LocalPubSubFaults.Hold held = pubSub.faults().holdPublishWhen(m -> true);
    ConfigurableApplicationContext context = start("dispatch", "camel.main.shutdown-timeout=1");
    eventually().until(() -> held.calls() == 1);

    stop(context);

    assertThat(state(id)).isEqualTo("claimed");
    assertThat(status(id).get("attempts")).isEqualTo(0);
  }

  @Test
  void claimThatWaitedTooLongForAPublisherGoesBackUnpublishedAndUncounted() {
    createTopicAndSubscription();
    CamelContext camel =
        start("dispatch", "twinbox.dispatch.publish-timeout=20s").getBean(CamelContext.class);
    stopPolls(camel);
    UUID id = put("event");

    publishClaimOf(id, camel, Duration.ofSeconds(19));

    assertThat(published()).isEmpty();
    assertThat(state(id)).isEqualTo("due");
    assertThat(status(id).get("attempts")).isEqualTo(0);
    assertThat(status(id).get("last_error")).isNull();

    publishClaimOf(id, camel, Duration.ofSeconds(60));

    assertThat(published()).hasSize(1);
    assertThat(state(id)).isEqualTo("published");
  }

  private static void stopPolls(CamelContext camel) {
    for (String route : List.of("dispatch", "dispatch-ordered", "dispatch-suspects")) {
      try {
        camel.getRouteController().stopRoute(route);
      } catch (Exception e) {
        throw new IllegalStateException(e);
      }
    }
  }

  /** Claims an event by hand and gives it to the route that publishes. */
  private void publishClaimOf(UUID id, CamelContext camel, Duration leaseLeft) {
    String token = UUID.randomUUID().toString();
    jdbc.update(
        "UPDATE pubsub_outbox_due SET lock_id = 'pod', claim_token = CAST(? AS uuid), locked_at = now(),"
            + " next_retry_at = now() + interval '1 hour'"
            + " WHERE seq = (SELECT seq FROM pubsub_outbox WHERE id = ?)",
        token,
        id);
    Exchange claim =
        camel
            .createProducerTemplate()
            .send(
                "direct:publish",
                exchange -> {
                  exchange.setProperty("claimToken", token);
                  exchange.setProperty("leaseEnd", System.nanoTime() + leaseLeft.toNanos());
                  exchange
                      .getMessage()
                      .setBody(
                          jdbc.queryForList(
                              "SELECT seq, id, payload, CAST(attributes AS text) AS attributes,"
                                  + " ordering_key, 0 AS attempts FROM pubsub_outbox WHERE id = ?",
                              id));
                });
    assertThat(claim.getException()).isNull();
  }

  @Test
  void databaseThatIsAwayIsAskedSeldomAndTheRowsArePublishedWhenItIsBack() throws Exception {
    createTopicAndSubscription();
    URI server = URI.create(databaseUrl.substring("jdbc:".length()));
    try (TcpSwitch line = new TcpSwitch(server.getPort())) {
      start(
          "dispatch",
          "spring.datasource.url="
              + databaseUrl.replaceFirst("//[^/]+", "//localhost:" + line.port()),
          "spring.datasource.hikari.connection-timeout=10000");
      UUID first = put("before");
      eventually().until(() -> state(first).equals("published"));

      line.cut(true);
      int before = line.attempts();
      // The first tries come soon after one another.
      eventually().until(() -> line.attempts() >= before + 5);
      UUID second = put("while it is away");
      int early = line.attempts();
      await().during(Duration.ofSeconds(4)).atMost(Duration.ofSeconds(60)).until(() -> true);
      assertThat(line.attempts() - early).as("tries in four seconds and more").isLessThan(20);
      line.cut(false);

      eventually().until(() -> state(second).equals("published"));
    }
  }

  @Test
  void topicWithoutSubscriptionIsPublishedToWhereThatIsWanted() {
    pubSub.createTopic(PROJECT, TOPIC);
    UUID id = put("event");
    start("dispatch", "twinbox.dispatch.require-subscription=false");

    eventually().until(() -> state(id).equals("published"));
  }

  private String state(UUID id) {
    return (String) status(id).get("state");
  }

  private Map<String, Object> status(UUID id) {
    return jdbc.queryForMap("SELECT * FROM pubsub_outbox_status WHERE id = ?", id);
  }
}
