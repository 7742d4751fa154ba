package io.twinbox.local.bigquery;

import static io.twinbox.local.bigquery.Clients.row;
import static io.twinbox.local.bigquery.Clients.rows;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.google.cloud.bigquery.BigQuery;
import com.google.cloud.bigquery.BigQuery.QueryResultsOption;
import com.google.cloud.bigquery.BigQueryException;
import com.google.cloud.bigquery.DatasetId;
import com.google.cloud.bigquery.FieldValue;
import com.google.cloud.bigquery.FieldValueList;
import com.google.cloud.bigquery.JobInfo;
import com.google.cloud.bigquery.LegacySQLTypeName;
import com.google.cloud.bigquery.QueryJobConfiguration;
import com.google.cloud.bigquery.QueryParameterValue;
import com.google.cloud.bigquery.TableId;
import com.google.cloud.bigquery.TableResult;
import java.math.BigDecimal;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** What Google's client sees of a query: values, pages and table names. */
class LocalBigQueryContractTest {
  private static final int BIG_ROWS = 20_000;
  private static LocalBigQuery local;
  private static BigQuery client;

  @BeforeAll
  static void start() {
    local = LocalBigQuery.start("my-project");
    client = Clients.of(local);
    local.createTable(
        "shop",
        "big",
        "[{\"name\":\"id\",\"type\":\"INT64\"},{\"name\":\"payload\",\"type\":\"STRING\"}]");
    String kibibyte = "ü".repeat(512);
    local.append(
        "shop",
        "big",
        IntStream.range(0, BIG_ROWS)
            .mapToObj(i -> "{\"id\":" + i + ",\"payload\":\"" + kibibyte + "\"}")
            .toList());
    local.createTable(
        "shop",
        "orders",
        """
        [{"name": "id", "type": "INTEGER", "mode": "REQUIRED"},
         {"name": "total", "type": "NUMERIC"},
         {"name": "seen", "type": "TIMESTAMP"},
         {"name": "items", "type": "RECORD", "mode": "REPEATED", "fields": [
           {"name": "sku", "type": "STRING"}, {"name": "price", "type": "NUMERIC"}]}]
        """);
    local.createTableThatRequiresAPartitionFilter(
        "shop",
        "visits",
        """
        [{"name": "id", "type": "INTEGER"}, {"name": "seen", "type": "TIMESTAMP"},
         {"name": "until", "type": "TIMESTAMP"}, {"name": "pages", "type": "STRING", "mode": "REPEATED"}]
        """,
        "seen");
    local.append(
        "shop",
        "orders",
        List.of(
            """
            {"id": 9223372036854775807, "total": 99999999999999999999999999999.999999999,
             "seen": "2024-03-10T23:59:59.123456Z",
             "items": [{"sku": "a", "price": 0.1}, {"sku": null, "price": "0.2"}]}
            """,
            """
            {"id": -9223372036854775808, "total": "-99999999999999999999999999999.999999999",
             "seen": "2024-03-10 23:59:59.123457 UTC", "items": []}
            """,
            "{\"id\": 3, \"seen\": 1710115199.123458}"));
  }

  @AfterAll
  static void stop() {
    local.close();
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "SELECT id FROM shop.visits WHERE seen >= @w",
        "SELECT id FROM shop.visits WHERE @w <= seen AND id > 3",
        "SELECT id FROM shop.visits WHERE (id = 4 OR id = 5) AND (seen = @w AND id > 3)",
        "SELECT v.id FROM shop.visits AS v WHERE v.seen BETWEEN @w AND TIMESTAMP '9999-12-31 23:59:59.999999+00'",
        "SELECT id FROM shop.visits WHERE seen >= TIMESTAMP_SUB(@w, INTERVAL 1 DAY)",
        "SELECT id FROM shop.visits WHERE DATE(seen) = DATE(@w)",
        "SELECT id FROM shop.visits WHERE seen >= IFNULL(@w, TIMESTAMP '2026-01-01 00:00:00+00')",
        "SELECT id, page FROM shop.visits, UNNEST(pages) AS page WHERE seen >= @w",
        "SELECT v.id FROM shop.visits AS v JOIN shop.orders AS o ON o.id = v.id WHERE v.seen >= @w",
        "WITH v AS (SELECT * FROM shop.visits WHERE seen >= @w) SELECT COUNT(*) FROM v",
        "SELECT COUNT(*) FROM (SELECT * FROM shop.visits WHERE seen >= @w) WHERE id > 3",
        "SELECT id FROM shop.orders WHERE id IN (SELECT id FROM shop.visits WHERE seen >= @w)",
      })
  void aTableThatRequiresAPartitionFilterIsReadWithOne(String sql) {
    assertThat(
            client.create(
                JobInfo.of(
                    QueryJobConfiguration.newBuilder(sql)
                        .addNamedParameter("w", QueryParameterValue.timestamp(0L))
                        .setDryRun(true)
                        .build())))
        .isNotNull();
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "SELECT id FROM shop.visits",
        "SELECT id FROM shop.visits WHERE @w IS NULL OR seen < @w",
        "SELECT id FROM shop.visits WHERE seen >= @w OR id = 3",
        "SELECT id FROM shop.visits WHERE seen >= until AND until > @w",
        "SELECT id FROM shop.visits WHERE id >= UNIX_MICROS(@w)",
        "SELECT id FROM shop.visits WHERE UNIX_MICROS(seen) >= UNIX_MICROS(@w)",
        "SELECT id FROM shop.visits WHERE seen >= (SELECT MAX(o.seen) FROM shop.orders AS o WHERE o.seen > @w)",
        "SELECT id FROM (SELECT id, seen FROM shop.visits LIMIT 10) WHERE seen >= @w",
        "SELECT o.id FROM shop.orders AS o LEFT JOIN shop.visits AS v ON o.id = v.id WHERE v.seen >= @w",
        "SELECT a.id FROM shop.visits AS a JOIN shop.visits AS b ON a.id = b.id WHERE a.seen >= @w",
        "SELECT id, (SELECT COUNT(*) FROM shop.visits) FROM shop.visits WHERE seen >= @w",
      })
  void aTableThatRequiresAPartitionFilterIsNotReadWithoutOneThatIsPromisedToPrune(String sql) {
    assertThatThrownBy(
            () ->
                client.query(
                    QueryJobConfiguration.newBuilder(sql)
                        .addNamedParameter("w", QueryParameterValue.timestamp(0L))
                        .build()))
        .isInstanceOfSatisfying(
            BigQueryException.class,
            e -> {
              assertThat(e.getCode()).isEqualTo(400);
              assertThat(e.getReason()).isEqualTo("invalidQuery");
              assertThat(e.getMessage())
                  .isEqualTo(
                      "Cannot query over table '%s.shop.visits' without a filter over column(s) 'seen' that can be used for partition elimination"
                          .formatted(local.project()));
            });
  }

  @Test
  void theFirstMicrosecondOfATimestampParameterIsTheBoundary() {
    QueryJobConfiguration query =
        QueryJobConfiguration.newBuilder(
                "SELECT UNIX_MICROS(seen) FROM shop.orders WHERE seen >= @w")
            .addNamedParameter("w", QueryParameterValue.timestamp(1_710_115_199_123_457L))
            .build();
    assertThat(rows(client, query))
        .extracting(r -> r.get(0).getLongValue())
        .containsExactlyInAnyOrder(1_710_115_199_123_457L, 1_710_115_199_123_458L);
  }

  @Test
  void everyScalarIsEncodedAsBigQuerysRestDoes() {
    FieldValueList row =
        row(
            client,
            """
            SELECT TIMESTAMP '2024-03-10 23:59:59.123456+00', DATETIME '2024-03-10 23:59:59.5',
              TIME '01:02:03', DATE '0001-01-01', b'abc', CAST('inf' AS FLOAT64),
              CAST('-inf' AS FLOAT64), CAST('nan' AS FLOAT64), 1e30, NUMERIC '1.10', TRUE,
              JSON '{"a": 1.0}', RANGE(DATE '2024-01-01', NULL) IS NULL, CAST(NULL AS INT64),
              TIMESTAMP '1970-01-01 00:00:00+00', BIGNUMERIC '0.00'
            """);
    assertThat(row)
        .extracting(FieldValue::getValue)
        .containsExactly(
            "1.710115199123456E9",
            "2024-03-10T23:59:59.500000",
            "01:02:03",
            "0001-01-01",
            "YWJj",
            "Infinity",
            "-Infinity",
            "NaN",
            "1.0E30",
            "1.1",
            "true",
            "{\"a\":1.0}",
            "false",
            null,
            "0.0",
            "0");
  }

  @Test
  void structsAndArraysNestAndANullArrayIsEmpty() throws Exception {
    TableResult result =
        client.query(
            QueryJobConfiguration.newBuilder(
                    "SELECT [STRUCT(1 AS a, ['x', 'y'] AS b)] AS s, CAST(NULL AS ARRAY<INT64>) AS n")
                .build());
    assertThat(result.getSchema().getFields().get("s").getType())
        .isEqualTo(LegacySQLTypeName.RECORD);
    FieldValueList row = result.iterateAll().iterator().next();
    FieldValueList struct = row.get("s").getRepeatedValue().get(0).getRecordValue();
    assertThat(struct.get(0).getLongValue()).isEqualTo(1);
    assertThat(struct.get(1).getRepeatedValue())
        .extracting(FieldValue::getStringValue)
        .containsExactly("x", "y");
    assertThat(row.get("n").getRepeatedValue()).isEmpty();
  }

  @Test
  void columnsWithoutANameAreNumberedAsInBigQuery() throws Exception {
    TableResult result =
        client.query(QueryJobConfiguration.newBuilder("SELECT 1, 2 AS b, 3").build());
    assertThat(result.getSchema().getFields())
        .extracting(f -> f.getName())
        .containsExactly("f0_", "b", "f1_");
  }

  @Test
  void integersNumericsAndMicrosecondsOfATableAreExact() {
    List<FieldValueList> rows =
        rows(client, "SELECT id, total, seen FROM shop.orders WHERE id != 3 ORDER BY id DESC");
    assertThat(rows.get(0).get("id").getLongValue()).isEqualTo(Long.MAX_VALUE);
    assertThat(rows.get(1).get("id").getLongValue()).isEqualTo(Long.MIN_VALUE);
    BigDecimal most = new BigDecimal("99999999999999999999999999999.999999999");
    assertThat(rows.get(0).get("total").getNumericValue()).isEqualTo(most);
    assertThat(rows.get(1).get("total").getNumericValue()).isEqualTo(most.negate());
    assertThat(rows.get(0).get("seen").getTimestampValue()).isEqualTo(1_710_115_199_123_456L);
    assertThat(rows.get(1).get("seen").getTimestampValue()).isEqualTo(1_710_115_199_123_457L);
  }

  @Test
  @SuppressWarnings("deprecation")
  void timestampsAreIntegersWhereTheClientAsksForThem() {
    BigQuery integers = Clients.options(local).setUseInt64Timestamps(true).build().getService();
    String sql = "SELECT TIMESTAMP '9999-12-31 23:59:59.999999+00'";
    assertThat(row(integers, sql).get(0).getValue()).isEqualTo("253402300799999999");
    assertThat(row(client, sql).get(0).getTimestampValue()).isEqualTo(253402300799999999L);
  }

  @Test
  void aResultFarOverFourMegabytesIsReadCompletelyInPages() throws Exception {
    QueryJobConfiguration query =
        QueryJobConfiguration.newBuilder("SELECT id, payload FROM shop.big").build();
    TableResult result =
        client.create(JobInfo.of(query)).getQueryResults(QueryResultsOption.pageSize(1_500));
    assertThat(result.getTotalRows()).isEqualTo(BIG_ROWS);
    Set<Long> ids = new HashSet<>();
    for (FieldValueList row : result.iterateAll()) {
      assertThat(row.get("payload").getStringValue()).hasSize(512);
      ids.add(row.get("id").getLongValue());
    }
    assertThat(ids).hasSize(BIG_ROWS);
    List<Integer> sizes =
        Clients.pageSizes(
            client.create(JobInfo.of(query)).getQueryResults(QueryResultsOption.pageSize(1_500)));
    // Client 2.57.1 forgets the page size after the first page of a job's result; then BigQuery's
    // own limit of 10 MB holds.
    assertThat(sizes.get(0)).isEqualTo(1_500);
    assertThat(sizes).hasSize(3);
  }

  @Test
  void theFastPathPagesTooAndNoPageIsOverTenMegabytes() throws Exception {
    TableResult result =
        client.query(QueryJobConfiguration.newBuilder("SELECT * FROM shop.big").build());
    List<Integer> sizes = Clients.pageSizes(result);
    assertThat(sizes.stream().mapToInt(i -> i).sum()).isEqualTo(BIG_ROWS);
    assertThat(sizes).hasSize(3);
  }

  @Test
  void groupingSeesABigTableWholeBecauseOnlyItsColumnsAreLoaded() {
    FieldValueList row = row(client, "SELECT COUNT(*) AS n, MAX(id) AS most FROM shop.big");
    assertThat(row.get("n").getLongValue()).isEqualTo(BIG_ROWS);
    assertThat(row.get("most").getLongValue()).isEqualTo(BIG_ROWS - 1);
  }

  @Test
  void whatCannotBeEvaluatedInPartsIsRefusedAndNeverCutShort() {
    assertThatThrownBy(() -> rows(client, "SELECT payload, COUNT(*) FROM shop.big GROUP BY 1"))
        .isInstanceOf(BigQueryException.class)
        .hasMessageContaining("4194304 bytes at a time")
        .hasMessageContaining("shop.big has 20000 rows");
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '~',
      textBlock =
          """
          SELECT DISTINCT MOD(id, 2) AS x FROM shop.big                                   ~ 2
          SELECT id FROM shop.big WHERE TRUE QUALIFY ROW_NUMBER() OVER (ORDER BY id) = 1  ~ 1
          SELECT id FROM shop.big UNION ALL SELECT 1                                      ~ 20001
          SELECT x FROM (SELECT id AS x FROM shop.big LIMIT 5)                            ~ 5
          SELECT id FROM shop.big LIMIT 5 OFFSET 2                                        ~ 5
          SELECT id FROM shop.big LIMIT 0                                                 ~ 0
          SELECT id FROM shop.big ORDER BY RAND() LIMIT 4                                 ~ 4
          SELECT id FROM shop.big ORDER BY MOD(id, 3), id LIMIT 4                         ~ 4
          SELECT (SELECT COUNT(*) FROM shop.big) AS n                                     ~ 1
          WITH b AS (SELECT id FROM shop.big), m AS (SELECT MAX(id) AS n FROM b) SELECT n FROM m ~ 1
          WITH k AS (SELECT 5 AS n) SELECT id FROM shop.big WHERE id IN (SELECT n FROM k) ~ 1
          WITH b AS (SELECT * FROM shop.big WHERE id < 19000) SELECT id FROM b WHERE id > 9 ~ 18990
          SELECT id, d FROM shop.big, UNNEST([id, id + 1]) AS d                           ~ 40000
          SELECT id FROM shop.big AS b WHERE EXISTS (SELECT 1 FROM UNNEST([7]) AS s WHERE s = b.id) ~ 1
          FROM shop.big |> WHERE id < 3 |> SELECT id                                      ~ 3
          """)
  void aQueryOverManyPartsHasTheRowsOfOneOverTheWhole(String sql, int rows) {
    assertThat(rows(client, sql)).hasSize(rows);
  }

  @Test
  void aBigResultCanBeOrderedByItsColumns() {
    List<FieldValueList> rows =
        rows(client, "SELECT MOD(id, 7) AS day, id, payload FROM shop.big ORDER BY day DESC, id");
    assertThat(rows).hasSize(BIG_ROWS);
    for (int i = 1; i < rows.size(); i++) {
      long day = rows.get(i - 1).get("day").getLongValue() - rows.get(i).get("day").getLongValue();
      assertThat(day).isNotNegative();
      if (day == 0) {
        assertThat(rows.get(i).get("id").getLongValue())
            .isGreaterThan(rows.get(i - 1).get("id").getLongValue());
      }
    }
    assertThat(rows(client, "SELECT id, payload FROM shop.big ORDER BY id DESC LIMIT 3"))
        .extracting(r -> r.get("id").getLongValue())
        .containsExactly(BIG_ROWS - 1L, BIG_ROWS - 2L, BIG_ROWS - 3L);
  }

  @Test
  void aLimitIsTheLimitOfTheWholeTable() {
    assertThat(rows(client, "SELECT payload FROM shop.big LIMIT 1501")).hasSize(1_501);
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "SELECT orders.id FROM shop.orders",
        "SELECT orders.id FROM `shop.orders`",
        "SELECT orders.id FROM `shop`.orders",
        "SELECT orders.id FROM my-project.shop.orders",
        "SELECT orders.id FROM `my-project.shop.orders`",
        "SELECT orders.id FROM `my-project`.shop.`orders`",
        "SELECT o.id FROM `my-project.shop`.orders AS o",
        "SELECT o.id FROM shop.orders o -- `a.b`\n WHERE 'x`y.z`' != \"`\"",
        "WITH o AS (SELECT * FROM shop.orders) SELECT id FROM o",
        "SELECT a.id FROM shop.orders a JOIN shop.orders b ON a.id = b.id"
      })
  void tablesAreFoundUnderEveryFormOfTheirName(String sql) {
    assertThat(rows(client, sql)).hasSize(3);
  }

  @Test
  void theDefaultDatasetOfTheQueryIsUsed() {
    QueryJobConfiguration query =
        QueryJobConfiguration.newBuilder("SELECT orders.id FROM orders")
            .setDefaultDataset(DatasetId.of("shop"))
            .build();
    assertThat(rows(client, query)).hasSize(3);
  }

  @Test
  void unnestedRowsAndAnEmptyTableKeepTheirShape() {
    assertThat(rows(client, "SELECT id, item.sku FROM shop.orders, UNNEST(items) AS item"))
        .hasSize(2);
    local.createTable("shop", "empty", "[{\"name\":\"a\",\"type\":\"STRING\"}]");
    assertThat(rows(client, "SELECT a FROM shop.empty")).isEmpty();
    assertThat(row(client, "SELECT COUNT(*) FROM shop.empty").get(0).getLongValue()).isZero();
  }

  @Test
  void tableMetadataAndTableDataCanBeRead() {
    assertThat(client.getTable("shop", "orders").getNumRows().longValue()).isEqualTo(3);
    assertThat(client.getDataset("shop").getLocation()).isEqualTo("EU");
    assertThat(client.getTable("shop", "nothing")).isNull();
    List<FieldValueList> rows = new ArrayList<>();
    client
        .listTableData(
            TableId.of("shop", "orders"),
            client.getTable("shop", "orders").getDefinition().getSchema(),
            BigQuery.TableDataListOption.pageSize(2))
        .iterateAll()
        .forEach(rows::add);
    assertThat(rows).hasSize(3);
    assertThat(rows.get(0).get("items").getRepeatedValue()).hasSize(2);
  }
}
