package io.twinbox.local.bigquery;

import static io.twinbox.local.bigquery.Clients.rows;
import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;
import static org.assertj.core.api.Assertions.catchThrowableOfType;

import com.google.cloud.bigquery.BigQuery;
import com.google.cloud.bigquery.BigQueryException;
import com.google.cloud.bigquery.FieldValueList;
import com.google.cloud.bigquery.InsertAllRequest;
import com.google.cloud.bigquery.InsertAllResponse;
import com.google.cloud.bigquery.Job;
import com.google.cloud.bigquery.JobException;
import com.google.cloud.bigquery.JobId;
import com.google.cloud.bigquery.JobInfo;
import com.google.cloud.bigquery.JobStatistics.QueryStatistics;
import com.google.cloud.bigquery.JobStatus;
import com.google.cloud.bigquery.QueryJobConfiguration;
import com.google.cloud.bigquery.StandardTableDefinition;
import com.google.cloud.bigquery.TableId;
import com.google.cloud.bigquery.TableInfo;
import java.io.ByteArrayOutputStream;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpRequest.BodyPublishers;
import java.net.http.HttpResponse;
import java.net.http.HttpResponse.BodyHandlers;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.zip.GZIPOutputStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** What Google's client sees of a job: its price, its identity, its errors; and of new rows. */
class LocalBigQueryJobsTest {
  private static final String SCHEMA =
      "[{\"name\":\"id\",\"type\":\"INT64\",\"mode\":\"REQUIRED\"},"
          + "{\"name\":\"name\",\"type\":\"STRING\"}]";
  private LocalBigQuery local;
  private BigQuery client;

  @BeforeEach
  void start() {
    local = LocalBigQuery.start("my-project");
    client = Clients.withoutRetries(local);
    local.createTable("shop", "orders", SCHEMA);
    local.append("shop", "orders", List.of("{\"id\":1,\"name\":\"äö\"}", "{\"id\":2}"));
  }

  @AfterEach
  void stop() {
    local.close();
  }

  private static QueryJobConfiguration query(String sql) {
    return QueryJobConfiguration.of(sql);
  }

  @Test
  void aDryRunTellsTheBytesOfTheColumnsReadAndTheSchemaAndRunsNothing() {
    Job job =
        client.create(
            JobInfo.of(
                QueryJobConfiguration.newBuilder("SELECT name FROM shop.orders WHERE id > 0")
                    .setDryRun(true)
                    .build()));
    QueryStatistics statistics = job.getStatistics();
    // Two INT64 of 8 bytes; a STRING of 2 bytes and its 4 of UTF-8; a NULL of none.
    assertThat(statistics.getTotalBytesProcessed()).isEqualTo(16 + 6);
    assertThat(statistics.getSchema().getFields().get(0).getName()).isEqualTo("name");
    QueryStatistics narrow =
        client
            .create(
                JobInfo.of(
                    QueryJobConfiguration.newBuilder("SELECT id FROM shop.orders")
                        .setDryRun(true)
                        .build()))
            .getStatistics();
    assertThat(narrow.getTotalBytesProcessed()).isEqualTo(16);
  }

  @Test
  void aDryRunOfAWrongQueryFailsWithItsPosition() {
    BigQueryException e =
        catchThrowableOfType(
            BigQueryException.class,
            () ->
                client.create(
                    JobInfo.of(
                        QueryJobConfiguration.newBuilder("SELECT\n  color FROM `shop.orders`")
                            .setDryRun(true)
                            .build())));
    assertThat(e.getCode()).isEqualTo(400);
    assertThat(e.getReason()).isEqualTo("invalidQuery");
    assertThat(e.getMessage()).isEqualTo("Unrecognized name: color at [2:3]");
  }

  @Test
  void aFinishedJobTellsItsLabelsTimesAndPrice() throws Exception {
    JobId id = JobId.newBuilder().setJob("chosen-by-client").setLocation("EU").build();
    QueryJobConfiguration query =
        QueryJobConfiguration.newBuilder("SELECT id FROM shop.orders")
            .setLabels(Map.of("topic", "invoices"))
            .setMaximumBytesBilled(10L * 1024 * 1024)
            .setJobTimeoutMs(60_000L)
            .build();
    client.create(JobInfo.of(id, query)).waitFor();
    Job job = client.getJob(id);
    assertThat(job.getStatus().getState()).isEqualTo(JobStatus.State.DONE);
    QueryStatistics statistics = job.getStatistics();
    assertThat(statistics.getStartTime()).isPositive();
    assertThat(statistics.getEndTime()).isGreaterThanOrEqualTo(statistics.getStartTime());
    assertThat(statistics.getTotalBytesProcessed()).isEqualTo(16);
    assertThat(statistics.getTotalBytesBilled()).isEqualTo(10L * 1024 * 1024);
    assertThat(statistics.getTotalSlotMs()).isPositive();
    assertThat(statistics.getStatementType().toString()).isEqualTo("SELECT");
    QueryJobConfiguration echoed = job.getConfiguration();
    assertThat(echoed.getLabels()).containsEntry("topic", "invoices");
    assertThat(echoed.getDestinationTable()).isNotNull();
    assertThat(job.getQueryResults().getTotalRows()).isEqualTo(2);
  }

  @Test
  void aQueryOverItsByteLimitDoesNotRun() throws Exception {
    QueryJobConfiguration query =
        QueryJobConfiguration.newBuilder("SELECT id FROM shop.orders")
            .setMaximumBytesBilled(1_000L)
            .build();
    BigQueryException fast =
        catchThrowableOfType(BigQueryException.class, () -> client.query(query));
    assertThat(fast.getReason()).isEqualTo("bytesBilledLimitExceeded");
    assertThat(fast.getMessage())
        .isEqualTo("Query exceeded limit for bytes billed: 1000. 10485760 or higher required.");
    Job job = client.create(JobInfo.of(query));
    assertThatThrownBy(job::getQueryResults)
        .isInstanceOf(BigQueryException.class)
        .hasMessageContaining("10485760 or higher required");
    assertThat(client.getJob(job.getJobId()).getStatus().getError().getReason())
        .isEqualTo("bytesBilledLimitExceeded");
  }

  @Test
  void theSecondJobOfOneIdIsADuplicateAndTheClientFindsTheFirst() throws Exception {
    JobId id = JobId.of("once");
    client.create(JobInfo.of(id, query("SELECT 1 AS a"))).waitFor();
    Job second = client.create(JobInfo.of(id, query("SELECT 2 AS b, 3 AS c")));
    assertThat(second.getQueryResults().getSchema().getFields()).hasSize(1);
    HttpResponse<String> answer =
        HttpClient.newHttpClient()
            .send(
                HttpRequest.newBuilder(
                        URI.create(local.url() + "/bigquery/v2/projects/my-project/jobs"))
                    .POST(
                        BodyPublishers.ofString(
                            "{\"jobReference\":{\"jobId\":\"once\"},"
                                + "\"configuration\":{\"query\":{\"query\":\"SELECT 1\"}}}"))
                    .build(),
                BodyHandlers.ofString());
    assertThat(answer.statusCode()).isEqualTo(409);
    assertThat(answer.body())
        .isEqualTo(
            "{\"error\":{\"code\":409,\"message\":\"Already Exists: Job my-project:EU.once\","
                + "\"errors\":[{\"reason\":\"duplicate\",\"message\":"
                + "\"Already Exists: Job my-project:EU.once\",\"domain\":\"global\"}],"
                + "\"status\":\"ALREADY_EXISTS\"}}");
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      textBlock =
          """
          SELEC 1                     | 400 | invalidQuery | Syntax error: Unexpected identifier "SELEC" at [1:1]
          SELECT 1 FROM               | 400 | invalidQuery | Syntax error: Unexpected end of statement at [1:14]
          SELECT color FROM shop.orders| 400 | invalidQuery | Unrecognized name: color at [1:8]
          SELECT ids FROM shop.orders | 400 | invalidQuery | Unrecognized name: ids; Did you mean id? at [1:8]
          SELECT 1 FROM shop.nope     | 404 | notFound | Not found: Table my-project:shop.nope was not found in location EU
          SELECT 1 FROM nope.orders   | 404 | notFound | Not found: Dataset my-project:nope was not found in location EU
          SELECT 1 FROM other.shop.orders | 404 | notFound | Not found: Dataset other:shop was not found in location EU
          SELECT 1 FROM orders        | 400 | invalid  | Table "orders" must be qualified with a dataset (e.g. dataset.table).
          SELECT @missing             | 400 | invalidQuery | Query parameter 'missing' not found at [1:8]
          SELECT 1 AS a, 2 AS A       | 400 | invalidQuery | Duplicate column names in the result are not supported when a destination table is present. Found duplicate(s): A
          SELECT 1/0                  | 400 | invalidQuery | division by zero: 1 / 0
          SELECT ERROR('no')          | 400 | invalidQuery | no
          SELECT ST_GEOGPOINT(1, 2)   | 501 | notImplemented | The local BigQuery does not support a result column of this type (TYPE_GEOGRAPHY)
          SELECT SESSION_USER()       | 501 | notImplemented | The local BigQuery does not support this built-in function: ZetaSQL's evaluator does not implement it (Unsupported built-in function: session_user)
          DELETE FROM shop.orders WHERE true | 501 | notImplemented | The local BigQuery does not support any statement but a query; append rows with insertAll instead (Statement not supported: DeleteStatement at [1:1])
          """)
  void errorsHaveGooglesWords(String sql, int code, String reason, String message) {
    BigQueryException e =
        catchThrowableOfType(BigQueryException.class, () -> client.query(query(sql)));
    assertThat(e.getMessage()).isEqualTo(message);
    assertThat(e.getReason()).isEqualTo(reason);
    assertThat(e.getCode()).isEqualTo(code);
  }

  @Test
  void anErrorWhileRunningIsTheJobsResult() throws Exception {
    Job job = client.create(JobInfo.of(query("SELECT 1 / (id - 1) FROM shop.orders")));
    assertThatThrownBy(job::waitFor)
        .isInstanceOfAny(BigQueryException.class, JobException.class)
        .hasMessageContaining("division by zero");
    assertThat(client.getJob(job.getJobId()).getStatus().getError().getReason())
        .isEqualTo("invalidQuery");
  }

  @Test
  void aJobIsKnownOnlyWhereItsDataIs() {
    JobId elsewhere = JobId.newBuilder().setJob("j").setLocation("US").build();
    assertThatThrownBy(() -> client.create(JobInfo.of(elsewhere, query("SELECT 1"))))
        .hasMessageContaining("no data in location US, only in EU");
    assertThat(client.getJob(JobId.of("never"))).isNull();
  }

  @Test
  void aJobOverItsTimeoutStops() throws Exception {
    local.faults().queryDuration(Duration.ofSeconds(30));
    Job job =
        client.create(
            JobInfo.of(QueryJobConfiguration.newBuilder("SELECT 1").setJobTimeoutMs(50L).build()));
    assertThatThrownBy(job::getQueryResults).hasMessageContaining("Job timed out after 50ms");
    assertThat(client.getJob(job.getJobId()).getStatus().getError().getReason())
        .isEqualTo("stopped");
  }

  @Test
  void aCancelledJobStops() {
    local.faults().queryDuration(Duration.ofSeconds(30));
    Job job = client.create(JobInfo.of(query("SELECT 1")));
    assertThat(client.cancel(job.getJobId())).isTrue();
    assertThatThrownBy(job::getQueryResults).hasMessageContaining("User requested cancellation");
  }

  @Test
  void appendedRowsAreSeenByTheNextQueryAndNotByARunningOne() throws Exception {
    local.faults().queryDuration(Duration.ofMinutes(1));
    Job running = client.create(JobInfo.of(query("SELECT id FROM shop.orders")));
    local.append("shop", "orders", List.of("{\"id\":3}"));
    assertThat(running.isDone()).isFalse();
    local.faults().clear();
    assertThat(running.getQueryResults().getTotalRows()).isEqualTo(2);
    assertThat(rows(client, "SELECT id FROM shop.orders")).hasSize(3);
  }

  @Test
  void rowsCanBeInsertedOverTheApiAllOrNone() {
    TableId orders = TableId.of("shop", "orders");
    InsertAllResponse bad =
        client.insertAll(
            InsertAllRequest.newBuilder(orders)
                .addRow(Map.of("id", 7))
                .addRow(Map.of("id", 8, "color", "red"))
                .build());
    assertThat(bad.getErrorsFor(1).get(0).getMessage()).isEqualTo("No such field: color.");
    assertThat(local.rowCount("shop", "orders")).isEqualTo(2);
    InsertAllResponse good =
        client.insertAll(
            InsertAllRequest.newBuilder(orders).addRow(Map.of("id", 7, "name", "x")).build());
    assertThat(good.hasErrors()).isFalse();
    assertThat(rows(client, "SELECT name FROM shop.orders WHERE id = 7")).hasSize(1);
  }

  @Test
  void aRowCanBeInsertedWithOnePlainHttpCallAlsoCompressed() throws Exception {
    URI address =
        URI.create(
            local.url() + "/bigquery/v2/projects/my-project/datasets/shop/tables/orders/insertAll");
    byte[] row = "{\"rows\":[{\"json\":{\"id\":9}}]}".getBytes(StandardCharsets.UTF_8);
    ByteArrayOutputStream compressed = new ByteArrayOutputStream();
    try (GZIPOutputStream gzip = new GZIPOutputStream(compressed)) {
      gzip.write(row);
    }
    HttpClient http = HttpClient.newHttpClient();
    HttpResponse<String> plain =
        http.send(
            HttpRequest.newBuilder(address).POST(BodyPublishers.ofByteArray(row)).build(),
            BodyHandlers.ofString());
    assertThat(plain.statusCode()).isEqualTo(200);
    assertThat(plain.body()).contains("tableDataInsertAllResponse").doesNotContain("insertErrors");
    http.send(
        HttpRequest.newBuilder(address)
            .header("Content-Encoding", "gzip")
            .POST(BodyPublishers.ofByteArray(compressed.toByteArray()))
            .build(),
        BodyHandlers.ofString());
    assertThat(local.rowCount("shop", "orders")).isEqualTo(4);
  }

  @Test
  void tablesCanBeCreatedOverTheApi() {
    client.create(
        TableInfo.of(
            TableId.of("shop", "copies"),
            StandardTableDefinition.of(
                client.getTable("shop", "orders").getDefinition().getSchema())));
    local.append("shop", "copies", List.of("{\"id\":1}"));
    List<FieldValueList> rows = rows(client, "SELECT id, name FROM shop.copies");
    assertThat(rows).hasSize(1);
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      textBlock =
          """
          {"name": "x"}          | Row 2: Missing required field: id.
          {"id": 1, "colour": 2} | Row 2: No such field: colour.
          {"id": "one"}          | Row 2: id: Invalid INT64 value: 'one'
          {"id": 1.5}            | Row 2: id: Invalid INT64 value: '1.5'
          {"id": [1]}            | Row 2: id: expected INT64, found ARRAY
          [1]                    | Row 2: A row is a JSON object, not ARRAY
          """)
  void aWrongRowIsNamedAndNothingIsAppended(String line, String message) {
    assertThatThrownBy(() -> local.append("shop", "orders", List.of("{\"id\":1}", line)))
        .hasMessage(message);
    assertThat(local.rowCount("shop", "orders")).isEqualTo(2);
  }
}
