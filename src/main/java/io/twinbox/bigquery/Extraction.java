package io.twinbox.bigquery;

import com.google.cloud.bigquery.BigQuery;
import com.google.cloud.bigquery.BigQueryException;
import com.google.cloud.bigquery.Job;
import com.google.cloud.bigquery.JobId;
import com.google.cloud.bigquery.JobInfo;
import com.google.cloud.bigquery.JobStatistics;
import com.google.cloud.bigquery.JobStatistics.QueryStatistics.StatementType;
import com.google.cloud.bigquery.QueryJobConfiguration;
import com.google.cloud.bigquery.Schema;
import com.google.cloud.bigquery.StandardSQLTypeName;
import io.twinbox.config.Causes;
import io.twinbox.config.TwinboxProperties;
import io.twinbox.config.TwinboxProperties.Produce;
import java.io.IOException;
import java.nio.file.Path;
import java.util.HashMap;
import java.util.Iterator;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.stream.Stream;
import org.apache.camel.Body;
import org.apache.camel.Exchange;
import org.apache.camel.ExchangeProperty;

/**
 * The steps of {@code produce} that talk to BigQuery. Camel's own component offers neither dry run
 * nor limit, labels, location or timeout, and binds a timestamp as a date ({@code
 * docs/adr/0003-bigquery-client.md}).
 */
public class Extraction {

  private static final String WATERMARK = "watermark";
  private static final String LAST = "last";

  private final BigQuery bigQuery;
  private final TwinboxProperties properties;
  private final String topic;
  private final Path queryFile;
  private final Retries retries;
  private final ProduceFigures figures;
  private final Query query;

  /** Where the query's text comes from: its file, or what an edit of it left in force. */
  interface Query {
    String text() throws IOException;
  }

  Extraction(
      BigQuery bigQuery,
      TwinboxProperties properties,
      String topic,
      ProduceFigures figures,
      Query query) {
    this.query = query;
    this.figures = figures;
    this.bigQuery = bigQuery;
    this.properties = properties;
    this.topic = topic;
    this.queryFile = properties.topicDir().resolve("query.sql");
    this.retries =
        new Retries(properties.produce().retryBase(), properties.produce().retryTimeout());
  }

  /**
   * Plans a regular run; where a backfill is asked for, as for its check, the run of its first
   * step.
   *
   * @param stored the row of {@code read-watermark.sql}, null before the first run
   */
  public ExtractionRun plan(
      @Body Map<String, Object> stored, @ExchangeProperty("runId") String runId)
      throws IOException {
    Produce settings = properties.produce();
    if (settings.backfill().asked()) {
      BackfillWindow window = BackfillWindow.of(settings);
      requireWindow();
      return planStep(runId, window.name(), 1, window.texts().get(0), window.texts().get(1));
    }
    String sql = query.text();
    StandardSQLTypeName type = StandardSQLTypeName.valueOf(settings.watermarkType());
    Watermark position = null;
    long epoch = 0;
    if (stored != null) {
      if (!stored.get("type").equals(type.name())) {
        throw new IllegalArgumentException(
            "The stored watermark of topic %s, source %s is %s, but twinbox.produce.watermark-type says %s. Correct the property, or set the watermark anew."
                .formatted(topic, properties.source(), stored.get("type"), type));
      }
      position = Watermark.parse(type, (String) stored.get("value"));
      epoch = ((Number) stored.get("epoch")).longValue();
    }
    Watermark start = null;
    if (QueryParameters.of(sql).contains(WATERMARK)) {
      start = position != null ? position.minus(settings.lookback()) : first(settings, type);
    }
    return new ExtractionRun(runId, sql, type, position, start, epoch, null, figures);
  }

  /** The run of a backfill's step; the stored watermark has no part in it. */
  ExtractionRun planStep(String runId, String backfill, int number, String from, String until)
      throws IOException {
    StandardSQLTypeName type = StandardSQLTypeName.valueOf(properties.produce().watermarkType());
    return new ExtractionRun(
        runId,
        query.text(),
        type,
        null,
        Watermark.parse(type, from),
        0,
        new ExtractionRun.Step(backfill, number, Watermark.parse(type, until)),
        figures);
  }

  /**
   * A query that leaves one of the window's ends out would read all rows with every step.
   *
   * @throws IllegalArgumentException naming what it lacks
   */
  void requireWindow() throws IOException {
    Set<String> names = QueryParameters.of(query.text());
    List<String> missing =
        Stream.of(WATERMARK, LAST)
            .filter(name -> !names.contains(name))
            .map(name -> "@" + name)
            .toList();
    if (!missing.isEmpty()) {
      throw new IllegalArgumentException(
          "%s does not use %s, so it cannot be held to a backfill's window. Write its filter as: WHERE t.updated_at BETWEEN @watermark AND @last"
              .formatted(queryFile, String.join(" and ", missing)));
    }
  }

  private Watermark first(Produce settings, StandardSQLTypeName type) {
    if (settings.firstWatermark() == null || settings.firstWatermark().isBlank()) {
      throw new IllegalArgumentException(
          "%s names @watermark, and nothing says where the first run starts. Set twinbox.produce.first-watermark."
              .formatted(queryFile));
    }
    try {
      return Watermark.parse(type, settings.firstWatermark().strip());
    } catch (IllegalArgumentException e) {
      throw new IllegalArgumentException("twinbox.produce.first-watermark " + e.getMessage());
    }
  }

  /**
   * Prices the query with a dry run, which BigQuery does not charge. Refuses a query over the limit
   * of a run, and one whose columns are wrong: it has cost nothing then.
   */
  public ExtractionRun price(@Body ExtractionRun run) {
    JobInfo.Builder request = JobInfo.newBuilder(configuration(run).setDryRun(true).build());
    String location = properties.produce().location();
    if (!location.isBlank()) {
      request.setJobId(JobId.newBuilder().setLocation(location.strip()).build());
    }
    Job job;
    try {
      job = retries.call("the price of the query", () -> bigQuery.create(request.build()));
    } catch (BigQueryException e) {
      throw QueryFault.of(queryFile, e);
    }
    JobStatistics.QueryStatistics statistics = job.getStatistics();
    StatementType statement = statistics.getStatementType();
    if (statement != null && !statement.equals(StatementType.SELECT)) {
      throw new IllegalStateException(
          "%s is a statement of type %s and must be one SELECT. It was not run."
              .formatted(queryFile, statement));
    }
    if (statistics.getSchema() != null) {
      columns(statistics.getSchema(), run);
    }
    long bytes =
        statistics.getTotalBytesProcessed() == null ? 0 : statistics.getTotalBytesProcessed();
    long limit = properties.produce().maxBytesBilled();
    if (limit > 0 && bytes > limit) {
      throw new IllegalStateException(
          "%s would process %,d bytes; twinbox.produce.max-bytes-billed allows %,d. The query was not run. Narrow it, or raise the limit."
              .formatted(queryFile, bytes, limit));
    }
    String found = job.getJobId() == null ? null : job.getJobId().getLocation();
    run.priced(bytes, found == null && !location.isBlank() ? location.strip() : found);
    return run;
  }

  /** The parameters of {@code begin-run.sql}. */
  public Map<String, Object> entry(@ExchangeProperty("run") ExtractionRun run) {
    Map<String, Object> entry = new HashMap<>();
    entry.put("estimate", run.estimate());
    entry.put("watermarkBefore", run.watermarkBefore());
    entry.put("backfill", run.step() == null ? null : run.step().backfill());
    entry.put("step", run.step() == null ? null : run.step().number());
    return entry;
  }

  /**
   * Refuses a run that the day has no money for.
   *
   * @param answer of {@code begin-run.sql}
   */
  public ExtractionRun enter(
      @Body Map<String, Object> answer, @ExchangeProperty("run") ExtractionRun run) {
    long spent = ((Number) answer.get("spent")).longValue();
    if (!Boolean.TRUE.equals(answer.get("admitted"))) {
      throw new IllegalStateException(
          "%s would process %,d bytes, and runs of today (UTC) were billed %,d already; twinbox.produce.max-bytes-billed-per-day allows %,d. The query was not run. Wait for the next day, narrow it, or raise the limit."
              .formatted(
                  queryFile, run.estimate(), spent, properties.produce().maxBytesBilledPerDay()));
    }
    run.entered(spent);
    return run;
  }

  /**
   * Runs the query.
   *
   * @return its rows in chunks, fetched as they are asked for
   */
  public Iterator<Map<String, Object>> query(@Body ExtractionRun run) {
    Produce settings = properties.produce();
    QueryRows rows =
        new QueryRows(bigQuery, retries, run, () -> job(run), queryFile, settings.pageRows());
    run.reads(rows);
    return new Chunks(
        rows, columns(rows.schema(), run), run, settings.chunkRows(), settings.chunkBytes());
  }

  private QueryJobConfiguration job(ExtractionRun run) {
    Produce settings = properties.produce();
    QueryJobConfiguration.Builder configuration =
        configuration(run)
            .setPriority(QueryJobConfiguration.Priority.valueOf(settings.priority()))
            .setJobTimeoutMs(settings.jobTimeout().toMillis());
    long limit = limit(run);
    if (limit > 0) {
      configuration.setMaximumBytesBilled(limit);
    }
    return configuration.build();
  }

  /** What BigQuery itself holds the job to: the run's limit, or what is left of the day's. */
  private long limit(ExtractionRun run) {
    long perRun = properties.produce().maxBytesBilled();
    long perDay = properties.produce().maxBytesBilledPerDay();
    if (perDay <= 0) {
      return perRun;
    }
    long left = Math.max(1, perDay - run.spentToday() - run.bytesBilled());
    return perRun > 0 ? Math.min(perRun, left) : left;
  }

  private Columns columns(Schema schema, ExtractionRun run) {
    return Columns.of(schema, run.watermarkType(), queryFile.toString());
  }

  private QueryJobConfiguration.Builder configuration(ExtractionRun run) {
    QueryJobConfiguration.Builder configuration =
        QueryJobConfiguration.newBuilder(run.sql())
            .setUseLegacySql(false)
            .setLabels(Map.of("twinbox-topic", label(topic), "twinbox-run", label(run.id())));
    if (run.start() != null) {
      configuration.addNamedParameter(WATERMARK, run.start().parameter());
    }
    if (QueryParameters.of(run.sql()).contains(LAST)) {
      // Always a value: BigQuery promises to prune partitions by a plain comparison only.
      Watermark last =
          run.step() == null ? Watermark.last(run.watermarkType()) : run.step().until().before();
      configuration.addNamedParameter(LAST, last.parameter());
    }
    return configuration;
  }

  /**
   * Labels take lower-case letters, digits, dash and underscore, at most 63
   * (cloud.google.com/bigquery/docs/labels-intro).
   */
  private static String label(String text) {
    String clean = text.toLowerCase(java.util.Locale.ROOT).replaceAll("[^a-z0-9_-]", "_");
    return clean.length() <= 63 ? clean : clean.substring(0, 63);
  }

  /** Adds the counts of a chunk. */
  public void count(ExtractionRun run, Map<String, Object> chunk) {
    run.count(chunk);
  }

  /**
   * After a chunk that failed the rest is not read: Camel 4.17 takes all that is left out of the
   * iterator before it says that a split has failed (MulticastProcessor.doDone).
   */
  public void chunkEnded(Exchange exchange) {
    if (exchange.getProperty(Exchange.EXCEPTION_CAUGHT) != null) {
      exchange.getProperty("run", ExtractionRun.class).close();
    }
  }

  /** The parameters that move the watermark, or null. */
  public Map<String, Object> newWatermark(ExtractionRun run) {
    return run.advance();
  }

  /** What the run did, as one line of JSON. All of it is committed. */
  public String summary(ExtractionRun run) {
    run.succeeded();
    return run.summary(topic, properties.source());
  }

  /** What a check found, as one line of JSON. */
  public String checked(ExtractionRun run) {
    Map<String, Object> line = new LinkedHashMap<>();
    line.put("check", "passed");
    line.put("topic", topic);
    line.put("source", properties.source());
    line.put("query", queryFile.toString());
    line.put("watermark", run.start() == null ? null : run.start().text());
    if (run.step() != null) {
      BackfillWindow window = BackfillWindow.of(properties.produce());
      line.put("backfill", window.name());
      line.put("until", run.step().until().text());
      line.put("steps", window.bounds().size() - 1);
    }
    line.put("bytes_estimated", run.estimate());
    line.put("max_bytes_billed", properties.produce().maxBytesBilled());
    line.put("location", run.location());
    return ExtractionRun.json(line);
  }

  /** The parameters of {@code finish-run.sql}; null when the run never began. */
  public Map<String, Object> end(Exchange exchange) {
    ExtractionRun run = exchange.getProperty("run", ExtractionRun.class);
    if (run == null || !run.isEntered()) {
      return null;
    }
    run.close();
    Throwable failure = exchange.getProperty(Exchange.EXCEPTION_CAUGHT, Throwable.class);
    return run.finish(failure == null ? null : Causes.describe(failure).replace("\0", "\u2400"));
  }
}
