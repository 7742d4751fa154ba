package io.twinbox.bigquery;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.google.cloud.bigquery.StandardSQLTypeName;
import io.twinbox.config.TwinboxProperties.Backfill;
import java.time.Duration;
import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class BackfillWindowTest {

  private static BackfillWindow window(String type, String from, String until, String step) {
    return BackfillWindow.of(
        StandardSQLTypeName.valueOf(type),
        new Backfill(from, until, step, null, Duration.ofSeconds(30)));
  }

  @ParameterizedTest
  @CsvSource({
    "TIMESTAMP, 2026-03-01T10:00:00.000001Z, 2026-03-01T10:00:00.000003Z, , 2026-03-01T10:00:00.000001Z|2026-03-01T10:00:00.000003Z",
    "TIMESTAMP, 2026-03-28T12:00:00Z, 2026-03-30T12:00:00Z, 1d, 2026-03-28T12:00:00Z|2026-03-29T12:00:00Z|2026-03-30T12:00:00Z",
    "TIMESTAMP, 2026-03-01T00:00:00Z, 2026-03-01T05:00:00Z, 2h, 2026-03-01T00:00:00Z|2026-03-01T02:00:00Z|2026-03-01T04:00:00Z|2026-03-01T05:00:00Z",
    "DATETIME, 2026-03-01 00:00:00, 2026-03-02T00:00:00.5, 1d, 2026-03-01T00:00:00|2026-03-02T00:00:00|2026-03-02T00:00:00.5",
    "DATE, 2024-02-28, 2024-03-02, 1d, 2024-02-28|2024-02-29|2024-03-01|2024-03-02",
    "INT64, -5, 6, 5, -5|0|5|6",
    "INT64, 9223372036854775800, 9223372036854775807, 5, 9223372036854775800|9223372036854775805|9223372036854775807",
    "STRING, a, b, , a|b",
    // A step that is longer than the window, however long, makes one.
    "TIMESTAMP, 2026-03-01T00:00:00Z, 2026-03-02T00:00:00Z, 400000000d, 2026-03-01T00:00:00Z|2026-03-02T00:00:00Z",
    "TIMESTAMP, 2026-03-01T00:00:00Z, 2026-03-02T00:00:00Z, 100000000000d, 2026-03-01T00:00:00Z|2026-03-02T00:00:00Z",
    "DATETIME, 2026-03-01T00:00:00, 2026-03-02T00:00:00, 3000000d, 2026-03-01T00:00:00|2026-03-02T00:00:00",
    "DATE, 2026-03-01, 2026-03-02, 100000000000d, 2026-03-01|2026-03-02",
    "INT64, 1, 2, 999999999999999999, 1|2",
  })
  void windowIsCutIntoStepsThatTouchAndDoNotOverlap(
      String type, String from, String until, String step, String bounds) {
    assertThat(window(type, from, until, step).texts()).containsExactly(bounds.split("\\|"));
  }

  @ParameterizedTest
  @CsvSource({
    "TIMESTAMP, 2026-03-01T10:00:05Z, 2026-03-01T10:00:05Z, 1d, is not above",
    "TIMESTAMP, 2026-03-01T10:00:05Z, 2026-03-01T10:00:04Z, 1d, is not above",
    "TIMESTAMP, 2026-03-01T10:00:05Z, 2026-03-02, 1d, backfill.until: '2026-03-02' is no TIMESTAMP",
    "TIMESTAMP, 2026-03-01T10:00:05, 2026-03-02T10:00:05Z, 1d, backfill.from: '2026-03-01T10:00:05' is no TIMESTAMP",
    "TIMESTAMP, 2026-03-01T10:00:05Z, 2099-03-01T10:00:05Z, 365d, lies ahead",
    "DATE, 2026-03-01, 2099-03-01, 365d, lies ahead",
    "DATETIME, 2026-03-01T00:00:00, 2099-03-01T00:00:00, 365d, lies ahead",
    "TIMESTAMP, 2026-03-01T10:00:05Z, 2026-03-02T10:00:05Z, 0s, is no duration above zero",
    "TIMESTAMP, 2026-03-01T10:00:05Z, 2026-03-02T10:00:05Z, -1h, is no duration above zero",
    "TIMESTAMP, 2026-03-01T10:00:05Z, 2026-03-02T10:00:05Z, weekly, 'is no duration; write it as 1d'",
    "TIMESTAMP, 2026-03-01T10:00:05Z, 2026-03-02T10:00:05Z, 1s, 'makes more than 10,000 steps'",
    "TIMESTAMP, 2026-03-01T10:00:05Z, 2026-03-02T10:00:05Z, 99999999999999999999d, is too large",
    "TIMESTAMP, 2026-03-01T10:00:05Z, 2026-03-02T10:00:05Z, 9999999999999999d, is too large",
    "TIMESTAMP, 0000-12-31T10:00:05Z, 2026-03-02T10:00:05Z, 1d, 'backfill.from: ''0000-12-31T10:00:05Z'' is no TIMESTAMP: years go from 0001 to 9999'",
    "DATE, -0001-03-01, 2026-03-02, 1d, years go from 0001 to 9999",
    "TIMESTAMP, 2026-03-01T10:00:05Z, 2026-03-02T10:00:05.0000001Z, 1d, finer than a microsecond",
    "DATETIME, 2026-03-01T10:00:05.1234567, 2026-03-02T10:00:05, 1d, finer than a microsecond",
    "INT64, 1, 9223372036854775808, 1, is no INT64",
    "DATE, 2026-03-01, 2026-03-05, 36h, is no duration of whole days",
    "INT64, 1, 5, 1d, is no number above 0",
    "INT64, 1, 5, 0, is no number above 0",
    "STRING, a, b, 1, a STRING watermark has no steps",
  })
  void windowThatMakesNoSenseIsRefused(
      String type, String from, String until, String step, String message) {
    assertThatThrownBy(() -> window(type, from, until, step))
        .isInstanceOf(IllegalArgumentException.class)
        .hasNoCause()
        .hasMessageContaining(message);
  }

  @Test
  void windowAndStepMakeTheNameUnlessThereIsOne() {
    assertThat(window("DATE", "2026-01-01", "2026-02-01", "7d").name())
        .isEqualTo("2026-01-01..2026-02-01/7d");
    assertThat(
            BackfillWindow.of(
                    StandardSQLTypeName.INT64,
                    new Backfill("1", "2", "", " again ", Duration.ofSeconds(30)))
                .name())
        .isEqualTo("again");
  }

  @Test
  void parameterIsOneThatTheQueryUsesAndNotOneThatItSpeaksOf() {
    assertThat(
            QueryParameters.of(
                """
                -- @a
                # @b
                /* @c
                   @d */
                SELECT '@e', "@f", '''@g ' @h''', \"""@i "@j\""", r'\\' , `@k`, 'it\\'s @l', @@x.y
                FROM t WHERE t.x >= @ Watermark AND t.x <= @Last
                """))
        .isEqualTo(new java.util.HashSet<>(List.of("watermark", "last")));
  }
}
