package io.twinbox.process;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.twinbox.local.InvoicesSample;
import io.twinbox.local.LocalPostgres;
import io.twinbox.local.bigquery.LocalBigQuery;
import io.twinbox.local.pubsub.LocalPubSubProcess;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/**
 * Processes that die in the midst of their work. What is killed is first held there, by a lock of
 * the test's or by a Pub/Sub that answers slowly, and the test asserts that it was.
 */
class CrashTest {

  private static final Duration PATIENCE = Duration.ofSeconds(120);
  private static final Duration POLL = Duration.ofMillis(20);
  private static final String LEDGER = "invoices-ledger";
  private static final String AUDIT = "audit";

  private static LocalPostgres postgres;

  private final List<AutoCloseable> started = new ArrayList<>();
  private Ledger ledger;

  @BeforeAll
  static void startPostgres() {
    postgres = LocalPostgres.start();
  }

  @AfterAll
  static void stopPostgres() {
    postgres.close();
  }

  @BeforeEach
  void createLedger() throws Exception {
    ledger = keep(Ledger.on(postgres));
  }

  @AfterEach
  void stopWhatWasStarted() throws Exception {
    for (int i = started.size() - 1; i >= 0; i--) {
      started.get(i).close();
    }
  }

  private <T extends AutoCloseable> T keep(T service) {
    started.add(service);
    return service;
  }

  /** A pod; PostgreSQL and the claims know it by its name. */
  private TwinboxProcess.Launch pod(String routes, String name, String pubSub) {
    return TwinboxProcess.classes(name)
        .with(
            "TWINBOX_ROUTES",
            routes,
            "TWINBOX_POD",
            name,
            "TWINBOX_TOPIC_DIR",
            "topics/invoices",
            "GOOGLE_CLOUD_PROJECT",
            "local",
            "PUBSUB_EMULATOR_HOST",
            pubSub,
            "SPRING_DATASOURCE_URL",
            ledger.url() + "?ApplicationName=" + name,
            "SPRING_DATASOURCE_USERNAME",
            LocalPostgres.USER,
            "SPRING_DATASOURCE_PASSWORD",
            LocalPostgres.PASSWORD,
            "SPRING_DATASOURCE_HIKARI_MINIMUM_IDLE",
            "1",
            "TWINBOX_DISPATCH_LEASE",
            "6s",
            "TWINBOX_DISPATCH_PUBLISH_TIMEOUT",
            "2s",
            "TWINBOX_CONSUME_MAX_LEASE",
            "10s");
  }

  private TwinboxProcess start(String routes, String name, String pubSub) {
    return keep(pod(routes, name, pubSub).start());
  }

  /** Small claims, since what the killed process held is published one by one. */
  private TwinboxProcess startDispatch(String name, String pubSub) {
    return keep(pod("dispatch", name, pubSub).with("TWINBOX_DISPATCH_BATCH_ROWS", "150").start());
  }

  @Test
  void killedDispatchAndConsumeLoseAndDoubleNothing() throws Exception {
    int events = 5_000;
    String pubSub =
        keep(LocalPubSubProcess.start(
                "local",
                "invoices",
                List.of(LEDGER, AUDIT),
                "--redeliver-share",
                "0.05",
                "--publish-latency-ms",
                "100"))
            .endpoint();
    Published published = keep(new Published(pubSub, "local", AUDIT));
    List<TwinboxProcess> dispatchers =
        List.of(startDispatch("dispatch-0", pubSub), startDispatch("dispatch-1", pubSub));
    List<TwinboxProcess> consumers =
        List.of(start("consume", "consume-0", pubSub), start("consume", "consume-1", pubSub));
    dispatchers.forEach(TwinboxProcess::ready);
    consumers.forEach(TwinboxProcess::ready);

    // A customer's balance that the handler cannot get at: whichever consumer meets it is held
    // there.
    Connection balance = keep(ledger.another());
    try (Statement statement = balance.createStatement()) {
      statement.execute("LOCK TABLE customer_balance IN SHARE MODE");
    }
    ledger.put(0, 3_000);
    CompletableFuture<Void> more = CompletableFuture.runAsync(this::putTheRest);

    // Dispatch: the rows of a claim are locked, so that they cannot be settled before the kill.
    Connection claim = keep(ledger.another());
    int victim =
        await().atMost(PATIENCE).pollInterval(POLL).until(() -> lockAClaim(claim), v -> v >= 0);
    dispatchers.get(victim).kill9();
    long claimed = ledger.claimedBy("dispatch-" + victim);
    assertThat(claimed).as("rows that the killed dispatch held").isPositive();
    claim.rollback();

    // Consume: its transactions are open, and wait for the balance.
    int blocked =
        await()
            .atMost(PATIENCE)
            .pollInterval(POLL)
            .until(
                () ->
                    ledger.waitingForALock("consume-0") > 0
                        ? 0
                        : ledger.waitingForALock("consume-1") > 0 ? 1 : -1,
                v -> v >= 0);
    consumers.get(blocked).kill9();
    long open = ledger.waitingForALock("consume-" + blocked);
    assertThat(open).as("transactions that the killed consume had open").isPositive();
    balance.rollback();
    TwinboxProcess again = start("consume", "consume-2", pubSub);

    more.get(PATIENCE.toSeconds(), TimeUnit.SECONDS);
    await()
        .atMost(PATIENCE)
        .untilAsserted(
            () -> {
              assertThat(ledger.due()).as("due").isZero();
              assertThat(ledger.applied()).as("applied").isEqualTo(events);
            });
    again.ready();

    assertThat(ledger.published()).isEqualTo(events);
    assertLedgerEqualsTheFirst(events);
    await().atMost(PATIENCE).until(() -> published.events() == events);
    assertThat(published.repeated())
        .as("published again, of the %d rows that were in flight", claimed)
        .isLessThanOrEqualTo((int) claimed);
    System.out.printf(
        "killed dispatch-%d with %d rows claimed and consume-%d with %d transactions open; %d events, %d published again%n",
        victim, claimed, blocked, open, events, published.repeated());
  }

  private void putTheRest() {
    try (Ledger writer = new Ledger(ledger.url(), LocalPostgres.USER, LocalPostgres.PASSWORD)) {
      writer.put(3_000, 5_000);
    } catch (Exception e) {
      throw new IllegalStateException(e);
    }
  }

  /** Locks what one of the dispatchers has claimed; returns which, or -1 while none has. */
  private static int lockAClaim(Connection connection) throws SQLException {
    try (Statement statement = connection.createStatement();
        ResultSet rows =
            statement.executeQuery(
                "SELECT lock_id FROM pubsub_outbox_due WHERE claim_token IS NOT NULL ORDER BY lock_id FOR UPDATE")) {
      if (rows.next()) {
        String pod = rows.getString(1);
        return Integer.parseInt(pod.substring(pod.length() - 1));
      }
    }
    connection.rollback();
    return -1;
  }

  private void assertLedgerEqualsTheFirst(int events) throws SQLException {
    assertThat(ledger.count("SELECT count(*) FROM ledger_entry")).isEqualTo(events);
    assertThat(ledger.count("SELECT count(DISTINCT event_id) FROM ledger_entry")).isEqualTo(events);
    assertThat(ledger.sum("SELECT sum(total) FROM ledger_entry"))
        .isEqualByComparingTo(InvoicesSample.sumOfTotals(events));
    assertThat(ledger.sum("SELECT sum(balance) FROM customer_balance"))
        .isEqualByComparingTo(ledger.sum("SELECT sum(posting) FROM ledger_entry"));
    assertThat(ledger.count("SELECT sum(entries) FROM customer_balance")).isEqualTo(events);
    assertThat(ledger.count("SELECT count(*) FROM transactional_inbox_dead_letter")).isZero();
  }

  @Test
  void crashAfterPublishPublishesAgain() throws Exception {
    // One transaction's, so one claim's.
    int events = 100;
    String pubSub =
        keep(LocalPubSubProcess.start("local", "invoices", List.of(LEDGER, AUDIT))).endpoint();
    Published published = keep(new Published(pubSub, "local", AUDIT));
    TwinboxProcess first = start("dispatch", "dispatch-first", pubSub);
    TwinboxProcess consume = start("consume", "consume", pubSub);
    first.ready();
    consume.ready();

    // Identities of published events cannot be written down, so nothing is settled.
    Connection lock = keep(ledger.another());
    try (Statement statement = lock.createStatement()) {
      statement.execute("LOCK TABLE pubsub_outbox_published IN SHARE MODE");
    }
    ledger.put(0, events);
    await().atMost(PATIENCE).until(() -> published.events() == events);
    await().atMost(PATIENCE).until(() -> ledger.waitingForALock("dispatch-first") > 0);
    first.kill9();
    assertThat(ledger.claimedBy("dispatch-first")).isPositive();
    assertThat(ledger.published()).isZero();
    ledger.endBackendsOf("dispatch-first");
    lock.rollback();
    List<String> inFlight =
        ledger.texts(
            "SELECT id FROM pubsub_outbox JOIN pubsub_outbox_due USING (seq) WHERE lock_id = 'dispatch-first'");

    start("dispatch", "dispatch-second", pubSub).ready();

    await().atMost(PATIENCE).until(() -> ledger.due() == 0 && ledger.applied() == events);
    assertThat(inFlight).isNotEmpty();
    await()
        .atMost(PATIENCE)
        .untilAsserted(() -> assertThat(inFlight).allMatch(id -> published.times(id) == 2));
    assertLedgerEqualsTheFirst(events);
    System.out.printf("%d events were published twice, under one id each%n", inFlight.size());
  }

  @Test
  void sigtermFinishesOrReleasesWhatIsInFlight() throws Exception {
    int events = 4_000;
    String pubSub =
        keep(LocalPubSubProcess.start(
                "local", "invoices", List.of(AUDIT), "--publish-latency-ms", "500"))
            .endpoint();
    Published published = keep(new Published(pubSub, "local", AUDIT));
    TwinboxProcess first = start("dispatch", "dispatch-first", pubSub);
    first.ready();
    ledger.put(0, events);
    await().atMost(PATIENCE).pollInterval(POLL).until(() -> ledger.claimedBy("dispatch-first") > 0);

    first.sigterm();

    // Kubernetes counts from here; 143 is how a JVM says SIGTERM.
    assertThat(first.exitCode(Duration.ofSeconds(30))).isIn(0, 143);
    assertThat(ledger.due()).as("left for others").isPositive();
    assertThat(ledger.claimedBy("dispatch-first")).as("still claimed by who is gone").isZero();
    assertThat(first.output()).doesNotContain("\tat ");

    start("dispatch", "dispatch-second", pubSub).ready();
    await().atMost(PATIENCE).until(() -> ledger.due() == 0);
    await().atMost(PATIENCE).until(() -> published.events() == events);
    assertThat(published.repeated()).as("published twice").isZero();
  }

  @Test
  void sigtermEndsAConsumeWhoseHandlerBlocksAndAnotherAppliesItsMessages() throws Exception {
    int events = 200;
    String pubSub = keep(LocalPubSubProcess.start("local", "invoices", List.of(LEDGER))).endpoint();
    String[] patience = {
      // The blocked handlers would wait longer than anybody waits for the process.
      "TWINBOX_CONSUME_LOCK_TIMEOUT", "300s",
      "TWINBOX_CONSUME_SHUTDOWN_TIMEOUT", "3s",
      "CAMEL_MAIN_SHUTDOWN_TIMEOUT", "5",
      "SPRING_LIFECYCLE_TIMEOUT_PER_SHUTDOWN_PHASE", "10s"
    };
    TwinboxProcess dispatch = start("dispatch", "dispatch", pubSub);
    TwinboxProcess blocked = keep(pod("consume", "blocked", pubSub).with(patience).start());
    dispatch.ready();
    blocked.ready();
    Connection balance = keep(ledger.another());
    try (Statement statement = balance.createStatement()) {
      statement.execute("LOCK TABLE customer_balance IN SHARE MODE");
    }
    ledger.put(0, events);
    await().atMost(PATIENCE).pollInterval(POLL).until(() -> ledger.waitingForALock("blocked") > 0);

    blocked.sigterm();

    assertThat(blocked.exitCode(Duration.ofSeconds(45))).isIn(0, 143);
    assertThat(ledger.applied()).isZero();
    ledger.endBackendsOf("blocked");
    balance.rollback();
    start("consume", "another", pubSub).ready();
    await().atMost(PATIENCE).until(() -> ledger.applied() == events);
    assertLedgerEqualsTheFirst(events);
  }

  @Test
  void sigtermEndsADispatchWhosePubSubIsAway() {
    TwinboxProcess dispatch =
        start("dispatch", "dispatch-alone", "127.0.0.1:" + TwinboxProcess.freePort());
    dispatch.ready();

    dispatch.sigterm();

    assertThat(dispatch.exitCode(Duration.ofSeconds(30))).isIn(0, 143);
    assertThat(dispatch.output()).doesNotContain("Forcing the routes to be shutdown", "\tat ");
  }

  @Test
  void aKilledProduceIsRunAgainAndDoublesNothing() throws Exception {
    int rows = 20_000;
    LocalBigQuery bigQuery = keep(LocalBigQuery.start("local"));
    bigQuery.createTable(
        InvoicesSample.DATASET,
        InvoicesSample.TABLE,
        Path.of("topics/invoices/sample/schema.json"));
    bigQuery.append(InvoicesSample.DATASET, InvoicesSample.TABLE, InvoicesSample.rows(rows));
    bigQuery.faults().latency(Duration.ofMillis(200));
    TwinboxProcess.Launch launch =
        pod("produce", "produce", "")
            .with(
                "BIGQUERY_EMULATOR_HOST", bigQuery.url(),
                "TWINBOX_PRODUCE_CHUNK_ROWS", "500",
                "TWINBOX_PRODUCE_PAGE_ROWS", "1000");
    TwinboxProcess killed = keep(launch.start());
    await()
        .atMost(PATIENCE)
        .pollInterval(POLL)
        .failFast("produce ended before it was killed", () -> !killed.isAlive())
        .until(() -> ledger.count("SELECT count(*) FROM pubsub_outbox") >= 3_000);
    killed.kill9();
    // The server may still be at the statement that it was sent last.
    await().atMost(PATIENCE).until(() -> ledger.backendsOf("produce") == 0);
    long committed = ledger.count("SELECT count(*) FROM pubsub_outbox");
    assertThat(committed).isBetween(3_000L, rows - 1L);
    assertThat(committed % 500).as("whole chunks only").isZero();
    assertThat(ledger.count("SELECT count(*) FROM produce_watermark")).isZero();

    bigQuery.faults().clear();
    TwinboxProcess again = keep(launch.start());

    assertThat(again.exitCode(PATIENCE)).as(again.output()).isZero();
    assertThat(ledger.count("SELECT count(*) FROM pubsub_outbox")).isEqualTo(rows);
    assertThat(
            ledger.count(
                "SELECT count(DISTINCT CAST(convert_from(payload, 'UTF8') AS jsonb) ->> 'event_id') FROM pubsub_outbox"
                    + " WHERE id = outbox_event_id('invoices', 'billing-invoices',"
                    + " CAST(convert_from(payload, 'UTF8') AS jsonb) ->> 'event_id')"))
        .isEqualTo(rows);
    assertThat(ledger.count("SELECT count(*) FROM produce_watermark")).isEqualTo(1);
    assertThat(again.output()).contains("\"queued\":" + (rows - committed));
    System.out.printf(
        "produce was killed with %d of %d rows committed; the next run added the others%n",
        committed, rows);
  }
}
