package io.twinbox.bigquery;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.google.cloud.bigquery.JobId;
import com.google.cloud.bigquery.JobStatistics;
import com.google.cloud.bigquery.StandardSQLTypeName;
import java.time.Duration;
import java.time.Instant;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/** One run of a topic's query: where it starts and what it has seen so far. Used by one thread. */
public class ExtractionRun {

  private static final ObjectMapper JSON = new ObjectMapper();
  private static final Duration SAY_EVERY = Duration.ofSeconds(10);
  private static final Logger log = LoggerFactory.getLogger("io.twinbox.produce");

  private final String id;
  private final String sql;
  private final StandardSQLTypeName watermarkType;
  private final Watermark stored;
  private final Watermark start;
  private final long epoch;
  private final Step step;
  private final ProduceFigures figures;
  private final Instant begun = Instant.now();
  private Instant jobStart = begun;
  private Watermark maximum;
  private String location;
  private long bytesEstimated;
  private long spentToday;
  private boolean entered;
  private boolean succeeded;
  private JobId jobId;
  private int jobs;
  private int jobsEnded;
  private long bytesProcessed;
  private long bytesBilled;
  private long slotMillis;
  private long read;
  private long queued;
  private long changed;
  private long revived;
  private long rejected;
  private long fresh;
  private long total;
  private QueryRows open;
  private boolean closed;
  private Instant lastSaid = begun;

  /**
   * What makes a run the step of a backfill.
   *
   * @param backfill its name
   * @param number of the step, from 1
   * @param until the first position behind it; {@code @last} is the one before
   */
  record Step(String backfill, int number, Watermark until) {}

  /**
   * @param id of this run, unique
   * @param stored the stored watermark, null before the first run
   * @param start what {@code @watermark} is bound to, null when the query does not name it
   * @param epoch the stored watermark's epoch
   * @param step null for a regular run
   */
  ExtractionRun(
      String id,
      String sql,
      StandardSQLTypeName watermarkType,
      Watermark stored,
      Watermark start,
      long epoch,
      Step step,
      ProduceFigures figures) {
    this.step = step;
    this.figures = figures;
    this.id = id;
    this.sql = sql;
    this.watermarkType = watermarkType;
    this.stored = stored;
    this.start = start;
    this.epoch = epoch;
  }

  String id() {
    return id;
  }

  String sql() {
    return sql;
  }

  StandardSQLTypeName watermarkType() {
    return watermarkType;
  }

  /** Null for a regular run. */
  Step step() {
    return step;
  }

  Watermark start() {
    return start;
  }

  void saw(Watermark watermark) {
    if (watermark != null && (maximum == null || watermark.compareTo(maximum) > 0)) {
      maximum = watermark;
    }
  }

  /**
   * @param bytes what the dry run says the query will process
   * @param where the location that BigQuery found for it
   */
  void priced(long bytes, String where) {
    bytesEstimated = bytes;
    location = where;
  }

  /** What the dry run says the query will process. */
  public long estimate() {
    return bytesEstimated;
  }

  String location() {
    return location;
  }

  /** The stored watermark's text, null before the first run. */
  public String watermarkBefore() {
    return stored == null ? null : stored.text();
  }

  /** The run is in {@code produce_run}; {@code spent} is what the day had cost before it. */
  void entered(long spent) {
    entered = true;
    spentToday = spent;
  }

  boolean isEntered() {
    return entered;
  }

  long spentToday() {
    return spentToday;
  }

  /** An id that no job had before: BigQuery answers a second one of the same id with the first. */
  JobId nextJobId() {
    jobs++;
    jobId =
        JobId.newBuilder()
            .setJob("twinbox-%s-%d".formatted(id, jobs))
            .setLocation(location)
            .build();
    return jobId;
  }

  String jobId() {
    return jobId == null ? null : jobId.getJob();
  }

  int jobs() {
    return jobs;
  }

  /** BigQuery refused the job, so it costs nothing. */
  void notStarted() {
    jobsEnded++;
  }

  /** A job is done, well or not, and says what it cost. */
  void ended(JobStatistics statistics) {
    jobsEnded++;
    if (statistics.getStartTime() != null) {
      jobStart = Instant.ofEpochMilli(statistics.getStartTime());
    }
    long slots = orZero(statistics.getTotalSlotMs());
    long processed = 0;
    long billed = 0;
    if (statistics instanceof JobStatistics.QueryStatistics query) {
      processed = orZero(query.getTotalBytesProcessed());
      billed = orZero(query.getTotalBytesBilled());
    }
    slotMillis += slots;
    bytesProcessed += processed;
    bytesBilled += billed;
    figures.jobEnded(processed, billed, slots);
  }

  private static long orZero(Long number) {
    return number == null ? 0 : number;
  }

  /**
   * @param rows of the result, as BigQuery counts them
   */
  void expects(long rows) {
    total = read + rows;
  }

  /** What the run holds until its end. */
  void reads(QueryRows rows) {
    open = rows;
  }

  /** Whatever the run still reads is given up. */
  void close() {
    closed = true;
    if (open != null) {
      open.close();
    }
  }

  boolean isClosed() {
    return closed;
  }

  /** The query is run again: what is not in the new result must not move the watermark. */
  void startOver() {
    maximum = null;
  }

  void count(Map<String, Object> chunk) {
    read += number(chunk, "read");
    queued += number(chunk, "queued");
    changed += number(chunk, "changed");
    revived += number(chunk, "revived");
    rejected += number(chunk, "rejected");
    fresh += number(chunk, "fresh");
    figures.chunk(chunk);
    sayProgress();
  }

  /** A long run says how far it is, every ten seconds. */
  private void sayProgress() {
    Instant now = Instant.now();
    if (now.isBefore(lastSaid.plus(SAY_EVERY))) {
      return;
    }
    lastSaid = now;
    log.info(
        "{}: {} of {} rows read ({} %), {} queued, {} bytes billed so far",
        step == null
            ? "Run " + id
            : "Backfill %s, step %d".formatted(step.backfill(), step.number()),
        "%,d".formatted(read),
        "%,d".formatted(Math.max(read, total)),
        percent(read, Math.max(read, total)),
        "%,d".formatted(queued),
        "%,d".formatted(bytesBilled()));
  }

  /** Whole percents, rounded down, so that 100 means all. */
  static long percent(long part, long whole) {
    return whole == 0 ? 100 : part * 100 / whole;
  }

  private static long number(Map<String, Object> chunk, String name) {
    return ((Number) chunk.get(name)).longValue();
  }

  void succeeded() {
    succeeded = true;
  }

  /**
   * The parameters of {@code advance-watermark.sql}, or null when the watermark stays where it is.
   */
  Map<String, Object> advance() {
    if (maximum == null || step != null) {
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

  private String watermarkAfter() {
    return maximum == null || step != null ? null : maximum.cappedAt(jobStart).text();
  }

  /** Jobs whose end was not seen count with the estimate. */
  long bytesBilled() {
    return bytesBilled + (jobs - jobsEnded) * bytesEstimated;
  }

  /**
   * The parameters of {@code finish-run.sql}.
   *
   * @param error why it failed, null when it did not
   */
  Map<String, Object> finish(String error) {
    figures.runEnded(succeeded && error == null);
    Map<String, Object> values = new HashMap<>();
    values.put("state", succeeded && error == null ? "succeeded" : "failed");
    values.put("bytesProcessed", bytesProcessed);
    values.put("bytesBilled", bytesBilled());
    values.put("slotMs", slotMillis);
    values.put("jobs", jobs);
    // Of these the rows are in produce_run already, each chunk's with the chunk; metrics take them.
    values.put("read", read);
    values.put("queued", queued);
    values.put("changed", changed);
    values.put("revived", revived);
    values.put("rejected", rejected);
    values.put("watermarkAfter", succeeded && error == null ? watermarkAfter() : null);
    values.put("error", error);
    return values;
  }

  /** One line of JSON for the log. */
  String summary(String topic, String source) {
    Map<String, Object> line = new LinkedHashMap<>();
    line.put("topic", topic);
    line.put("source", source);
    line.put("read", read);
    line.put("queued", queued);
    line.put("changed", changed);
    line.put("revived", revived);
    line.put("rejected", rejected);
    line.put("bytes_processed", bytesProcessed);
    line.put("bytes_billed", bytesBilled());
    line.put("slot_ms", slotMillis);
    line.put("jobs", jobs);
    line.put("watermark", watermarkAfter());
    line.put("seconds", Duration.between(begun, Instant.now()).toMillis() / 100 / 10.0);
    line.put("run", id);
    return json(line);
  }

  static String json(Map<String, Object> line) {
    try {
      return JSON.writeValueAsString(line);
    } catch (JsonProcessingException e) {
      throw new IllegalStateException(e);
    }
  }

  /** Whether the run found anything that earlier runs had not; one that did not is no news. */
  public boolean isEventful() {
    return queued + revived + fresh > 0;
  }
}
