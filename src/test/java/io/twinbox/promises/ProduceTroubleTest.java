package io.twinbox.promises;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.twinbox.local.bigquery.Faults.Call;
import java.io.IOException;
import java.sql.Connection;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** Trouble of BigQuery: what passes is waited out, what stays is said in BigQuery's own words. */
class ProduceTroubleTest extends ProduceTest {

  private static final int ROWS = 30;
  private static final String[] SETTINGS = {
    "twinbox.produce.page-rows=4",
    "twinbox.produce.chunk-rows=7",
    "twinbox.produce.retry-base=2ms",
    "logging.level.io.twinbox.produce=ERROR"
  };

  @Test
  void passingTroubleOfBigQueryIsWaitedOutAndNoRowIsLostOrDoubled() {
    rows(ROWS);
    startProduce(SETTINGS);
    Map<String, Integer> troubles =
        Map.of(
            "backendError",
            503,
            "internalError",
            500,
            "rateLimitExceeded",
            403,
            "jobRateLimitExceeded",
            400,
            "badGateway",
            502);
    for (Call call : List.of(Call.INSERT_JOB, Call.GET_JOB, Call.QUERY_RESULTS, Call.TABLE_DATA)) {
      troubles.forEach(
          (reason, status) ->
              runAfresh(
                  call + " fails with " + reason,
                  () -> bigQuery.faults().fail(call, 3, status, reason)));
      runAfresh(call + " is cut off", () -> bigQuery.faults().cutConnection(call, 2));
    }
  }

  @Test
  void pageThatFailsIsReadAgainFromItsToken() {
    rows(ROWS);
    startProduce(SETTINGS);
    long before = bigQuery.faults().calls(Call.TABLE_DATA);
    runAfresh(
        "the third page is cut off, the fifth refused",
        () -> {
          bigQuery.faults().answer(Call.TABLE_DATA, 2);
          bigQuery.faults().cutConnection(Call.TABLE_DATA, 2);
          bigQuery.faults().answer(Call.TABLE_DATA, 2);
          bigQuery.faults().fail(Call.TABLE_DATA, 2, 503, "backendError");
        });
    // Eight pages of four rows, and four calls without an answer.
    assertThat(bigQuery.faults().calls(Call.TABLE_DATA)).isEqualTo(before + 8 + 4);
  }

  /** Runs from the start on an empty outbox, with a trouble on the way. */
  private void runAfresh(String trouble, Runnable fault) {
    jdbc.execute(
        "TRUNCATE pubsub_outbox, pubsub_outbox_due, pubsub_outbox_published, produce_watermark");
    bigQuery.faults().clear();
    fault.run();
    run();
    assertThat(queued()).as(trouble).hasSize(ROWS).doesNotHaveDuplicates();
    assertThat(watermark()).as(trouble).isEqualTo("2026-03-01T10:00:29Z");
    assertThat(lastRun())
        .as(trouble)
        .containsEntry("state", "succeeded")
        .containsEntry("jobs", 1)
        .containsEntry("rows_read", (long) ROWS);
  }

  @Test
  void queryWhoseStartHadNoAnswerIsNotRunTwice() {
    rows(ROWS);
    startProduce(SETTINGS);
    long before = bigQuery.faults().calls(Call.INSERT_JOB);
    bigQuery.faults().answer(Call.INSERT_JOB, 1);
    // The job is made, and the answer is lost.
    bigQuery.faults().cutConnection(Call.INSERT_JOB, 1);
    run();
    // Price, start, start again: and that one found the job.
    assertThat(bigQuery.faults().calls(Call.INSERT_JOB)).isEqualTo(before + 3);
    assertThat(lastRun()).containsEntry("jobs", 1).containsEntry("bytes_billed", billedOnce());
  }

  @Test
  void jobThatFailedInPassingIsRunAgain() {
    rows(ROWS);
    startProduce(SETTINGS);
    bigQuery.faults().failJobs(2, 503, "backendError");
    run();
    assertThat(queued()).hasSize(ROWS);
    assertThat(lastRun()).containsEntry("jobs", 3).containsEntry("bytes_billed", billedOnce());
  }

  @Test
  void jobThatFailsInPassingAgainAndAgainEndsTheRun() {
    rows(ROWS);
    startProduce(SETTINGS);
    bigQuery.faults().failJobs(100, 503, "backendError");
    assertThatThrownBy(this::run)
        .rootCause()
        .hasMessageContaining("query.sql was run as 5 jobs")
        .hasMessageContaining("Retrying may solve the problem");
    assertThat(lastRun()).containsEntry("state", "failed").containsEntry("jobs", 5);
    bigQuery.faults().clear();
    run();
    assertThat(queued()).hasSize(ROWS);
  }

  @Test
  void jobThatBigQueryLostBeforeItsEndIsRunAgain() {
    rows(ROWS);
    startProduce(SETTINGS);
    bigQuery.faults().fail(Call.GET_JOB, 1, 404, "notFound");
    run();
    assertThat(queued()).hasSize(ROWS);
    assertThat(lastRun()).containsEntry("jobs", 2);
  }

  @Test
  void resultThatBigQueryLosesInTheMiddleIsReadAnewWithoutLossOrDouble() throws Exception {
    rows(ROWS);
    startProduce(SETTINGS);
    jdbc.execute(
        """
        CREATE FUNCTION wait_here() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
          PERFORM pg_advisory_xact_lock(77);
          RETURN NULL;
        END $$
        """);
    jdbc.execute(
        "CREATE TRIGGER wait_here AFTER INSERT ON pubsub_outbox FOR EACH STATEMENT EXECUTE FUNCTION wait_here()");
    CompletableFuture<Void> running;
    try (Connection holder = jdbc.getDataSource().getConnection()) {
      holder.createStatement().execute("SELECT pg_advisory_lock(77)");
      running = CompletableFuture.runAsync(this::run);
      awaitBlockedSessions(1);
      // Some rows are read and being queued: now BigQuery forgets all it knew.
      bigQuery.forgetJobs();
    }
    running.get(30, TimeUnit.SECONDS);

    assertThat(queued()).hasSize(ROWS).doesNotHaveDuplicates();
    assertThat(watermark()).isEqualTo("2026-03-01T10:00:29Z");
    assertThat(lastRun()).containsEntry("jobs", 2).containsEntry("rows_queued", (long) ROWS);
  }

  @Test
  void troubleThatDoesNotPassInTimeEndsTheRun() {
    rows(1);
    startProduce(
        "twinbox.produce.retry-base=20ms",
        "twinbox.produce.retry-timeout=200ms",
        "logging.level.io.twinbox.produce=ERROR");
    bigQuery.faults().fail(Call.INSERT_JOB, 10_000, 503, "backendError");
    assertThatThrownBy(this::run)
        .rootCause()
        .hasMessageContaining("BigQuery did not answer for the price of the query")
        .hasMessageContaining("twinbox.produce.retry-timeout")
        .hasMessageContaining("Retrying may solve the problem");
  }

  @Test
  void faultOfTheQueryIsSaidOnceWithFileLineAndColumn() throws IOException {
    topicFile(
        "query.sql",
        """
        -- The name is misspelt.
        SELECT event_key,
               paylod AS payload
        FROM shop.%s
        """
            .formatted(table));
    startProduce();
    long before = bigQuery.faults().calls(Call.INSERT_JOB);
    assertThatThrownBy(this::run)
        .rootCause()
        .hasMessageContaining("query.sql:3:8: Unrecognized name: paylod")
        .hasMessageContaining("[3:8]")
        .message()
        .containsOnlyOnce("query.sql");
    topicFile("query.sql", "-- No table.\nSELECT event_key, payload FROM shop.nowhere");
    assertThatThrownBy(this::run)
        .rootCause()
        .hasMessageContaining("query.sql")
        .hasMessageContaining("shop.nowhere");
    assertThat(bigQuery.faults().calls(Call.INSERT_JOB)).isEqualTo(before + 2);
  }

  @Test
  void refusalThatStaysIsNotTriedAgain() {
    rows(1);
    startProduce();
    for (String reason : List.of("accessDenied", "quotaExceeded")) {
      long before = bigQuery.faults().calls(Call.INSERT_JOB);
      bigQuery.faults().fail(Call.INSERT_JOB, 1, 403, reason);
      assertThatThrownBy(this::run).rootCause().hasMessageContaining("query.sql");
      assertThat(bigQuery.faults().calls(Call.INSERT_JOB)).isEqualTo(before + 1);
    }
  }

  @Test
  void noTransactionIsOpenWhileBigQueryIsAsked() throws Exception {
    rows(1);
    startProduce(SETTINGS);
    bigQuery.faults().queryDuration(Duration.ofMinutes(1));
    long before = bigQuery.faults().calls(Call.GET_JOB);
    CompletableFuture<Void> running = CompletableFuture.runAsync(this::run);
    eventually().until(() -> bigQuery.faults().calls(Call.GET_JOB) > before + 3);
    awaitNoOpenTransaction();
    assertThat(lastRun()).containsEntry("state", "running");
    bigQuery.faults().clear();
    running.get(30, TimeUnit.SECONDS);
    assertThat(queued()).hasSize(1);
  }

  /** One that waits for BigQuery would stay; the looks at the database for metrics are short. */
  private void awaitNoOpenTransaction() {
    eventually().until(() -> openTransactions() == 0);
  }

  private long openTransactions() {
    return jdbc.queryForObject(
        """
        SELECT count(*)
        FROM pg_stat_activity
        WHERE datname = current_database()
          AND pid <> pg_backend_pid()
          AND (xact_start IS NOT NULL OR backend_xmin IS NOT NULL)
        """,
        Long.class);
  }

  @Test
  void noTransactionWaitsForAPage() throws Exception {
    rows(ROWS);
    startProduce(
        "twinbox.produce.page-rows=4",
        "twinbox.produce.chunk-rows=2",
        "twinbox.produce.retry-base=50ms",
        "logging.level.io.twinbox.produce=ERROR");
    bigQuery.faults().answer(Call.TABLE_DATA, 1);
    bigQuery.faults().fail(Call.TABLE_DATA, 10_000, 503, "backendError");
    CompletableFuture<Void> running = CompletableFuture.runAsync(this::run);
    eventually().until(() -> count("pubsub_outbox") == 2 && openTransactions() == 0);
    long tries = bigQuery.faults().calls(Call.TABLE_DATA);
    eventually().until(() -> bigQuery.faults().calls(Call.TABLE_DATA) > tries + 1);
    awaitNoOpenTransaction();
    bigQuery.faults().clear();
    running.get(60, TimeUnit.SECONDS);
    assertThat(queued()).hasSize(ROWS).doesNotHaveDuplicates();
  }

  @Test
  void onePageIsReadAheadWhileRowsAreQueuedAndNoMore() throws Exception {
    rows(ROWS);
    startProduce("twinbox.produce.page-rows=4", "twinbox.produce.chunk-rows=2");
    long before = bigQuery.faults().calls(Call.TABLE_DATA);
    CompletableFuture<Void> running;
    try (Connection holder = jdbc.getDataSource().getConnection()) {
      holder.createStatement().execute("BEGIN; LOCK TABLE pubsub_outbox IN EXCLUSIVE MODE");
      running = CompletableFuture.runAsync(this::run);
      awaitBlockedSessions(1);
      // The page whose rows wait, and the next one.
      eventually().until(() -> bigQuery.faults().calls(Call.TABLE_DATA) == before + 2);
      eventually().until(() -> readers().allMatch(t -> t.getState() == Thread.State.WAITING));
      assertThat(bigQuery.faults().calls(Call.TABLE_DATA)).isEqualTo(before + 2);
      assertThat(queued()).isEmpty();
    }
    running.get(60, TimeUnit.SECONDS);
    assertThat(queued()).hasSize(ROWS).doesNotHaveDuplicates();
    eventually().until(() -> readers().findAny().isEmpty());
  }

  @Test
  void faultOfTheOutboxEndsTheRunThoughBigQueryIsInTrouble() {
    rows(ROWS);
    startProduce(
        "twinbox.produce.page-rows=4",
        "twinbox.produce.chunk-rows=2",
        "twinbox.produce.retry-base=30s",
        "logging.level.io.twinbox.produce=ERROR");
    jdbc.execute("ALTER TABLE pubsub_outbox ADD CONSTRAINT full_disk CHECK (false)");
    bigQuery.faults().answer(Call.TABLE_DATA, 1);
    // The page behind the first is being waited for, half a minute and more.
    bigQuery.faults().fail(Call.TABLE_DATA, 10_000, 503, "backendError");
    assertThatThrownBy(this::run).rootCause().hasMessageContaining("full_disk");
    eventually().until(() -> readers().findAny().isEmpty());
    assertThat(lastRun()).containsEntry("state", "failed");
    bigQuery.faults().clear();
    jdbc.execute("ALTER TABLE pubsub_outbox DROP CONSTRAINT full_disk");
    run();
    assertThat(queued()).hasSize(ROWS).doesNotHaveDuplicates();
  }

  private static Stream<Thread> readers() {
    return Thread.getAllStackTraces().keySet().stream()
        .filter(thread -> thread.getName().equals("produce-page"));
  }

  /** What the local BigQuery bills for a small query. */
  private static long billedOnce() {
    return 10L * 1024 * 1024;
  }
}
