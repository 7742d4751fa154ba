package io.twinbox.promises;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.twinbox.bigquery.ProduceFigures;
import io.twinbox.local.bigquery.Faults.Call;
import java.io.IOException;
import java.sql.Connection;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.camel.ProducerTemplate;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.springframework.boot.ExitCodeGenerator;
import org.springframework.boot.test.system.CapturedOutput;
import org.springframework.boot.test.system.OutputCaptureExtension;
import org.springframework.context.ConfigurableApplicationContext;

/** A window of the source read again in steps, beside the regular runs. */
@ExtendWith(OutputCaptureExtension.class)
class ProduceBackfillTest extends ProduceTest {

  private static final long BILLED = 10L * 1024 * 1024;
  private static final int ROWS = 20;

  @BeforeEach
  void windowedQuery() throws IOException {
    topicFile("query.sql", QUERY.formatted(table) + "AND updated_at <= @last");
    rows(ROWS);
  }

  private ConfigurableApplicationContext backfill(
      String from, String until, String step, String... settings) {
    List<String> all =
        new ArrayList<>(
            List.of(
                "bigquery.emulator.host=" + bigQuery.url(),
                "twinbox.produce.backfill.from=" + from,
                "twinbox.produce.backfill.until=" + until,
                "twinbox.produce.backfill.step=" + step,
                "logging.level.io.twinbox.produce=INFO"));
    all.addAll(List.of(settings));
    return start("produce", all.toArray(String[]::new));
  }

  /** Seconds 5 to 15 of the test's rows, in three steps of 4, 4 and 2 seconds. */
  private ConfigurableApplicationContext tenSeconds(String... settings) {
    return backfill("2026-03-01T10:00:05Z", "2026-03-01T10:00:15Z", "4s", settings);
  }

  private static int exitCode(ConfigurableApplicationContext context) {
    return context.getBean(ExitCodeGenerator.class).getExitCode();
  }

  private static List<String> payloads(int from, int until) {
    List<String> payloads = new ArrayList<>();
    for (int i = from; i < until; i++) {
      payloads.add("payload " + i);
    }
    return payloads;
  }

  private Map<String, Object> status() {
    return jdbc.queryForMap("SELECT * FROM produce_backfill_status");
  }

  @Test
  void windowIsReadStepByStepFromItsBeginningUpToAndWithoutItsEnd(CapturedOutput output)
      throws IOException {
    ConfigurableApplicationContext context = tenSeconds();

    assertThat(exitCode(context)).isZero();
    assertThat(queued()).containsExactlyElementsOf(payloads(5, 15));
    assertThat(
            jdbc.queryForList(
                "SELECT concat_ws(' ', number, from_value, until_value, rows_read) FROM produce_backfill_step ORDER BY number",
                String.class))
        .containsExactly(
            "1 2026-03-01T10:00:05Z 2026-03-01T10:00:09Z 4",
            "2 2026-03-01T10:00:09Z 2026-03-01T10:00:13Z 4",
            "3 2026-03-01T10:00:13Z 2026-03-01T10:00:15Z 2");
    assertThat(status())
        .containsEntry("steps", 3L)
        .containsEntry("steps_done", 3L)
        .containsEntry("rows_read", 10L)
        .containsEntry("rows_queued", 10L)
        .containsEntry("bytes_billed", 3 * BILLED);
    assertThat(output)
        .contains("1 of 3 steps done (33 %), 4 rows read, 4 queued, 0 rejected, 10,485,760 bytes")
        .contains("2 of 3 steps done (66 %), 8 rows read, 8 queued, 0 rejected, 20,971,520 bytes")
        .contains("3 of 3 steps done (100 %)");
    String line =
        output
            .getAll()
            .lines()
            .filter(l -> l.contains("\"backfill\""))
            .reduce((a, b) -> b)
            .orElseThrow();
    JsonNode summary = new ObjectMapper().readTree(line.substring(line.indexOf('{')));
    assertThat(summary.get("steps_done").asInt()).isEqualTo(3);
    assertThat(summary.get("queued").asInt()).isEqualTo(10);
    assertThat(summary.get("bytes_billed").asLong()).isEqualTo(3 * BILLED);
    ProduceFigures figures = context.getBean(ProduceFigures.class);
    assertThat(figures.rowsQueued()).isEqualTo(10);
    assertThat(figures.bytesBilled()).isEqualTo(3 * BILLED);
    assertThat(figures.slotMillis()).isPositive();
    assertThat(figures.succeededRuns()).isEqualTo(3);
    assertThat(figures.backfillSteps()).isEqualTo(3);
    assertThat(figures.backfillStepsDone()).isEqualTo(3);
    assertThat(figures.backfillBytesBilled()).isEqualTo(3 * BILLED);
  }

  @Test
  void regularWatermarkIsNotMovedNorIsTheNextRegularRunChanged() {
    startProduce("twinbox.produce.lookback=1s");
    run();
    String before =
        jdbc.queryForObject(
            "SELECT CAST(w AS text) FROM produce_watermark AS w WHERE value = '2026-03-01T10:00:19Z'",
            String.class);
    // Long after the watermark has passed: too late for the regular runs.
    row("late", "late", "2026-03-01T10:00:07Z");
    assertThat(exitCode(tenSeconds())).isZero();

    assertThat(queued()).hasSize(ROWS + 1).contains("late").doesNotHaveDuplicates();
    assertThat(
            jdbc.queryForObject("SELECT CAST(w AS text) FROM produce_watermark AS w", String.class))
        .isEqualTo(before);
    assertThat(jdbc.queryForMap("SELECT * FROM produce_watermark_status"))
        .containsEntry("last_run_state", "succeeded")
        .containsEntry(
            "last_run_started_at",
            jdbc.queryForMap("SELECT started_at FROM produce_run WHERE backfill IS NULL")
                .get("started_at"));
    run();
    assertThat(lastRun())
        .containsEntry("rows_read", 2L)
        .containsEntry("watermark_before", "2026-03-01T10:00:19Z");
  }

  /** Every statement of a backfill in turn fails once, and the backfill is started again. */
  @Test
  void backfillThatFailsAtAnyPointGoesOnWhereItWasAndDoublesNothing() {
    jdbc.execute(
        """
        CREATE FUNCTION fails_here() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
          RAISE EXCEPTION 'it fails here';
        END $$
        """);
    ConfigurableApplicationContext context =
        tenSeconds("twinbox.produce.chunk-rows=2", "logging.level.io.twinbox.produce=OFF");
    assertThat(exitCode(context)).isZero();
    ProducerTemplate template = context.getBean(ProducerTemplate.class);
    for (String point :
        List.of(
            "INSERT ON produce_backfill FOR EACH ROW",
            "INSERT ON produce_backfill_step FOR EACH ROW",
            "UPDATE ON produce_backfill_step FOR EACH ROW WHEN (NEW.number = 2 AND NEW.claim_token IS NOT NULL)",
            "INSERT ON produce_run FOR EACH ROW WHEN (NEW.backfill_step = 2)",
            "INSERT ON pubsub_outbox FOR EACH ROW WHEN (convert_from(NEW.payload, 'UTF8') = 'payload 11')",
            "UPDATE ON produce_run FOR EACH ROW WHEN (NEW.backfill_step = 2 AND NEW.state = 'running')",
            "UPDATE ON produce_run FOR EACH ROW WHEN (NEW.backfill_step = 2 AND NEW.state <> 'running')",
            "UPDATE ON produce_backfill_step FOR EACH ROW WHEN (NEW.number = 2 AND NEW.done_at IS NOT NULL)")) {
      jdbc.execute(
          "TRUNCATE pubsub_outbox, pubsub_outbox_due, produce_run, produce_backfill CASCADE");
      jdbc.execute(
          "CREATE TRIGGER fails_here AFTER %s EXECUTE FUNCTION fails_here()".formatted(point));
      assertThatThrownBy(() -> template.sendBody("direct:produce-backfill", null))
          .as(point)
          .rootCause()
          .hasMessageContaining("it fails here");
      assertThat(count("pubsub_outbox")).as(point).isLessThan(10);
      long done =
          jdbc.queryForObject(
              "SELECT count(*) FROM produce_backfill_step WHERE done_at IS NOT NULL", Long.class);
      long runs = count("produce_run");
      jdbc.execute("DROP TRIGGER fails_here ON " + point.replaceAll("^.* ON (\\w+) FOR.*$", "$1"));

      template.sendBody("direct:produce-backfill", null);
      assertThat(queued()).as(point).containsExactlyInAnyOrderElementsOf(payloads(5, 15));
      assertThat(status())
          .as(point)
          .containsEntry("steps_done", 3L)
          .containsEntry("rows_read", 10L);
      // What was done is not read, and not billed, again.
      assertThat(count("produce_run")).as(point).isEqualTo(runs + 3 - done);
      assertThat(count("produce_watermark")).isZero();
    }
  }

  /** Its rows are committed, and that it ended was never written down: as when it is killed. */
  @Test
  void progressCountsWhatAKilledProcessQueued(CapturedOutput output) {
    jdbc.execute(
        """
        CREATE FUNCTION dies_here() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
          RAISE EXCEPTION 'it dies here';
        END $$
        """);
    jdbc.execute(
        "CREATE TRIGGER dies_here BEFORE UPDATE ON produce_run FOR EACH ROW"
            + " WHEN (NEW.backfill_step = 2 AND NEW.state <> 'running') EXECUTE FUNCTION dies_here()");
    assertThat(exitCode(tenSeconds("twinbox.produce.chunk-rows=2"))).isEqualTo(1);
    assertThat(status())
        .containsEntry("steps_done", 1L)
        .containsEntry("rows_read", 8L)
        .containsEntry("rows_queued", 8L);
    assertThat(count("pubsub_outbox")).isEqualTo(8);

    jdbc.execute("DROP TRIGGER dies_here ON produce_run");
    assertThat(exitCode(tenSeconds("twinbox.produce.chunk-rows=2"))).isZero();
    assertThat(output)
        .contains("goes on: 1 of 3 steps done (33 %), 8 rows read, 8 queued")
        .contains("3 of 3 steps done (100 %), 10 rows read, 10 queued");
    assertThat(status())
        .containsEntry("steps_done", 3L)
        .containsEntry("rows_read", 10L)
        .containsEntry("rows_queued", 10L)
        // The step that died counts with its estimate.
        .containsEntry(
            "bytes_billed",
            3 * BILLED
                + jdbc.queryForObject(
                    "SELECT bytes_estimated FROM produce_run WHERE state = 'running'", Long.class));
  }

  @Test
  void twoProcessesShareTheStepsAndDoubleNothing() throws Exception {
    // The first one is held in its first step until the second one has done the others.
    jdbc.execute(
        """
        CREATE FUNCTION wait_here() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
          PERFORM pg_advisory_xact_lock(77);
          RETURN NULL;
        END $$
        """);
    jdbc.execute(
        "CREATE TRIGGER wait_here AFTER INSERT ON pubsub_outbox FOR EACH ROW"
            + " WHEN (convert_from(NEW.payload, 'UTF8') = 'payload 5') EXECUTE FUNCTION wait_here()");
    CompletableFuture<ConfigurableApplicationContext> first;
    CompletableFuture<ConfigurableApplicationContext> second;
    // Chunks take turns, so a topic of its own lets the second process work while the first is
    // held.
    topicFile(
        "query.sql",
        """
        -- One step's rows are another topic's.
        SELECT event_key, payload, updated_at AS watermark,
          IF(updated_at < '2026-03-01T10:00:09Z', 'other-topic', NULL) AS topic_name
        FROM shop.%s
        WHERE updated_at BETWEEN @watermark AND @last
        """
            .formatted(table));
    try (Connection holder = jdbc.getDataSource().getConnection()) {
      holder.createStatement().execute("SELECT pg_advisory_lock(77)");
      first = CompletableFuture.supplyAsync(this::tenSeconds);
      awaitBlockedSessions(1);
      second = CompletableFuture.supplyAsync(this::tenSeconds);
      eventually()
          .until(
              () ->
                  jdbc.queryForObject(
                          "SELECT count(*) FROM produce_backfill_step WHERE done_at IS NOT NULL",
                          Long.class)
                      == 2);
      assertThat(second).isNotDone();
    }
    assertThat(exitCode(first.get(60, TimeUnit.SECONDS))).isZero();
    assertThat(exitCode(second.get(60, TimeUnit.SECONDS))).isZero();

    assertThat(queued()).containsExactlyInAnyOrderElementsOf(payloads(5, 15));
    // Each step was read, and billed, once.
    assertThat(count("produce_run")).isEqualTo(3);
    assertThat(status()).containsEntry("bytes_billed", 3 * BILLED);
  }

  @Test
  void stepOfAProcessThatDiedIsTakenWhenItsLeaseEnds() {
    assertThat(exitCode(tenSeconds())).isZero();
    jdbc.execute("DELETE FROM pubsub_outbox_due");
    jdbc.execute("DELETE FROM pubsub_outbox");
    jdbc.execute(
        """
        UPDATE produce_backfill_step
        SET done_at = NULL, claim_token = 'of the dead', claimed_until = clock_timestamp() + interval '2 s'
        WHERE number = 2
        """);
    assertThat(exitCode(tenSeconds())).isZero();
    assertThat(queued()).containsExactlyElementsOf(payloads(9, 13));
    assertThat(
            jdbc.queryForObject(
                "SELECT attempts FROM produce_backfill_step WHERE number = 2", Integer.class))
        .isEqualTo(2);
  }

  @Test
  void claimOfALongStepIsRenewed() throws Exception {
    bigQuery.faults().queryDuration(java.time.Duration.ofMinutes(1));
    CompletableFuture<ConfigurableApplicationContext> running =
        CompletableFuture.supplyAsync(() -> tenSeconds("twinbox.produce.backfill.lease=3s"));
    String until = "SELECT claimed_until FROM produce_backfill_step WHERE number = 1";
    eventually()
        .until(
            () ->
                count("produce_backfill_step") == 3
                    && jdbc.queryForObject(until, java.sql.Timestamp.class) != null);
    java.sql.Timestamp claimed = jdbc.queryForObject(until, java.sql.Timestamp.class);
    eventually().until(() -> jdbc.queryForObject(until, java.sql.Timestamp.class).after(claimed));
    bigQuery.faults().clear();
    assertThat(exitCode(running.get(60, TimeUnit.SECONDS))).isZero();
    assertThat(count("produce_run")).isEqualTo(3);
  }

  @Test
  void finishedBackfillIsNotReadAgainUnlessUnderAnotherName(CapturedOutput output) {
    assertThat(exitCode(tenSeconds())).isZero();
    long queries = bigQuery.faults().calls(Call.INSERT_JOB);
    assertThat(exitCode(tenSeconds())).isZero();
    assertThat(output).contains("is done already");
    assertThat(bigQuery.faults().calls(Call.INSERT_JOB)).isEqualTo(queries);

    row("late", "late", "2026-03-01T10:00:07Z");
    assertThat(exitCode(tenSeconds("twinbox.produce.backfill.name=once more"))).isZero();
    assertThat(queued()).hasSize(11).contains("late");
    // The name is another window's.
    assertThat(
            exitCode(
                backfill(
                    "2026-03-01T10:00:00Z",
                    "2026-03-01T10:00:15Z",
                    "4s",
                    "twinbox.produce.backfill.name=once more")))
        .isEqualTo(1);
    assertThat(output).contains("There is a backfill named 'once more'").contains("another window");
  }

  @Test
  void limitsOfPriceHoldForEachStep(CapturedOutput output) {
    assertThat(exitCode(tenSeconds("twinbox.produce.max-bytes-billed-per-day=" + (2 * BILLED + 1))))
        .isEqualTo(1);
    assertThat(status()).containsEntry("steps_done", 2L).containsEntry("bytes_billed", 2 * BILLED);
    assertThat(output)
        .contains("were billed 20,971,520 already")
        .contains("Steps that are done stay done");
    assertThat(exitCode(tenSeconds("twinbox.produce.max-bytes-billed=1"))).isEqualTo(1);
    assertThat(output).contains("max-bytes-billed allows 1.");
    // The next day.
    assertThat(exitCode(tenSeconds())).isZero();
    assertThat(queued()).containsExactlyElementsOf(payloads(5, 15));
  }

  @Test
  void queryThatCannotBeHeldToTheWindowIsRefused(CapturedOutput output) throws IOException {
    topicFile("query.sql", QUERY.formatted(table) + "-- and not behind @last\n");
    long calls = bigQuery.faults().calls(Call.INSERT_JOB);
    assertThat(exitCode(tenSeconds())).isEqualTo(1);
    assertThat(output)
        .contains("query.sql does not use @last")
        .contains("WHERE t.updated_at BETWEEN @watermark AND @last");
    assertThat(bigQuery.faults().calls(Call.INSERT_JOB)).isEqualTo(calls);
    assertThat(count("produce_backfill")).isZero();
  }

  @Test
  void checkOfABackfillPricesItsFirstStepAndWritesNothing(CapturedOutput output) {
    assertThat(exitCode(tenSeconds("twinbox.produce.check=true"))).isZero();
    assertThat(output)
        .contains("\"check\":\"passed\"")
        .contains("\"watermark\":\"2026-03-01T10:00:05Z\"")
        .contains("\"until\":\"2026-03-01T10:00:09Z\"")
        .contains("\"steps\":3");
    assertThat(count("produce_backfill")).isZero();
    assertThat(count("produce_run")).isZero();
  }

  @Test
  void halfAWindowAndABackfillBesideOtherRouteSetsAreRefusedAtStart() {
    assertThatThrownBy(() -> backfill("2026-03-01T10:00:05Z", "", "1d"))
        .hasMessageContaining("TWINBOX_PRODUCE_BACKFILL_UNTIL is missing");
    assertThatThrownBy(
            () ->
                start(
                    "produce,dispatch",
                    "twinbox.produce.backfill.from=2026-03-01T10:00:05Z",
                    "twinbox.produce.schedule=0 0 0 29 2 *"))
        .hasMessageContaining("TWINBOX_ROUTES names dispatch too");
  }

  @ParameterizedTest
  @CsvSource({
    "INT64, 3, 8, 2, 3, 3|4|5|6|7",
    "DATE, 2026-01-04, 2026-01-07, 2d, 2, 4|5|6",
    "DATETIME, 2026-01-04T00:00:00, 2026-01-06T12:00:00, 36h, 2, 4|5|6",
    "STRING, k3, k6, '', 1, 3|4|5"
  })
  void windowIsTypedAsTheWatermarkIs(
      String type, String from, String until, String step, int steps, String expected)
      throws IOException {
    topicFile(
        "query.sql",
        """
        -- Numbered rows.
        SELECT CAST(n AS STRING) AS event_key, CAST(n AS STRING) AS payload, position AS watermark
        FROM (
          SELECT n, %s AS position
          FROM UNNEST(GENERATE_ARRAY(1, 9)) AS n)
        WHERE position BETWEEN @watermark AND @last
        """
            .formatted(
                switch (type) {
                  case "INT64" -> "n";
                  case "DATE" -> "DATE_ADD(DATE '2026-01-01', INTERVAL n - 1 DAY)";
                  case "DATETIME" ->
                      "DATETIME_ADD(DATETIME '2026-01-01 00:00:00', INTERVAL n - 1 DAY)";
                  default -> "CONCAT('k', CAST(n AS STRING))";
                }));
    assertThat(
            exitCode(
                backfill(
                    from,
                    until,
                    step,
                    "twinbox.produce.watermark-type=" + type,
                    "twinbox.produce.lookback=")))
        .isZero();
    assertThat(queued()).containsExactlyInAnyOrder(expected.split("\\|"));
    assertThat(status()).containsEntry("steps", (long) steps);
  }
}
