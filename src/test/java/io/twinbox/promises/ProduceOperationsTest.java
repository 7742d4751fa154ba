package io.twinbox.promises;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.google.cloud.NoCredentials;
import com.google.cloud.bigquery.BigQuery;
import com.google.cloud.bigquery.BigQueryOptions;
import com.google.cloud.bigquery.Job;
import com.google.cloud.bigquery.JobId;
import com.google.cloud.bigquery.QueryJobConfiguration;
import com.google.cloud.bigquery.QueryParameterValue;
import com.google.cloud.bigquery.StandardSQLTypeName;
import io.twinbox.local.bigquery.Faults.Call;
import java.io.IOException;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.springframework.boot.ExitCodeGenerator;
import org.springframework.boot.test.system.CapturedOutput;
import org.springframework.boot.test.system.OutputCaptureExtension;

/** What an operator of produce sees and can do: price, check, watermark. */
@ExtendWith(OutputCaptureExtension.class)
class ProduceOperationsTest extends ProduceTest {

  private static final long BILLED = 10L * 1024 * 1024;

  @Test
  void daysLimitRefusesTheRunBeforeItsQueryCostsAnything() {
    row("a", "1", "2026-03-01T10:00:00Z");
    startProduce("twinbox.produce.max-bytes-billed-per-day=" + (2 * BILLED + 1));
    run();
    run();
    long queries = bigQuery.faults().calls(Call.QUERY_RESULTS);
    row("b", "2", "2026-03-01T10:00:01Z");
    assertThatThrownBy(this::run)
        .rootCause()
        .hasMessageContaining("were billed 20,971,520 already")
        .hasMessageContaining("max-bytes-billed-per-day allows 20,971,521");
    assertThat(bigQuery.faults().calls(Call.QUERY_RESULTS)).isEqualTo(queries);
    assertThat(queued()).containsExactly("1");
    assertThat(count("produce_run")).isEqualTo(2);
  }

  @Test
  void bigQueryItselfHoldsARunToWhatIsLeftOfTheDay() {
    row("a", "1", "2026-03-01T10:00:00Z");
    // The dry run says some bytes, the bill is ten mebibytes.
    startProduce("twinbox.produce.max-bytes-billed-per-day=" + (BILLED - 1));
    assertThatThrownBy(this::run)
        .rootCause()
        .hasMessageContaining("query.sql")
        .hasMessageContaining("Query exceeded limit for bytes billed: " + (BILLED - 1));
    assertThat(lastRun()).containsEntry("state", "failed").containsEntry("bytes_billed", 0L);
    assertThat((String) lastRun().get("error")).contains("exceeded limit");
  }

  @Test
  void runIsWrittenDownWithItsPriceAndSaysItInOneLineOfJson(CapturedOutput output)
      throws IOException {
    rows(3);
    startProduce(
        "logging.level.io.twinbox.produce=INFO",
        "twinbox.produce.location=EU",
        "twinbox.produce.priority=BATCH");
    run();
    assertThat(lastRun())
        .containsEntry("state", "succeeded")
        .containsEntry("rows_read", 3L)
        .containsEntry("rows_queued", 3L)
        .containsEntry("bytes_billed", BILLED)
        .containsEntry("watermark_before", null)
        .containsEntry("watermark_after", "2026-03-01T10:00:02Z");
    String line =
        output
            .getAll()
            .lines()
            .filter(l -> l.contains("\"slot_ms\""))
            .reduce((a, b) -> b)
            .orElseThrow();
    JsonNode summary = new ObjectMapper().readTree(line.substring(line.indexOf('{')));
    assertThat(summary.get("queued").asLong()).isEqualTo(3);
    assertThat(summary.get("bytes_billed").asLong()).isEqualTo(BILLED);
    assertThat(summary.get("slot_ms").asLong()).isPositive();
    assertThat(summary.get("run").asText()).isEqualTo(lastRun().get("run_id"));
  }

  @Test
  void checkPricesTheQueryAndWritesNothing(CapturedOutput output) throws IOException {
    rows(3);
    String database = databaseUrl.replaceAll("^.*/([^/?]+).*$", "$1");
    jdbc.execute("ALTER DATABASE %s SET default_transaction_read_only = on".formatted(database));
    long queries = bigQuery.faults().calls(Call.QUERY_RESULTS);

    assertThat(check()).isZero();
    assertThat(output).contains("\"check\":\"passed\"").contains("\"bytes_estimated\":");
    topicFile("query.sql", "-- Key of a wrong type.\nSELECT 1 AS event_key FROM shop." + table);
    assertThat(check()).isEqualTo(1);
    assertThat(output)
        .contains("column event_key is INT64 and must be STRING; column payload is missing");
    topicFile("query.sql", "-- Misspelt.\nSELEC 1");
    assertThat(check()).isEqualTo(1);
    assertThat(output).contains("query.sql:2:1: Syntax error");

    assertThat(bigQuery.faults().calls(Call.QUERY_RESULTS)).isEqualTo(queries);
    assertThat(count("pubsub_outbox")).isZero();
    assertThat(count("produce_run")).isZero();
  }

  private int check() {
    return start(
            "produce",
            "bigquery.emulator.host=" + bigQuery.url(),
            "twinbox.produce.first-watermark=2020-01-01T00:00:00Z",
            // A scheduled topic is checked too.
            "twinbox.produce.schedule=0 0 0 29 2 *",
            "twinbox.produce.check=true",
            "logging.level.io.twinbox.produce=INFO")
        .getBean(ExitCodeGenerator.class)
        .getExitCode();
  }

  @Test
  void wrongColumnIsFoundBeforeTheQueryIsRun() throws IOException {
    rows(1);
    topicFile("query.sql", "-- No payload.\nSELECT event_key FROM shop." + table);
    startProduce();
    long jobs = bigQuery.faults().calls(Call.INSERT_JOB);
    assertThatThrownBy(this::run).rootCause().hasMessageContaining("column payload is missing");
    assertThat(bigQuery.faults().calls(Call.INSERT_JOB)).isEqualTo(jobs + 1);
    assertThat(count("produce_run")).isZero();
  }

  @Test
  void statementThatIsNoQueryIsRefusedAndNotRun() throws IOException {
    startProduce();
    for (String statement :
        List.of(
            "INSERT INTO shop.t (a) VALUES (1) -> INSERT",
            "/* a */ update shop.t SET a = 1 WHERE true -> UPDATE",
            "DELETE FROM shop.t WHERE true -> DELETE",
            "MERGE shop.t USING shop.u ON false WHEN NOT MATCHED THEN INSERT ROW -> MERGE",
            "CREATE TABLE shop.t (a INT64) -> CREATE_TABLE",
            "DROP TABLE shop.t -> DROP_TABLE",
            "DECLARE n INT64 DEFAULT 1; SELECT n -> SCRIPT",
            "EXPORT DATA OPTIONS (uri = 'gs://b/*') AS SELECT 1 -> EXPORT_DATA")) {
      String[] parts = statement.split(" -> ");
      topicFile("query.sql", "-- No query.\n" + parts[0]);
      long calls = bigQuery.faults().calls(Call.INSERT_JOB);
      assertThatThrownBy(this::run)
          .rootCause()
          .hasMessageContaining("query.sql is a statement of type " + parts[1])
          .hasMessageContaining("It was not run");
      // Its dry run, and nothing else.
      assertThat(bigQuery.faults().calls(Call.INSERT_JOB)).isEqualTo(calls + 1);
    }
    assertThat(count("produce_run")).isZero();
  }

  @Test
  void jobSaysForWhomItRunsAndIsHeldToItsLimits() {
    rows(3);
    startProduce(
        "twinbox.produce.location=EU",
        "twinbox.produce.priority=BATCH",
        "twinbox.produce.job-timeout=7m",
        "twinbox.produce.max-bytes-billed=" + 5 * BILLED);
    run();
    String id = (String) lastRun().get("run_id");
    BigQuery client =
        BigQueryOptions.newBuilder()
            .setHost(bigQuery.url())
            .setProjectId(PROJECT)
            .setCredentials(NoCredentials.getInstance())
            .build()
            .getService();
    Job job =
        client.getJob(JobId.newBuilder().setJob("twinbox-" + id + "-1").setLocation("EU").build());
    QueryJobConfiguration query = job.getConfiguration();
    assertThat(query.getLabels())
        .containsEntry("twinbox-topic", TOPIC)
        .containsEntry("twinbox-run", id);
    assertThat(query.getPriority()).isEqualTo(QueryJobConfiguration.Priority.BATCH);
    assertThat(query.getJobTimeoutMs()).isEqualTo(7 * 60 * 1000L);
    assertThat(query.getMaximumBytesBilled()).isEqualTo(5 * BILLED);
    assertThat(query.useLegacySql()).isFalse();
    assertThat(job.getJobId().getLocation()).isEqualTo("EU");
    QueryParameterValue watermark = query.getNamedParameters().get("watermark");
    assertThat(watermark.getType()).isEqualTo(StandardSQLTypeName.TIMESTAMP);
    assertThat(watermark.getValue()).startsWith("2020-01-01 00:00:00");
  }

  @Test
  void jobThatTakesTooLongIsEndedByBigQueryAndTheRunFails() {
    rows(1);
    startProduce("twinbox.produce.job-timeout=50ms");
    bigQuery.faults().queryDuration(Duration.ofMinutes(1));
    assertThatThrownBy(this::run).rootCause().hasMessageContaining("timed out");
    assertThat(lastRun()).containsEntry("state", "failed");
    assertThat(count("pubsub_outbox")).isZero();
  }

  @Test
  void watermarkThatAnOperatorSetIsWhereTheNextRunBegins() {
    rows(3);
    startProduce("twinbox.produce.lookback=1s");
    run();
    jdbc.execute("DELETE FROM pubsub_outbox_due");
    jdbc.execute("DELETE FROM pubsub_outbox");
    jdbc.queryForList(
        "SELECT * FROM produce_watermark_set(?, 'orders-source', 'TIMESTAMP', '2026-03-01T10:00:00Z', 'ann', 'late rows')",
        TOPIC);
    run();
    assertThat(lastRun())
        .containsEntry("rows_read", 3L)
        .containsEntry("watermark_before", "2026-03-01T10:00:00Z");
    assertThat(watermark()).isEqualTo("2026-03-01T10:00:02Z");
  }
}
