package io.twinbox.bigquery;

import com.google.cloud.bigquery.StandardSQLTypeName;
import io.twinbox.config.TwinboxProperties.Backfill;
import io.twinbox.config.TwinboxProperties.Produce;
import java.time.Instant;
import java.time.LocalDate;
import java.time.LocalDateTime;
import java.time.ZoneOffset;
import java.util.ArrayList;
import java.util.List;

/**
 * The window of a backfill, cut into steps. Times are UTC, and a day has 24 hours.
 *
 * @param name under which it is written down
 * @param step as the operator wrote it, empty for one step
 * @param bounds of the steps: each goes from one of these, up to and without the next
 */
record BackfillWindow(String name, StandardSQLTypeName type, String step, List<Watermark> bounds) {

  static final int MAX_STEPS = 10_000;

  /**
   * @throws IllegalArgumentException when the settings give no window, naming the setting
   */
  static BackfillWindow of(Produce settings) {
    return of(StandardSQLTypeName.valueOf(settings.watermarkType()), settings.backfill());
  }

  static BackfillWindow of(StandardSQLTypeName type, Backfill settings) {
    Watermark from = parse(type, "from", settings.from());
    Watermark until = parse(type, "until", settings.until());
    if (from.compareTo(until) >= 0) {
      throw new IllegalArgumentException(
          "twinbox.produce.backfill.until '%s' is not above twinbox.produce.backfill.from '%s'"
              .formatted(until.text(), from.text()));
    }
    refuseAhead(until);
    String step = text(settings.step());
    List<Watermark> bounds = new ArrayList<>();
    bounds.add(from);
    if (!step.isEmpty()) {
      Watermark next = from.plusStep(step);
      while (next.compareTo(until) < 0) {
        bounds.add(next);
        if (bounds.size() > MAX_STEPS) {
          throw new IllegalArgumentException(
              "twinbox.produce.backfill.step '%s' makes more than %,d steps; make it larger"
                  .formatted(step, MAX_STEPS));
        }
        next = next.plusStep(step);
      }
    }
    bounds.add(until);
    String name = text(settings.name());
    return new BackfillWindow(
        name.isEmpty()
            ? "%s..%s".formatted(from.text(), until.text()) + (step.isEmpty() ? "" : "/" + step)
            : name,
        type,
        step,
        List.copyOf(bounds));
  }

  private static Watermark parse(StandardSQLTypeName type, String which, String text) {
    try {
      return Watermark.parse(type, text(text));
    } catch (IllegalArgumentException e) {
      throw new IllegalArgumentException(
          "twinbox.produce.backfill.%s: %s".formatted(which, e.getMessage()));
    }
  }

  /** A window that is done is not read again, so it must not reach where rows are still to come. */
  private static void refuseAhead(Watermark until) {
    Instant end =
        until.value() instanceof Instant instant
            ? instant
            : until.value() instanceof LocalDateTime dateTime
                ? dateTime.toInstant(ZoneOffset.UTC)
                : until.value() instanceof LocalDate date
                    ? date.atStartOfDay().toInstant(ZoneOffset.UTC)
                    : Instant.MIN;
    if (end.isAfter(Instant.now())) {
      throw new IllegalArgumentException(
          "twinbox.produce.backfill.until '%s' lies ahead; rows that come later would be left out. End the window in the past: the regular runs read what is new"
              .formatted(until.text()));
    }
  }

  private static String text(String setting) {
    return setting == null ? "" : setting.strip();
  }

  List<String> texts() {
    return bounds.stream().map(Watermark::text).toList();
  }
}
