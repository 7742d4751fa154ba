package io.twinbox.bigquery;

import com.google.cloud.bigquery.FieldValue;
import com.google.cloud.bigquery.QueryParameterValue;
import com.google.cloud.bigquery.StandardSQLTypeName;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.time.format.DateTimeFormatterBuilder;
import java.time.format.DateTimeParseException;
import java.time.temporal.ChronoField;
import java.time.temporal.ChronoUnit;
import java.util.Locale;
import org.springframework.boot.convert.DurationStyle;

/**
 * A typed position in a source: comparable, and exact to the microsecond, which is BigQuery's own
 * resolution.
 *
 * @param type BigQuery's type
 * @param value Instant, LocalDateTime, LocalDate, Long or String, by the type
 */
record Watermark(StandardSQLTypeName type, Comparable<?> value) implements Comparable<Watermark> {

  private static final DateTimeFormatter DATETIME =
      new DateTimeFormatterBuilder()
          .appendPattern("uuuu-MM-dd'T'HH:mm:ss")
          .appendFraction(ChronoField.MICRO_OF_SECOND, 0, 6, true)
          .toFormatter();

  /** The client (2.57.1) takes a DATETIME with a fraction of a second only. */
  private static final DateTimeFormatter DATETIME_PARAMETER =
      DateTimeFormatter.ofPattern("uuuu-MM-dd HH:mm:ss.SSSSSS", Locale.ROOT);

  /**
   * @param text in BigQuery's notation, a TIMESTAMP in UTC with Z
   * @throws IllegalArgumentException when the text is none of the type
   */
  static Watermark parse(StandardSQLTypeName type, String text) {
    try {
      return new Watermark(
          type,
          switch (type) {
            case TIMESTAMP -> Instant.parse(text).truncatedTo(ChronoUnit.MICROS);
            case DATETIME ->
                LocalDateTime.parse(text.replace(' ', 'T')).truncatedTo(ChronoUnit.MICROS);
            case DATE -> LocalDate.parse(text);
            case INT64 -> Long.valueOf(text);
            case STRING -> text;
            default -> throw new IllegalArgumentException(type + " is no watermark type");
          });
    } catch (DateTimeParseException | NumberFormatException e) {
      throw new IllegalArgumentException(
          "'%s' is no %s; write it as %s".formatted(text, type, example(type)));
    }
  }

  private static String example(StandardSQLTypeName type) {
    return switch (type) {
      case TIMESTAMP -> "2026-01-31T09:00:00Z";
      case DATETIME -> "2026-01-31T09:00:00";
      case DATE -> "2026-01-31";
      default -> "12345";
    };
  }

  /** The value of a result's column; null when it is NULL. */
  static Watermark of(StandardSQLTypeName type, FieldValue field) {
    if (field.isNull()) {
      return null;
    }
    return type == StandardSQLTypeName.TIMESTAMP
        ? new Watermark(type, micros(field.getTimestampValue()))
        : parse(type, field.getStringValue());
  }

  private static Instant micros(long micros) {
    return Instant.EPOCH.plus(micros, ChronoUnit.MICROS);
  }

  /** The exact text that is stored, and that {@link #parse} reads. */
  String text() {
    return value instanceof LocalDateTime dateTime ? DATETIME.format(dateTime) : value.toString();
  }

  /**
   * The position from which a run reads again.
   *
   * @param lookback a duration, a number for INT64, blank for none
   * @throws IllegalArgumentException when the lookback does not suit the type
   */
  Watermark minus(String lookback) {
    if (lookback == null || lookback.isBlank() || type == StandardSQLTypeName.STRING) {
      return this;
    }
    if (value instanceof Long number) {
      try {
        return new Watermark(type, Math.subtractExact(number, Long.parseLong(lookback.strip())));
      } catch (NumberFormatException e) {
        throw new IllegalArgumentException(
            "twinbox.produce.lookback '%s' is no number, which an INT64 watermark needs"
                .formatted(lookback));
      } catch (ArithmeticException e) {
        return new Watermark(type, Long.MIN_VALUE);
      }
    }
    Duration duration = DurationStyle.detectAndParse(lookback.strip());
    if (value instanceof Instant instant) {
      return new Watermark(type, instant.minus(duration));
    }
    if (value instanceof LocalDateTime dateTime) {
      return new Watermark(type, dateTime.minus(duration));
    }
    // Part of a day back is a day back: a DATE cannot say less.
    long days =
        duration.toDays() + (duration.compareTo(Duration.ofDays(duration.toDays())) > 0 ? 1 : 0);
    return new Watermark(type, ((LocalDate) value).minusDays(days));
  }

  /**
   * The position one step of a backfill further on, always above this one.
   *
   * @param step a duration, whole days for DATE, a number for INT64
   * @throws IllegalArgumentException when the step does not suit the type
   */
  Watermark plusStep(String step) {
    if (value instanceof String) {
      throw new IllegalArgumentException(
          "twinbox.produce.backfill.step '%s': a STRING watermark has no steps; leave it out, or make several backfills"
              .formatted(step));
    }
    if (value instanceof Long number) {
      if (!step.matches("[0-9]{1,18}") || Long.parseLong(step) == 0) {
        throw new IllegalArgumentException(
            "twinbox.produce.backfill.step '%s' is no number above 0, which an INT64 watermark needs"
                .formatted(step));
      }
      long size = Long.parseLong(step);
      return new Watermark(
          type, number > Long.MAX_VALUE - size ? (Long) Long.MAX_VALUE : (Long) (number + size));
    }
    Duration duration;
    try {
      duration = DurationStyle.detectAndParse(step);
    } catch (IllegalArgumentException e) {
      duration = Duration.ZERO;
    }
    long days = duration.toDays();
    boolean wholeDays = duration.equals(Duration.ofDays(days));
    if (duration.compareTo(Duration.ofNanos(1_000)) < 0
        || (value instanceof LocalDate && !wholeDays)) {
      throw new IllegalArgumentException(
          "twinbox.produce.backfill.step '%s' is no duration%s; write it as 1d"
              .formatted(step, value instanceof LocalDate ? " of whole days" : " above zero"));
    }
    if (value instanceof Instant instant) {
      return new Watermark(type, instant.plus(duration).truncatedTo(ChronoUnit.MICROS));
    }
    if (value instanceof LocalDateTime dateTime) {
      return new Watermark(type, dateTime.plus(duration).truncatedTo(ChronoUnit.MICROS));
    }
    return new Watermark(type, ((LocalDate) value).plusDays(days));
  }

  /**
   * The smaller of this and the time at which the job started: a row dated ahead must not silence
   * the stream.
   */
  Watermark cappedAt(Instant jobStart) {
    Watermark cap =
        switch (type) {
          case TIMESTAMP -> new Watermark(type, jobStart.truncatedTo(ChronoUnit.MICROS));
          case DATETIME ->
              new Watermark(
                  type,
                  LocalDateTime.ofInstant(jobStart, ZoneOffset.UTC).truncatedTo(ChronoUnit.MICROS));
          case DATE -> new Watermark(type, LocalDate.ofInstant(jobStart, ZoneOffset.UTC));
          default -> this;
        };
    return compareTo(cap) <= 0 ? this : cap;
  }

  /** As a query parameter of exactly this type. */
  QueryParameterValue parameter() {
    if (value instanceof Instant instant) {
      return QueryParameterValue.timestamp(ChronoUnit.MICROS.between(Instant.EPOCH, instant));
    }
    if (value instanceof LocalDateTime dateTime) {
      return QueryParameterValue.dateTime(DATETIME_PARAMETER.format(dateTime));
    }
    if (value instanceof LocalDate date) {
      return QueryParameterValue.date(date.toString());
    }
    return value instanceof Long number
        ? QueryParameterValue.int64(number)
        : QueryParameterValue.string((String) value);
  }

  /** The parameter of this type without a value. */
  static QueryParameterValue none(StandardSQLTypeName type) {
    return QueryParameterValue.of(null, type);
  }

  /** Compares two watermarks of one type; another type is a programming error. */
  @Override
  @SuppressWarnings("unchecked")
  public int compareTo(Watermark other) {
    if (type != other.type) {
      throw new IllegalArgumentException(
          "A %s watermark is not comparable to a %s".formatted(type, other.type));
    }
    if (value instanceof String text) {
      // BigQuery compares strings by their code points, Java by UTF-16 units.
      return compareCodePoints(text, (String) other.value);
    }
    return ((Comparable<Object>) value).compareTo(other.value);
  }

  private static int compareCodePoints(String left, String right) {
    int[] l = left.codePoints().toArray();
    int[] r = right.codePoints().toArray();
    return java.util.Arrays.compare(l, r);
  }
}
