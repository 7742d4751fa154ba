package io.twinbox.process;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assumptions.assumeThat;
import static org.awaitility.Awaitility.await;

import com.google.pubsub.v1.PubsubMessage;
import io.grpc.Status;
import io.twinbox.local.LocalPostgres;
import io.twinbox.local.pubsub.LocalPubSub;
import java.io.IOException;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.Set;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;

/**
 * Dispatchers that are killed, frozen and cut off from their database while rows come in, and a
 * checker that looks at all that was published. {@code mvn -Plong test} runs it for minutes.
 */
class DispatchUnderFireTest {

  /** How long rows come in. */
  private static final Duration FIRE = Duration.ofSeconds(Integer.getInteger("twinbox.fire", 12));

  private static final long SEED = Long.getLong("twinbox.seed", System.nanoTime() % 1_000_000);
  private static final Duration PATIENCE = Duration.ofSeconds(240);
  private static final Duration POLL = Duration.ofMillis(20);
  private static final String TOPIC = "fire";
  private static final String TOPIC_PATH = "projects/local/topics/fire";
  private static final int KEYS = 8;

  private final List<AutoCloseable> started = new ArrayList<>();
  private LocalPubSub pubSub;
  private String url;
  private String user;
  private String password;

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

  private void startEmbedded() {
    LocalPostgres postgres = keep(LocalPostgres.start());
    url = postgres.createDatabase();
    user = LocalPostgres.USER;
    password = LocalPostgres.PASSWORD;
  }

  private void startPubSub() {
    pubSub = keep(LocalPubSub.start());
    pubSub.createTopic("local", TOPIC);
    pubSub.createSubscription("local", "fire-ledger", TOPIC);
    pubSub.stats().keepPublished(2_000_000);
  }

  private TwinboxProcess pod(String name) {
    return keep(launch(name).start());
  }

  private TwinboxProcess.Launch launch(String name) {
    return TwinboxProcess.classes(name)
        .with(
            "TWINBOX_ROUTES", "dispatch",
            "TWINBOX_POD", name,
            "GOOGLE_CLOUD_PROJECT", "local",
            "TOPIC_NAME", TOPIC,
            "PUBSUB_EMULATOR_HOST", pubSub.endpoint(),
            "SPRING_DATASOURCE_URL", url,
            "SPRING_DATASOURCE_USERNAME", user,
            "SPRING_DATASOURCE_PASSWORD", password,
            "SPRING_DATASOURCE_HIKARI_MINIMUM_IDLE", "1",
            // Small claims, or a kill would leave thousands of rows that are then claimed
            // singly.
            "TWINBOX_DISPATCH_BATCH_ROWS", "25",
            // A row that happens to be in flight at every kill is no poison.
            "TWINBOX_DISPATCH_MAX_CRASHES", "100",
            "TWINBOX_DISPATCH_LEASE", "8s",
            "TWINBOX_DISPATCH_PUBLISH_TIMEOUT", "3s");
  }

  private Connection connect() throws SQLException {
    return DriverManager.getConnection(url, user, password);
  }

  private long number(String sql) {
    try (Connection connection = connect();
        Statement statement = connection.createStatement();
        ResultSet row = statement.executeQuery(sql)) {
      row.next();
      return row.getLong(1);
    } catch (SQLException e) {
      // Between two servers.
      return -1;
    }
  }

  private Set<String> texts(String sql) throws SQLException {
    Set<String> texts = new HashSet<>();
    try (Connection connection = connect();
        Statement statement = connection.createStatement();
        ResultSet rows = statement.executeQuery(sql)) {
      while (rows.next()) {
        texts.add(rows.getString(1));
      }
    }
    return texts;
  }

  private Set<String> claimedBy(String pod) throws SQLException {
    return texts(
        "SELECT CAST(id AS text) FROM pubsub_outbox JOIN pubsub_outbox_due USING (seq)"
            + " WHERE claim_token IS NOT NULL AND lock_id = '"
            + pod
            + "'");
  }

  private static void pause(Duration time) {
    try {
      new CountDownLatch(1).await(time.toMillis(), TimeUnit.MILLISECONDS);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new IllegalStateException(e);
    }
  }

  /** A service that emits events, in order within a key; what fails is done again under its ids. */
  private final class Writer implements AutoCloseable {
    private final Thread thread = new Thread(this::write, "writer");
    private volatile boolean stop;
    private volatile long written;

    Writer() {
      thread.start();
    }

    private void write() {
      long batch = 0;
      // A batch that failed may be in or not: only its next try tells.
      boolean pending = false;
      while (!stop || pending) {
        try (Connection connection = connect();
            PreparedStatement put =
                connection.prepareStatement("SELECT outbox_put(?, CAST(? AS text), '{}', ?, ?)")) {
          connection.setAutoCommit(false);
          while (!stop || pending) {
            pending = true;
            for (int row = 0; row < 20; row++) {
              String event = batch + "/" + row;
              put.setString(1, TOPIC);
              put.setString(2, event);
              put.setString(3, row % 2 == 0 ? null : "key-" + (row / 2) % KEYS);
              put.setString(4, event);
              put.execute();
            }
            connection.commit();
            written += 20;
            batch++;
            pending = false;
            pause(Duration.ofMillis(40));
          }
        } catch (SQLException e) {
          // The same batch again, on a new connection.
          pause(Duration.ofMillis(100));
        }
      }
    }

    long stop() throws InterruptedException {
      stop = true;
      thread.join();
      return written;
    }

    @Override
    public void close() throws InterruptedException {
      stop();
    }
  }

  /** What was published, in its order, against what was put in. */
  private final class Checker {
    private final Map<String, List<String>> messageIds = new LinkedHashMap<>();
    private final Map<String, List<Long>> firstsOfKey = new HashMap<>();

    Checker() throws SQLException {
      Map<String, Long> seqs = new HashMap<>();
      try (Connection connection = connect();
          Statement statement = connection.createStatement();
          ResultSet rows = statement.executeQuery("SELECT id, seq FROM pubsub_outbox")) {
        while (rows.next()) {
          seqs.put(rows.getString(1), rows.getLong(2));
        }
      }
      for (PubsubMessage message : pubSub.stats().publishedMessages(TOPIC_PATH)) {
        String id = message.getAttributesOrThrow("outbox_id");
        List<String> ids = messageIds.computeIfAbsent(id, i -> new ArrayList<>());
        if (ids.isEmpty() && !message.getOrderingKey().isEmpty()) {
          firstsOfKey
              .computeIfAbsent(message.getOrderingKey(), k -> new ArrayList<>())
              .add(seqs.get(id));
        }
        ids.add(message.getMessageId());
      }
      assertThat(messageIds.keySet()).as("published").isEqualTo(seqs.keySet());
    }

    Set<String> duplicates() {
      Set<String> duplicates = new HashSet<>();
      messageIds.forEach(
          (id, ids) -> {
            if (ids.size() > 1) {
              duplicates.add(id);
            }
          });
      return duplicates;
    }

    void assertOrderedWithinKeys() {
      assertThat(firstsOfKey).hasSize(KEYS);
      firstsOfKey.forEach((key, seqs) -> assertThat(seqs).as(key).isSorted());
    }
  }

  private void awaitAllPublished(long written) {
    await()
        .atMost(PATIENCE)
        .untilAsserted(
            () -> {
              assertThat(number("SELECT count(*) FROM pubsub_outbox_due")).as("due").isZero();
              assertThat(number("SELECT count(*) FROM pubsub_outbox_published"))
                  .as("published")
                  .isEqualTo(written);
            });
  }

  @Test
  void killsAtRandomMomentsLoseNothingAndKeepTheOrder() throws Exception {
    startEmbedded();
    startPubSub();
    // Answers take a moment, so that kills find claims in flight.
    pubSub.faults().publishLatency(Duration.ofMillis(150));
    Random random = new Random(SEED);
    Map<String, TwinboxProcess> pods = new LinkedHashMap<>();
    int next = 0;
    for (; next < 3; next++) {
      pods.put("pod-" + next, pod("pod-" + next));
    }
    pods.values().forEach(TwinboxProcess::ready);
    Writer writer = keep(new Writer());
    Set<String> inFlight = new HashSet<>();
    int kills = 0;
    long end = System.nanoTime() + FIRE.toNanos();
    while (System.nanoTime() < end) {
      pause(Duration.ofMillis(500 + random.nextInt(3_000)));
      List<String> ready = pods.keySet().stream().filter(p -> pods.get(p).isReady()).toList();
      if (ready.isEmpty()) {
        continue;
      }
      String name = ready.get(random.nextInt(ready.size()));
      pods.remove(name).kill9();
      kills++;
      // Whatever it had published without writing it down is among these: its leases still run.
      inFlight.addAll(claimedBy(name));
      String fresh = "pod-" + next++;
      pods.put(fresh, pod(fresh));
    }
    long written = writer.stop();
    awaitAllPublished(written);

    Checker checker = new Checker();
    Set<String> duplicates = checker.duplicates();
    System.out.printf(
        "seed %d: %d kills in %d s, %,d events, %d in flight at a kill, %d published more than once%n",
        SEED, kills, FIRE.toSeconds(), written, inFlight.size(), duplicates.size());
    assertThat(inFlight).as("duplicates, all of them in flight at a kill").containsAll(duplicates);
    checker.assertOrderedWithinKeys();
    assertThat(number("SELECT count(*) FROM pubsub_outbox_due WHERE dead_at IS NOT NULL")).isZero();
  }

  @Test
  void aFrozenPodIsReplacedAndChangesNothingWhenItWakes() throws Exception {
    startEmbedded();
    startPubSub();
    TwinboxProcess frozen = pod("frozen").ready();
    // It is frozen between its call and the answer: Pub/Sub takes the messages, and it learns late.
    pubSub.faults().publishLatency(Duration.ofMillis(1_500));
    CountDownLatch called = new CountDownLatch(1);
    pubSub
        .faults()
        .failPublishWhen(
            message -> {
              called.countDown();
              return false;
            },
            Status.UNAVAILABLE);
    try (Connection connection = connect();
        Statement statement = connection.createStatement()) {
      statement.execute(
          "INSERT INTO pubsub_outbox (topic_name, payload) SELECT 'fire', convert_to('a' || i, 'UTF8') FROM generate_series(1, 20) i");
    }
    assertThat(called.await(PATIENCE.toSeconds(), TimeUnit.SECONDS)).isTrue();
    signal("STOP", frozen);
    Set<String> held = claimedBy("frozen");
    assertThat(held).as("claimed by the frozen pod").isNotEmpty();

    TwinboxProcess other = pod("other").ready();
    // The other pod takes over after the lease, and is held in its first publish.
    await().atMost(PATIENCE).pollInterval(POLL).until(() -> !claimedBy("other").isEmpty());
    Set<String> others = claimedBy("other");
    signal("CONT", frozen);
    pubSub.faults().publishLatency(Duration.ZERO);
    awaitAllPublished(20);

    Checker checker = new Checker();
    for (String id : others) {
      List<String> messages = checker.messageIds.get(id);
      assertThat(messages).as("published by both").hasSizeGreaterThanOrEqualTo(2);
      assertThat(texts("SELECT message_id FROM pubsub_outbox_published WHERE id = '" + id + "'"))
          .as("written down by who held it")
          .containsExactly(messages.get(messages.size() - 1));
    }
    assertThat(held).containsAll(checker.duplicates());
    System.out.printf(
        "%d rows held by a frozen pod, %d taken over while it woke, %d published twice%n",
        held.size(), others.size(), checker.duplicates().size());
    // It works again.
    other.kill9();
    try (Connection connection = connect();
        Statement statement = connection.createStatement()) {
      statement.execute("SELECT outbox_put('fire', 'after')");
    }
    awaitAllPublished(21);
    assertThat(frozen.isAlive()).isTrue();
  }

  private static void signal(String name, TwinboxProcess process)
      throws IOException, InterruptedException {
    Process kill = new ProcessBuilder("kill", "-" + name, String.valueOf(process.pid())).start();
    assertThat(kill.waitFor(10, TimeUnit.SECONDS)).isTrue();
    assertThat(kill.exitValue()).isZero();
  }

  /** How long rows come in while a transaction keeps vacuum from removing what was published. */
  private static final Duration PIN = Duration.ofSeconds(Integer.getInteger("twinbox.pin", 15));

  private static final int PINNED_RATE = 500;
  private static final int WINDOWS = 10;

  @Test
  void aPinnedVacuumHorizonDoesNotSlowDispatch() throws Exception {
    startEmbedded();
    pubSub = keep(LocalPubSub.start());
    pubSub.createTopic("local", TOPIC);
    // Nobody reads it, and it keeps nothing for long.
    pubSub.createSubscription("local", "fire-ledger", TOPIC);
    pod("pinned").ready();
    Connection pin = keep(connect());
    pin.setAutoCommit(false);
    pin.setTransactionIsolation(Connection.TRANSACTION_REPEATABLE_READ);
    pin.createStatement().execute("SELECT count(*) FROM pubsub_outbox_due");
    long start = System.nanoTime();
    long written = 0;
    long[] touched = new long[WINDOWS];
    long[] published = new long[WINDOWS];
    long pagesBefore = pagesOfDue();
    long publishedBefore = 0;
    try (Connection writer = connect();
        PreparedStatement put =
            writer.prepareStatement(
                "INSERT INTO pubsub_outbox (topic_name, payload) SELECT ?, convert_to('event ' || i, 'UTF8') FROM generate_series(1, ?) i")) {
      for (int window = 0; window < WINDOWS; window++) {
        long end = start + PIN.toNanos() * (window + 1) / WINDOWS;
        for (long now = System.nanoTime(); now < end; now = System.nanoTime()) {
          int behind = (int) ((now - start) / 1e9 * PINNED_RATE - written);
          if (behind > 0) {
            put.setString(1, TOPIC);
            put.setInt(2, behind);
            written += put.executeUpdate();
          }
          pause(Duration.ofMillis(50));
        }
        long total = number("SELECT count(*) FROM pubsub_outbox_published");
        long pages = pagesOfDue();
        published[window] = total - publishedBefore;
        touched[window] = pages - pagesBefore;
        publishedBefore = total;
        pagesBefore = pages;
        System.out.printf(
            "pinned, window %d of %d: %,d rows/s published, %,d due, %.1f pages per row, %,d dead rows%n",
            window + 1,
            WINDOWS,
            published[window] * WINDOWS / PIN.toSeconds(),
            number("SELECT count(*) FROM pubsub_outbox_due"),
            (double) touched[window] / published[window],
            number(
                "SELECT n_dead_tup FROM pg_stat_user_tables WHERE relname = 'pubsub_outbox_due'"));
      }
    }
    awaitAllPublished(written);
    pin.rollback();

    assertThat(
            number(
                "SELECT n_dead_tup FROM pg_stat_user_tables WHERE relname = 'pubsub_outbox_due'"))
        .as("dead rows, else the pin does not pin")
        .isGreaterThan(written / 2);
    // The first window holds the start. One look in five seconds has no floor and reads all dead
    // rows.
    long early = sum(published, 1, 5);
    long late = sum(published, 5, WINDOWS) * 4 / 5;
    assertThat(late).as("rows published later").isGreaterThan(early * 8 / 10);
    assertThat(sum(touched, 5, WINDOWS) * 4 / 5)
        .as("pages of the queue that are touched later, against %d", sum(touched, 1, 5))
        .isLessThan(sum(touched, 1, 5) * 2);
  }

  private static long sum(long[] values, int from, int to) {
    return Arrays.stream(values, from, to).sum();
  }

  /** Pages of the queue and its indexes that were touched so far. */
  private long pagesOfDue() {
    return number(
        "SELECT heap_blks_hit + heap_blks_read + idx_blks_hit + idx_blks_read FROM pg_statio_user_tables WHERE relname = 'pubsub_outbox_due'");
  }

  /** The hardest restart: the server dies at once, with what it had not yet written to disk. */
  @Test
  void aDatabaseThatCrashesUnderLoadLosesNothing() throws Exception {
    Optional<DebianPostgres> found = DebianPostgres.start();
    assumeThat(found).as("Debian's PostgreSQL, to crash and start it").isPresent();
    DebianPostgres server = keep(found.get());
    url = DebianPostgres.createDatabase(server.url(), DebianPostgres.USER, DebianPostgres.PASSWORD);
    user = DebianPostgres.USER;
    password = DebianPostgres.PASSWORD;
    startPubSub();
    List<TwinboxProcess> pods = List.of(pod("pod-0"), pod("pod-1"));
    pods.forEach(TwinboxProcess::ready);
    Writer writer = keep(new Writer());
    int crashes = 0;
    long end = System.nanoTime() + FIRE.toNanos();
    while (System.nanoTime() < end) {
      long before = number("SELECT count(*) FROM pubsub_outbox_published");
      await()
          .atMost(PATIENCE)
          .until(() -> number("SELECT count(*) FROM pubsub_outbox_published") > before + 500);
      server.crashAndStart();
      crashes++;
    }
    long written = writer.stop();
    awaitAllPublished(written);

    Checker checker = new Checker();
    System.out.printf(
        "%d crashes of PostgreSQL, %,d events, %d published more than once%n",
        crashes, written, checker.duplicates().size());
    checker.assertOrderedWithinKeys();
    assertThat(pods).allMatch(TwinboxProcess::isAlive);
    assertThat(number("SELECT count(*) FROM pubsub_outbox_due WHERE dead_at IS NOT NULL")).isZero();
  }

  /** Published, not yet written down, and the server dies: known outcomes outlive it. */
  @Test
  void aDatabaseThatRestartsBetweenPublishAndSettlementCausesNoDuplicate() throws Exception {
    Optional<DebianPostgres> found = DebianPostgres.start();
    assumeThat(found).as("Debian's PostgreSQL, to crash and start it").isPresent();
    DebianPostgres server = keep(found.get());
    url = DebianPostgres.createDatabase(server.url(), DebianPostgres.USER, DebianPostgres.PASSWORD);
    user = DebianPostgres.USER;
    password = DebianPostgres.PASSWORD;
    startPubSub();
    TwinboxProcess pod = keep(launch("pod").with("TWINBOX_DISPATCH_LEASE", "120s").start()).ready();
    try (Connection connection = connect();
        Statement statement = connection.createStatement()) {
      connection.setAutoCommit(false);
      // Settlements wait for this until the server dies.
      statement.execute("LOCK TABLE pubsub_outbox_published IN SHARE MODE");
      try (Connection writer = connect();
          Statement insert = writer.createStatement()) {
        insert.execute(
            "INSERT INTO pubsub_outbox (topic_name, payload, ordering_key)"
                + " SELECT 'fire', convert_to('a' || i, 'UTF8'), CASE WHEN i % 2 = 0 THEN 'key-' || i % 5 END FROM generate_series(1, 40) i");
        await()
            .atMost(PATIENCE)
            .pollInterval(POLL)
            .until(() -> pubSub.stats().publishedMessages(TOPIC_PATH).size() == 40);
        // Claims do not wait for the disk; with one that the crash takes back, its rows would be
        // published again.
        insert.execute("CHECKPOINT");
      }
      server.crashAndStart();
    }
    awaitAllPublished(40);

    assertThat(new Checker().duplicates()).isEmpty();
    assertThat(pod.isAlive()).isTrue();
  }
}
