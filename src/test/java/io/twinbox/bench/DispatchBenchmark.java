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
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.slf4j.LoggerFactory;

/**
 * What dispatch carries, measured against what teams write by hand; docs/benchmarks.md says how to
 * run it and what the figures mean. Figures depend on the machine and on what else it does: only
 * the ratios of one run compare.
 */
final class DispatchBenchmark {

  private static final int NAIVE_ROWS = 2_000;

  /** Until the compilers of all that are compared have little left to do. */
  private static final int WARM_DRAINS = 4;

  private final Options options;
  private final BenchServer server;

  private DispatchBenchmark(Options options, BenchServer server) {
    this.options = options;
    this.server = server;
  }

  public static void main(String[] arguments) throws Exception {
    Options options = Options.parse(arguments);
    ((Logger) LoggerFactory.getLogger(org.slf4j.Logger.ROOT_LOGGER_NAME)).setLevel(Level.WARN);
    try (BenchServer server = BenchServer.start()) {
      System.out.printf(
          "%s; Java %s; %d processors%n",
          server.name(), Runtime.version().feature(), Runtime.getRuntime().availableProcessors());
      DispatchBenchmark benchmark = new DispatchBenchmark(options, server);
      for (String part : Options.PARTS) {
        if (options.runs(part)) {
          System.out.printf("%n%s (load %s)%n", part, load());
          benchmark.run(part);
        }
      }
    }
  }

  /** How busy the machine is: figures beside a busy neighbour are worth less. */
  private static String load() {
    try {
      return Files.readString(Path.of("/proc/loadavg")).split(" ")[0];
    } catch (IOException e) {
      return "unknown";
    }
  }

  private void run(String part) throws Exception {
    switch (part) {
      case "drain" -> drain();
      case "twinbox" -> twinboxAlone();
      case "latency" -> latency();
      case "pods" -> pods();
      case "idle" -> idle();
      case "pin" -> pin();
      case "ordered" -> ordered();
      default -> new ClaimCost(server, options.scale()).measure();
    }
  }

  private TwinboxProcess twinbox(
      String name, String database, BenchPubSub pubSub, String topic, String... settings) {
    return TwinboxProcess.atFullSpeed(name)
        .with(
            "TWINBOX_ROUTES",
            "dispatch",
            "TWINBOX_POD",
            name,
            "GOOGLE_CLOUD_PROJECT",
            BenchPubSub.PROJECT,
            "TOPIC_NAME",
            topic,
            "PUBSUB_EMULATOR_HOST",
            pubSub.endpoint(),
            "SPRING_DATASOURCE_URL",
            database,
            "SPRING_DATASOURCE_USERNAME",
            server.user,
            "SPRING_DATASOURCE_PASSWORD",
            server.password)
        .with(settings)
        .start()
        .ready();
  }

  private Child reference(String kind, String database, BenchPubSub pubSub, String topic) {
    Child child =
        Child.main(
            kind,
            // As TwinboxProcess.
            "-Xmx512m",
            Reference.class,
            kind,
            database,
            server.user,
            server.password,
            pubSub.endpoint(),
            topic);
    child.awaitLine("Reference runs");
    return child;
  }

  /** Drains of 1 KiB rows with hashed ids, everything warm. */
  private void drain() throws Exception {
    try (BenchPubSub pubSub = BenchPubSub.start(options.google())) {
      System.out.printf("  %s, %,d rows%n", pubSub.name(), options.rows());
      int rows = options.rows();
      List<double[]> rounds = new ArrayList<>();
      for (int round = 1; round <= options.rounds(); round++) {
        double naive = referenceRate("naive", pubSub, NAIVE_ROWS / 4, NAIVE_ROWS);
        double tuned = referenceRate("tuned", pubSub, rows, rows);
        double twinbox = twinboxRate(pubSub, rows, rows, 0);
        rounds.add(new double[] {naive, tuned, twinbox});
        System.out.printf(
            "  round %d: naive %,.0f, tuned %,.0f, Twinbox %,.0f rows/s; %.1f times naive, %.2f times tuned%n",
            round, naive, tuned, twinbox, twinbox / naive, twinbox / tuned);
      }
      System.out.printf(
          "  median ratios: %.1f times naive (goal 25), %.2f times tuned (goal 1.2)%n",
          median(rounds.stream().mapToDouble(r -> r[2] / r[0])),
          median(rounds.stream().mapToDouble(r -> r[2] / r[1])));
    }
  }

  /** For whoever looks for what limits it. */
  private void twinboxAlone() throws Exception {
    try (BenchPubSub pubSub = BenchPubSub.start(options.google())) {
      for (int round = 1; round <= options.rounds(); round++) {
        System.out.printf(
            "  round %d: %,.0f rows/s%n",
            round, twinboxRate(pubSub, options.rows(), options.rows(), 0));
      }
    }
  }

  private static double median(java.util.stream.DoubleStream values) {
    double[] sorted = values.sorted().toArray();
    return sorted[sorted.length / 2];
  }

  private double referenceRate(String kind, BenchPubSub pubSub, int warm, int rows)
      throws Exception {
    String database = server.createDatabase();
    String topic = pubSub.createTopic(kind);
    try (Child child = reference(kind, database, pubSub, topic);
        Queue queue = Queue.wide(server, database, topic)) {
      queue.history(options.history());
      for (int drain = 0; drain < WARM_DRAINS; drain++) {
        queue.drain(warm);
        pubSub.forget(topic);
      }
      Usage usage = new Usage(server, database, child.pid(), pubSub.pid());
      double rate = queue.drain(rows, 0, usage::begin);
      usage.print(kind, rows);
      return rate;
    } finally {
      pubSub.forget(topic);
      server.drop(database);
    }
  }

  private double twinboxRate(BenchPubSub pubSub, int warm, int rows, int keys, String... settings)
      throws Exception {
    String database = server.createDatabase();
    String topic = pubSub.createTopic("twinbox");
    try (TwinboxProcess process = twinbox("bench", database, pubSub, topic, settings);
        Queue queue = Queue.twinbox(server, database, topic)) {
      queue.history(options.history());
      for (int drain = 0; drain < WARM_DRAINS; drain++) {
        queue.drain(warm, keys, () -> {});
        pubSub.forget(topic);
      }
      Usage usage = new Usage(server, database, process.pid(), pubSub.pid());
      double rate = queue.drain(rows, keys, usage::begin);
      usage.print("Twinbox", rows);
      return rate;
    } finally {
      pubSub.forget(topic);
      server.drop(database);
    }
  }

  /** Many short keys, and one. */
  private void ordered() throws Exception {
    try (BenchPubSub pubSub = BenchPubSub.start(options.google())) {
      int rows = options.rows() / 2;
      for (int keys : new int[] {rows / 4, 100, 1}) {
        System.out.printf(
            "  %,d rows of %,d keys: %,.0f rows/s%n",
            rows, keys, twinboxRate(pubSub, rows / 4, rows, keys));
      }
    }
  }

  /** 50 rows a second, each in a transaction of its own. */
  private void latency() throws Exception {
    try (BenchPubSub pubSub = BenchPubSub.start(options.google())) {
      String database = server.createDatabase();
      String topic = pubSub.createTopic("latency");
      try (TwinboxProcess process = twinbox("bench", database, pubSub, topic)) {
        for (int round = 1; round <= options.rounds(); round++) {
          pubSub.forget(topic);
          Latency.Result result =
              new Latency()
                  .measure(
                      server,
                      database,
                      pubSub,
                      topic,
                      "INSERT INTO pubsub_outbox (topic_name, payload) VALUES (?, ?)",
                      50,
                      options.seconds());
          double p50 = result.outbox().percentile(0.5);
          double p99 = result.outbox().percentile(0.99);
          double d50 = result.direct().percentile(0.5);
          double d99 = result.direct().percentile(0.99);
          System.out.printf(
              "  round %d, %s: insert to delivery p50 %.1f ms, p99 %.1f ms; direct p50 %.1f ms, p99 %.1f ms; more by %.1f (goal 30) and %.1f ms (goal 80)%n",
              round, pubSub.name(), p50, p99, d50, d99, p50 - d50, p99 - d99);
          System.out.printf(
              "    the insert itself p50 %.1f, p99 %.1f ms; until Pub/Sub had it p50 %.1f, p99 %.1f ms%n",
              result.insert().percentile(0.5),
              result.insert().percentile(0.99),
              result.untilPublished().percentile(0.5),
              result.untilPublished().percentile(0.99));
        }
      } finally {
        server.drop(database);
      }
    }
  }

  /**
   * Pub/Sub is the limit when a claim is small against its latency. The larger the claims, the more
   * rows, so that each drain takes some ten seconds.
   */
  private void pods() throws Exception {
    try (BenchPubSub pubSub = BenchPubSub.local(20)) {
      for (int batch : options.claims()) {
        int rows = batch * 1_000;
        List<Double> ratios = new ArrayList<>();
        for (int round = 1; round <= options.rounds(); round++) {
          double one = podsRate(pubSub, 1, rows, batch);
          double two = podsRate(pubSub, 2, rows, batch);
          ratios.add(two / one);
          System.out.printf(
              "  claims of %d, %s, %,d rows: one pod %,.0f, two pods %,.0f rows/s, %.2f times%n",
              batch, pubSub.name(), rows, one, two, two / one);
        }
        System.out.printf(
            "  median: %.2f times (goal 1.8 where Pub/Sub is the limit)%n",
            median(ratios.stream().mapToDouble(Double::doubleValue)));
      }
    }
  }

  private double podsRate(BenchPubSub pubSub, int pods, int rows, int batch) throws Exception {
    String database = server.createDatabase();
    String topic = pubSub.createTopic("pods");
    List<TwinboxProcess> running = new ArrayList<>();
    try (Queue queue = Queue.twinbox(server, database, topic)) {
      for (int pod = 0; pod < pods; pod++) {
        running.add(
            twinbox(
                "bench-" + pod,
                database,
                pubSub,
                topic,
                "TWINBOX_DISPATCH_BATCH_ROWS",
                String.valueOf(batch)));
      }
      for (int warm = 0; warm < 2; warm++) {
        queue.drain(rows);
        pubSub.forget(topic);
      }
      return queue.drain(rows);
    } finally {
      running.forEach(TwinboxProcess::close);
      pubSub.forget(topic);
      server.drop(database);
    }
  }

  /** What a dispatch that has nothing to do asks of the database. */
  private void idle() throws Exception {
    try (BenchPubSub pubSub = BenchPubSub.start(options.google())) {
      String database = server.createDatabase();
      String name = database.substring(database.lastIndexOf('/') + 1);
      String topic = pubSub.createTopic("idle");
      try (TwinboxProcess process = twinbox("bench", database, pubSub, topic);
          Queue queue = Queue.twinbox(server, database, topic)) {
        queue.drain(5_000);
        TimeUnit.SECONDS.sleep(5);
        String transactions =
            "SELECT xact_commit + xact_rollback FROM pg_stat_database WHERE datname = '"
                + name
                + "'";
        long cpuBefore = Usage.backendTicks(server, name);
        long jvmBefore = Usage.ticks(process.pid());
        double before = server.number(server.adminUrl(), transactions);
        long start = System.nanoTime();
        TimeUnit.SECONDS.sleep(options.seconds());
        double seconds = (System.nanoTime() - start) / 1e9;
        double after = server.number(server.adminUrl(), transactions);
        System.out.printf(
            "  %.1f statements/s; PostgreSQL backends %.2f %%, Twinbox %.2f %% of one processor%n",
            (after - before) / seconds,
            (Usage.backendTicks(server, name) - cpuBefore) / seconds,
            (Usage.ticks(process.pid()) - jvmBefore) / seconds);
      } finally {
        server.drop(database);
      }
    }
  }

  /** An idle transaction pins the vacuum horizon while rows flow. */
  private void pin() throws Exception {
    try (BenchPubSub pubSub = BenchPubSub.start(options.google())) {
      String database = server.createDatabase();
      String topic = pubSub.createTopic("pin");
      try (TwinboxProcess process = twinbox("bench", database, pubSub, topic);
          Queue queue = Queue.twinbox(server, database, topic);
          Connection pin = server.connect(database)) {
        int burst = options.rows() / 5;
        queue.drain(options.rows() / 2);
        server.execute(database, "VACUUM pubsub_outbox_due");
        pin.setAutoCommit(false);
        pin.setTransactionIsolation(Connection.TRANSACTION_REPEATABLE_READ);
        double[] rates = new double[16];
        for (int i = 0; i < rates.length; i++) {
          if (i == 1) {
            try (Statement statement = pin.createStatement()) {
              statement.execute("SELECT count(*) FROM pubsub_outbox_due");
            }
          }
          pubSub.forget(topic);
          rates[i] = queue.drain(burst, options.keys(), () -> {});
          String now = queue.text("SELECT CAST(clock_timestamp() - interval '5 seconds' AS text)");
          System.out.printf(
              "  %s, %,d rows published under the pin: %,.0f rows/s; empty polls: %s; %s%n",
              i == 0 ? "before the pin" : "pinned",
              i * burst,
              rates[i],
              emptyPolls(database, topic, "claim.sql", now),
              emptyPolls(database, topic, "claim-ordered.sql", now));
        }
        System.out.printf(
            "  last three against first three under the pin: %.0f %% (goal 80)%n",
            100
                * Arrays.stream(rates, rates.length - 3, rates.length).sum()
                / Arrays.stream(rates, 1, 4).sum());
      } finally {
        server.drop(database);
      }
    }
  }

  private String emptyPolls(String database, String topic, String file, String floor)
      throws SQLException {
    ExplainedClaim sweep = ExplainedClaim.of(server, database, topic, file, 500);
    ExplainedClaim poll = ExplainedClaim.of(server, database, topic, file, 500, floor);
    return "%s %,d pages in %.1f ms, sweep %,d in %.1f"
        .formatted(file, poll.buffers(), poll.millis(), sweep.buffers(), sweep.millis());
  }
}
