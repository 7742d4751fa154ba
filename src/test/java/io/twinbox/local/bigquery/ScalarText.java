package io.twinbox.local.bigquery;

import com.google.protobuf.ByteString;
import com.google.zetasql.IntervalValue;
import com.google.zetasql.Type;
import com.google.zetasql.Value;
import java.math.BigDecimal;
import java.math.RoundingMode;
import java.time.DateTimeException;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.ZoneId;
import java.time.ZoneOffset;
import java.util.Base64;
import java.util.Locale;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Scalars from text, by the rules that BigQuery applies to query parameters and to JSON input:
 * numbers never pass through a double, times are microseconds, a TIMESTAMP without a zone is UTC.
 */
final class ScalarText {
  private static final Pattern CIVIL =
      Pattern.compile(
          "(\\d{4})-(\\d{1,2})-(\\d{1,2})(?:[Tt ](\\d{1,2}):(\\d{1,2}):(\\d{1,2})(?:\\.(\\d{0,9}))?)?(.*)");
  private static final Pattern OFFSET = Pattern.compile("([+-])(\\d{1,2})(?::?(\\d{2}))?");
  private static final Pattern INTERVAL =
      Pattern.compile(
          "([+-]?)(\\d+)-(\\d+) ([+-]?\\d+) ([+-]?)(\\d+):(\\d+):(\\d+)(?:\\.(\\d{1,6}))?");

  private ScalarText() {}

  static Value parse(Type type, String text) {
    try {
      return switch (type.getKind()) {
        case TYPE_STRING -> Value.createStringValue(text);
        case TYPE_INT64 -> Value.createInt64Value(new BigDecimal(text.strip()).longValueExact());
        case TYPE_DOUBLE -> Value.createDoubleValue(parseDouble(text.strip()));
        case TYPE_BOOL -> Value.createBoolValue(parseBool(text.strip()));
        case TYPE_BYTES ->
            Value.createBytesValue(ByteString.copyFrom(Base64.getMimeDecoder().decode(text)));
        // The default rounding of BigQuery's loads and casts: half away from zero.
        case TYPE_NUMERIC -> Value.createNumericValue(atMostScale(new BigDecimal(text.strip()), 9));
        case TYPE_BIGNUMERIC ->
            Value.createBigNumericValue(atMostScale(new BigDecimal(text.strip()), 38));
        case TYPE_DATE -> Value.createDateValue(LocalDate.parse(text.strip()));
        case TYPE_TIME -> Value.createTimeValue(micros(LocalTime.parse(text.strip())));
        case TYPE_DATETIME -> Value.createDatetimeValue(parseDatetime(text.strip()));
        case TYPE_TIMESTAMP -> Value.createTimestampValueFromUnixMicros(parseTimestamp(text));
        case TYPE_JSON -> Value.createJsonValue(Json.normalise(Json.parse(text)));
        case TYPE_INTERVAL -> Value.createIntervalValue(parseInterval(text.strip()));
        case TYPE_RANGE -> parseRange(type, text.strip());
        case TYPE_GEOGRAPHY -> throw Unsupported.GEOGRAPHY.error();
        default -> throw Unsupported.TYPE.error(type.toString());
      };
    } catch (IllegalArgumentException | ArithmeticException | DateTimeException e) {
      throw ApiError.invalid("Invalid " + type + " value: '" + text + "'");
    }
  }

  /** Seconds since 1970 as a JSON number, which BigQuery accepts for a TIMESTAMP. */
  static Value timestampOfSeconds(BigDecimal seconds) {
    return Value.createTimestampValueFromUnixMicros(
        seconds.movePointRight(6).setScale(0, RoundingMode.HALF_UP).longValueExact());
  }

  private static BigDecimal atMostScale(BigDecimal number, int scale) {
    return number.scale() > scale ? number.setScale(scale, RoundingMode.HALF_UP) : number;
  }

  private static double parseDouble(String text) {
    return switch (text.toLowerCase(Locale.ROOT)) {
      case "nan" -> Double.NaN;
      case "inf", "+inf", "infinity", "+infinity" -> Double.POSITIVE_INFINITY;
      case "-inf", "-infinity" -> Double.NEGATIVE_INFINITY;
      default -> Double.parseDouble(text);
    };
  }

  private static boolean parseBool(String text) {
    return switch (text.toLowerCase(Locale.ROOT)) {
      case "true", "t", "yes", "y", "1" -> true;
      case "false", "f", "no", "n", "0" -> false;
      default -> throw new IllegalArgumentException(text);
    };
  }

  private static LocalDateTime parseDatetime(String text) {
    Matcher matcher = civil(text);
    if (!matcher.group(8).isEmpty()) {
      throw new IllegalArgumentException(text);
    }
    return civilTime(matcher);
  }

  private static long parseTimestamp(String raw) {
    String text = raw.strip();
    Matcher matcher = civil(text);
    LocalDateTime civil = civilTime(matcher);
    ZoneId zone = parseZone(matcher.group(8).strip());
    return Math.addExact(
        Math.multiplyExact(civil.atZone(zone).toEpochSecond(), 1_000_000L), civil.getNano() / 1000);
  }

  private static ZoneId parseZone(String text) {
    if (text.isEmpty() || text.equalsIgnoreCase("Z") || text.equals("UTC")) {
      return ZoneOffset.UTC;
    }
    Matcher matcher = OFFSET.matcher(text);
    if (!matcher.matches()) {
      return ZoneId.of(text);
    }
    int minutes =
        Integer.parseInt(matcher.group(2)) * 60
            + (matcher.group(3) == null ? 0 : Integer.parseInt(matcher.group(3)));
    return ZoneOffset.ofTotalSeconds((matcher.group(1).equals("-") ? -minutes : minutes) * 60);
  }

  private static Matcher civil(String text) {
    Matcher matcher = CIVIL.matcher(text);
    if (!matcher.matches()) {
      throw new IllegalArgumentException(text);
    }
    return matcher;
  }

  private static LocalDateTime civilTime(Matcher m) {
    LocalDate date =
        LocalDate.of(
            Integer.parseInt(m.group(1)),
            Integer.parseInt(m.group(2)),
            Integer.parseInt(m.group(3)));
    if (m.group(4) == null) {
      return date.atStartOfDay();
    }
    String fraction = m.group(7) == null ? "" : m.group(7);
    int nanos = Integer.parseInt((fraction + "000000000").substring(0, 9));
    return date.atTime(
        Integer.parseInt(m.group(4)),
        Integer.parseInt(m.group(5)),
        Integer.parseInt(m.group(6)),
        nanos / 1000 * 1000);
  }

  private static LocalTime micros(LocalTime time) {
    return time.withNano(time.getNano() / 1000 * 1000);
  }

  private static IntervalValue parseInterval(String text) {
    Matcher m = INTERVAL.matcher(text);
    if (!m.matches()) {
      throw new IllegalArgumentException(text);
    }
    int months = Integer.parseInt(m.group(2)) * 12 + Integer.parseInt(m.group(3));
    String fraction = m.group(9) == null ? "" : m.group(9);
    long micros =
        ((Long.parseLong(m.group(6)) * 60 + Long.parseLong(m.group(7))) * 60
                    + Long.parseLong(m.group(8)))
                * 1_000_000L
            + Long.parseLong((fraction + "000000").substring(0, 6));
    return IntervalValue.builder()
        .setMonths(m.group(1).equals("-") ? -months : months)
        .setDays(Integer.parseInt(m.group(4)))
        .setMicros(m.group(5).equals("-") ? -micros : micros)
        .setNanoFractions((short) 0)
        .build();
  }

  /** {@code [2024-01-01, UNBOUNDED)}, the literal form of a RANGE. */
  private static Value parseRange(Type type, String text) {
    if (!text.startsWith("[") || !text.endsWith(")") || !text.contains(",")) {
      throw new IllegalArgumentException(text);
    }
    String[] bounds = text.substring(1, text.length() - 1).split(",", 2);
    return range(type, bounds[0].strip(), bounds[1].strip());
  }

  /** A RANGE of its bounds as text; null, empty or UNBOUNDED leaves that side open. */
  static Value range(Type type, String start, String end) {
    Type element = type.asRange().getElementType();
    return Value.createRangeValue(type.asRange(), bound(element, start), bound(element, end));
  }

  private static Value bound(Type element, String text) {
    boolean open =
        text == null
            || text.isEmpty()
            || text.equalsIgnoreCase("UNBOUNDED")
            || text.equalsIgnoreCase("NULL");
    return open ? Value.createNullValue(element) : parse(element, text);
  }
}
