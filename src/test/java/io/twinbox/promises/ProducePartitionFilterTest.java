package io.twinbox.promises;

import static org.assertj.core.api.Assertions.assertThat;

import io.twinbox.local.InvoicesSample;
import io.twinbox.local.bigquery.Faults.Call;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.springframework.boot.ExitCodeGenerator;
import org.springframework.boot.test.system.CapturedOutput;
import org.springframework.boot.test.system.OutputCaptureExtension;

/** Tables that refuse every query that does not filter by their partition column. */
@ExtendWith(OutputCaptureExtension.class)
class ProducePartitionFilterTest extends ProduceTest {

  private static final String FILTERED =
      """
      -- Reads the events of the test.
      SELECT event_key, payload, attributes, updated_at AS watermark
      FROM shop.%s
      WHERE updated_at BETWEEN @watermark AND @last
      """;

  @BeforeEach
  void partitionedTable() throws IOException {
    table = "partitioned_" + TABLES.incrementAndGet();
    bigQuery.createTableThatRequiresAPartitionFilter("shop", table, SCHEMA, "updated_at");
    topicFile("query.sql", FILTERED.formatted(table));
    rows(20);
  }

  private int once(String... settings) {
    List<String> all =
        new ArrayList<>(
            List.of(
                "bigquery.emulator.host=" + bigQuery.url(),
                "twinbox.produce.first-watermark=2020-01-01T00:00:00Z",
                "logging.level.io.twinbox.produce=INFO"));
    all.addAll(List.of(settings));
    return start("produce", all.toArray(String[]::new))
        .getBean(ExitCodeGenerator.class)
        .getExitCode();
  }

  @Test
  void runsBackfillAndCheckReadATableThatRequiresAPartitionFilter(CapturedOutput output) {
    assertThat(once("twinbox.produce.check=true")).isZero();
    assertThat(output).contains("\"check\":\"passed\"");

    assertThat(once()).isZero();
    assertThat(queued()).hasSize(20);
    // A row at the very end of time is within the window of a regular run, too.
    row("never", "dated never", "9999-12-31T23:59:59.999999Z");
    row("late", "late", "2026-03-01T08:00:05Z");
    assertThat(once()).isZero();
    assertThat(queued()).hasSize(21).contains("dated never");

    assertThat(
            once(
                "twinbox.produce.backfill.from=2026-03-01T08:00:00Z",
                "twinbox.produce.backfill.until=2026-03-01T10:00:00Z",
                "twinbox.produce.backfill.step=1h"))
        .isZero();
    assertThat(queued()).hasSize(22).contains("late");
    // What the steps read, they read up to and without the window's end.
    assertThat(
            jdbc.queryForList(
                "SELECT rows_read FROM produce_backfill_step ORDER BY number", Long.class))
        .containsExactly(1L, 0L);
  }

  @Test
  void filterThatDoesNotPruneIsRefusedWithBigQuerysWordsBeforeAnythingIsWritten(
      CapturedOutput output) throws IOException {
    topicFile(
        "query.sql",
        """
        -- All rows, some of which are later left out.
        SELECT event_key, payload, updated_at AS watermark
        FROM shop.%s
        WHERE @watermark IS NULL OR updated_at >= @watermark
        """
            .formatted(table));
    long results = bigQuery.faults().calls(Call.QUERY_RESULTS);

    assertThat(once("twinbox.produce.check=true")).isEqualTo(1);
    assertThat(once()).isEqualTo(1);
    assertThat(output)
        .contains(
            "query.sql: Cannot query over table '%s.shop.%s' without a filter over column(s) 'updated_at' that can be used for partition elimination"
                .formatted(PROJECT, table));
    assertThat(bigQuery.faults().calls(Call.QUERY_RESULTS)).isEqualTo(results);
    assertThat(count("produce_run")).isZero();
    assertThat(count("pubsub_outbox")).isZero();
  }

  /** The query that is there to be copied. */
  @Test
  void queryOfTheSampleReadsATableThatRequiresAPartitionFilter() throws IOException {
    String schema = Files.readString(InvoicesSample.SCHEMA);
    bigQuery.createTableThatRequiresAPartitionFilter(
        "billing", "invoices_by_day", schema, "updated_at");
    bigQuery.append("billing", "invoices_by_day", InvoicesSample.rows(0, 50));
    topicFile(
        "query.sql",
        Files.readString(Path.of("topics/invoices/query.sql"))
            .replace("FROM billing.invoices AS", "FROM billing.invoices_by_day AS"));

    assertThat(once("twinbox.produce.check=true")).isZero();
    assertThat(once()).isZero();
    assertThat(count("pubsub_outbox")).isEqualTo(50);
  }
}
