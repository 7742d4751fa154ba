package io.twinbox.bigquery;

import com.google.cloud.bigquery.BigQuery;
import com.google.cloud.bigquery.Job;
import com.google.cloud.bigquery.JobId;
import com.google.cloud.bigquery.JobInfo;
import com.google.cloud.bigquery.JobStatistics;
import com.google.cloud.bigquery.QueryJobConfiguration;
import com.google.cloud.bigquery.StandardSQLTypeName;
import com.google.cloud.bigquery.TableResult;
import io.twinbox.config.TwinboxProperties;
import io.twinbox.config.TwinboxProperties.Produce;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.util.Iterator;
import java.util.Map;
import org.apache.camel.Body;

/**
 * The steps of {@code produce} that talk to BigQuery. Camel's own component offers neither dry run
 * nor limit, labels, location or timeout, and binds a timestamp as a date ({@code
 * docs/adr/0003-bigquery-client.md}).
 */
public class Extraction {

  private final BigQuery bigQuery;
  private final TwinboxProperties properties;
  private final String topic;
  private final Path queryFile;

  Extraction(BigQuery bigQuery, TwinboxProperties properties, String topic) {
    this.bigQuery = bigQuery;
    this.properties = properties;
    this.topic = topic;
    this.queryFile = properties.topicDir().resolve("query.sql");
  }

  /**
   * Plans a run.
   *
   * @param stored the row of {@code read-watermark.sql}, null before the first run
   */
  public ExtractionRun plan(@Body Map<String, Object> stored) throws IOException {
    Produce settings = properties.produce();
    String sql = Files.readString(queryFile);
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
    if (sql.contains("@watermark")) {
      start = position != null ? position.minus(settings.lookback()) : first(settings, type);
    }
    return new ExtractionRun(sql, type, position, start, epoch);
  }

  private Watermark first(Produce settings, StandardSQLTypeName type) {
    if (settings.firstWatermark() == null || settings.firstWatermark().isBlank()) {
      throw new IllegalArgumentException(
          "%s names @watermark, and nothing says where the first run starts. Set twinbox.produce.first-watermark."
              .formatted(queryFile));
    }
    return Watermark.parse(type, settings.firstWatermark().strip());
  }

  /**
   * Prices the query with a dry run, which BigQuery does not charge, and refuses one over the
   * limit.
   */
  public ExtractionRun price(@Body ExtractionRun run) {
    Job job = bigQuery.create(JobInfo.of(configuration(run).setDryRun(true).build()));
    JobStatistics.QueryStatistics statistics = job.getStatistics();
    long bytes =
        statistics.getTotalBytesProcessed() == null ? 0 : statistics.getTotalBytesProcessed();
    long limit = properties.produce().maxBytesBilled();
    if (limit > 0 && bytes > limit) {
      throw new IllegalStateException(
          "%s would process %,d bytes; twinbox.produce.max-bytes-billed allows %,d. The query was not run. Narrow it, or raise the limit."
              .formatted(queryFile, bytes, limit));
    }
    run.priced(bytes);
    return run;
  }

  /**
   * Runs the query.
   *
   * @return its rows in chunks, fetched as they are asked for
   */
  public Iterator<Map<String, Object>> query(@Body ExtractionRun run) throws InterruptedException {
    Produce settings = properties.produce();
    JobId.Builder id = JobId.newBuilder().setRandomJob();
    if (!settings.location().isBlank()) {
      id.setLocation(settings.location());
    }
    QueryJobConfiguration.Builder configuration =
        configuration(run).setJobTimeoutMs(settings.jobTimeout().toMillis());
    if (settings.maxBytesBilled() > 0) {
      configuration.setMaximumBytesBilled(settings.maxBytesBilled());
    }
    Job job = bigQuery.create(JobInfo.of(id.build(), configuration.build())).waitFor();
    if (job == null) {
      throw new IllegalStateException(
          "BigQuery no longer knows the query job it was given; run again.");
    }
    Long started = job.getStatistics().getStartTime();
    if (started != null) {
      run.startedAt(Instant.ofEpochMilli(started));
    }
    TableResult result =
        job.getQueryResults(BigQuery.QueryResultsOption.pageSize(settings.pageRows()));
    Columns columns = Columns.of(result.getSchema(), run.watermarkType(), queryFile.toString());
    return new Chunks(
        result.iterateAll().iterator(), columns, run, settings.chunkRows(), settings.chunkBytes());
  }

  private QueryJobConfiguration.Builder configuration(ExtractionRun run) {
    QueryJobConfiguration.Builder configuration =
        QueryJobConfiguration.newBuilder(run.sql())
            .setUseLegacySql(false)
            .setLabels(Map.of("twinbox-topic", label(topic)));
    if (run.start() != null) {
      configuration.addNamedParameter("watermark", run.start().parameter());
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

  /** The parameters that move the watermark, or null. */
  public Map<String, Object> newWatermark(ExtractionRun run) {
    return run.advance();
  }

  /** What the run did, as one line of JSON. */
  public String summary(ExtractionRun run) {
    return run.summary(topic, properties.source());
  }
}
