package io.twinbox.local.bigquery;

import com.fasterxml.jackson.core.JsonGenerator;
import com.google.zetasql.IntervalValue;
import com.google.zetasql.LocalService.TableData;
import com.google.zetasql.StructType;
import com.google.zetasql.Type;
import com.google.zetasql.Value;
import com.google.zetasql.ZetaSQLValue.ValueProto;
import java.io.IOException;
import java.math.BigDecimal;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.util.Base64;
import java.util.List;

/**
 * Result values as BigQuery's REST API encodes them: every scalar is a JSON string, a STRUCT is
 * {@code {"f": [{"v": ...}]}}, an ARRAY {@code [{"v": ...}]}. BigQuery gives a TIMESTAMP as seconds
 * in a Java double's notation unless the request sets {@code formatOptions.useInt64Timestamp}; here
 * the seconds keep all their digits, so what the client rounds to is always the exact microsecond.
 */
final class ValueEncoder {
  private final List<Column> columns;
  private final boolean int64Timestamps;
  private final Faults faults;

  ValueEncoder(List<Column> columns, boolean int64Timestamps, Faults faults) {
    this.faults = faults;
    this.columns = columns;
    this.int64Timestamps = int64Timestamps;
  }

  void writeRow(JsonGenerator json, TableData.Row row) throws IOException {
    json.writeStartObject();
    json.writeArrayFieldStart("f");
    for (int i = 0; i < columns.size(); i++) {
      writeCell(json, columns.get(i).type(), row.getCell(i));
    }
    json.writeEndArray();
    json.writeEndObject();
  }

  private void writeCell(JsonGenerator json, Type type, ValueProto value) throws IOException {
    json.writeStartObject();
    json.writeFieldName("v");
    writeValue(json, type, value);
    json.writeEndObject();
  }

  private void writeValue(JsonGenerator json, Type type, ValueProto value) throws IOException {
    if (type.isArray()) {
      // A NULL array leaves BigQuery as an empty one.
      json.writeStartArray();
      for (ValueProto element : value.getArrayValue().getElementList()) {
        writeCell(json, type.asArray().getElementType(), element);
      }
      json.writeEndArray();
    } else if (value.getValueCase() == ValueProto.ValueCase.VALUE_NOT_SET) {
      json.writeNull();
    } else if (type.isStruct()) {
      StructType struct = type.asStruct();
      json.writeStartObject();
      json.writeArrayFieldStart("f");
      for (int i = 0; i < struct.getFieldCount(); i++) {
        writeCell(json, struct.getField(i).getType(), value.getStructValue().getField(i));
      }
      json.writeEndArray();
      json.writeEndObject();
    } else {
      json.writeString(scalar(type, value));
    }
  }

  private String scalar(Type type, ValueProto value) {
    return switch (type.getKind()) {
      case TYPE_STRING -> faults.longText(value.getStringValue());
      case TYPE_INT64 -> Long.toString(value.getInt64Value());
      case TYPE_BOOL -> Boolean.toString(value.getBoolValue());
      case TYPE_DOUBLE -> Double.toString(value.getDoubleValue());
      case TYPE_BYTES -> Base64.getEncoder().encodeToString(value.getBytesValue().toByteArray());
      case TYPE_JSON -> value.getJsonValue();
      case TYPE_DATE -> LocalDate.ofEpochDay(value.getDateValue()).toString();
      case TYPE_NUMERIC -> plain(Value.deserialize(type, value).getNumericValue());
      case TYPE_BIGNUMERIC -> plain(Value.deserialize(type, value).getBigNumericValue());
      case TYPE_TIME -> time(Value.deserialize(type, value).getLocalTimeValue());
      case TYPE_DATETIME -> datetime(Value.deserialize(type, value).getLocalDateTimeValue());
      case TYPE_TIMESTAMP ->
          timestamp(
              value.getTimestampValue().getSeconds() * 1_000_000L
                  + value.getTimestampValue().getNanos() / 1000);
      case TYPE_INTERVAL -> interval(IntervalValue.deserializeInterval(value.getIntervalValue()));
      case TYPE_RANGE ->
          "["
              + bound(type.asRange().getElementType(), value.getRangeValue().getStart())
              + ", "
              + bound(type.asRange().getElementType(), value.getRangeValue().getEnd())
              + ")";
      default -> throw Unsupported.TYPE.error(type.toString());
    };
  }

  private String bound(Type type, ValueProto value) {
    return value.getValueCase() == ValueProto.ValueCase.VALUE_NOT_SET
        ? "UNBOUNDED"
        : scalar(type, value);
  }

  private static String plain(BigDecimal number) {
    return number.signum() == 0 ? "0" : number.stripTrailingZeros().toPlainString();
  }

  private static String time(LocalTime time) {
    String seconds =
        twoDigits(time.getHour())
            + ":"
            + twoDigits(time.getMinute())
            + ":"
            + twoDigits(time.getSecond());
    int micros = time.getNano() / 1000;
    return micros == 0
        ? seconds
        : seconds + "." + Integer.toString(1_000_000 + micros).substring(1);
  }

  private static String datetime(LocalDateTime datetime) {
    return datetime.toLocalDate() + "T" + time(datetime.toLocalTime());
  }

  private static String twoDigits(int number) {
    return number < 10 ? "0" + number : Integer.toString(number);
  }

  private String timestamp(long micros) {
    return int64Timestamps ? Long.toString(micros) : seconds(micros);
  }

  /** Microseconds as seconds, in the notation of Java's {@code Double.toString}. */
  static String seconds(long micros) {
    BigDecimal seconds = BigDecimal.valueOf(micros, 6).stripTrailingZeros();
    if (seconds.signum() == 0) {
      return "0.0";
    }
    int exponent = seconds.precision() - seconds.scale() - 1;
    if (exponent >= -3 && exponent < 7) {
      return seconds.setScale(Math.max(1, seconds.scale())).toPlainString();
    }
    String digits = seconds.unscaledValue().abs().toString();
    return (seconds.signum() < 0 ? "-" : "")
        + digits.charAt(0)
        + "."
        + (digits.length() == 1 ? "0" : digits.substring(1))
        + "E"
        + exponent;
  }

  private static String interval(IntervalValue interval) {
    long micros = Math.abs(interval.micros());
    long seconds = micros / 1_000_000;
    String fraction =
        micros % 1_000_000 == 0
            ? ""
            : "."
                + Long.toString(1_000_000 + micros % 1_000_000)
                    .substring(1)
                    .replaceFirst("(000)$", "");
    int months = Math.abs(interval.months());
    return (interval.months() < 0 ? "-" : "")
        + months / 12
        + "-"
        + months % 12
        + " "
        + interval.days()
        + " "
        + (interval.micros() < 0 ? "-" : "")
        + seconds / 3600
        + ":"
        + seconds / 60 % 60
        + ":"
        + seconds % 60
        + fraction;
  }
}
