package io.twinbox.bigquery;

import com.google.cloud.bigquery.BigQuery;
import com.google.cloud.bigquery.BigQuery.TableDataListOption;
import com.google.cloud.bigquery.BigQueryError;
import com.google.cloud.bigquery.BigQueryException;
import com.google.cloud.bigquery.FieldValueList;
import com.google.cloud.bigquery.Job;
import com.google.cloud.bigquery.JobId;
import com.google.cloud.bigquery.JobInfo;
import com.google.cloud.bigquery.JobStatistics;
import com.google.cloud.bigquery.JobStatus;
import com.google.cloud.bigquery.QueryJobConfiguration;
import com.google.cloud.bigquery.QueryParameterValue;
import com.google.cloud.bigquery.Schema;
import com.google.cloud.bigquery.StandardSQLTypeName;
import com.google.cloud.bigquery.TableId;
import com.google.cloud.bigquery.TableResult;
import io.twinbox.config.TwinboxProperties;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.time.Instant;
import java.time.LocalDateTime;
import java.time.LocalTime;
import java.time.ZoneOffset;
import java.time.temporal.ChronoUnit;
import java.util.Map;
import java.util.Set;
import java.util.UUID;

/**
 * The keys of the events that a topic's query has in BigQuery, for reconciliation: the query as a
 * subquery of which only keys and positions are read, so that BigQuery leaves the payloads alone.
 * Nothing is written, and nothing is run that costs more than the topic's limits.
 */
public final class SourceEvents {

  /** BigQuery does not answer, or says that one may not ask. */
  public static final class Unreachable extends Exception {
    Unreachable(String message) {
      super(message);
    }
  }

  /** One row, with what its position says about produce. */
  public interface Receiver {
    /**
     * @param key the event's key, null when the query gives none
     * @param topic the topic that it goes to
     * @param watermark position in the notation of its type, null without a watermark
     * @param position where the last run of produce has come
     * @param hash of the payload, as the outbox has it; null when payloads are not compared
     */
    void event(String key, String topic, String watermark, Position position, String hash)
        throws IOException;
  }

  /** Where an event stands towards the stored watermark. */
  public enum Position {
    /** Read by produce, and not read again. */
    BEHIND,
    /** Within the lookback: the next run reads it again. */
    LOOKBACK,
    /** No run has come so far. */
    AHEAD,
    /** It has no position: every run reads it. */
    ALWAYS
  }

  private static final Duration FIRST_POLL = Duration.ofMillis(50);
  private static final Duration LONGEST_POLL = Duration.ofSeconds(5);
  private static final int FORBIDDEN = 403;
  private static final int UNAUTHORIZED = 401;

  private final BigQuery bigQuery;
  private final TwinboxProperties properties;
  private final String topic;
  private final Path queryFile;
  private final String sql;
  private final Retries retries;
  private final StandardSQLTypeName type;
  private final Watermark from;
  private final Watermark until;
  private final Watermark stored;
  private final Watermark lookback;
  private final boolean payloads;
  private Columns columns;

  /**
   * @param project whose jobs these are
   * @param emulatorHost {@code host:port} of a stand-in, or blank
   * @param topic where rows go that name no topic
   * @param from the span's begin: a time, or a position for INT64 and STRING
   * @param stored the stored watermark's text, null before the first run
   * @param payloads whether payloads are read and compared, too
   * @throws IllegalArgumentException when the span does not suit the watermark's type, or is none
   */
  public SourceEvents(
      String project,
      String emulatorHost,
      TwinboxProperties properties,
      String topic,
      String from,
      String until,
      String stored,
      boolean payloads)
      throws IOException {
    this.bigQuery = new BigQueryConfiguration().bigQuery(project, emulatorHost);
    this.properties = properties;
    this.topic = topic;
    this.queryFile = properties.topicDir().resolve("query.sql");
    this.sql = Files.readString(queryFile).replaceFirst(";\\s*$", "");
    this.retries =
        new Retries(properties.produce().retryBase(), properties.produce().retryTimeout());
    this.type = StandardSQLTypeName.valueOf(properties.produce().watermarkType());
    this.from = position(type, from);
    this.until = position(type, until);
    if (this.from.compareTo(this.until) >= 0) {
      throw new IllegalArgumentException(
          "From %s until %s is no span of the watermark".formatted(from, until));
    }
    this.payloads = payloads;
    this.stored = stored == null ? null : Watermark.parse(type, stored);
    this.lookback = this.stored == null ? null : this.stored.minus(properties.produce().lookback());
  }

  private static Watermark position(StandardSQLTypeName type, String text) {
    return switch (type) {
      // BigQuery has no finer time; the span of a command may end now, to the nanosecond.
      case TIMESTAMP -> new Watermark(type, Instant.parse(text).truncatedTo(ChronoUnit.MICROS));
      case DATETIME ->
          new Watermark(
              type,
              LocalDateTime.ofInstant(
                  Instant.parse(text).truncatedTo(ChronoUnit.MICROS), ZoneOffset.UTC));
      case DATE -> {
        LocalDateTime time = LocalDateTime.ofInstant(Instant.parse(text), ZoneOffset.UTC);
        if (!time.toLocalTime().equals(LocalTime.MIDNIGHT)) {
          throw new IllegalArgumentException(
              "The watermark is a DATE, so the span must begin and end at midnight UTC, and %s is none"
                  .formatted(text));
        }
        yield new Watermark(type, time.toLocalDate());
      }
      default -> Watermark.parse(type, text);
    };
  }

  /** Whether the query says when an event came; without that, all its events are compared. */
  public boolean timed() {
    return columns.watermark() != null;
  }

  /** Whether a run leaves out what lies before its watermark; else each reads everything. */
  private boolean filtered() {
    return QueryParameters.of(sql).contains("watermark");
  }

  /** Whether {@code backfill} can read a window of the query. */
  public boolean windowed() {
    Set<String> names = QueryParameters.of(sql);
    return names.contains("last") && names.contains("watermark");
  }

  /** Where rows go that name no topic; produce keeps the watermark under it. */
  public String topic() {
    return topic;
  }

  /** The watermark's type. */
  public String type() {
    return type.name();
  }

  /** The first position after a watermark of this source, to end a window behind it. */
  public String after(String watermark) {
    Watermark last = Watermark.parse(type, watermark);
    Object value = last.value();
    if (value instanceof Instant instant) {
      return new Watermark(type, instant.plusNanos(1_000)).text();
    }
    if (value instanceof LocalDateTime time) {
      return new Watermark(type, time.plusNanos(1_000)).text();
    }
    if (value instanceof java.time.LocalDate date) {
      return date.plusDays(1).toString();
    }
    return value instanceof Long number ? String.valueOf(number + 1) : value + "\u0001";
  }

  /** Which of two watermarks is the smaller one. */
  public String min(String a, String b) {
    return a == null || Watermark.parse(type, b).compareTo(Watermark.parse(type, a)) < 0 ? b : a;
  }

  /** Which of two watermarks is the greater one. */
  public String max(String a, String b) {
    return a == null || Watermark.parse(type, b).compareTo(Watermark.parse(type, a)) > 0 ? b : a;
  }

  /**
   * What reading the span's events will process, by a dry run.
   *
   * @param elsewhere the events outside of the span instead
   * @return bytes
   * @throws IllegalArgumentException for a query that BigQuery or Twinbox refuses
   */
  public long price(boolean elsewhere) throws Unreachable {
    if (columns == null) {
      // The query itself: its columns decide how it can be asked.
      JobStatistics.QueryStatistics raw =
          dryRun(QueryJobConfiguration.newBuilder(sql), elsewhere, false);
      columns = Columns.of(raw.getSchema(), type, queryFile.toString());
    }
    JobStatistics.QueryStatistics statistics =
        dryRun(QueryJobConfiguration.newBuilder(keys(elsewhere)), elsewhere, true);
    return statistics.getTotalBytesProcessed() == null ? 0 : statistics.getTotalBytesProcessed();
  }

  private JobStatistics.QueryStatistics dryRun(
      QueryJobConfiguration.Builder builder, boolean elsewhere, boolean span) throws Unreachable {
    JobInfo.Builder request =
        JobInfo.newBuilder(bind(builder, elsewhere, span).setDryRun(true).build());
    String location = properties.produce().location();
    if (!location.isBlank()) {
      request.setJobId(JobId.newBuilder().setLocation(location.strip()).build());
    }
    return ask("the price of the query", () -> bigQuery.create(request.build())).getStatistics();
  }

  /**
   * One row per event. What stands before the query stands on its first line: faults keep theirs.
   */
  private String keys(boolean elsewhere) {
    String topicName = columns.hasTopicName() ? "topic_name" : "CAST(NULL AS STRING)";
    String watermark = timed() ? "watermark" : "NULL";
    String where = "";
    if (timed()) {
      // A row without a position lies in no span and would be in nobody's proof.
      where =
          " WHERE watermark >= @twinbox_from AND watermark < @twinbox_until OR watermark IS NULL";
      if (elsewhere) {
        where =
            " WHERE watermark IS NULL OR watermark < @twinbox_from OR watermark >= @twinbox_until";
      }
    }
    // As pubsub_outbox.payload_hash is computed.
    String hash =
        payloads && !elsewhere ? "TO_HEX(SUBSTR(SHA256(payload), 1, 16))" : "CAST(NULL AS STRING)";
    return "SELECT event_key, IFNULL(%s, @twinbox_topic) AS topic, %s AS position, %s AS payload_hash FROM (%s%n)%s"
        .formatted(topicName, watermark, hash, sql, where);
  }

  private QueryJobConfiguration.Builder bind(
      QueryJobConfiguration.Builder builder, boolean elsewhere, boolean span) {
    builder.setUseLegacySql(false).setLabels(Map.of("twinbox-command", "reconcile"));
    if (QueryParameters.of(sql).contains("watermark")) {
      builder.addNamedParameter(
          "watermark", (elsewhere ? Watermark.first(type) : from).parameter());
    }
    if (QueryParameters.of(sql).contains("last")) {
      builder.addNamedParameter(
          "last", (elsewhere ? Watermark.last(type) : until.before()).parameter());
    }
    if (span) {
      builder.addNamedParameter("twinbox_topic", QueryParameterValue.string(topic));
      if (timed()) {
        builder.addNamedParameter("twinbox_from", from.parameter());
        builder.addNamedParameter("twinbox_until", until.parameter());
      }
    }
    return builder;
  }

  /**
   * Reads the events, page by page.
   *
   * @param bytesAllowed what BigQuery itself holds the job to; 0 for no limit
   */
  public void read(boolean elsewhere, long bytesAllowed, Receiver receiver)
      throws Unreachable, IOException {
    QueryJobConfiguration.Builder builder =
        bind(QueryJobConfiguration.newBuilder(keys(elsewhere)), elsewhere, true)
            .setJobTimeoutMs(properties.produce().jobTimeout().toMillis());
    if (bytesAllowed > 0) {
      builder.setMaximumBytesBilled(bytesAllowed);
    }
    String location = properties.produce().location();
    JobId.Builder id = JobId.newBuilder().setJob("twinbox-reconcile-" + UUID.randomUUID());
    if (!location.isBlank()) {
      id.setLocation(location.strip());
    }
    JobInfo info = JobInfo.of(id.build(), builder.build());
    Job job = ask("the start of the query", () -> bigQuery.create(info));
    Duration pause = FIRST_POLL;
    JobId running = job.getJobId();
    while (job == null || !JobStatus.State.DONE.equals(job.getStatus().getState())) {
      Retries.sleep(pause);
      pause =
          pause.multipliedBy(2).compareTo(LONGEST_POLL) > 0 ? LONGEST_POLL : pause.multipliedBy(2);
      job = ask("the state of the query", () -> bigQuery.getJob(running));
      if (job == null) {
        throw new Unreachable("BigQuery no longer knows the job; run it again");
      }
    }
    if (job.getStatus().getError() != null) {
      BigQueryError error = job.getStatus().getError();
      throw new Unreachable(
          QueryFault.of(queryFile, new BigQueryException(0, error.getMessage(), error))
              .getMessage());
    }
    TableId result = ((QueryJobConfiguration) job.getConfiguration()).getDestinationTable();
    Job done = job;
    TableResult page =
        ask(
            "the first rows",
            () -> {
              try {
                return done.getQueryResults(
                    BigQuery.QueryResultsOption.pageSize(properties.produce().pageRows()));
              } catch (InterruptedException e) {
                Thread.currentThread().interrupt();
                throw new IllegalStateException(e);
              }
            });
    Schema schema = page.getSchema();
    while (true) {
      for (FieldValueList row : page.getValues()) {
        receive(row, receiver);
      }
      if (!page.hasNextPage()) {
        return;
      }
      String token = page.getNextPageToken();
      page =
          ask(
              "a page of rows",
              () ->
                  bigQuery.listTableData(
                      result,
                      schema,
                      TableDataListOption.pageSize(properties.produce().pageRows()),
                      TableDataListOption.pageToken(token)));
    }
  }

  private void receive(FieldValueList row, Receiver receiver) throws IOException {
    String topicName = row.get("topic").getStringValue();
    Watermark watermark = timed() ? Watermark.of(type, row.get("position")) : null;
    Position position = Position.ALWAYS;
    if (watermark != null && filtered()) {
      position =
          stored == null || watermark.compareTo(stored) > 0
              ? Position.AHEAD
              : watermark.compareTo(lookback) >= 0 ? Position.LOOKBACK : Position.BEHIND;
    }
    receiver.event(
        row.get("event_key").isNull() ? null : row.get("event_key").getStringValue(),
        topicName,
        watermark == null ? null : watermark.text(),
        position,
        row.get("payload_hash").isNull() ? null : row.get("payload_hash").getStringValue());
  }

  private <T> T ask(String what, java.util.function.Supplier<T> call) throws Unreachable {
    try {
      return retries.call(what, call);
    } catch (Retries.NoAnswer e) {
      throw new Unreachable(e.getMessage());
    } catch (BigQueryException e) {
      RuntimeException fault = QueryFault.of(queryFile, e);
      if (e.getCode() == FORBIDDEN || e.getCode() == UNAUTHORIZED) {
        throw new Unreachable(fault.getMessage());
      }
      throw new IllegalArgumentException(fault.getMessage());
    }
  }
}
