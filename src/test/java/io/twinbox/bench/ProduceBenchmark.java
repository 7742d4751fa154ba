package io.twinbox.bench;

import ch.qos.logback.classic.Level;
import ch.qos.logback.classic.Logger;
import com.google.cloud.NoCredentials;
import com.google.cloud.bigquery.BigQuery;
import com.google.cloud.bigquery.BigQueryOptions;
import com.google.cloud.bigquery.FieldValueList;
import com.google.cloud.bigquery.QueryJobConfiguration;
import io.twinbox.local.LocalPostgres;
import io.twinbox.local.bigquery.LocalBigQuery;
import java.io.File;
import java.io.IOException;
import java.io.OutputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.HashMap;
import java.util.HexFormat;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Random;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.IntStream;
import org.apache.camel.component.sql.SqlComponent;
import org.apache.camel.impl.DefaultCamelContext;
import org.flywaydb.core.Flyway;
import org.postgresql.PGConnection;
import org.slf4j.LoggerFactory;
import org.springframework.jdbc.datasource.SingleConnectionDataSource;

/**
 * How fast produce queues rows of 1 KiB, against {@code COPY} of the same rows into the same tables
 * and against one {@code INSERT} per row; and whether its memory stays flat.
 *
 * <p>docs/produce-benchmark.md says how to run it. Figures depend on the machine; only the ratios
 * of one run compare. The local BigQuery is part of the whole way, and shares the processors: what
 * reading from it takes alone is shown too.
 */
final class ProduceBenchmark {

  private static final int PAYLOAD = 1024;
  private static final int CHUNK = 1000;
  private static final int ONE_BY_ONE = 5_000;
  private static final int APPEND = 5_000;
  private static final Pattern AFTER_GC = Pattern.compile("Pause .*->(\\d+)M\\((\\d+)M\\)");

  private final int rows;
  private final LocalPostgres postgres;
  private final List<String> report = new ArrayList<>();

  private ProduceBenchmark(int rows, LocalPostgres postgres) {
    this.rows = rows;
    this.postgres = postgres;
  }

  public static void main(String[] arguments) throws Exception {
    ((Logger) LoggerFactory.getLogger(org.slf4j.Logger.ROOT_LOGGER_NAME)).setLevel(Level.WARN);
    int rows = arguments.length > 0 ? Integer.parseInt(arguments[0]) : 100_000;
    try (LocalPostgres postgres = LocalPostgres.start()) {
      ProduceBenchmark benchmark = new ProduceBenchmark(rows, postgres);
      if (arguments.length > 1 && arguments[1].equals("memory")) {
        benchmark.memoryOnly();
      } else {
        benchmark.run();
      }
    }
    System.exit(0);
  }

  private void run() throws Exception {
    System.out.printf(
        "%,d rows of %,d bytes; Java %s, %d processors, load %s%n",
        rows,
        PAYLOAD,
        Runtime.version().feature(),
        Runtime.getRuntime().availableProcessors(),
        Files.readString(Path.of("/proc/loadavg")).split(" ")[0]);
    double copy = rate("COPY, one transaction", rows, this::copy);
    double single = rate("INSERT per row", Math.min(rows, ONE_BY_ONE), this::insertOneByOne);
    double statement = rate("queue-events.sql, 1,000 rows a chunk", rows, this::queueChunks);
    System.out.printf(
        "the statement is %.2f of COPY and %.1f times INSERT per row%n",
        statement / copy, statement / single);
    try (LocalBigQuery bigQuery = LocalBigQuery.start("bench")) {
      fill(bigQuery);
      rate("reading the pages only", rows, url -> read(bigQuery));
      double whole = rate("produce as a process, -Xmx256m", rows, url -> produce(bigQuery, url));
      System.out.printf(
          "produce as a whole is %.2f of COPY and %.1f times INSERT per row%n",
          whole / copy, whole / single);
      report.forEach(System.out::println);
    }
  }

  /** Only produce as a process, for the memory that it takes over time. */
  private void memoryOnly() throws Exception {
    try (LocalBigQuery bigQuery = LocalBigQuery.start("bench")) {
      fill(bigQuery);
      rate("produce as a process, -Xmx256m", rows, url -> produce(bigQuery, url));
      report.forEach(System.out::println);
    }
  }

  private interface Load {
    /** Loads; returns the seconds it took, or a negative number to have them measured here. */
    double into(String url) throws Exception;
  }

  private double rate(String name, int count, Load load) throws Exception {
    String url = postgres.createDatabase();
    Flyway.configure()
        .dataSource(url, LocalPostgres.USER, LocalPostgres.PASSWORD)
        .locations("classpath:sql/schema")
        .load()
        .migrate();
    long start = System.nanoTime();
    double seconds = load.into(url);
    if (seconds < 0) {
      seconds = (System.nanoTime() - start) / 1e9;
    }
    System.out.printf("%-40s %,9.0f rows/s%n", name, count / seconds);
    return count / seconds;
  }

  private static Connection connect(String url) throws SQLException {
    return DriverManager.getConnection(url, LocalPostgres.USER, LocalPostgres.PASSWORD);
  }

  private static byte[] payload(int i) {
    byte[] bytes = new byte[PAYLOAD];
    new Random(i)
        .ints(PAYLOAD, 'a', 'z')
        .forEach(
            new java.util.function.IntConsumer() {
              private int at;

              @Override
              public void accept(int letter) {
                bytes[at++] = (byte) letter;
              }
            });
    return bytes;
  }

  private double copy(String url) throws Exception {
    try (Connection connection = connect(url);
        OutputStream out =
            new org.postgresql.copy.PGCopyOutputStream(
                connection.unwrap(PGConnection.class),
                "COPY pubsub_outbox (id, topic_name, source, payload, attributes) FROM STDIN")) {
      for (int i = 0; i < rows; i++) {
        out.write(
            "%s\tevents\tbench\t\\\\x%s\t{}\n"
                .formatted(UUID.randomUUID(), HexFormat.of().formatHex(payload(i)))
                .getBytes(StandardCharsets.US_ASCII));
      }
    }
    return -1;
  }

  private double insertOneByOne(String url) throws Exception {
    try (Connection connection = connect(url);
        PreparedStatement insert =
            connection.prepareStatement(
                "INSERT INTO pubsub_outbox (topic_name, source, payload) VALUES ('events', 'bench', ?)")) {
      for (int i = 0; i < Math.min(rows, ONE_BY_ONE); i++) {
        insert.setBytes(1, payload(i));
        insert.executeUpdate();
      }
    }
    return -1;
  }

  /** The statement as the route runs it, one chunk after the other. */
  private double queueChunks(String url) throws Exception {
    try (DefaultCamelContext camel = new DefaultCamelContext()) {
      Properties settings = new Properties();
      settings.put("topic.name", "events");
      settings.put("twinbox.source", "bench");
      camel.getPropertiesComponent().setInitialProperties(settings);
      SqlComponent sql = new SqlComponent();
      sql.setDataSource(
          new SingleConnectionDataSource(url, LocalPostgres.USER, LocalPostgres.PASSWORD, true));
      camel.addComponent("sql", sql);
      camel.start();
      var template = camel.createProducerTemplate();
      long start = System.nanoTime();
      for (int from = 0; from < rows; from += CHUNK) {
        int[] numbers = IntStream.range(from, Math.min(rows, from + CHUNK)).toArray();
        Map<String, Object> chunk = new HashMap<>();
        chunk.put(
            "eventKeys", Arrays.stream(numbers).mapToObj(i -> "key-" + i).toArray(String[]::new));
        chunk.put(
            "payloads",
            Arrays.stream(numbers).mapToObj(ProduceBenchmark::payload).toArray(byte[][]::new));
        for (String none : List.of("attributes", "orderingKeys", "topics", "reasons")) {
          chunk.put(none, new String[numbers.length]);
        }
        template.send(
            "sql:classpath:sql/produce/queue-events.sql?outputType=SelectOne",
            exchange -> {
              exchange.setProperty("runId", "bench");
              exchange.getMessage().setBody(chunk);
            });
      }
      double seconds = (System.nanoTime() - start) / 1e9;
      requireRows(url);
      return seconds;
    }
  }

  private void requireRows(String url) throws SQLException {
    try (Connection connection = connect(url);
        Statement statement = connection.createStatement();
        ResultSet count = statement.executeQuery("SELECT count(*) FROM pubsub_outbox_due")) {
      count.next();
      if (count.getLong(1) != rows) {
        throw new IllegalStateException(
            "%,d rows are queued and should be %,d".formatted(count.getLong(1), rows));
      }
    }
  }

  private void fill(LocalBigQuery bigQuery) {
    bigQuery.createTable(
        "bench",
        "events",
        """
        [{"name": "event_key", "type": "STRING"}, {"name": "payload", "type": "STRING"},
         {"name": "updated_at", "type": "TIMESTAMP"}]
        """);
    Instant start = Instant.parse("2026-01-01T00:00:00Z");
    for (int from = 0; from < rows; from += APPEND) {
      List<String> lines = new ArrayList<>();
      for (int i = from; i < Math.min(rows, from + APPEND); i++) {
        lines.add(
            "{\"event_key\": \"key-%d\", \"payload\": \"%s\", \"updated_at\": \"%s\"}"
                .formatted(
                    i, new String(payload(i), StandardCharsets.US_ASCII), start.plusMillis(i)));
      }
      bigQuery.append("bench", "events", lines);
    }
  }

  private double read(LocalBigQuery bigQuery) throws Exception {
    BigQuery client =
        BigQueryOptions.newBuilder()
            .setHost(bigQuery.url())
            .setProjectId("bench")
            .setCredentials(NoCredentials.getInstance())
            .build()
            .getService();
    long start = System.nanoTime();
    int count = 0;
    for (FieldValueList ignored :
        client
            .query(QueryJobConfiguration.of("SELECT event_key, payload FROM bench.events"))
            .iterateAll()) {
      count++;
    }
    if (count != rows) {
      throw new IllegalStateException(count + " rows were read");
    }
    return (System.nanoTime() - start) / 1e9;
  }

  private double produce(LocalBigQuery bigQuery, String url) throws Exception {
    Path topic = Files.createTempDirectory("produce-benchmark");
    Files.writeString(
        topic.resolve("query.sql"),
        """
        -- All events.
        SELECT event_key, payload, updated_at AS watermark
        FROM bench.events
        WHERE updated_at >= @watermark
        """);
    Path output = Path.of("target/produce-benchmark.log");
    String classPath =
        "target/classes"
            + File.pathSeparator
            + Files.readString(Path.of("target/runtime-classpath.txt")).strip();
    ProcessBuilder builder =
        new ProcessBuilder(
            Path.of(System.getProperty("java.home"), "bin", "java").toString(),
            "-Xmx256m",
            "-Xlog:gc",
            "-cp",
            classPath,
            "io.twinbox.TwinboxApplication");
    builder.redirectErrorStream(true).redirectOutput(output.toFile());
    builder
        .environment()
        .putAll(
            Map.ofEntries(
                Map.entry("TWINBOX_ROUTES", "produce"),
                Map.entry("TWINBOX_TOPIC_DIR", topic.toString()),
                Map.entry("TWINBOX_SOURCE", "bench"),
                Map.entry("TWINBOX_PRODUCE_FIRST_WATERMARK", "2020-01-01T00:00:00Z"),
                Map.entry("TOPIC_NAME", "events"),
                Map.entry("GOOGLE_CLOUD_PROJECT", "bench"),
                Map.entry("BIGQUERY_EMULATOR_HOST", bigQuery.url()),
                Map.entry("SPRING_DATASOURCE_URL", url),
                Map.entry("SPRING_DATASOURCE_USERNAME", LocalPostgres.USER),
                Map.entry("SPRING_DATASOURCE_PASSWORD", LocalPostgres.PASSWORD),
                Map.entry("SPRING_FLYWAY_TABLE", "flyway_schema_history"),
                Map.entry("SERVER_PORT", "0"),
                Map.entry("MANAGEMENT_SERVER_PORT", "0")));
    Process process = builder.start();
    try {
      List<Long> resident = new ArrayList<>();
      for (int i = 0; i < 360 && !process.waitFor(10, TimeUnit.SECONDS); i++) {
        resident.add(residentMebibytes(process.pid()));
      }
      report.add("resident MiB every ten seconds: " + resident);
      if (process.isAlive() || process.exitValue() != 0) {
        throw new IllegalStateException("produce failed, see " + output);
      }
    } finally {
      process.destroyForcibly();
    }
    requireRows(url);
    memory(output);
    try (Connection connection = connect(url);
        Statement statement = connection.createStatement();
        ResultSet run =
            statement.executeQuery(
                "SELECT extract(epoch FROM finished_at - started_at) FROM produce_run")) {
      run.next();
      return run.getDouble(1);
    }
  }

  /** What the system says, where it has {@code /proc}; else 0. */
  private static long residentMebibytes(long pid) {
    try {
      return Files.readAllLines(Path.of("/proc/%d/status".formatted(pid))).stream()
          .filter(line -> line.startsWith("VmRSS:"))
          .mapToLong(line -> Long.parseLong(line.replaceAll("[^0-9]", "")) / 1024)
          .findFirst()
          .orElse(0);
    } catch (IOException e) {
      return 0;
    }
  }

  /**
   * Heap in use after collections, the smallest of each tenth of the run: what is alive, and a
   * collection of the young alone does not show.
   */
  private void memory(Path output) throws IOException {
    List<Integer> after = new ArrayList<>();
    for (String line : Files.readAllLines(output)) {
      Matcher pause = AFTER_GC.matcher(line);
      if (pause.find()) {
        after.add(Integer.valueOf(pause.group(1)));
      }
    }
    int tenth = Math.max(1, after.size() / 10);
    StringBuilder tenths = new StringBuilder();
    for (int from = 0; from < after.size() && from < 10 * tenth; from += tenth) {
      tenths.append(
          " %d".formatted(after.stream().skip(from).limit(tenth).mapToInt(i -> i).min().orElse(0)));
    }
    report.add(
        "heap after collections, smallest of each tenth of %d, in MiB of 256:%s; the most of all %d"
            .formatted(after.size(), tenths, after.stream().mapToInt(i -> i).max().orElse(0)));
  }
}
