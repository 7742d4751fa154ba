package io.twinbox.promises;

import io.twinbox.local.bigquery.LocalBigQuery;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.camel.ProducerTemplate;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.springframework.context.ConfigurableApplicationContext;

/** A test of {@code produce}: one local BigQuery per class, a table of events per test. */
abstract class ProduceTest extends PromiseTest {

  static final String SCHEMA =
      """
      [{"name": "event_key", "type": "STRING"},
       {"name": "payload", "type": "STRING"},
       {"name": "attributes", "type": "STRING"},
       {"name": "updated_at", "type": "TIMESTAMP"}]
      """;

  static final String QUERY =
      """
      -- Reads the events of the test.
      SELECT event_key, payload, attributes, updated_at AS watermark
      FROM shop.%s
      WHERE updated_at >= @watermark
      """;

  static final AtomicInteger TABLES = new AtomicInteger();
  static LocalBigQuery bigQuery;

  String table;
  ProducerTemplate produce;

  @BeforeAll
  static void startBigQuery() {
    bigQuery = LocalBigQuery.start(PROJECT);
  }

  @AfterAll
  static void stopBigQuery() {
    bigQuery.close();
  }

  @BeforeEach
  void freshTable() throws IOException {
    bigQuery.faults().clear();
    table = "orders_" + TABLES.incrementAndGet();
    bigQuery.createTable("shop", table, SCHEMA);
    topicFile("query.sql", QUERY.formatted(table));
  }

  void startProduce(String... settings) {
    List<String> all =
        new ArrayList<>(
            List.of(
                "bigquery.emulator.host=" + bigQuery.url(),
                "twinbox.produce.first-watermark=2020-01-01T00:00:00Z",
                // Loads the routes without running them: the test does.
                "twinbox.produce.schedule=0 0 0 29 2 *"));
    all.addAll(List.of(settings));
    ConfigurableApplicationContext context = start("produce", all.toArray(String[]::new));
    produce = context.getBean(ProducerTemplate.class);
  }

  void run() {
    produce.sendBody("direct:produce", null);
  }

  void row(String key, String payload, String updatedAt) {
    appendRow("\"%s\", \"payload\": \"%s\"".formatted(key, payload), updatedAt);
  }

  void rowWithAttributes(String key, String payload, String attributes, String updatedAt) {
    appendRow(
        "\"%s\", \"payload\": \"%s\", \"attributes\": \"%s\"".formatted(key, payload, attributes),
        updatedAt);
  }

  void appendRow(String keyAndMore, String updatedAt) {
    String time = updatedAt == null ? "null" : "\"" + updatedAt + "\"";
    bigQuery.append(
        "shop",
        table,
        List.of("{\"event_key\": %s, \"updated_at\": %s}".formatted(keyAndMore, time)));
  }

  List<String> queued() {
    return jdbc.queryForList("SELECT payload FROM pubsub_outbox", byte[].class).stream()
        .map(bytes -> new String(bytes, StandardCharsets.UTF_8))
        .toList();
  }

  String watermark() {
    return jdbc.queryForObject("SELECT value FROM produce_watermark", String.class);
  }

  /** Rows {@code key-0} to {@code key-(n-1)}, a second apart. */
  void rows(int n) {
    for (int i = 0; i < n; i++) {
      row("key-" + i, "payload " + i, "2026-03-01T10:%02d:%02dZ".formatted(i / 60, i % 60));
    }
  }

  /** The last run as produce_run has it. */
  Map<String, Object> lastRun() {
    return jdbc.queryForMap("SELECT * FROM produce_run ORDER BY started_at DESC LIMIT 1");
  }
}
