package io.twinbox.local.bigquery;

import static io.twinbox.local.bigquery.Clients.rows;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowableOfType;

import com.google.cloud.bigquery.BigQuery;
import com.google.cloud.bigquery.BigQueryException;
import com.google.cloud.bigquery.Job;
import com.google.cloud.bigquery.JobId;
import com.google.cloud.bigquery.JobInfo;
import com.google.cloud.bigquery.QueryJobConfiguration;
import com.google.cloud.bigquery.TableResult;
import io.twinbox.local.bigquery.Faults.Call;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse.BodyHandlers;
import java.time.Duration;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** Each fault, once: what the client makes of it, and that the next call is answered again. */
class LocalBigQueryFaultsTest {
  private static final QueryJobConfiguration TEN =
      QueryJobConfiguration.of("SELECT x FROM UNNEST(GENERATE_ARRAY(1, 10)) AS x");
  private static LocalBigQuery local;
  private static BigQuery once;

  @BeforeAll
  static void start() {
    local = LocalBigQuery.start("my-project");
    once = Clients.withoutRetries(local);
  }

  @AfterEach
  void clear() {
    local.faults().clear();
  }

  @AfterAll
  static void stop() {
    local.close();
  }

  @ParameterizedTest
  @CsvSource({
    "503, backendError, true",
    "403, rateLimitExceeded, false",
    "500, internalError, true",
    "403, quotaExceeded, false"
  })
  void aFailedCallHasTheStatusAndTheReasonAsked(int status, String reason, boolean retryable) {
    local.faults().fail(Call.INSERT_JOB, 1, status, reason);
    BigQueryException e =
        catchThrowableOfType(BigQueryException.class, () -> once.create(JobInfo.of(TEN)));
    assertThat(e.getCode()).isEqualTo(status);
    assertThat(e.getReason()).isEqualTo(reason);
    assertThat(e.isRetryable()).isEqualTo(retryable);
    assertThat(once.create(JobInfo.of(TEN))).isNotNull();
  }

  @Test
  void googlesClientRetriesARateLimitByItself() {
    local.faults().fail(Call.QUERY, 1, 403, "rateLimitExceeded");
    long before = local.faults().calls(Call.QUERY);
    assertThat(rows(Clients.of(local), TEN)).hasSize(10);
    assertThat(local.faults().calls(Call.QUERY)).isEqualTo(before + 2);
  }

  @Test
  void googlesClientDoesNotRetryABackendErrorThoughItCallsItRetryable() {
    local.faults().fail(Call.QUERY, 1, 503, "backendError");
    BigQuery client = Clients.of(local);
    long before = local.faults().calls(Call.QUERY);
    assertThatThrownBy(() -> rows(client, TEN))
        .isInstanceOf(BigQueryException.class)
        .hasMessageContaining("Retrying may solve the problem");
    assertThat(local.faults().calls(Call.QUERY)).isEqualTo(before + 1);
  }

  @Test
  void aConnectionCutInThePageLosesThePageOnly() throws Exception {
    local.faults().pageRows(4);
    TableResult first = once.create(JobInfo.of(TEN)).getQueryResults();
    local.faults().cutConnection(Call.TABLE_DATA, 1);
    assertThatThrownBy(first::getNextPage)
        .isInstanceOf(BigQueryException.class)
        .hasRootCauseInstanceOf(IOException.class);
    assertThat(Clients.pageSizes(first)).containsExactly(4, 4, 2);
  }

  @Test
  void aJobWhoseAnswerWasCutExistsAllTheSame() throws Exception {
    local.faults().cutConnection(Call.INSERT_JOB, 1);
    JobId id = JobId.of("answer-lost");
    assertThatThrownBy(() -> once.create(JobInfo.of(id, TEN)))
        .hasRootCauseInstanceOf(IOException.class);
    assertThat(once.getJob(id).getQueryResults().getTotalRows()).isEqualTo(10);
  }

  @Test
  void oneRequestIdRunsOneQueryHoweverOftenItIsSent() throws Exception {
    HttpRequest request =
        HttpRequest.newBuilder(URI.create(local.url() + "/bigquery/v2/projects/my-project/queries"))
            .POST(BodyPublishers.ofString("{\"query\":\"SELECT 1\",\"requestId\":\"r1\"}"))
            .build();
    HttpClient http = HttpClient.newHttpClient();
    String first = http.send(request, BodyHandlers.ofString()).body();
    assertThat(http.send(request, BodyHandlers.ofString()).body()).isEqualTo(first);
  }

  @Test
  void anUnknownJobIsNotFoundAfterTheServiceLostIt() throws Exception {
    Job job = once.create(JobInfo.of(JobId.of("lost"), TEN)).waitFor();
    local.forgetJobs();
    assertThat(once.getJob("lost")).isNull();
    assertThatThrownBy(job::getQueryResults)
        .isInstanceOf(BigQueryException.class)
        .hasMessageContaining("Not found: Job my-project:lost");
  }

  @Test
  void aCallCanAnswerThatTheJobIsNotFoundOnce() {
    Job job = once.create(JobInfo.of(TEN));
    local.faults().fail(Call.GET_JOB, 1, 404, "notFound");
    assertThat(once.getJob(job.getJobId())).isNull();
    assertThat(once.getJob(job.getJobId())).isNotNull();
  }

  @Test
  void aJobCanFailAfterItWasAccepted() {
    local.faults().failJobs(1, 503, "backendError");
    Job job = once.create(JobInfo.of(TEN));
    assertThatThrownBy(job::getQueryResults).isInstanceOf(BigQueryException.class);
    assertThat(once.getJob(job.getJobId()).getStatus().getError().getReason())
        .isEqualTo("backendError");
    assertThat(rows(once, TEN)).hasSize(10);
  }

  @Test
  void everyAnswerCanBeLate() {
    local.faults().latency(Duration.ofMillis(150));
    long start = System.nanoTime();
    once.getJob("any");
    assertThat(Duration.ofNanos(System.nanoTime() - start)).isGreaterThan(Duration.ofMillis(149));
  }

  @Test
  void pagesCanBeOfFewRows() throws Exception {
    local.faults().pageRows(3);
    assertThat(Clients.pageSizes(once.query(TEN))).containsExactly(3, 3, 3, 1);
  }
}
