package io.twinbox.bigquery;

import com.google.cloud.bigquery.FieldValue;
import com.google.cloud.bigquery.QueryParameterValue;
import com.google.cloud.bigquery.StandardSQLTypeName;
import java.time.DateTimeException;
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

  /** U+10FFFF is no character and the last code point: no key of somebody's begins with so many. */
  private static final String BEHIND_TEXT = "\uDBFF\uDFFF".repeat(32);

  /** The client (2.57.1) takes a DATETIME with a fraction of a second only. */
  private static final DateTimeFormatter DATETIME_PARAMETER =
      DateTimeFormatter.ofPattern("uuuu-MM-dd HH:mm:ss.SSSSSS", Locale.ROOT);

  /**
   * @param text in BigQuery's notation, a TIMESTAMP in UTC with Z
   * @throws IllegalArgumentException when the text is none of the type
   */
  static Watermark parse(StandardSQLTypeName type, String text) {
    Watermark parsed;
    try {
      parsed =
          new Watermark(
              type,
              switch (type) {
                case TIMESTAMP -> Instant.parse(text);
                case DATETIME -> LocalDateTime.parse(text.replace(' ', 'T'));
                case DATE -> LocalDate.parse(text);
                case INT64 -> Long.valueOf(text);
                case STRING -> text;
                default -> throw new IllegalArgumentException(type + " is no watermark type");
              });
    } catch (DateTimeParseException | NumberFormatException e) {
      throw new IllegalArgumentException(
          "'%s' is no %s; write it as %s".formatted(text, type, example(type)));
    }
    if (parsed.nanos() % 1_000 != 0) {
      // Cut off, it would be another position.
      throw new IllegalArgumentException(
          "'%s' is finer than a microsecond, and a %s is not".formatted(text, type));
    }
    if (parsed.compareTo(first(type)) < 0 || parsed.compareTo(last(type)) > 0) {
      throw new IllegalArgumentException(
          "'%s' is no %s: years go from 0001 to 9999".formatted(text, type));
    }
    return parsed;
  }

  private int nanos() {
    return value instanceof Instant instant
        ? instant.getNano()
        : value instanceof LocalDateTime dateTime ? dateTime.getNano() : 0;
  }

  /** The lowest position of the type, as BigQuery has it. */
  static Watermark first(StandardSQLTypeName type) {
    return new Watermark(
        type,
        switch (type) {
          case TIMESTAMP -> Instant.parse("0001-01-01T00:00:00Z");
          case DATETIME -> LocalDateTime.parse("0001-01-01T00:00:00");
          case DATE -> LocalDate.parse("0001-01-01");
          case INT64 -> Long.MIN_VALUE;
          default -> "";
        });
  }

  /**
   * The highest position of the type, as BigQuery has it; of STRING, which has none, one behind all
   * text.
   */
  static Watermark last(StandardSQLTypeName type) {
    return new Watermark(
        type,
        switch (type) {
          case TIMESTAMP -> Instant.parse("9999-12-31T23:59:59.999999Z");
          case DATETIME -> LocalDateTime.parse("9999-12-31T23:59:59.999999");
          case DATE -> LocalDate.parse("9999-12-31");
          case INT64 -> Long.MAX_VALUE;
          default -> BEHIND_TEXT;
        });
  }

  /**
   * The last position that lies before this one. A STRING has none; it gets one that no text lies
   * behind, up to this one.
   */
  Watermark before() {
    if (compareTo(first(type)) <= 0) {
      throw new IllegalArgumentException("Nothing lies before '%s'".formatted(text()));
    }
    if (value instanceof Instant instant) {
      return new Watermark(type, instant.minus(1, ChronoUnit.MICROS));
    }
    if (value instanceof LocalDateTime dateTime) {
      return new Watermark(type, dateTime.minus(1, ChronoUnit.MICROS));
    }
    if (value instanceof LocalDate date) {
      return new Watermark(type, date.minusDays(1));
    }
    return value instanceof Long number
        ? new Watermark(type, number - 1)
        : new Watermark(type, textBefore((String) value));
  }

  private static String textBefore(String text) {
    int last = text.codePointBefore(text.length());
    String head = text.substring(0, text.length() - Character.charCount(last));
    if (last == 0) {
      return head;
    }
    int before = last == Character.MAX_SURROGATE + 1 ? Character.MIN_SURROGATE - 1 : last - 1;
    return head + Character.toString(before) + BEHIND_TEXT;
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
    Duration duration = duration("twinbox.produce.lookback", lookback.strip());
    if (duration.isNegative()) {
      throw new IllegalArgumentException(
          "twinbox.produce.lookback '%s' is below zero; rows would be left out"
              .formatted(lookback));
    }
    // Part of a day back is a day back: a DATE cannot say less.
    long days =
        duration.toDays() + (duration.compareTo(Duration.ofDays(duration.toDays())) > 0 ? 1 : 0);
    try {
      Watermark back =
          new Watermark(
              type,
              value instanceof Instant instant
                  ? instant.minus(duration).truncatedTo(ChronoUnit.MICROS)
                  : value instanceof LocalDateTime dateTime
                      ? dateTime.minus(duration).truncatedTo(ChronoUnit.MICROS)
                      : ((LocalDate) value).minusDays(days));
      return back.compareTo(first(type)) < 0 ? first(type) : back;
    } catch (DateTimeException | ArithmeticException e) {
      return first(type);
    }
  }

  private static Duration duration(String setting, String text) {
    try {
      return DurationStyle.detectAndParse(text);
    } catch (IllegalArgumentException e) {
      boolean tooLarge =
          e.getCause() instanceof ArithmeticException
              || e.getCause() instanceof NumberFormatException;
      throw new IllegalArgumentException(
          "%s '%s' is %s"
              .formatted(setting, text, tooLarge ? "too large" : "no duration; write it as 1d"));
    }
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
    Duration duration = duration("twinbox.produce.backfill.step", step);
    long days = duration.toDays();
    boolean wholeDays = duration.equals(Duration.ofDays(days));
    if (duration.compareTo(Duration.ofNanos(1_000)) < 0
        || (value instanceof LocalDate && !wholeDays)) {
      throw new IllegalArgumentException(
          "twinbox.produce.backfill.step '%s' is no duration%s; write it as 1d"
              .formatted(step, value instanceof LocalDate ? " of whole days" : " above zero"));
    }
    try {
      Watermark next =
          new Watermark(
              type,
              value instanceof Instant instant
                  ? instant.plus(duration).truncatedTo(ChronoUnit.MICROS)
                  : value instanceof LocalDateTime dateTime
                      ? dateTime.plus(duration).truncatedTo(ChronoUnit.MICROS)
                      : ((LocalDate) value).plusDays(days));
      return next.compareTo(last(type)) > 0 ? last(type) : next;
    } catch (DateTimeException | ArithmeticException e) {
      // Behind the end of time is the end of the window, too.
      return last(type);
    }
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
      // ChronoUnit counts in nanoseconds first, which end in the year 2262.
      return QueryParameterValue.timestamp(
          Math.addExact(
              Math.multiplyExact(instant.getEpochSecond(), 1_000_000L), instant.getNano() / 1_000));
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
