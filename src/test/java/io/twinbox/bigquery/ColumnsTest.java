package io.twinbox.bigquery;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.google.cloud.bigquery.Field;
import com.google.cloud.bigquery.Schema;
import com.google.cloud.bigquery.StandardSQLTypeName;
import java.util.Arrays;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

class ColumnsTest {

  /**
   * @param columns "name TYPE, name ARRAY TYPE, ..."
   */
  private static Columns of(String columns) {
    return Columns.of(
        Schema.of(
            Arrays.stream(columns.split(", "))
                .map(
                    column -> {
                      String[] words = column.split(" ");
                      Field.Builder field =
                          Field.newBuilder(
                              words[0], StandardSQLTypeName.valueOf(words[words.length - 1]));
                      return words.length == 3
                          ? field.setMode(Field.Mode.REPEATED).build()
                          : field.build();
                    })
                .toList()),
        StandardSQLTypeName.TIMESTAMP,
        "orders/query.sql");
  }

  @Test
  void columnsAreFoundByNameWhateverTheirOrderAndOthersAreIgnored() {
    assertThat(of("extra GEOGRAPHY, payload STRING, watermark TIMESTAMP, event_key STRING"))
        .isEqualTo(new Columns("watermark", false, false, false));
    assertThat(
            of(
                "event_key STRING, payload STRING, attributes STRING, ordering_key STRING, topic_name STRING"))
        .isEqualTo(new Columns(null, true, true, true));
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      value = {
        "payload STRING | column event_key is missing",
        "event_key STRING | column payload is missing",
        "event_key STRING, payload STRING, payload STRING | column payload is there twice",
        "event_key STRING, event_key STRING, payload STRING | column event_key is there twice",
        "event_key INT64, payload STRING | column event_key is INT64 and must be STRING",
        "event_key ARRAY STRING, payload STRING | column event_key is ARRAY of STRING and must be STRING",
        "event_key STRING, payload JSON | column payload is JSON and must be STRING; wrap it in TO_JSON_STRING",
        "event_key STRING, payload BYTES | column payload is BYTES and must be STRING",
        "event_key STRING, payload STRING, attributes JSON | column attributes is JSON and must be STRING",
        "event_key STRING, payload STRING, ordering_key INT64 | column ordering_key is INT64 and must be STRING",
        "event_key STRING, payload STRING, topic_name ARRAY STRING | column topic_name is ARRAY of STRING and must be STRING",
        "event_key STRING, payload STRING, watermark DATETIME | column watermark is DATETIME; twinbox.produce.watermark-type says TIMESTAMP",
        "event_key STRING, payload STRING, watermark ARRAY TIMESTAMP | column watermark is ARRAY of TIMESTAMP",
        "event_key DATE, watermark DATE | column event_key is DATE and must be STRING; column watermark is DATE; twinbox.produce.watermark-type says TIMESTAMP; column payload is missing"
      })
  void wrongColumnsAreNamedTogetherWithTheFile(String columns, String message) {
    assertThatThrownBy(() -> of(columns))
        .isInstanceOf(IllegalArgumentException.class)
        .hasMessageStartingWith("orders/query.sql: ")
        .hasMessageContaining(message);
  }
}
