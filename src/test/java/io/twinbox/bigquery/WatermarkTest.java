package io.twinbox.bigquery;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.google.cloud.bigquery.StandardSQLTypeName;
import java.time.Instant;
import java.util.TimeZone;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.EnumSource;
import org.junit.jupiter.params.provider.ValueSource;

class WatermarkTest {

  private static Watermark of(String type, String text) {
    return Watermark.parse(StandardSQLTypeName.valueOf(type), text);
  }

  @ParameterizedTest
  @CsvSource({
    "TIMESTAMP, 2026-03-01T00:00:00Z, 2026-02-28T23:59:59.999999Z",
    "TIMESTAMP, 0001-01-01T00:00:00.000001Z, 0001-01-01T00:00:00Z",
    "DATETIME, 2026-03-01T10:00:00.000001, 2026-03-01T10:00:00",
    "DATE, 2024-03-01, 2024-02-29",
    "INT64, -9223372036854775807, -9223372036854775808",
  })
  void beforeIsTheNextLowerPosition(String type, String position, String before) {
    assertThat(of(type, position).before().text()).isEqualTo(before);
  }

  @Test
  void textBeforeATextIsBehindAllThatLieBeforeIt() {
    for (String end : new String[] {"k6", "b", "é", "\uE000", "a\uD83D\uDE00"}) {
      Watermark until = of("STRING", end);
      Watermark before = until.before();
      assertThat(before).as(end).isLessThan(until);
      String last =
          end.codePointAt(end.length() - (end.endsWith("\uDE00") ? 2 : 1)) == 0xE000
              ? "\uD7FF"
              : Character.toString(end.codePointBefore(end.length()) - 1);
      String lower = end.substring(0, end.offsetByCodePoints(end.length(), -1)) + last;
      assertThat(of("STRING", lower)).as(end).isLessThan(before);
      assertThat(of("STRING", lower + "\uFFFDzz\uD83D\uDE00")).as(end).isLessThan(before);
    }
    assertThat(of("STRING", "b\0").before().text()).isEqualTo("b");
  }

  /** DATETIME and DATE are taken as UTC, wherever the process runs. */
  @ParameterizedTest
  @ValueSource(strings = {"Pacific/Chatham", "America/St_Johns", "UTC"})
  void capAndParametersKnowNoTimeZoneOfTheProcess(String zone) {
    TimeZone before = TimeZone.getDefault();
    TimeZone.setDefault(TimeZone.getTimeZone(zone));
    try {
      Instant jobStart = Instant.parse("2026-03-01T23:30:00.123456789Z");
      assertThat(of("TIMESTAMP", "2099-01-01T00:00:00Z").cappedAt(jobStart).text())
          .isEqualTo("2026-03-01T23:30:00.123456Z");
      assertThat(of("DATETIME", "2099-01-01T00:00:00").cappedAt(jobStart).text())
          .isEqualTo("2026-03-01T23:30:00.123456");
      assertThat(of("DATE", "2026-03-02").cappedAt(jobStart).text()).isEqualTo("2026-03-01");
      assertThat(of("DATE", "2026-03-01").cappedAt(Instant.parse("2026-03-02T00:10:00Z")).text())
          .isEqualTo("2026-03-01");
      assertThat(of("TIMESTAMP", "2026-03-29T02:30:00.000001Z").parameter().getValue())
          .isEqualTo("2026-03-29 02:30:00.000001+00:00");
      assertThat(of("DATETIME", "2026-03-29T02:30:00.000001").parameter().getValue())
          .isEqualTo("2026-03-29 02:30:00.000001");
      assertThat(of("DATE", "2026-03-29").parameter().getValue()).isEqualTo("2026-03-29");
    } finally {
      TimeZone.setDefault(before);
    }
  }

  @ParameterizedTest
  @CsvSource({
    "9999-12-31T23:59:59.999999Z, 9999-12-31 23:59:59.999999+00:00",
    "0001-01-01T00:00:00Z, 0001-01-01 00:00:00.000000+00:00",
    "1969-12-31T23:59:59.999999Z, 1969-12-31 23:59:59.999999+00:00",
  })
  void timestampIsAParameterToTheMicrosecondFromEndToEnd(String position, String parameter) {
    assertThat(of("TIMESTAMP", position).parameter().getValue()).isEqualTo(parameter);
  }

  @ParameterizedTest
  @EnumSource(names = {"TIMESTAMP", "DATETIME", "DATE", "INT64", "STRING"})
  void nothingLiesBeforeTheFirstNorBehindTheLast(StandardSQLTypeName type) {
    assertThatThrownBy(() -> Watermark.first(type).before())
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageStartingWith("Nothing lies before");
    assertThat(Watermark.first(type)).isLessThan(Watermark.last(type));
    assertThat(Watermark.parse(type, Watermark.last(type).text())).isEqualTo(Watermark.last(type));
  }

  @ParameterizedTest
  @CsvSource({
    "TIMESTAMP, 2026-03-01T00:00:00Z, 1h, 2026-02-28T23:00:00Z",
    "TIMESTAMP, 2026-03-01T00:00:00Z, 1ns, 2026-02-28T23:59:59.999999Z",
    "TIMESTAMP, 2026-03-01T00:00:00Z, 4000000d, 0001-01-01T00:00:00Z",
    "TIMESTAMP, 2026-03-01T00:00:00Z, 100000000000d, 0001-01-01T00:00:00Z",
    "DATETIME, 2026-03-01T00:00:00, 4000000d, 0001-01-01T00:00:00",
    "DATE, 2026-03-01, 25h, 2026-02-27",
    "DATE, 2026-03-01, 100000000000d, 0001-01-01",
    "INT64, -9223372036854775807, 5, -9223372036854775808",
    "STRING, b, 1h, b",
  })
  void lookbackGoesBackByTypeAndNotBeforeTheFirst(
      String type, String position, String lookback, String start) {
    assertThat(of(type, position).minus(lookback).text()).isEqualTo(start);
  }

  @ParameterizedTest
  @CsvSource({
    "TIMESTAMP, 2026-03-01T00:00:00Z, soon, twinbox.produce.lookback 'soon' is no duration",
    "TIMESTAMP, 2026-03-01T00:00:00Z, 9999999999999999d, is too large",
    "TIMESTAMP, 2026-03-01T00:00:00Z, -1h, is below zero",
    "INT64, 5, 1h, 'twinbox.produce.lookback ''1h'' is no number'",
  })
  void lookbackThatMakesNoSenseIsNamed(
      String type, String position, String lookback, String message) {
    assertThatThrownBy(() -> of(type, position).minus(lookback))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageContaining(message.replace("''", "'"));
  }
}
