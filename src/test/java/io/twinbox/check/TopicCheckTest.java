package io.twinbox.check;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.twinbox.local.InvoicesSample;
import io.twinbox.local.LocalPostgres;
import io.twinbox.local.bigquery.LocalBigQuery;
import io.twinbox.local.pubsub.LocalPubSub;
import io.twinbox.routes.Finding;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.Statement;
import java.util.List;
import java.util.stream.Stream;
import org.flywaydb.core.Flyway;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * The sample topic is good; each mistake that a topic's folder can hold is made in a copy of it,
 * and exactly that is found, with file and line.
 */
class TopicCheckTest {

  private static final Path SAMPLE = Path.of("topics/invoices");

  private static LocalPostgres postgres;
  private static LocalBigQuery bigQuery;
  private static LocalPubSub pubSub;
  private static String url;

  @TempDir Path folder;

  @BeforeAll
  static void startServices() throws Exception {
    postgres = LocalPostgres.start();
    url = postgres.createDatabase();
    Flyway.configure()
        .dataSource(url, LocalPostgres.USER, LocalPostgres.PASSWORD)
        .locations("filesystem:sql/schema")
        .load()
        .migrate();
    execute(Files.readString(SAMPLE.resolve("business-tables.sql")));
    bigQuery = LocalBigQuery.start("local");
    bigQuery.createTable(InvoicesSample.DATASET, InvoicesSample.TABLE, InvoicesSample.SCHEMA);
    pubSub = LocalPubSub.start();
    pubSub.createTopic("local", "invoices");
    pubSub.createTopic("local", "deaf");
    pubSub.createSubscription("local", "invoices-ledger", "invoices");
  }

  @AfterAll
  static void stopServices() {
    pubSub.close();
    bigQuery.close();
    postgres.close();
  }

  private static void execute(String sql) throws Exception {
    try (Connection connection =
            DriverManager.getConnection(url, LocalPostgres.USER, LocalPostgres.PASSWORD);
        Statement statement = connection.createStatement()) {
      statement.execute(sql);
    }
  }

  @BeforeEach
  void copySample() throws IOException {
    for (String name :
        List.of(
            "topic.properties",
            "query.sql",
            "handle.camel.yaml",
            "post-ledger.sql",
            "update-balance.sql")) {
      Files.copy(SAMPLE.resolve(name), folder.resolve(name));
    }
  }

  private TopicCheck check() {
    return TopicCheck.of(folder)
        .with("google.cloud.project", "local")
        .database(url, LocalPostgres.USER, LocalPostgres.PASSWORD);
  }

  private TopicCheck asking() {
    return check()
        .with("bigquery.emulator.host", "127.0.0.1:" + bigQuery.port())
        .with("pubsub.emulator.host", pubSub.endpoint())
        .bigQuery()
        .pubSub();
  }

  private void edit(String file, String from, String to) throws IOException {
    Path path = folder.resolve(file);
    String text = Files.readString(path);
    assertThat(text).contains(from);
    Files.writeString(path, text.replace(from, to));
  }

  @Test
  void sampleIsGood() {
    CheckResult result = check().run();
    assertThat(result.findings()).isEmpty();
    assertThat(result.good()).isTrue();
    assertThat(result.looked())
        .anyMatch(line -> line.matches("\\d\\d routes and \\d\\d statements of .*produce.*"))
        .anyMatch(line -> line.matches("\\d\\d statements, prepared by the database"));
    assertThat(result.notLooked()).hasSize(2);
    check().requireGood();
  }

  /** The scheduler's options are a map, written name.key. */
  @Test
  void sampleWithAScheduleIsGood() {
    assertThat(check().with("twinbox.produce.schedule", "0 * * * * *").run().findings()).isEmpty();
  }

  /** The local subscription lacks what a real one should have; nothing else is said. */
  @Test
  void googleIsAskedWhenToldTo() {
    CheckResult result = asking().run();
    assertThat(result.unreachable()).isEmpty();
    assertThat(result.looked()).anyMatch(line -> line.contains("dry run"));
    assertThat(result.findings())
        .isNotEmpty()
        .allMatch(f -> f.problem().startsWith("Subscription projects/local/subscriptions/"))
        .allMatch(f -> f.file().endsWith("topic.properties") && f.line() == 3);
  }

  /** As the settings of a backfill's job are checked before it runs. */
  @Test
  void windowOfABackfillIsLookedAt() throws IOException {
    TopicCheck backfill =
        check()
            .with("twinbox.produce.backfill.from", "2026-01-01T00:00:00Z")
            .with("twinbox.produce.backfill.until", "2026-02-01T00:00:00Z");
    assertThat(backfill.run().findings()).isEmpty();
    assertThat(
            backfill
                .with("twinbox.produce.backfill.until", "2025-02-01T00:00:00Z")
                .run()
                .findings())
        .singleElement()
        .satisfies(f -> assertThat(f.problem()).contains("backfill.until", "is not above"));
    edit("query.sql", "BETWEEN @watermark AND @last", ">= @watermark");
    assertThat(
            backfill
                .with("twinbox.produce.backfill.until", "2026-02-01T00:00:00Z")
                .run()
                .findings())
        .singleElement()
        .satisfies(
            f -> {
              assertThat(f.file()).endsWith("query.sql");
              assertThat(f.problem()).contains("does not use @last");
            });
  }

  @Test
  void queryThatIsNotWrittenYetIsNamed() throws IOException {
    Files.writeString(folder.resolve("query.sql"), "-- To be written.\n");
    assertThat(check().run().findings())
        .singleElement()
        .satisfies(
            f -> assertThat(f.toString()).contains("query.sql:1: the file has no statement"));
  }

  static Stream<Arguments> mistakes() {
    return Stream.of(
        mistake(
            "topic.properties",
            "twinbox.consumer=ledger",
            "twinbox.consumar=ledger",
            "topic.properties:7: twinbox.consumar",
            "twinbox.consumer"),
        mistake("topic.properties", "topic.name=invoices", "", "topic.properties:1: TOPIC_NAME"),
        mistake(
            "topic.properties",
            "lookback=1h",
            "lookback=1h\ntwinbox.consume.concurrency=900",
            "topic.properties:13: TWINBOX_CONSUME_CONCURRENCY"),
        mistake(
            "topic.properties",
            "lookback=1h",
            "lookback=1h\ntwinbox.dispatch.lease=sixty",
            "topic.properties:13: TWINBOX_DISPATCH_LEASE"),
        mistake(
            "topic.properties",
            "lookback=1h",
            "lookback=1h\ntwinbox.consume.max-lease=10 minutes",
            "topic.properties:13: TWINBOX_CONSUME_MAX_LEASE",
            "Write a number and ms, s, m, h or d, for example 500ms, 30s, 15m, in line 13 of topic.properties"),
        mistake(
            "topic.properties",
            "lookback=1h",
            "lookback=-1h",
            "topic.properties:12: TWINBOX_PRODUCE_LOOKBACK is '-1h', which is no duration"),
        mistake(
            "topic.properties",
            "first-watermark=2020-01-01T00:00:00Z",
            "first-watermark=2020-01-01",
            "topic.properties:11: twinbox.produce.first-watermark '2020-01-01' is no TIMESTAMP; write it as 2026-01-31T09:00:00Z"),
        mistake(
            "topic.properties",
            "topic.name=invoices",
            "topic.name=projects/p/topics/invoices",
            "topic.properties:2: TOPIC_NAME is 'projects/p/topics/invoices', which is no name in Pub/Sub",
            "Write the short name"),
        mistake(
            "topic.properties",
            "subscription.name=invoices-ledger",
            "subscription.name=\"invoices-ledger\"",
            "topic.properties:3: SUBSCRIPTION_NAME",
            "no quotes"),
        mistake(
            "handle.camel.yaml",
            "java.lang.String",
            "java.lang.Strng",
            "handle.camel.yaml:16: route invoices-handle, step invoices-payload: there is no class `java.lang.Strng`",
            "java.lang.String for a text"),
        mistake(
            "post-ledger.sql",
            "CAST(:#${body} AS jsonb)",
            "CAST(:#${bdy} AS jsonb)",
            "post-ledger.sql:11: every message would fail at the parameter `:#${bdy}`: Unknown function: bdy"),
        mistake(
            "query.sql",
            "BETWEEN @watermark",
            "BETWEEN @watermarc",
            "query.sql:21: nobody gives @watermarc a value"),
        mistake(
            "topic.properties",
            "lookback=1h",
            "lookback=90d",
            "topic.properties:12:",
            "TWINBOX_MAINTAIN_PAYLOAD_RETENTION"),
        mistake(
            "handle.camel.yaml",
            "      uri: direct\n",
            "      uri: direct\n   oops\n",
            "handle.camel.yaml:",
            "invalid YAML"),
        mistake(
            "handle.camel.yaml",
            "- convertBodyTo:",
            "- convertBodyTwo:",
            "handle.camel.yaml:13:",
            "convertBodyTwo"),
        mistake(
            "handle.camel.yaml",
            "- convertBodyTo:\n            id: invoices-payload\n            description: The payload as text\n            type: java.lang.String\n            charset: UTF-8",
            "- wireTap:\n            id: invoices-payload\n            uri: direct\n            parameters:\n              name: handle",
            "handle.camel.yaml:13: route invoices-handle, step invoices-payload:"),
        mistake(
            "handle.camel.yaml",
            "{{twinbox.topic-dir}}/post-ledger.sql",
            "{{twinbox.topic-dri}}/post-ledger.sql",
            "handle.camel.yaml:23: route invoices-handle, step invoices-post-ledger:",
            "twinbox.topic-dri has no value"),
        mistake(
            "handle.camel.yaml",
            "noop: true",
            "nop: true",
            "handle.camel.yaml:24: route invoices-handle, step invoices-post-ledger: `nop` is no option of the endpoint `sql`",
            "Did you mean `noop`?"),
        mistake(
            "handle.camel.yaml",
            "post-ledger.sql",
            "post-legder.sql",
            "handle.camel.yaml:23:",
            "there is no statement file"),
        mistake(
            "post-ledger.sql",
            "WHEN 'issued'",
            "WHEN 'item#1'",
            "post-ledger.sql:9:",
            "replaces every # by ?"),
        mistake(
            "post-ledger.sql",
            "CAST(:#${body} AS jsonb)",
            "CAST(concat(:#${properties:no.such}, :#${body}) AS jsonb)",
            "post-ledger.sql:11:",
            "no.such has no value"),
        mistake(
            "post-ledger.sql",
            "INSERT INTO ledger_entry",
            "INSERT INTO ledger_entries",
            "post-ledger.sql:2:",
            "relation \"ledger_entries\" does not exist (SQLSTATE 42P01)"),
        mistake(
            "post-ledger.sql",
            "e.payload ->> 'customer_id',",
            "e.payload ->> 'customer_id', e.nothing,",
            "post-ledger.sql:5:",
            "column e.nothing does not exist"),
        mistake(
            "update-balance.sql",
            "ON CONFLICT (",
            "ON KONFLICT (",
            "update-balance.sql:8:",
            "42601"),
        mistake(
            "update-balance.sql",
            "CAST(:#${body} AS jsonb) AS payload)",
            "CAST(:#${body} AS jsonb) AS payload WHERE 1 = :#${header.event_type})",
            "update-balance.sql:7: the parameter `:#${header.event_type}` is a text",
            "CAST(:#${header.event_type} AS ...)"),
        mistake(
            "query.sql",
            "TO_JSON_STRING(invoice) AS payload",
            "TO_JSON_STRING(invoice) AS paylod",
            "query.sql:1: column payload is missing"),
        mistake(
            "query.sql",
            "invoice.event_id AS",
            "invoice.event_idd AS",
            "query.sql:13:",
            "event_idd"),
        mistake(
            "topic.properties",
            "watermark-type=TIMESTAMP",
            "watermark-type=INT64",
            "topic.properties:12: TWINBOX_PRODUCE_LOOKBACK"),
        mistake(
            "topic.properties",
            "subscription.name=invoices-ledger",
            "subscription.name=invoices-leger",
            "topic.properties:3: Subscription projects/local/subscriptions/invoices-leger does not exist"),
        mistake(
            "topic.properties",
            "topic.name=invoices",
            "topic.name=deaf",
            "topic.properties:2: Topic projects/local/topics/deaf has no subscription"));
  }

  private static Arguments mistake(String file, String from, String to, String... said) {
    return Arguments.of(file, from, to, said);
  }

  @ParameterizedTest(name = "{0}: {2}")
  @MethodSource("mistakes")
  void mistakeIsFoundWithFileAndLine(String file, String from, String to, String[] said)
      throws IOException {
    edit(file, from, to);
    boolean google = file.equals("query.sql") || said[0].contains("projects/");
    List<Finding> findings =
        (google ? asking() : check())
            .run().findings().stream()
                // What the local subscription lacks, which is no mistake of the folder's.
                .filter(f -> !f.problem().matches(".*invoices-ledger: .*"))
                .toList();
    assertThat(findings)
        .anySatisfy(
            finding ->
                assertThat(finding.toString().substring(folder.toString().length() + 1))
                    .startsWith(said[0])
                    .contains(said));
    // Of the same mistake, and of nothing else.
    assertThat(findings).allMatch(f -> f.file().endsWith(file) || f.file().endsWith("query.sql"));
  }

  @Test
  void asATestItFailsWithEveryFinding() throws IOException {
    edit("handle.camel.yaml", "noop: true", "nop: true");
    edit("post-ledger.sql", "INSERT INTO ledger_entry", "INSERT INTO ledger_entries");
    assertThatThrownBy(() -> check().requireGood())
        .isInstanceOf(AssertionError.class)
        .hasMessageStartingWith("3 findings:")
        .hasMessageContaining("post-ledger.sql:2: ")
        .hasMessageContaining("handle.camel.yaml:24: ");
  }

  @Test
  void fileThatARouteSetNeedsIsMissed() throws IOException {
    Files.delete(folder.resolve("handle.camel.yaml"));
    Files.delete(folder.resolve("query.sql"));
    check().requireGood();
    assertThat(check().routeSets("consume", "produce").run().findings())
        .extracting(Finding::toString)
        .anyMatch(line -> line.contains("handle.camel.yaml:1:") && line.contains("is missing"))
        .anyMatch(line -> line.contains("query.sql:1:") && line.contains("is missing"));
    assertThat(check().routeSets("consumer").run().findings())
        .singleElement()
        .asString()
        .contains("no route set 'consumer'");
    assertThat(TopicCheck.of(folder.resolve("elsewhere")).run().findings())
        .singleElement()
        .asString()
        .contains("no such folder");
  }

  /** A dead database or BigQuery is no verdict on the folder. */
  @Test
  void whatCannotBeReachedIsSaidAndIsNoFinding() {
    CheckResult result =
        TopicCheck.of(folder)
            .database("jdbc:postgresql://127.0.0.1:1/none", "nobody", "secret")
            .with("google.cloud.project", "local")
            .with("bigquery.emulator.host", "127.0.0.1:1")
            .with("twinbox.produce.retry-base", "1ms")
            .with("twinbox.produce.retry-timeout", "10ms")
            .with("pubsub.emulator.host", "127.0.0.1:1")
            .bigQuery()
            .pubSub()
            .run();
    assertThat(result.findings()).isEmpty();
    assertThat(result.good()).isFalse();
    assertThat(result.unreachable()).hasSize(3);
    assertThat(String.join("\n", result.unreachable())).doesNotContain("secret");
  }

  /** Statements are prepared, not run, and the transaction cannot write. */
  @Test
  void nothingIsWritten() throws Exception {
    execute("CREATE SEQUENCE IF NOT EXISTS ran");
    Files.writeString(
        folder.resolve("post-ledger.sql"),
        "-- Would be seen if it ran.\nSELECT nextval('ran'), :#${body}\n");
    check().requireGood();
    try (Connection connection =
            DriverManager.getConnection(url, LocalPostgres.USER, LocalPostgres.PASSWORD);
        Statement statement = connection.createStatement();
        var rows = statement.executeQuery("SELECT is_called FROM ran")) {
      rows.next();
      assertThat(rows.getBoolean(1)).isFalse();
    }
  }
}
