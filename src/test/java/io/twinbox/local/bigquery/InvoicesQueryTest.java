package io.twinbox.local.bigquery;

import static org.assertj.core.api.Assertions.assertThat;

import com.fasterxml.jackson.databind.JsonNode;
import com.google.cloud.NoCredentials;
import com.google.cloud.bigquery.BigQuery;
import com.google.cloud.bigquery.BigQueryOptions;
import com.google.cloud.bigquery.FieldValueList;
import com.google.cloud.bigquery.QueryJobConfiguration;
import com.google.cloud.bigquery.QueryParameterValue;
import com.google.cloud.bigquery.StandardSQLTypeName;
import com.google.cloud.bigquery.TableResult;
import io.twinbox.local.InvoicesSample;
import java.math.BigDecimal;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HashSet;
import java.util.Set;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/** The sample topic's own query over the sample table, through Google's client. */
class InvoicesQueryTest {
  private static final Path TOPIC = Path.of("topics", "invoices");
  private static LocalBigQuery local;
  private static BigQuery client;

  @BeforeAll
  static void start() {
    local = LocalBigQuery.start("twinbox-local");
    local.addInvoices(InvoicesSample.DEFAULT_ROWS);
    client =
        BigQueryOptions.newBuilder()
            .setHost(local.url())
            .setProjectId("twinbox-local")
            .setCredentials(NoCredentials.getInstance())
            .build()
            .getService();
  }

  @AfterAll
  static void stop() {
    local.close();
  }

  private static TableResult since(String watermark) throws Exception {
    return between(watermark, "9999-12-31 23:59:59.999999+00:00");
  }

  private static TableResult between(String watermark, String last) throws Exception {
    return client.query(
        QueryJobConfiguration.newBuilder(Files.readString(TOPIC.resolve("query.sql")))
            .addNamedParameter(
                "watermark", QueryParameterValue.of(watermark, StandardSQLTypeName.TIMESTAMP))
            .addNamedParameter("last", QueryParameterValue.of(last, StandardSQLTypeName.TIMESTAMP))
            .build());
  }

  @Test
  void everyRowOfTheSampleComesOutWithItsOwnKeyAndItsExactTotal() throws Exception {
    Set<String> keys = new HashSet<>();
    BigDecimal sum = BigDecimal.ZERO;
    long rows = 0;
    for (FieldValueList row : since("1970-01-01 00:00:00.000000+00:00").iterateAll()) {
      rows++;
      keys.add(row.get("event_key").getStringValue());
      JsonNode payload = Json.parse(row.get("payload").getStringValue());
      BigDecimal total = new BigDecimal(payload.get("total").asText());
      BigDecimal parts = new BigDecimal(payload.get("tax").asText());
      for (JsonNode item : payload.get("line_items")) {
        parts = parts.add(new BigDecimal(item.get("amount").asText()));
      }
      assertThat(total).isEqualByComparingTo(parts);
      assertThat(Json.parse(row.get("attributes").getStringValue()).get("event_type"))
          .isEqualTo(payload.get("event_type"));
      sum = sum.add(total);
    }
    assertThat(rows).isEqualTo(InvoicesSample.DEFAULT_ROWS);
    assertThat(keys).hasSize(InvoicesSample.DEFAULT_ROWS);
    assertThat(sum).isEqualByComparingTo(InvoicesSample.sumOfTotals(InvoicesSample.DEFAULT_ROWS));
  }

  @Test
  void theLastPositionOfAWindowIsInclusiveToTheMicrosecond() throws Exception {
    long micros =
        Clients.row(client, "SELECT MAX(updated_at) AS latest FROM billing.invoices")
            .get("latest")
            .getTimestampValue();
    String latest = QueryParameterValue.timestamp(micros).getValue();
    assertThat(between(latest, QueryParameterValue.timestamp(micros - 1).getValue()).getTotalRows())
        .isZero();
    assertThat(between(latest, latest).getTotalRows()).isEqualTo(since(latest).getTotalRows());
  }

  @Test
  void theWatermarkIsInclusiveToTheMicrosecond() throws Exception {
    FieldValueList latest =
        Clients.row(
            client, "SELECT MAX(updated_at) AS latest, COUNT(*) AS n FROM billing.invoices");
    long micros = latest.get("latest").getTimestampValue();
    assertThat(since(QueryParameterValue.timestamp(micros).getValue()).getTotalRows()).isPositive();
    assertThat(since(QueryParameterValue.timestamp(micros + 1).getValue()).getTotalRows()).isZero();
  }
}
