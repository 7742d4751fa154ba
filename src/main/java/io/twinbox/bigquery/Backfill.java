package io.twinbox.bigquery;

import io.twinbox.config.TwinboxProperties;
import java.io.IOException;
import java.time.Duration;
import java.time.Instant;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.UUID;
import org.apache.camel.Body;
import org.apache.camel.ExchangeProperty;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The steps of {@code produce-backfill} that are not SQL: the window's bounds, the run of a step,
 * and what is said on the terminal.
 */
public class Backfill {

  private static final Duration WAIT = Duration.ofSeconds(1);
  private static final Logger log = LoggerFactory.getLogger("io.twinbox.produce");

  private final Extraction extraction;
  private final TwinboxProperties properties;
  private final String topic;
  private final ProduceFigures figures;
  private final String token = UUID.randomUUID().toString();
  private final Instant begun = Instant.now();
  private long said = -1;

  Backfill(
      Extraction extraction, TwinboxProperties properties, String topic, ProduceFigures figures) {
    this.extraction = extraction;
    this.properties = properties;
    this.topic = topic;
    this.figures = figures;
  }

  /** This process in its claims. */
  public String token() {
    return token;
  }

  /**
   * The parameters of {@code begin-backfill.sql}.
   *
   * @throws IllegalArgumentException when the settings give no window, or the query takes none
   */
  public Map<String, Object> window() throws IOException {
    BackfillWindow window = BackfillWindow.of(properties.produce());
    extraction.requireWindow();
    return Map.of(
        "name", window.name(),
        "type", window.type().name(),
        "step", window.step(),
        "bounds", window.texts().toArray(String[]::new));
  }

  /**
   * The backfill's name, when it is written down with the window that the settings give.
   *
   * @param stored the row of {@code begin-backfill.sql}
   */
  public String begun(@Body Map<String, Object> stored) {
    BackfillWindow window = BackfillWindow.of(properties.produce());
    Map<String, String> asked =
        Map.of(
            "type", window.type().name(),
            "from_value", window.texts().get(0),
            "until_value", window.texts().get(window.texts().size() - 1),
            "step", window.step());
    if (!asked.entrySet().stream().allMatch(e -> e.getValue().equals(stored.get(e.getKey())))) {
      throw new IllegalArgumentException(
          "There is a backfill named '%s' of topic %s, source %s with another window: %s from %s until %s, step '%s'. Give twinbox.produce.backfill.name another value"
              .formatted(
                  window.name(),
                  topic,
                  properties.source(),
                  stored.get("type"),
                  stored.get("from_value"),
                  stored.get("until_value"),
                  stored.get("step")));
    }
    return window.name();
  }

  /** The run of a claimed step. */
  public ExtractionRun plan(
      @ExchangeProperty("step") Map<String, Object> step,
      @ExchangeProperty("backfill") String name,
      @ExchangeProperty("runId") String runId)
      throws IOException {
    return extraction.planStep(
        runId,
        name,
        ((Number) step.get("number")).intValue(),
        (String) step.get("from_value"),
        (String) step.get("until_value"));
  }

  /** As {@link #progress}, at the start. */
  public boolean found(
      @Body Map<String, Object> progress, @ExchangeProperty("backfill") String name) {
    figures.backfill(progress);
    long done = number(progress, "steps_done");
    said = done;
    long steps = number(progress, "steps");
    if (done == steps) {
      log.info(
          "Backfill {} is done already; nothing is read. Under another twinbox.produce.backfill.name the window is read again.",
          name);
    } else if (done > 0) {
      log.info("Backfill {} goes on: {}", name, line(progress));
    } else {
      log.info("Backfill {} begins: {} steps", name, steps);
    }
    return done < steps;
  }

  /**
   * Says how far the backfill is, when that is news.
   *
   * @return whether steps are left
   */
  public boolean progress(
      @Body Map<String, Object> progress, @ExchangeProperty("backfill") String name) {
    figures.backfill(progress);
    long done = number(progress, "steps_done");
    if (done != said) {
      said = done;
      log.info("Backfill {}: {}", name, line(progress));
    }
    return done < number(progress, "steps");
  }

  private static String line(Map<String, Object> progress) {
    return "%,d of %,d steps done (%s %%), %,d rows read, %,d queued, %,d rejected, %,d bytes billed so far"
        .formatted(
            number(progress, "steps_done"),
            number(progress, "steps"),
            ExtractionRun.percent(number(progress, "steps_done"), number(progress, "steps")),
            number(progress, "rows_read"),
            number(progress, "rows_queued"),
            number(progress, "rows_rejected"),
            number(progress, "bytes_billed"));
  }

  /** Other processes work on the steps that are left. */
  public void awaitOthers() {
    Retries.sleep(WAIT);
  }

  /** What the whole backfill did, over all processes, as one line of JSON. */
  public String summary(
      @Body Map<String, Object> progress, @ExchangeProperty("backfill") String name) {
    BackfillWindow window = BackfillWindow.of(properties.produce());
    Map<String, Object> line = new LinkedHashMap<>();
    line.put("backfill", name);
    line.put("topic", topic);
    line.put("source", properties.source());
    line.put("from", window.texts().get(0));
    line.put("until", window.texts().get(window.texts().size() - 1));
    line.put("steps", number(progress, "steps"));
    line.put("steps_done", number(progress, "steps_done"));
    line.put("read", number(progress, "rows_read"));
    line.put("queued", number(progress, "rows_queued"));
    line.put("changed", number(progress, "rows_changed"));
    line.put("revived", number(progress, "rows_revived"));
    line.put("rejected", number(progress, "rows_rejected"));
    line.put("bytes_billed", number(progress, "bytes_billed"));
    line.put("seconds", Duration.between(begun, Instant.now()).toMillis() / 100 / 10.0);
    return ExtractionRun.json(line);
  }

  private static long number(Map<String, Object> row, String name) {
    return ((Number) row.get(name)).longValue();
  }
}
