package io.twinbox.bigquery;

import com.google.cloud.bigquery.BigQuery;
import com.google.cloud.bigquery.BigQuery.TableDataListOption;
import com.google.cloud.bigquery.BigQueryError;
import com.google.cloud.bigquery.BigQueryException;
import com.google.cloud.bigquery.FieldValueList;
import com.google.cloud.bigquery.Job;
import com.google.cloud.bigquery.JobException;
import com.google.cloud.bigquery.JobId;
import com.google.cloud.bigquery.JobInfo;
import com.google.cloud.bigquery.JobStatus;
import com.google.cloud.bigquery.QueryJobConfiguration;
import com.google.cloud.bigquery.Schema;
import com.google.cloud.bigquery.TableId;
import com.google.cloud.bigquery.TableResult;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.NoSuchElementException;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.function.Supplier;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The rows of a run's query, page by page. While the rows of one page are worked on, the next one
 * is read: one page ahead and no further, so memory holds two.
 *
 * <p>The job's id is chosen here: an insert whose answer is lost and which is sent again finds the
 * job it has made, and the query is not run (and billed) twice. A page that fails is read again
 * from its token. A job that BigQuery lost, or whose failure is of the kind that passes, is run
 * again under another id, from the start: rows that are read again are known by their ids.
 */
final class QueryRows implements Iterator<FieldValueList>, AutoCloseable {

  /** Each costs the query's price again, unless BigQuery failed before it worked on it. */
  static final int MAX_JOBS = 5;

  private static final Duration FIRST_POLL = Duration.ofMillis(50);
  private static final Duration LONGEST_POLL = Duration.ofSeconds(5);
  private static final Logger log = LoggerFactory.getLogger("io.twinbox.produce");

  private final BigQuery bigQuery;
  private final Retries retries;
  private final ExtractionRun run;
  private final Supplier<QueryJobConfiguration> configuration;
  private final Path queryFile;
  private final long pageRows;
  private TableId result;
  private Schema schema;
  private Iterator<FieldValueList> rows;

  /** The page behind the one that is shown; null when there is none. Its failure is its answer. */
  private Future<Page> ahead;

  private final ExecutorService reader =
      Executors.newSingleThreadExecutor(
          task -> {
            Thread thread = new Thread(task, "produce-page");
            thread.setDaemon(true);
            return thread;
          });

  /** Rows, already taken apart, and the token of the page behind them, null for the last. */
  private record Page(List<FieldValueList> rows, String nextToken) {}

  /**
   * Runs the query and reads its first page.
   *
   * @param configuration of the next job
   */
  QueryRows(
      BigQuery bigQuery,
      Retries retries,
      ExtractionRun run,
      Supplier<QueryJobConfiguration> configuration,
      Path queryFile,
      long pageRows) {
    this.bigQuery = bigQuery;
    this.retries = retries;
    this.run = run;
    this.configuration = configuration;
    this.queryFile = queryFile;
    this.pageRows = pageRows;
    try {
      runQuery();
    } catch (RuntimeException e) {
      close();
      throw e;
    }
  }

  Schema schema() {
    return schema;
  }

  @Override
  public boolean hasNext() {
    while (!rows.hasNext()) {
      if (ahead == null) {
        return false;
      }
      nextPage();
    }
    return true;
  }

  @Override
  public FieldValueList next() {
    if (!hasNext()) {
      throw new NoSuchElementException();
    }
    return rows.next();
  }

  private void nextPage() {
    try {
      show(await(ahead));
    } catch (BigQueryException e) {
      if (!Retries.isGone(e)) {
        throw QueryFault.of(queryFile, e);
      }
      again("its result is gone: " + Retries.describe(e));
      runQuery();
    }
  }

  /** The answer as if it had been asked for here: with what the reading threw. */
  private static Page await(Future<Page> ahead) {
    try {
      return ahead.get();
    } catch (ExecutionException e) {
      if (e.getCause() instanceof RuntimeException failure) {
        throw failure;
      }
      throw new IllegalStateException(e.getCause());
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new IllegalStateException("The run was interrupted while it waited for BigQuery");
    }
  }

  /** Not {@code TableResult.getNextPage()}: in 2.57.1 that forgets the size of a page. */
  private Page page(TableId of, Schema columns, String token) {
    return page(
        bigQuery.listTableData(
            of,
            columns,
            TableDataListOption.pageSize(pageRows),
            TableDataListOption.pageToken(token)));
  }

  private static Page page(TableResult answer) {
    List<FieldValueList> rows = new ArrayList<>();
    answer.getValues().forEach(rows::add);
    return new Page(rows, answer.hasNextPage() ? answer.getNextPageToken() : null);
  }

  private void show(Page page) {
    rows = page.rows().iterator();
    ahead = null;
    if (page.nextToken() != null) {
      // Of this job's result, whatever the fields are when the thread gets to it.
      TableId of = result;
      Schema columns = schema;
      ahead =
          reader.submit(
              () -> retries.call("a page of rows", () -> page(of, columns, page.nextToken())));
    }
  }

  /** Nothing is read ahead any more. A call to BigQuery that is under way ends by itself. */
  @Override
  public void close() {
    reader.shutdownNow();
  }

  private void runQuery() {
    while (true) {
      Job job = done(insert());
      if (job == null) {
        again("BigQuery no longer knows it");
        continue;
      }
      run.ended(job.getStatistics());
      BigQueryError error = job.getStatus().getError();
      if (error != null) {
        BigQueryException failure = new BigQueryException(0, error.getMessage(), error);
        if (!Retries.passes(error)) {
          throw QueryFault.of(queryFile, failure);
        }
        again(Retries.describe(failure));
        continue;
      }
      try {
        result = ((QueryJobConfiguration) job.getConfiguration()).getDestinationTable();
        TableResult first = retries.call("the first rows", () -> firstPage(job));
        schema = first.getSchema();
        run.expects(first.getTotalRows());
        show(page(first));
        return;
      } catch (BigQueryException e) {
        if (!Retries.isGone(e)) {
          throw QueryFault.of(queryFile, e);
        }
        again("its result is gone: " + Retries.describe(e));
      }
    }
  }

  private void again(String why) {
    if (run.jobs() >= MAX_JOBS) {
      throw new IllegalStateException(
          "%s was run as %d jobs, and none came to its end; the last: %s"
              .formatted(queryFile, run.jobs(), why));
    }
    log.warn("Query job {} did not do: {}; the query is run again.", run.jobId(), why);
    run.startOver();
    retries.pauseBefore(run.jobs());
  }

  private JobId insert() {
    // Before it counts as a job of the run: what is left of the day is less with every job.
    QueryJobConfiguration job = configuration.get();
    JobId id = run.nextJobId();
    JobInfo info = JobInfo.of(id, job);
    try {
      return retries.call("the start of the query", () -> insert(id, info));
    } catch (BigQueryException e) {
      run.notStarted();
      throw QueryFault.of(queryFile, e);
    }
  }

  /** The id as BigQuery has it: its location is needed to find the job again. */
  private JobId insert(JobId id, JobInfo info) {
    Job job = bigQuery.create(info);
    return job.getJobId() == null || job.getJobId().getJob() == null ? id : job.getJobId();
  }

  /** Waits until the job is done; null when BigQuery does not know it. */
  private Job done(JobId id) {
    Duration pause = FIRST_POLL;
    while (true) {
      Job job;
      try {
        job = retries.call("the state of the query", () -> bigQuery.getJob(id));
      } catch (BigQueryException e) {
        throw QueryFault.of(queryFile, e);
      }
      if (job == null || JobStatus.State.DONE.equals(job.getStatus().getState())) {
        return job;
      }
      Retries.sleep(pause);
      pause = pause.multipliedBy(3).dividedBy(2);
      pause = pause.compareTo(LONGEST_POLL) > 0 ? LONGEST_POLL : pause;
    }
  }

  private TableResult firstPage(Job job) {
    try {
      return job.getQueryResults(BigQuery.QueryResultsOption.pageSize(pageRows));
    } catch (JobException e) {
      throw new IllegalStateException(e);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new IllegalStateException("The run was interrupted while it waited for BigQuery");
    }
  }
}
