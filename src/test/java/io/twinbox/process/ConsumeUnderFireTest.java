package io.twinbox.process;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import com.google.api.gax.core.NoCredentialsProvider;
import com.google.api.gax.grpc.GrpcTransportChannel;
import com.google.api.gax.rpc.FixedTransportChannelProvider;
import com.google.cloud.pubsub.v1.TopicAdminClient;
import com.google.cloud.pubsub.v1.TopicAdminSettings;
import com.google.protobuf.ByteString;
import com.google.pubsub.v1.PubsubMessage;
import io.grpc.ManagedChannel;
import io.grpc.ManagedChannelBuilder;
import io.twinbox.local.LocalPostgres;
import io.twinbox.local.pubsub.LocalPubSub;
import java.io.IOException;
import java.math.BigDecimal;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Random;
import java.util.TreeMap;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * Consumers that are killed and frozen while money comes in, over a Pub/Sub that delivers twice and
 * again, a database that is restarted, and handlers that fail at random. Then the ledger must equal
 * what was published, to the row and the cent. {@code mvn -Plong test} runs it for minutes.
 */
class ConsumeUnderFireTest {

  /** How long messages come in. */
  private static final Duration FIRE = Duration.ofSeconds(Integer.getInteger("twinbox.fire", 12));

  private static final long SEED = Long.getLong("twinbox.seed", System.nanoTime() % 1_000_000);
  private static final Duration PATIENCE = Duration.ofSeconds(240);
  private static final String PROJECT = "local";
  private static final String TOPIC = "payments";
  private static final String TOPIC_PATH = "projects/local/topics/payments";
  private static final String SUBSCRIPTION = "payments-ledger";
  private static final String SUBSCRIPTION_PATH = "projects/local/subscriptions/payments-ledger";
  private static final int ACCOUNTS = 12;

  private static final String SCHEMA =
      """
      -- No unique constraint: a second effect must be possible, or nobody could see that there was none.
      CREATE TABLE entry (event text NOT NULL, account int NOT NULL, amount numeric(20, 2) NOT NULL);
      CREATE TABLE account (id int PRIMARY KEY, balance numeric(20, 2) NOT NULL, entries int NOT NULL);
      INSERT INTO account SELECT i, 0, 0 FROM generate_series(0, 11) AS i;

      CREATE FUNCTION fail_at_random() RETURNS void LANGUAGE plpgsql AS $$
      DECLARE
        dice float := random();
      BEGIN
        IF dice < 0.02 THEN
          RAISE EXCEPTION 'the handler fails at random';
        ELSIF dice < 0.03 THEN
          PERFORM 1 / 0;
        ELSIF dice < 0.04 THEN
          RAISE EXCEPTION 'the database fails at random' USING ERRCODE = 'serialization_failure';
        ELSIF dice < 0.05 THEN
          PERFORM pg_sleep(0.05);
        END IF;
      END $$;

      -- Fails when the transaction commits, after every statement has gone well.
      CREATE FUNCTION fail_at_commit() RETURNS trigger LANGUAGE plpgsql AS $$
      BEGIN
        IF random() < 0.005 THEN
          RAISE EXCEPTION 'the commit fails at random';
        END IF;
        RETURN NULL;
      END $$;
      CREATE CONSTRAINT TRIGGER fail_at_commit AFTER INSERT ON entry
        DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION fail_at_commit();
      """;

  private static final String HANDLER =
      """
      - route:
          id: payments-handle
          from:
            id: payments-handle-call
            uri: direct
            parameters:
              name: handle
            steps:
              - to:
                  id: payments-post
                  uri: sql
                  parameters:
                    query: file:{{twinbox.topic-dir}}/post.sql
                    noop: true
              - to:
                  id: payments-balance
                  uri: sql
                  parameters:
                    query: file:{{twinbox.topic-dir}}/balance.sql
                    noop: true
      """;

  private static final String POST =
      """
      -- One entry per event.
      INSERT INTO entry (event, account, amount)
      SELECT p.json ->> 'event', CAST(p.json ->> 'account' AS int), CAST(p.json ->> 'amount' AS numeric)
      FROM (SELECT CAST(convert_from(:#${body}, 'UTF8') AS jsonb) AS json) AS p
      """;

  private static final String BALANCE =
      """
      -- A few rows that everybody wants, then trouble.
      WITH changed AS (
        UPDATE account AS a
        SET balance = a.balance + CAST(p.json ->> 'amount' AS numeric), entries = a.entries + 1
        FROM (SELECT CAST(convert_from(:#${body}, 'UTF8') AS jsonb) AS json) AS p
        WHERE a.id = CAST(p.json ->> 'account' AS int)
        RETURNING a.id)
      SELECT fail_at_random() FROM changed
      """;

  @TempDir Path topic;

  private final List<AutoCloseable> started = new ArrayList<>();
  private final Map<String, TwinboxProcess> pods = new LinkedHashMap<>();
  private LocalPubSub pubSub;
  private String url;
  private String user;
  private String password;
  private Restart restart;
  private int podCount;

  private interface Restart {
    void run() throws Exception;
  }

  /**
   * Messages a transaction may hold, by a pod's number.
   *
   * @param batchSizes taken in turn
   */
  private record Mode(String name, int... batchSizes) {
    @Override
    public String toString() {
      return name;
    }
  }

  /** Every build runs pods of both modes side by side; the long run each alone, too. */
  static Stream<Mode> modes() {
    Mode both = new Mode("both", 1, 20, 1);
    return FIRE.toSeconds() <= 30
        ? Stream.of(both)
        : Stream.of(new Mode("single", 1), new Mode("batch", 20), both);
  }

  @AfterEach
  void stopWhatWasStarted() throws Exception {
    for (TwinboxProcess pod : pods.values()) {
      signal("CONT", pod);
    }
    for (int i = started.size() - 1; i >= 0; i--) {
      started.get(i).close();
    }
  }

  private <T extends AutoCloseable> T keep(T service) {
    started.add(service);
    return service;
  }

  @ParameterizedTest
  @MethodSource("modes")
  void ledgerEqualsTheInputToTheRowAndTheCent(Mode mode) throws Exception {
    Files.writeString(topic.resolve("handle.camel.yaml"), HANDLER);
    Files.writeString(topic.resolve("post.sql"), POST);
    Files.writeString(topic.resolve("balance.sql"), BALANCE);
    startDatabase();
    pubSub = keep(LocalPubSub.start());
    pubSub.createTopic(PROJECT, TOPIC);
    pubSub.createSubscription(PROJECT, SUBSCRIPTION, TOPIC);
    pubSub.faults().redeliverAcknowledged(0.2, SEED);
    pubSub.faults().deliverTwice(0.1, SEED + 1);
    for (int i = 0; i < 3; i++) {
      addPod(mode);
    }
    pods.values().forEach(TwinboxProcess::ready);
    execute(SCHEMA);

    Input input = keep(new Input());
    Fire fire = new Fire(mode);
    fire.burn();
    input.end();
    fire.wakeTheFrozen();

    await()
        .atMost(PATIENCE)
        .pollInterval(Duration.ofMillis(200))
        .untilAsserted(
            () -> {
              replaceTheEnded(mode);
              assertThat(pubSub.stats().backlog(SUBSCRIPTION_PATH)).as("not acked").isZero();
              assertThat(number("SELECT count(*) FROM entry"))
                  .as("entries")
                  .isGreaterThanOrEqualTo(input.good);
            });
    System.out.printf(
        "%s, seed %d: %d kills, %d frozen, %d restarts of the database in %d s; %,d events, %d of them dead letters, %,d deliveries, %,d nacks, %,d leases expired%n",
        mode,
        SEED,
        fire.kills,
        fire.freezes,
        fire.restarts,
        FIRE.toSeconds(),
        input.good + input.hopeless + input.keyless,
        input.hopeless + input.keyless,
        pubSub.stats().deliveries(),
        pubSub.stats().nacks(),
        pubSub.stats().expiredLeases());
    assertLedgerEquals(input);
    assertThat(fire.kills).as("kills").isPositive();
    assertThat(fire.freezes).as("freezes").isPositive();
    assertThat(fire.restarts).as("restarts").isPositive();
  }

  private void assertLedgerEquals(Input input) throws SQLException {
    assertThat(number("SELECT count(*) FROM entry")).as("entries").isEqualTo(input.good);
    assertThat(number("SELECT count(DISTINCT event) FROM entry")).isEqualTo(input.good);
    Map<Integer, BigDecimal> balances = new TreeMap<>();
    Map<Integer, BigDecimal> sums = new TreeMap<>();
    long entries = 0;
    try (Connection connection = connect();
        Statement statement = connection.createStatement()) {
      try (ResultSet rows = statement.executeQuery("SELECT id, balance, entries FROM account")) {
        while (rows.next()) {
          balances.put(rows.getInt(1), rows.getBigDecimal(2));
          entries += rows.getInt(3);
        }
      }
      try (ResultSet rows =
          statement.executeQuery("SELECT account, sum(amount) FROM entry GROUP BY account")) {
        while (rows.next()) {
          sums.put(rows.getInt(1), rows.getBigDecimal(2));
        }
      }
    }
    assertThat(balances).as("balances").isEqualTo(input.balances);
    assertThat(sums).as("entries' sums").isEqualTo(input.balances);
    assertThat(entries).as("balances' entries").isEqualTo(input.good);
    assertThat(number("SELECT count(*) FROM transactional_inbox")).isEqualTo(input.good);
    assertThat(
            number(
                "SELECT count(*) FROM transactional_inbox_dead_letter WHERE idempotency_key IS NOT NULL"))
        .as("dead letters of what could never succeed")
        .isEqualTo(input.hopeless);
    assertThat(
            number(
                "SELECT count(*) FROM transactional_inbox_dead_letter WHERE idempotency_key IS NULL"))
        .as("dead letters of what had no key")
        .isEqualTo(input.keyless);
    assertThat(
            number(
                "SELECT count(*) FROM transactional_inbox_dead_letter WHERE idempotency_key LIKE 'good-%'"))
        .isZero();
  }

  private void startDatabase() {
    Optional<DebianPostgres> debian = DebianPostgres.start();
    if (debian.isPresent()) {
      DebianPostgres server = keep(debian.get());
      url =
          DebianPostgres.createDatabase(server.url(), DebianPostgres.USER, DebianPostgres.PASSWORD);
      user = DebianPostgres.USER;
      password = DebianPostgres.PASSWORD;
      restart = server::crashAndStart;
      return;
    }
    // The embedded server cannot be restarted on its port: every session of it ends instead.
    LocalPostgres server = keep(LocalPostgres.start());
    url = server.createDatabase();
    user = LocalPostgres.USER;
    password = LocalPostgres.PASSWORD;
    restart =
        () ->
            execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE pid <> pg_backend_pid() AND datname = current_database()");
    System.out.println("No PostgreSQL of Debian's was found: sessions are ended, not the server.");
  }

  private void addPod(Mode mode) {
    int number = podCount++;
    String name = "consume-" + number;
    pods.put(
        name,
        keep(
            TwinboxProcess.classes(name)
                .with(
                    "TWINBOX_ROUTES",
                    "consume",
                    "TWINBOX_POD",
                    name,
                    "TWINBOX_TOPIC_DIR",
                    topic.toString(),
                    "TWINBOX_CONSUMER",
                    "ledger",
                    "GOOGLE_CLOUD_PROJECT",
                    PROJECT,
                    "SUBSCRIPTION_NAME",
                    SUBSCRIPTION,
                    "PUBSUB_EMULATOR_HOST",
                    pubSub.endpoint(),
                    "SPRING_DATASOURCE_URL",
                    url,
                    "SPRING_DATASOURCE_USERNAME",
                    user,
                    "SPRING_DATASOURCE_PASSWORD",
                    password,
                    "SPRING_DATASOURCE_HIKARI_MINIMUM_IDLE",
                    "1",
                    "TWINBOX_CONSUME_BATCH_SIZE",
                    String.valueOf(mode.batchSizes[number % mode.batchSizes.length]),
                    "TWINBOX_CONSUME_OUTSTANDING",
                    "100",
                    // A frozen pod's rows are waited for, but not for long.
                    "TWINBOX_CONSUME_LOCK_TIMEOUT",
                    "2s",
                    "TWINBOX_CONSUME_MAX_ATTEMPTS",
                    "12")
                .start()));
  }

  /** One that finds the database starting ends with an error, and is started again as pods are. */
  private void replaceTheEnded(Mode mode) {
    List<String> ended = pods.keySet().stream().filter(name -> !pods.get(name).isAlive()).toList();
    for (String name : ended) {
      pods.remove(name);
      addPod(mode);
    }
  }

  private static void signal(String name, TwinboxProcess process)
      throws IOException, InterruptedException {
    if (process.isAlive()) {
      Process kill = new ProcessBuilder("kill", "-" + name, String.valueOf(process.pid())).start();
      assertThat(kill.waitFor(10, TimeUnit.SECONDS)).isTrue();
    }
  }

  /** Kills, freezes and restarts, at random moments but never in the same order by chance only. */
  private final class Fire {
    private final Mode mode;
    private final Random random = new Random(SEED);
    private TwinboxProcess frozen;
    private int kills;
    private int freezes;
    private int restarts;

    Fire(Mode mode) {
      this.mode = mode;
    }

    void burn() throws Exception {
      long end = System.nanoTime() + FIRE.toNanos();
      for (int turn = 0; System.nanoTime() < end; turn++) {
        pause(500 + random.nextInt(2_500));
        replaceTheEnded(mode);
        switch (turn % 4) {
          case 0 -> freeze();
          case 1 -> kill();
          case 2 -> {
            restart.run();
            restarts++;
          }
          default -> {
            // Long enough for the leases of what it holds to end, now and then.
            pause(random.nextInt(10_000));
            wakeTheFrozen();
          }
        }
      }
    }

    private Optional<String> anyReady() {
      List<String> ready =
          pods.keySet().stream()
              .filter(name -> pods.get(name) != frozen && pods.get(name).isReady())
              .toList();
      return ready.isEmpty()
          ? Optional.empty()
          : Optional.of(ready.get(random.nextInt(ready.size())));
    }

    private void freeze() throws Exception {
      Optional<String> name = anyReady();
      if (frozen == null && name.isPresent()) {
        frozen = pods.get(name.get());
        signal("STOP", frozen);
        freezes++;
      }
    }

    private void kill() {
      anyReady()
          .ifPresent(
              name -> {
                pods.remove(name).kill9();
                kills++;
                addPod(mode);
              });
    }

    void wakeTheFrozen() throws Exception {
      if (frozen != null) {
        signal("CONT", frozen);
        frozen = null;
      }
    }
  }

  /** What is published, and what the ledger must hold of it. */
  private final class Input implements AutoCloseable {
    private final Map<Integer, BigDecimal> balances = new TreeMap<>();
    private final Random random = new Random(SEED);
    private final ManagedChannel channel =
        ManagedChannelBuilder.forTarget(pubSub.endpoint()).usePlaintext().build();
    private final TopicAdminClient client;
    private final Thread thread = new Thread(this::write, "input");
    private volatile boolean end;
    private int good;
    private int hopeless;
    private int keyless;

    Input() throws IOException {
      for (int account = 0; account < ACCOUNTS; account++) {
        balances.put(account, BigDecimal.valueOf(0, 2));
      }
      client =
          TopicAdminClient.create(
              TopicAdminSettings.newBuilder()
                  .setTransportChannelProvider(
                      FixedTransportChannelProvider.create(GrpcTransportChannel.create(channel)))
                  .setCredentialsProvider(NoCredentialsProvider.create())
                  .build());
      thread.start();
    }

    private void write() {
      while (!end) {
        List<PubsubMessage> messages = new ArrayList<>();
        for (int i = 0; i < 20; i++) {
          PubsubMessage message = next();
          messages.add(message);
          if (message.getAttributesCount() > 0 && random.nextInt(10) == 0) {
            // Published twice: other message ids, one effect.
            messages.add(message);
          }
        }
        client.publish(TOPIC_PATH, messages);
        pause(60);
      }
    }

    private PubsubMessage next() {
      int dice = random.nextInt(500);
      if (dice == 0) {
        return message("{\"event\": \"keyless-" + keyless++ + "\"}", null);
      }
      if (dice == 1) {
        return message("this is no JSON", "hopeless-" + hopeless++);
      }
      int account = random.nextInt(ACCOUNTS);
      BigDecimal amount = BigDecimal.valueOf(random.nextInt(2_000_000) - 1_000_000, 2);
      balances.merge(account, amount, BigDecimal::add);
      String key = "good-" + good++;
      return message(
          "{\"event\": \"%s\", \"account\": %d, \"amount\": \"%s\"}"
              .formatted(key, account, amount),
          key);
    }

    private PubsubMessage message(String json, String key) {
      PubsubMessage.Builder message =
          PubsubMessage.newBuilder().setData(ByteString.copyFromUtf8(json));
      if (key != null) {
        message.putAttributes("outbox_id", key);
      }
      return message.build();
    }

    void end() throws InterruptedException {
      end = true;
      thread.join();
    }

    @Override
    public void close() throws InterruptedException {
      end();
      client.close();
      channel.shutdownNow();
    }
  }

  private static void pause(int millis) {
    try {
      new CountDownLatch(1).await(millis, TimeUnit.MILLISECONDS);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new IllegalStateException(e);
    }
  }

  private Connection connect() throws SQLException {
    return DriverManager.getConnection(url, user, password);
  }

  private void execute(String sql) throws SQLException {
    try (Connection connection = connect();
        Statement statement = connection.createStatement()) {
      statement.execute(sql);
    }
  }

  private long number(String sql) throws SQLException {
    try (Connection connection = connect();
        Statement statement = connection.createStatement();
        ResultSet row = statement.executeQuery(sql)) {
      row.next();
      return row.getLong(1);
    }
  }
}
