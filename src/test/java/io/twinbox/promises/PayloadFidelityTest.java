package io.twinbox.promises;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TimeZone;
import java.util.stream.Collectors;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;

/**
 * Every type of BigQuery arrives in the payload as docs/payload-encoding.md says, in a JVM and a
 * database whose time zones are far from UTC. What the local engine cannot evaluate is named by a
 * test of its own.
 */
class PayloadFidelityTest extends ProduceTest {

  private static final Map<String, String> CASES = new LinkedHashMap<>();
  private static TimeZone before;

  static {
    expect("9223372036854775807", "\"9223372036854775807\"");
    expect("-9223372036854775808", "\"-9223372036854775808\"");
    expect("9007199254740992", "9007199254740992");
    expect("9007199254740993", "\"9007199254740993\"");
    expect(
        "NUMERIC '99999999999999999999999999999.999999999'",
        "\"99999999999999999999999999999.999999999\"");
    expect("NUMERIC '-0.000000001'", "\"-0.000000001\"");
    expect("NUMERIC '42'", "42");
    expect(
        "BIGNUMERIC '578960446186580977117854925043439539266.34992332820282019728792003956564819967'",
        "\"578960446186580977117854925043439539266.34992332820282019728792003956564819967\"");
    expect(
        "BIGNUMERIC '0.00000000000000000000000000000000000001'",
        "\"0.00000000000000000000000000000000000001\"");
    expect("CAST('NaN' AS FLOAT64)", "\"NaN\"");
    expect("CAST('inf' AS FLOAT64)", "\"Infinity\"");
    expect("CAST('-inf' AS FLOAT64)", "\"-Infinity\"");
    expect("0.1", "0.1");
    expect("0.1 + 0.2", "0.30000000000000004");
    expect("1.7976931348623157e308", "1.7976931348623157e+308");
    expect("5e-324", "4.94065645841247e-324");
    expect("-0.0", "0");
    expect("TRUE", "true");
    expect("b'\\x00\\xff\\x80 Twinbox'", "\"AP+AIFR3aW5ib3g=\"");
    expect("b''", "\"\"");
    expect("DATE '0001-01-01'", "\"0001-01-01\"");
    expect("DATE '9999-12-31'", "\"9999-12-31\"");
    expect("DATETIME '2026-03-29 02:30:00.000001'", "\"2026-03-29T02:30:00.000001\"");
    expect("TIME '23:59:59.999999'", "\"23:59:59.999999\"");
    expect("TIME '00:00:00'", "\"00:00:00\"");
    expect("TIMESTAMP '2026-03-29 02:30:00.123456+00'", "\"2026-03-29T02:30:00.123456Z\"");
    expect("TIMESTAMP '0001-01-01 00:00:00+00'", "\"0001-01-01T00:00:00Z\"");
    expect("TIMESTAMP '9999-12-31 23:59:59.999999+00'", "\"9999-12-31T23:59:59.999999Z\"");
    expect("TIMESTAMP '2026-01-01 00:00:00+05:45'", "\"2025-12-31T18:15:00Z\"");
    expect("INTERVAL '1-2 3 4:5:6.789012' YEAR TO SECOND", "\"P1Y2M3DT4H5M6.789012S\"");
    expect("INTERVAL -3 DAY", "\"P-3D\"");
    expect(
        "RANGE(DATE '2024-01-01', DATE '2024-02-01')",
        "{\"start\":\"2024-01-01\",\"end\":\"2024-02-01\"}");
    expect(
        "RANGE(TIMESTAMP '2024-01-01 00:00:00.000001+00', NULL)",
        "{\"start\":\"2024-01-01T00:00:00.000001Z\",\"end\":null}");
    expect(
        "JSON '{\"b\": 1, \"a\": [null, true, \"x\"], \"n\": 12345678901234567}'",
        "{\"a\":[null,true,\"x\"],\"b\":1,\"n\":12345678901234567}");
    expect("CAST(NULL AS STRING)", "null");
    expect("CAST(NULL AS INT64)", "null");
    expect("CAST(NULL AS TIMESTAMP)", "null");
    expect(
        "STRUCT(1 AS a, STRUCT([1, 2] AS c, 'x' AS d) AS b)",
        "{\"a\":1,\"b\":{\"c\":[1,2],\"d\":\"x\"}}");
    expect(
        "[STRUCT(NUMERIC '1.5' AS n, [b'a'] AS l), STRUCT(NULL, [])]",
        "[{\"n\":\"1.5\",\"l\":[\"YQ==\"]},{\"n\":null,\"l\":[]}]");
    expect("CAST(NULL AS ARRAY<INT64>)", "null");
    expect("CAST(NULL AS STRUCT<a INT64>)", "null");
    expect(
        "'\u00e4 \u20ac \u4e2d \ud834\udd1e \"quoted\" back\\\\slash \\n \\t'",
        "\"\u00e4 \u20ac \u4e2d \ud834\udd1e \\\"quoted\\\" back\\\\slash \\n \\t\"");
    expect("'nul \\u0000 inside'", "\"nul \\u0000 inside\"");
    expect("''", "\"\"");
  }

  private static void expect(String expression, String encoded) {
    CASES.put(expression, encoded);
  }

  @BeforeAll
  static void farFromUtc() {
    before = TimeZone.getDefault();
    TimeZone.setDefault(TimeZone.getTimeZone("Pacific/Chatham"));
  }

  @AfterAll
  static void backAgain() {
    TimeZone.setDefault(before);
  }

  @Test
  void everyTypeOfBigQueryArrivesExactlyWhateverTheTimeZones() throws IOException {
    String database = databaseUrl.replaceAll("^.*/([^/?]+).*$", "$1");
    jdbc.execute("ALTER DATABASE %s SET timezone = 'America/St_Johns'".formatted(database));
    topicFile(
        "query.sql",
        CASES.keySet().stream()
            .map(
                expression ->
                    """
                    SELECT r\"""%s\""" AS event_key, TO_JSON_STRING(STRUCT(%s AS v)) AS payload,
                      TIMESTAMP '2026-03-29 02:30:00.123456+00' AS watermark
                    """
                        .formatted(expression, expression))
            .collect(Collectors.joining("UNION ALL\n", "-- Every type.\n", "")));
    startProduce();
    run();

    Map<String, String> arrived = new LinkedHashMap<>();
    for (String expression : CASES.keySet()) {
      byte[] payload =
          jdbc.queryForObject(
              "SELECT payload FROM pubsub_outbox WHERE id = outbox_event_id(?, 'orders-source', ?)",
              byte[].class,
              TOPIC,
              expression);
      arrived.put(expression, new String(payload, StandardCharsets.UTF_8));
    }
    Map<String, String> expected = new LinkedHashMap<>();
    CASES.forEach((expression, value) -> expected.put(expression, "{\"v\":" + value + "}"));
    assertThat(arrived).containsExactlyEntriesOf(expected);
    assertThat(watermark()).isEqualTo("2026-03-29T02:30:00.123456Z");
    assertThat(
            jdbc.queryForObject(
                    "SELECT updated_at FROM produce_watermark", java.sql.Timestamp.class)
                .toInstant())
        .isBetween(Instant.now().minusSeconds(60), Instant.now().plusSeconds(1));
  }

  /** The day that the engine learns it, this fails, and the type belongs to the cases above. */
  @Test
  void typeThatTheLocalEngineCannotEvaluateIsListedAndNotPassedOver() throws IOException {
    startProduce();
    for (String expression : List.of("ST_GEOGPOINT(1, 2)", "ST_GEOGFROMTEXT('POINT(1 2)')")) {
      topicFile(
          "query.sql",
          """
          -- A type that is not shown.
          SELECT 'k' AS event_key, TO_JSON_STRING(STRUCT(%s AS v)) AS payload
          """
              .formatted(expression));
      assertThatThrownBy(this::run)
          .as(expression)
          .rootCause()
          .hasMessageContaining("The local BigQuery does not support");
      System.out.printf(
          "SKIPPED on the local BigQuery: %s as payload (it evaluates no GEOGRAPHY)%n", expression);
    }
    assertThat(Files.readString(Path.of("docs/payload-encoding.md")))
        .contains("Not shown, because the local engine cannot evaluate it: **GEOGRAPHY**");
    assertThat(count("pubsub_outbox")).isZero();
  }
}
