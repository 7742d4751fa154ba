package io.twinbox.bench;

import ch.qos.logback.classic.Level;
import ch.qos.logback.classic.Logger;
import io.twinbox.process.TwinboxProcess;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.UUID;
import org.slf4j.LoggerFactory;

/**
 * What consume applies, measured against a consumer as teams write it by hand; docs/benchmarks.md
 * says how to run it and what the figures mean.
 */
final class ConsumeBenchmark {

  static final String CONSUMER = "ledger";

  /** The handler's statement. */
  static final String POST =
      "INSERT INTO bench_effect (event) SELECT CAST(convert_from(?, 'UTF8') AS jsonb) ->> 'event'";

  private static final Set<String> PARTS = Set.of("apply", "duplicates", "inbox");
  private static final String BATCH = "40";
  private static final int INSERTED = 100_000;

  private final BenchServer server;
  private int messages = 15_000;
  private int rounds = 3;
  private double scale = 1;
  private boolean google = true;
  private Set<String> only = PARTS;
  private Set<String> kinds = Set.of("by hand", "single", "batch");

  private ConsumeBenchmark(BenchServer server) {
    this.server = server;
  }

  public static void main(String[] arguments) throws Exception {
    ((Logger) LoggerFactory.getLogger(org.slf4j.Logger.ROOT_LOGGER_NAME)).setLevel(Level.WARN);
    try (BenchServer server = BenchServer.start()) {
      ConsumeBenchmark benchmark = new ConsumeBenchmark(server);
      benchmark.read(arguments);
      System.out.printf(
          "%s; Java %s; %d processors; load %s%n",
          server.name(),
          Runtime.version().feature(),
          Runtime.getRuntime().availableProcessors(),
          Files.readString(Path.of("/proc/loadavg")).split(" ")[0]);
      benchmark.run();
    }
  }

  private void read(String[] arguments) {
    for (String argument : arguments) {
      String[] option = argument.split("=", 2);
      String value = option.length == 2 ? option[1] : "";
      switch (option[0]) {
        case "--messages" -> messages = Integer.parseInt(value);
        case "--rounds" -> rounds = Integer.parseInt(value);
        case "--scale" -> scale = Double.parseDouble(value);
        case "--pubsub" -> google = !value.equals("local");
        case "--only" -> only = Set.of(value.split(","));
        case "--kinds" -> kinds = Set.of(value.split(","));
        default -> throw new IllegalArgumentException("Unknown option " + option[0]);
      }
    }
    if (!PARTS.containsAll(only)) {
      throw new IllegalArgumentException("--only takes some of " + PARTS);
    }
  }

  private void run() throws Exception {
    if (only.contains("apply") || only.contains("duplicates")) {
      try (BenchPubSub pubSub = BenchPubSub.start(google)) {
        System.out.printf("%s, %,d messages%n", pubSub.name(), messages);
        for (int round = 1; round <= rounds && only.contains("apply"); round++) {
          apply(pubSub, round);
        }
        if (only.contains("duplicates")) {
          duplicates(pubSub);
        }
      }
    }
    if (only.contains("inbox")) {
      inbox();
    }
  }

  private void apply(BenchPubSub pubSub, int round) throws Exception {
    double byHand = kinds.contains("by hand") ? rate(pubSub, "by hand") : 0;
    double single = kinds.contains("single") ? rate(pubSub, "single") : 0;
    double batch = kinds.contains("batch") ? rate(pubSub, "batch") : 0;
    System.out.printf(
        "  round %d: by hand %,.0f, single %,.0f, batch %,.0f messages/s; %.2f and %.2f times by hand (goals 0.9 and 2)%n",
        round, byHand, single, batch, single / byHand, batch / byHand);
  }

  /** A backlog of twice the messages; the second half is measured, when all is warm. */
  private double rate(BenchPubSub pubSub, String kind) throws Exception {
    String database = createDatabase();
    String topic = pubSub.createTopic("consume");
    String subscription = topic + "-a";
    pubSub.publish(topic, ids(2 * messages), 0);
    Usage usage = null;
    try (AutoCloseable consumer = consumer(kind, database, pubSub, subscription)) {
      long pid = consumer instanceof Child child ? child.pid() : ((TwinboxProcess) consumer).pid();
      usage = new Usage(server, database, pid, pubSub.pid());
      awaitEffects(database, messages);
      usage.begin();
      awaitEffects(database, 2 * messages);
      usage.print(kind, messages);
    }
    double rate =
        server.number(
            database,
            "SELECT %d / extract(epoch FROM max(at) - (SELECT at FROM bench_effect ORDER BY at OFFSET %d LIMIT 1)) FROM bench_effect"
                .formatted(messages, messages));
    if (server.number(database, "SELECT count(*) - count(DISTINCT event) FROM bench_effect") > 0) {
      throw new IllegalStateException("An event took effect twice");
    }
    server.drop(database);
    return rate;
  }

  /** New messages, then as many duplicates of them, then new ones, which tell when those ended. */
  private void duplicates(BenchPubSub pubSub) throws Exception {
    for (String kind : List.of("single", "batch")) {
      String database = createDatabase();
      String topic = pubSub.createTopic("consume");
      List<UUID> warm = ids(messages);
      List<UUID> fresh = ids(messages);
      pubSub.publish(topic, warm, 0);
      pubSub.publish(topic, fresh, 1);
      pubSub.publish(topic, fresh, 2);
      pubSub.publish(topic, ids(1_000), 3);
      try (AutoCloseable consumer = consumer(kind, database, pubSub, topic + "-a")) {
        awaitEffects(database, 2 * messages + 1_000);
      }
      String at = "(SELECT %s(at) FROM bench_effect WHERE event LIKE '%d-%%')";
      double newOnes =
          server.number(
              database,
              "SELECT extract(epoch FROM "
                  + at.formatted("max", 1)
                  + " - "
                  + at.formatted("min", 1)
                  + ")");
      double again =
          server.number(
              database,
              "SELECT extract(epoch FROM "
                  + at.formatted("min", 3)
                  + " - "
                  + at.formatted("max", 1)
                  + ")");
      System.out.printf(
          "  %s: %,d new messages in %.1f s, as many duplicates in %.1f s, %.2f of it%n",
          kind, messages, newOnes, again, again / newOnes);
      server.drop(database);
    }
  }

  private void awaitEffects(String database, int count) throws Exception {
    while (server.number(database, "SELECT count(*) FROM bench_effect") < count) {
      java.util.concurrent.TimeUnit.MILLISECONDS.sleep(100);
    }
  }

  private static List<UUID> ids(int count) {
    List<UUID> ids = new ArrayList<>(count);
    for (int i = 0; i < count; i++) {
      ids.add(UUID.randomUUID());
    }
    return ids;
  }

  private String createDatabase() throws SQLException {
    String database = server.createDatabase();
    server.execute(
        database,
        "CREATE TABLE bench_effect (event text NOT NULL, at timestamptz NOT NULL DEFAULT clock_timestamp())");
    return database;
  }

  private AutoCloseable consumer(
      String kind, String database, BenchPubSub pubSub, String subscription) throws IOException {
    if (kind.equals("by hand")) {
      return Child.main(
          "by-hand",
          // As TwinboxProcess.
          "-Xmx512m",
          ConsumeReference.class,
          database,
          server.user,
          server.password,
          pubSub.endpoint(),
          "projects/%s/subscriptions/%s".formatted(BenchPubSub.PROJECT, subscription));
    }
    Path folder = Files.createTempDirectory("twinbox-bench");
    Files.writeString(
        folder.resolve("handle.camel.yaml"),
        """
        - route:
            id: bench-handle
            from:
              id: bench-handle-call
              uri: direct
              parameters:
                name: handle
              steps:
                - to:
                    id: bench-post
                    uri: sql
                    parameters:
                      query: file:{{twinbox.topic-dir}}/post.sql
                      parametersCount: 1
                      noop: true
        """);
    Files.writeString(
        folder.resolve("post.sql"), "-- Posts an event.\n" + POST.replace("?", ":#${body}") + "\n");
    return TwinboxProcess.atFullSpeed(kind)
        .with(
            "TWINBOX_ROUTES",
            "consume",
            "TWINBOX_POD",
            kind,
            "TWINBOX_TOPIC_DIR",
            folder.toString(),
            "TWINBOX_CONSUMER",
            CONSUMER,
            "GOOGLE_CLOUD_PROJECT",
            BenchPubSub.PROJECT,
            "SUBSCRIPTION_NAME",
            subscription,
            "PUBSUB_EMULATOR_HOST",
            pubSub.endpoint(),
            "SPRING_DATASOURCE_URL",
            database,
            "SPRING_DATASOURCE_USERNAME",
            server.user,
            "SPRING_DATASOURCE_PASSWORD",
            server.password,
            "TWINBOX_CONSUME_CONCURRENCY",
            String.valueOf(kind.equals("batch") ? 4 : ConsumeReference.THREADS),
            "SPRING_DATASOURCE_HIKARI_MAXIMUM_POOL_SIZE",
            String.valueOf(ConsumeReference.THREADS + 4),
            "TWINBOX_CONSUME_OUTSTANDING",
            kind.equals("batch") ? "3000" : "1000",
            "TWINBOX_CONSUME_STREAMS",
            kind.equals("batch") ? "3" : "1",
            "TWINBOX_CONSUME_BATCH_SIZE",
            kind.equals("batch") ? BATCH : "1")
        .start();
  }

  /** What the insert of a key costs beside many others, by how the keys are made. */
  private void inbox() throws Exception {
    long keys = Math.round(20_000_000 * scale);
    System.out.printf("inbox of %,d keys, %,d inserted%n", keys, INSERTED);
    double[] empty =
        inserts(0, "lpad(to_hex(%s), 12, '0') || '-7000-8000-' || md5(CAST(%<s AS text))");
    print("empty", empty, empty);
    print(
        "time-ordered",
        inserts(keys, "lpad(to_hex(%s), 12, '0') || '-7000-8000-' || md5(CAST(%<s AS text))"),
        empty);
    print("hashed", inserts(keys, "CAST(CAST(md5(CAST(%s AS text)) AS uuid) AS text)"), empty);
  }

  private static void print(String name, double[] cost, double[] empty) {
    System.out.printf(
        "  %s: %.1f us and %.0f bytes of WAL a key, %.2f times an empty inbox%n",
        name, cost[0], cost[1], cost[0] / empty[0]);
  }

  /** Microseconds and bytes of WAL per key; the median of five times a fifth. */
  private double[] inserts(long keys, String key) throws SQLException {
    String database = server.createDatabase();
    String row = "'ledger', " + key.formatted("i");
    try (Connection connection = server.connect(database);
        Statement statement = connection.createStatement()) {
      // For the load only: it is not what is measured.
      statement.execute("ALTER SYSTEM SET max_wal_size = '16GB'");
      statement.execute("SELECT pg_reload_conf()");
      statement.execute("SET maintenance_work_mem = '1GB'");
      statement.execute("ALTER TABLE transactional_inbox DROP CONSTRAINT transactional_inbox_pkey");
      statement.execute(
          "INSERT INTO transactional_inbox (consumer, idempotency_key) SELECT "
              + row
              + " FROM generate_series(1, "
              + keys
              + ") AS i");
      statement.execute(
          "ALTER TABLE transactional_inbox ADD CONSTRAINT transactional_inbox_pkey PRIMARY KEY (consumer, idempotency_key)");
      statement.execute("ALTER SYSTEM RESET max_wal_size");
      statement.execute("SELECT pg_reload_conf()");
      statement.execute("CHECKPOINT");
    }
    double wal = server.number(database, "SELECT pg_current_wal_lsn() - '0/0'");
    List<Double> micros = new ArrayList<>();
    int part = INSERTED / 5;
    for (int i = 0; i < 5; i++) {
      long from = keys + (long) i * part;
      long begin = System.nanoTime();
      server.execute(
          database,
          "INSERT INTO transactional_inbox (consumer, idempotency_key) SELECT "
              + row
              + " FROM generate_series(%d, %d) AS i ON CONFLICT ON CONSTRAINT transactional_inbox_pkey DO NOTHING"
                  .formatted(from + 1, from + part));
      micros.add((System.nanoTime() - begin) / 1_000.0 / part);
    }
    double written = server.number(database, "SELECT pg_current_wal_lsn() - '0/0'") - wal;
    server.drop(database);
    micros.sort(null);
    return new double[] {micros.get(2), written / INSERTED};
  }
}
