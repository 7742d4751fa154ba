package io.twinbox.promises;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.twinbox.local.bigquery.Faults;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.camel.ProducerTemplate;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** What README promises of the way from BigQuery into the outbox. */
class ProducePromisesTest extends ProduceTest {

  @Test
  void rowsReadAgainAreNotQueuedAgain() {
    for (int i = 0; i < 25; i++) {
      row("key-" + i, "payload " + i, "2026-03-01T10:00:00.%06dZ".formatted(i));
    }
    startProduce("twinbox.produce.chunk-rows=10");
    run();
    run();

    assertThat(count("pubsub_outbox")).isEqualTo(25);
    // Also when their payloads have gone.
    jdbc.execute(
        "INSERT INTO pubsub_outbox_published SELECT id, topic_name, now(), 'm', payload_hash FROM pubsub_outbox");
    jdbc.execute("DELETE FROM pubsub_outbox_due");
    jdbc.execute("DELETE FROM pubsub_outbox");
    run();
    assertThat(count("pubsub_outbox")).isZero();
  }

  @Test
  void rowThatBecomesVisibleLateWithinTheLookbackIsDelivered() {
    row("first", "1", "2026-03-01T10:00:00.000001Z");
    startProduce("twinbox.produce.lookback=1h");
    run();
    row("same microsecond", "2", "2026-03-01T10:00:00.000001Z");
    row("earlier", "3", "2026-03-01T09:30:00Z");
    row("next microsecond", "4", "2026-03-01T10:00:00.000002Z");
    run();

    assertThat(queued()).containsExactlyInAnyOrder("1", "2", "3", "4");
    assertThat(watermark()).isEqualTo("2026-03-01T10:00:00.000002Z");
  }

  @Test
  void watermarkMovesOnlyAfterTheLastRowIsCommitted() {
    for (int i = 0; i < 30; i++) {
      row("key-%02d".formatted(i), "payload " + i, "2026-03-01T10:00:%02dZ".formatted(i));
    }
    startProduce("twinbox.produce.chunk-rows=5", "twinbox.produce.page-rows=5");
    // The first page is answered, a later one is not.
    bigQuery.faults().pageRows(5);
    jdbc.execute(
        """
        CREATE FUNCTION stop_here() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
          IF (SELECT count(*) FROM pubsub_outbox) > 12 THEN
            RAISE EXCEPTION 'the run dies here';
          END IF;
          RETURN NULL;
        END $$
        """);
    jdbc.execute(
        "CREATE TRIGGER stop_here AFTER INSERT ON pubsub_outbox FOR EACH STATEMENT EXECUTE FUNCTION stop_here()");
    assertThatThrownBy(this::run).rootCause().hasMessageContaining("the run dies here");
    assertThat(count("pubsub_outbox")).isEqualTo(10);
    assertThat(count("produce_watermark")).isZero();

    jdbc.execute("DROP TRIGGER stop_here ON pubsub_outbox");
    run();
    assertThat(count("pubsub_outbox")).isEqualTo(30);
    assertThat(watermark()).isEqualTo("2026-03-01T10:00:29Z");
  }

  @Test
  void rowThatTheOutboxRefusesDoesNotStopTheOthers() {
    row("good 1", "1", "2026-03-01T10:00:00Z");
    appendRow("null, \"payload\": \"no key\"", "2026-03-01T10:00:01Z");
    row(" ", "blank key", "2026-03-01T10:00:02Z");
    row("nul\\u0000key", "NUL in the key", "2026-03-01T10:00:03Z");
    rowWithAttributes(
        "long value", "2", "{\\\"a\\\": \\\"" + "x".repeat(1025) + "\\\"}", "2026-03-01T10:00:04Z");
    rowWithAttributes("no object", "3", "[1]", "2026-03-01T10:00:05Z");
    rowWithAttributes(
        "nul attribute", "4", "{\\\"a\\\": \\\"\\\\u0000\\\"}", "2026-03-01T10:00:06Z");
    rowWithAttributes("bad json", "5", "{", "2026-03-01T10:00:07Z");
    row("good 2", "nul \\u0000 in the payload", "2026-03-01T10:00:08Z");
    startProduce();
    run();
    run();

    assertThat(queued()).containsExactlyInAnyOrder("1", "nul \0 in the payload");
    assertThat(jdbc.queryForList("SELECT reason FROM produce_reject", String.class))
        .hasSize(7)
        .anyMatch(r -> r.contains("event_key is NULL"))
        .anyMatch(r -> r.contains("event_key is blank"))
        .anyMatch(r -> r.contains("event_key contains a NUL"))
        .anyMatch(r -> r.contains("1,024") || r.contains("1025"))
        .anyMatch(r -> r.contains("object of strings"))
        .anyMatch(r -> r.contains("attribute 'a' contains a NUL"))
        .anyMatch(r -> r.contains("no JSON"));
    assertThat(watermark()).isEqualTo("2026-03-01T10:00:08Z");
  }

  /**
   * With the expression of docs/traces.md; the column attributes of the test's table is the trace.
   */
  @Test
  void traceOfARowIsCarriedAndARowWithoutOneHasNone() throws IOException {
    String expression =
        "IF(row.traceparent IS NULL, NULL, TO_JSON_STRING(STRUCT(row.traceparent AS traceparent))) AS attributes";
    assertThat(Files.readString(Path.of("docs/traces.md"))).contains(expression);
    topicFile(
        "query.sql",
        """
        -- Reads the events of the test with their traces.
        SELECT event_key, payload, updated_at AS watermark, %s
        FROM (SELECT event_key, payload, updated_at, attributes AS traceparent FROM shop.%s) AS row
        WHERE updated_at >= @watermark
        """
            .formatted(expression, table));
    String traceparent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    rowWithAttributes("traced", "1", traceparent, "2026-03-01T10:00:00Z");
    row("plain", "2", "2026-03-01T10:00:01Z");
    startProduce();
    run();

    assertThat(
            jdbc.queryForList(
                "SELECT convert_from(payload, 'UTF8') || ' ' || attributes FROM pubsub_outbox ORDER BY 1",
                String.class))
        .containsExactly("1 {\"traceparent\": \"" + traceparent + "\"}", "2 {}");
  }

  /** The 10 MB of a message count its attributes, and a JSON text can escape what is no UTF-8. */
  @Test
  void rowOverTheSizeOfAMessageOrOfNoUtf8IsRejectedAndTheOthersArePublished() {
    createTopicAndSubscription();
    String attributes =
        IntStream.range(0, 98)
            .mapToObj(i -> "\\\"a%d\\\": \\\"%s\\\"".formatted(i, "x".repeat(1000)))
            .collect(Collectors.joining(", ", "{", "}"));
    row("good 1", "first", "2026-03-01T10:00:00Z");
    rowWithAttributes("too big", "99", attributes, "2026-03-01T10:00:01Z");
    rowWithAttributes("large", "1", attributes, "2026-03-01T10:00:02Z");
    rowWithAttributes("no utf-8", "x", "{\\\"kind\\\": \\\"\\\\udcff\\\"}", "2026-03-01T10:00:03Z");
    rowWithAttributes(
        "no utf-8 name", "x", "{\\\"k\\\\ud8ff\\\": \\\"v\\\"}", "2026-03-01T10:00:04Z");
    rowWithAttributes(
        "pair", "pair", "{\\\"kind\\\": \\\"\\\\ud83d\\\\ude00\\\"}", "2026-03-01T10:00:05Z");
    rowWithAttributes(
        "1024", "1024", "{\\\"a\\\": \\\"" + "x".repeat(1024) + "\\\"}", "2026-03-01T10:00:06Z");
    row("good 2", "last", "2026-03-01T10:00:07Z");
    bigQuery.faults().longText("99", "y".repeat(9_900_000));
    bigQuery.faults().longText("1", "y".repeat(900_000));
    startProduce();
    run();

    assertThat(
            jdbc.queryForList(
                "SELECT event_key || ': ' || reason FROM produce_reject ORDER BY event_key",
                String.class))
        .satisfiesExactly(
            r ->
                assertThat(r)
                    .isEqualTo(
                        "no utf-8: attribute 'kind' is no UTF-8: it holds half of a surrogate pair"),
            r ->
                assertThat(r)
                    .isEqualTo(
                        "no utf-8 name: attribute 'k\uFFFD' is no UTF-8: it holds half of a surrogate pair"),
            r ->
                assertThat(r)
                    .startsWith("too big: the message has 9999")
                    .contains("Pub/Sub allows 10,000,000"));
    start("dispatch");
    eventually().until(() -> published().size() == 5);
    assertThat(publishedTexts())
        .filteredOn(text -> text.length() < 10)
        .containsExactlyInAnyOrder("first", "pair", "1024", "last");
    assertThat(published())
        .anyMatch(m -> m.getAttributesOrDefault("kind", "").equals("\uD83D\uDE00"))
        .anyMatch(m -> m.getAttributesOrDefault("a97", "").length() == 1000);
  }

  @Test
  void queryOverThePriceDoesNotRun() {
    row("key", "payload", "2026-03-01T10:00:00Z");
    startProduce("twinbox.produce.max-bytes-billed=1");
    long queries = bigQuery.faults().calls(Faults.Call.QUERY_RESULTS);
    assertThatThrownBy(this::run).rootCause().hasMessageContaining("max-bytes-billed allows 1");
    assertThat(bigQuery.faults().calls(Faults.Call.QUERY_RESULTS)).isEqualTo(queries);
    assertThat(count("pubsub_outbox")).isZero();
  }

  @Test
  void rowDatedAheadDoesNotSilenceTheStream() {
    row("ahead", "1", "2099-01-01T00:00:00Z");
    startProduce();
    run();
    assertThat(Instant.parse(watermark())).isBefore(Instant.now().plus(1, ChronoUnit.MINUTES));
    row("now", "2", Instant.now().truncatedTo(ChronoUnit.MICROS).toString());
    run();
    assertThat(queued()).containsExactlyInAnyOrder("1", "2");
  }

  @Test
  void emptySourceIsNoFailureAndMovesNothing() {
    startProduce();
    run();
    assertThat(count("produce_watermark")).isZero();
    row("null watermark", "1", null);
    row("key", "2", "2026-03-01T10:00:00Z");
    run();
    assertThat(watermark()).isEqualTo("2026-03-01T10:00:00Z");
  }

  @Test
  void changedPayloadIsListedAndNotSentAgain() {
    row("key", "old", "2026-03-01T10:00:00Z");
    startProduce();
    run();
    row("key", "new", "2026-03-01T10:00:01Z");
    run();
    assertThat(queued()).containsExactly("old");
    assertThat(jdbc.queryForList("SELECT event_key FROM produce_changed", String.class))
        .containsExactly("key");
  }

  /** Set back, to where it was, and to a position that the run has behind it. */
  @ParameterizedTest
  @ValueSource(strings = {"2026-01-01T00:00:00Z", "2026-03-01T10:00:00Z", "2026-03-01T10:30:00Z"})
  void operatorsSetIsNotOverwrittenByARunInFlight(String set) {
    row("key", "1", "2026-03-01T10:00:00Z");
    startProduce();
    run();
    row("later", "2", "2026-03-01T11:00:00Z");
    // While the run's rows are queued, the operator sets the watermark.
    jdbc.execute(
        """
        CREATE FUNCTION operator_sets() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
          PERFORM produce_watermark_set('%s', 'orders-source', 'TIMESTAMP', '%s', 'ann', 'late rows');
          RETURN NULL;
        END $$
        """
            .formatted(TOPIC, set));
    jdbc.execute(
        "CREATE TRIGGER operator_sets AFTER INSERT ON pubsub_outbox FOR EACH STATEMENT EXECUTE FUNCTION operator_sets()");
    run();
    assertThat(watermark()).isEqualTo(set);
    assertThat(queued()).containsExactlyInAnyOrder("1", "2");
  }

  @Test
  void queryThatLacksOrMistypesAColumnIsRefusedBeforeAnythingIsWritten() throws IOException {
    row("key", "1", "2026-03-01T10:00:00Z");
    topicFile(
        "query.sql",
        """
        -- Lacks payload, and the key is a number.
        SELECT 1 AS event_key, updated_at AS watermark
        FROM shop.%s
        """
            .formatted(table));
    startProduce();
    assertThatThrownBy(this::run)
        .rootCause()
        .hasMessageContaining("query.sql")
        .hasMessageContaining("column event_key is INT64 and must be STRING")
        .hasMessageContaining("column payload is missing");
    assertThat(count("pubsub_outbox")).isZero();
  }

  /** Every statement of a run in turn fails once, and produce is run again. */
  @Test
  void runThatFailsAtAnyPointIsRunAgainAndDoublesNothing() {
    rows(10);
    startProduce("twinbox.produce.chunk-rows=3", "twinbox.produce.page-rows=4");
    jdbc.execute(
        """
        CREATE FUNCTION fails_here() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
          RAISE EXCEPTION 'it fails here';
        END $$
        """);
    for (String point :
        List.of(
            "INSERT ON produce_run",
            "INSERT ON pubsub_outbox FOR EACH ROW WHEN (convert_from(NEW.payload, 'UTF8') = 'payload 0')",
            "INSERT ON pubsub_outbox FOR EACH ROW WHEN (convert_from(NEW.payload, 'UTF8') = 'payload 9')",
            "INSERT ON pubsub_outbox_due FOR EACH ROW WHEN (NEW.seq % 10 = 7)",
            "INSERT ON produce_watermark",
            "UPDATE ON produce_run FOR EACH ROW WHEN (NEW.state = 'running')",
            "UPDATE ON produce_run FOR EACH ROW WHEN (NEW.state <> 'running')")) {
      jdbc.execute("TRUNCATE pubsub_outbox, pubsub_outbox_due, produce_run, produce_watermark");
      jdbc.execute(
          "CREATE TRIGGER fails_here AFTER %s EXECUTE FUNCTION fails_here()".formatted(point));
      assertThatThrownBy(this::run).as(point).rootCause().hasMessageContaining("it fails here");
      // The watermark moves behind the last row; only to write down the run's end comes after it.
      assertThat(count("produce_watermark"))
          .as(point)
          .isEqualTo(point.contains("<> 'running'") ? 1 : 0);
      jdbc.execute("DROP TRIGGER fails_here ON " + point.split(" ")[2]);
      run();
      assertThat(queued()).as(point).hasSize(10).doesNotHaveDuplicates();
      assertThat(count("pubsub_outbox_due")).as(point).isEqualTo(10);
      assertThat(watermark()).as(point).isEqualTo("2026-03-01T10:00:09Z");
    }
  }

  @Test
  void chunkThatFailsEndsTheReadingOfTheResult() {
    rows(30);
    startProduce("twinbox.produce.chunk-rows=2", "twinbox.produce.page-rows=2");
    jdbc.execute("ALTER TABLE pubsub_outbox ADD CONSTRAINT full_disk CHECK (false)");
    long before = bigQuery.faults().calls(Faults.Call.TABLE_DATA);
    assertThatThrownBy(this::run).rootCause().hasMessageContaining("full_disk");
    // The first chunk's page, the one that told of a second chunk, and the one read ahead; not all
    // fifteen.
    assertThat(bigQuery.faults().calls(Faults.Call.TABLE_DATA)).isLessThanOrEqualTo(before + 3);
  }

  @Test
  void twoProducersAtOnceLoseAndDoubleNothing() throws Exception {
    rows(20);
    startProduce("twinbox.produce.chunk-rows=4");
    ProducerTemplate other = produce;
    startProduce("twinbox.produce.chunk-rows=7");
    CompletableFuture<Void> first;
    CompletableFuture<Void> second;
    try (Connection holder = jdbc.getDataSource().getConnection()) {
      // Both have read the same watermark and the same rows before either queues one.
      holder.createStatement().execute("BEGIN; LOCK TABLE pubsub_outbox IN EXCLUSIVE MODE");
      first = CompletableFuture.runAsync(() -> other.sendBody("direct:produce", null));
      second = CompletableFuture.runAsync(this::run);
      awaitBlockedSessions(2);
    }
    first.get(60, TimeUnit.SECONDS);
    second.get(60, TimeUnit.SECONDS);
    assertThat(queued()).hasSize(20).doesNotHaveDuplicates();
    assertThat(watermark()).isEqualTo("2026-03-01T10:00:19Z");
    assertThat(jdbc.queryForObject("SELECT sum(rows_queued) FROM produce_run", Long.class))
        .isEqualTo(20);
    assertThat(count("produce_run WHERE state = 'succeeded' AND rows_read = 20")).isEqualTo(2);
  }

  /** Rows 1 and 2 share a position, 3 is the next one; 4 comes late, 5 with the last position. */
  @ParameterizedTest
  @CsvSource({
    "TIMESTAMP, 1s, TIMESTAMP '2026-01-01 00:00:00.000001+00', TIMESTAMP '2026-01-01 00:00:00.000002+00', 2026-01-01T00:00:00.000002Z, 2025-01-01T00:00:00Z",
    "DATETIME, 1s, DATETIME '2026-01-01 00:00:00', DATETIME '2026-01-01 00:00:00.000001', 2026-01-01T00:00:00.000001, 2025-01-01T00:00:00",
    "DATE, 1h, DATE '2024-02-28', DATE '2024-02-29', 2024-02-29, 2024-01-01",
    "INT64, 1, 9223372036854775806, 9223372036854775807, 9223372036854775807, -9223372036854775808",
    "STRING, '', '\"a-2\"', '\"a1\"', a1, ''"
  })
  void watermarkOfEveryTypeKeepsTiesAndRowsThatComeLate(
      String type, String lookback, String one, String next, String expected, String first)
      throws IOException {
    bigQuery.createTable("shop", table + "_typed", "[{\"name\": \"n\", \"type\": \"INT64\"}]");
    topicFile(
        "query.sql",
        """
        -- Numbered rows, the last of them without a position.
        SELECT CAST(n AS STRING) AS event_key, CAST(n AS STRING) AS payload, position AS watermark
        FROM (
          SELECT n, CASE WHEN n IN (1, 2, 4) THEN %s WHEN n IN (3, 5) THEN %s END AS position
          FROM shop.%s_typed)
        WHERE position >= @watermark OR position IS NULL
        """
            .formatted(one, next, table));
    List<String> settings =
        new ArrayList<>(
            List.of(
                "twinbox.produce.watermark-type=" + type,
                "twinbox.produce.lookback=" + lookback,
                "twinbox.produce.first-watermark="
                    + (first == null || first.isEmpty() ? "a" : first)));
    startProduce(settings.toArray(String[]::new));
    run();
    assertThat(count("produce_watermark")).isZero();
    number(1, 2, 3, 6);
    run();
    assertThat(queued()).containsExactlyInAnyOrder("1", "2", "3", "6");
    assertThat(watermark()).isEqualTo(expected);
    number(4, 5);
    run();
    // Without a lookback, as for STRING, what comes late is not read.
    assertThat(queued())
        .containsExactlyInAnyOrder(
            type.equals("STRING")
                ? new String[] {"1", "2", "3", "6", "5"}
                : new String[] {"1", "2", "3", "6", "4", "5"});
    assertThat(watermark()).isEqualTo(expected);
    run();
    assertThat(
            jdbc.queryForList(
                "SELECT rows_queued FROM produce_run ORDER BY started_at", Long.class))
        .containsExactly(0L, 4L, type.equals("STRING") ? 1L : 2L, 0L);
  }

  private void number(int... numbers) {
    bigQuery.append(
        "shop",
        table + "_typed",
        Arrays.stream(numbers).mapToObj(n -> "{\"n\": %d}".formatted(n)).toList());
  }

  @Test
  void columnsOfTheSourceMayHaveSpacesKeywordsAndAnyLetters() throws IOException {
    bigQuery.createTable(
        "shop",
        table + "_names",
        """
        [{"name": "select", "type": "STRING"}, {"name": "Updated Timestamp", "type": "TIMESTAMP"},
         {"name": "größe_中", "type": "INT64"}]
        """);
    bigQuery.append(
        "shop",
        table + "_names",
        List.of(
            "{\"select\": \"k\", \"Updated Timestamp\": \"2026-03-01T10:00:00Z\", \"größe_中\": 9223372036854775807}"));
    topicFile(
        "query.sql",
        """
        -- Names that need quotes.
        SELECT `select` AS event_key, TO_JSON_STRING(t) AS payload, `Updated Timestamp` AS watermark
        FROM shop.%s_names AS t
        WHERE `Updated Timestamp` >= @watermark
        """
            .formatted(table));
    startProduce();
    run();
    assertThat(queued())
        .containsExactly(
            "{\"select\":\"k\",\"Updated Timestamp\":\"2026-03-01T10:00:00Z\",\"größe_中\":\"9223372036854775807\"}");
    assertThat(watermark()).isEqualTo("2026-03-01T10:00:00Z");
  }
}
