package io.twinbox.bigquery;

import com.google.cloud.bigquery.StandardSQLTypeName;
import java.time.Duration;
import java.time.Instant;
import java.util.Map;

/** One run of a topic's query: where it starts and what it has seen so far. Used by one thread. */
public class ExtractionRun {

  private final String sql;
  private final StandardSQLTypeName watermarkType;
  private final Watermark stored;
  private final Watermark start;
  private final long epoch;
  private final Instant begun = Instant.now();
  private Instant jobStart = begun;
  private Watermark maximum;
  private long bytesProcessed;
  private long read;
  private long queued;
  private long changed;
  private long revived;
  private long rejected;

  /**
   * @param stored the stored watermark, null before the first run
   * @param start what {@code @watermark} is bound to, null when the query does not name it
   * @param epoch the stored watermark's epoch
   */
  ExtractionRun(
      String sql,
      StandardSQLTypeName watermarkType,
      Watermark stored,
      Watermark start,
      long epoch) {
    this.sql = sql;
    this.watermarkType = watermarkType;
    this.stored = stored;
    this.start = start;
    this.epoch = epoch;
  }

  String sql() {
    return sql;
  }

  StandardSQLTypeName watermarkType() {
    return watermarkType;
  }

  Watermark start() {
    return start;
  }

  void saw(Watermark watermark) {
    if (watermark != null && (maximum == null || watermark.compareTo(maximum) > 0)) {
      maximum = watermark;
    }
  }

  void priced(long bytes) {
    bytesProcessed = bytes;
  }

  void startedAt(Instant time) {
    jobStart = time;
  }

  void count(Map<String, Object> chunk) {
    read += number(chunk, "read");
    queued += number(chunk, "queued");
    changed += number(chunk, "changed");
    revived += number(chunk, "revived");
    rejected += number(chunk, "rejected");
  }

  private static long number(Map<String, Object> chunk, String name) {
    return ((Number) chunk.get(name)).longValue();
  }

  /**
   * The parameters of {@code advance-watermark.sql}, or null when the watermark stays where it is.
   */
  Map<String, Object> advance() {
    if (maximum == null) {
      return null;
    }
    Watermark next = maximum.cappedAt(jobStart);
    if (stored != null && next.compareTo(stored) <= 0) {
      return null;
    }
    return stored == null
        ? Map.of(
            "type", watermarkType.name(), "value", next.text(), "epoch", epoch, "startValue", "")
        : Map.of(
            "type",
            watermarkType.name(),
            "value",
            next.text(),
            "epoch",
            epoch,
            "startValue",
            stored.text());
  }

  /** One line of JSON for the log. */
  String summary(String topic, String source) {
    return ("{\"topic\":\"%s\",\"source\":\"%s\",\"read\":%d,\"queued\":%d,\"changed\":%d,\"revived\":%d,\"rejected\":%d,"
            + "\"bytes_processed\":%d,\"watermark\":%s,\"seconds\":%.1f}")
        .formatted(
            topic,
            source,
            read,
            queued,
            changed,
            revived,
            rejected,
            bytesProcessed,
            maximum == null
                ? "null"
                : "\"" + maximum.cappedAt(jobStart).text().replace("\"", "\\\"") + "\"",
            Duration.between(begun, Instant.now()).toMillis() / 1000.0);
  }

  /** Whether the run found anything that earlier runs had not; one that did not is no news. */
  public boolean isEventful() {
    return queued + changed + revived + rejected > 0;
  }
}
