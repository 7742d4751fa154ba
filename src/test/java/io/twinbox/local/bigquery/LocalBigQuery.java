package io.twinbox.local.bigquery;

import com.fasterxml.jackson.databind.JsonNode;
import io.twinbox.local.InvoicesSample;
import java.io.BufferedReader;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;

/**
 * A BigQuery for tests and the local run, in this process: a REST server on 127.0.0.1 that answers
 * the calls of Google's client for query jobs and evaluates GoogleSQL with ZetaSQL, Google's own
 * reference engine. It needs no network and no account.
 *
 * <p>What it cannot do stands in {@link Unsupported}. Speed and price are its own: bytes processed
 * are counted by BigQuery's rules, time is not comparable.
 */
public final class LocalBigQuery implements AutoCloseable {
  /** Where its datasets are, unless told otherwise. */
  public static final String DEFAULT_LOCATION = "EU";

  private static final int ROWS_PER_APPEND = 1_000;

  private final String project;
  private final Catalog catalog;
  private final Faults faults = new Faults();
  private final Jobs jobs;
  private final RestServer server;

  private LocalBigQuery(String project, String location, int port) throws IOException {
    this.project = project;
    this.catalog = new Catalog(project, location);
    this.jobs = new Jobs(project, location, catalog, faults);
    this.server = new RestServer(port, new RestApi(project, catalog, jobs, faults), faults);
    // Loads the native library while the caller fills tables: the first query then need not wait.
    Threads.named("local-bigquery-warm-up").newThread(GoogleSql::get).start();
  }

  /** Starts one on a free port. */
  public static LocalBigQuery start(String project) {
    return start(project, DEFAULT_LOCATION, 0);
  }

  /**
   * Starts one.
   *
   * @param port 0 for any free port
   */
  public static LocalBigQuery start(String project, String location, int port) {
    try {
      return new LocalBigQuery(project, location, port);
    } catch (IOException e) {
      throw new UncheckedIOException(
          "The local BigQuery cannot listen on port " + port + ": " + e.getMessage(), e);
    }
  }

  /** The address for {@code BigQueryOptions.setHost} and {@code BIGQUERY_EMULATOR_HOST}. */
  public String url() {
    return "http://127.0.0.1:" + server.port();
  }

  public int port() {
    return server.port();
  }

  public String project() {
    return project;
  }

  /** The faults of this instance, to be switched on and off. */
  public Faults faults() {
    return faults;
  }

  /** Creates an empty table; its dataset comes into being with its first table. */
  public void createTable(String dataset, String table, Path schema) {
    try {
      createTable(dataset, table, Files.readString(schema));
    } catch (IOException e) {
      throw new UncheckedIOException("Cannot read the schema " + schema, e);
    }
  }

  /**
   * Creates an empty table.
   *
   * @param schema BigQuery's JSON schema format: {@code [{"name":, "type":, "mode":, "fields":}]}
   */
  public void createTable(String dataset, String table, String schema) {
    catalog.create(dataset, table, Column.parseSchema(Json.parse(schema)), null);
  }

  /**
   * Creates an empty table that is partitioned and refuses queries without a partition filter.
   *
   * @param partitionColumn by which queries must filter
   */
  public void createTableThatRequiresAPartitionFilter(
      String dataset, String table, String schema, String partitionColumn) {
    catalog.create(dataset, table, Column.parseSchema(Json.parse(schema)), partitionColumn);
  }

  /**
   * Appends rows; queries that start after this returns see all of them, running ones see none.
   *
   * @throws RuntimeException naming the first wrong row; then none was appended
   */
  public void append(String dataset, String table, List<String> ndjsonLines) {
    List<JsonNode> rows = new ArrayList<>(ndjsonLines.size());
    for (String line : ndjsonLines) {
      if (!line.isBlank()) {
        rows.add(Json.parse(line));
      }
    }
    catalog.get(dataset, table).append(rows);
  }

  /** Appends a file of newline-delimited JSON, without holding all of it in memory. */
  public void load(String dataset, String table, Path ndjson) {
    try (BufferedReader reader = Files.newBufferedReader(ndjson)) {
      List<String> lines = new ArrayList<>(ROWS_PER_APPEND);
      for (String line = reader.readLine(); line != null; line = reader.readLine()) {
        lines.add(line);
        if (lines.size() == ROWS_PER_APPEND) {
          append(dataset, table, lines);
          lines.clear();
        }
      }
      append(dataset, table, lines);
    } catch (IOException e) {
      throw new UncheckedIOException("Cannot read the rows " + ndjson, e);
    }
  }

  /** Creates the table of {@code topics/invoices} and fills it with its first rows. */
  public void addInvoices(int rows) {
    createTable(InvoicesSample.DATASET, InvoicesSample.TABLE, InvoicesSample.SCHEMA);
    for (int from = 0; from < rows; from += ROWS_PER_APPEND) {
      append(
          InvoicesSample.DATASET,
          InvoicesSample.TABLE,
          InvoicesSample.rows(from, Math.min(rows, from + ROWS_PER_APPEND)));
    }
  }

  /** How many rows a table has. */
  public long rowCount(String dataset, String table) {
    return catalog.get(dataset, table).snapshot().rows();
  }

  /** Loses all jobs, as when the service has restarted: the next call for one finds nothing. */
  public void forgetJobs() {
    jobs.forgetAll();
  }

  @Override
  public void close() {
    server.close();
    jobs.close();
    catalog.close();
  }
}
