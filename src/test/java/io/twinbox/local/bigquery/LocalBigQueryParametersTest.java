package io.twinbox.local.bigquery;

import static io.twinbox.local.bigquery.Clients.rows;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.google.cloud.bigquery.BigQuery;
import com.google.cloud.bigquery.BigQueryException;
import com.google.cloud.bigquery.FieldElementType;
import com.google.cloud.bigquery.FieldValueList;
import com.google.cloud.bigquery.QueryJobConfiguration;
import com.google.cloud.bigquery.QueryParameterValue;
import com.google.cloud.bigquery.Range;
import com.google.cloud.bigquery.StandardSQLTypeName;
import java.math.BigDecimal;
import java.util.Map;
import java.util.stream.Stream;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.Arguments;
import org.junit.jupiter.params.provider.MethodSource;
import org.junit.jupiter.params.provider.ValueSource;

/** Query parameters of every type, as Google's client sends them. */
class LocalBigQueryParametersTest {
  private static LocalBigQuery local;
  private static BigQuery client;

  @BeforeAll
  static void start() {
    local = LocalBigQuery.start("my-project");
    client = Clients.of(local);
  }

  @AfterAll
  static void stop() {
    local.close();
  }

  static Stream<Arguments> parameters() {
    return Stream.of(
        Arguments.of(QueryParameterValue.string("naïve ' \" `x` \u0001"), "STRING"),
        Arguments.of(QueryParameterValue.int64(Long.MIN_VALUE), "INT64"),
        Arguments.of(QueryParameterValue.float64(Double.MAX_VALUE), "FLOAT64"),
        Arguments.of(QueryParameterValue.bool(true), "BOOL"),
        Arguments.of(
            QueryParameterValue.numeric(new BigDecimal("12345678901234567890123456789.123456789")),
            "NUMERIC"),
        Arguments.of(
            QueryParameterValue.bigNumeric(
                new BigDecimal("-1.00000000000000000000000000000000000001")),
            "BIGNUMERIC"),
        Arguments.of(QueryParameterValue.bytes(new byte[] {0, -1, 65}), "BYTES"),
        Arguments.of(QueryParameterValue.date("2024-02-29"), "DATE"),
        Arguments.of(QueryParameterValue.time("23:59:59.123456"), "TIME"),
        Arguments.of(QueryParameterValue.dateTime("2024-02-29 23:59:59.123456"), "DATETIME"),
        Arguments.of(QueryParameterValue.timestamp(1_710_115_199_123_456L), "TIMESTAMP"),
        Arguments.of(QueryParameterValue.json("{\"a\":[1,2.50]}"), "JSON"),
        Arguments.of(QueryParameterValue.interval("1-2 3 4:5:6.789"), "INTERVAL"));
  }

  @ParameterizedTest(name = "{1}")
  @MethodSource("parameters")
  void namedAndPositionalParametersOfEveryTypeComeBackUnchanged(
      QueryParameterValue value, String type) {
    FieldValueList named =
        rows(
                client,
                QueryJobConfiguration.newBuilder("SELECT @p").addNamedParameter("p", value).build())
            .get(0);
    FieldValueList positional =
        rows(
                client,
                QueryJobConfiguration.newBuilder("SELECT ?").addPositionalParameter(value).build())
            .get(0);
    assertThat(named.get(0).getValue()).isEqualTo(positional.get(0).getValue());
    String text = named.get(0).getStringValue();
    switch (type) {
      case "TIMESTAMP" ->
          assertThat(named.get(0).getTimestampValue()).isEqualTo(1_710_115_199_123_456L);
      case "DATETIME" -> assertThat(text).isEqualTo("2024-02-29T23:59:59.123456");
      case "FLOAT64" -> assertThat(Double.valueOf(text)).isEqualTo(Double.MAX_VALUE);
      case "JSON" -> assertThat(text).isEqualTo("{\"a\":[1,2.5]}");
      default -> assertThat(text).isEqualTo(value.getValue());
    }
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "STRING",
        "INT64",
        "FLOAT64",
        "BOOL",
        "NUMERIC",
        "BIGNUMERIC",
        "BYTES",
        "DATE",
        "TIME",
        "DATETIME",
        "TIMESTAMP",
        "JSON",
        "INTERVAL"
      })
  void nullParametersKeepTheirType(String type) {
    QueryParameterValue missing =
        QueryParameterValue.of((Object) null, StandardSQLTypeName.valueOf(type));
    QueryJobConfiguration query =
        QueryJobConfiguration.newBuilder("SELECT @p AS p").addNamedParameter("p", missing).build();
    assertThat(rows(client, query).get(0).get("p").isNull()).isTrue();
  }

  @Test
  void arraysAndStructsAreParametersToo() {
    QueryJobConfiguration query =
        QueryJobConfiguration.newBuilder("SELECT x * 2 FROM UNNEST(@xs) AS x WHERE x > @s.least")
            .addNamedParameter("xs", QueryParameterValue.array(new Long[] {1L, 2L, 3L}, Long.class))
            .addNamedParameter(
                "s", QueryParameterValue.struct(Map.of("least", QueryParameterValue.int64(1))))
            .build();
    assertThat(rows(client, query))
        .extracting(r -> r.get(0).getLongValue())
        .containsExactlyInAnyOrder(4L, 6L);
  }

  @Test
  void aRangeIsAParameterToo() {
    QueryParameterValue range =
        QueryParameterValue.range(
            Range.newBuilder()
                .setType(FieldElementType.newBuilder().setType("DATE").build())
                .setStart("2024-01-01")
                .build());
    QueryJobConfiguration query =
        QueryJobConfiguration.newBuilder("SELECT TO_JSON_STRING(@r)")
            .addNamedParameter("r", range)
            .build();
    assertThat(rows(client, query).get(0).get(0).getValue())
        .isEqualTo("{\"start\":\"2024-01-01\",\"end\":null}");
  }

  @Test
  void aParameterOutOfItsTypesRangeIsNamed() {
    QueryJobConfiguration query =
        QueryJobConfiguration.newBuilder("SELECT @much")
            .addNamedParameter("much", QueryParameterValue.numeric(new BigDecimal("1e30")))
            .build();
    assertThatThrownBy(() -> rows(client, query))
        .isInstanceOf(BigQueryException.class)
        .hasMessage("Query parameter 'much': Invalid NUMERIC value: '1E+30'");
  }
}
