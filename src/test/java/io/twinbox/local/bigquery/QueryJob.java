package io.twinbox.local.bigquery;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.locks.LockSupport;

/** One query job: accepted, running, done with rows or with an error. */
final class QueryJob {
  private final String project;
  private final String location;
  private final String id;
  private final JsonNode configuration;
  private final QueryPlan plan;
  private final long created = System.currentTimeMillis();
  private final CountDownLatch done = new CountDownLatch(1);
  private final QueryRows rows = new QueryRows();
  private volatile long started;
  private volatile long ended;
  private volatile ApiError error;
  private volatile boolean cancelled;

  /**
   * A job to run.
   *
   * @param configuration the job's configuration as the client sent it, to be given back
   * @param id null for a dry run, which makes no job
   */
  QueryJob(String project, String location, String id, JsonNode configuration, QueryPlan plan) {
    this.project = project;
    this.location = location;
    this.id = id;
    this.configuration = configuration;
    this.plan = plan;
  }

  String id() {
    return id;
  }

  QueryPlan plan() {
    return plan;
  }

  QueryRows rows() {
    return rows;
  }

  ApiError error() {
    return error;
  }

  boolean isDone() {
    return done.getCount() == 0;
  }

  boolean await(long millis) {
    try {
      return done.await(millis, TimeUnit.MILLISECONDS);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      return isDone();
    }
  }

  void cancel() {
    cancelled = true;
  }

  void run(Faults faults) {
    started = System.currentTimeMillis();
    try {
      ApiError injected = faults.takeJobError();
      if (injected != null) {
        throw injected;
      }
      refuseOverBudget(plan, configuration.path("query").path("maximumBytesBilled"));
      pause(faults);
      Evaluator.run(plan, rows, this::stopIfAsked);
      stopIfAsked();
    } catch (ApiError e) {
      error = e;
    } catch (RuntimeException e) {
      error = new ApiError(500, "internalError", null, "The local BigQuery failed: " + e);
    } finally {
      ended = System.currentTimeMillis();
      done.countDown();
    }
  }

  /** The limit counts billed bytes; Google's message names what would be enough. */
  static void refuseOverBudget(QueryPlan plan, JsonNode maximum) {
    if (maximum.isValueNode() && !maximum.isNull() && maximum.asLong() < plan.bytesBilled()) {
      throw new ApiError(
          400,
          "bytesBilledLimitExceeded",
          null,
          "Query exceeded limit for bytes billed: "
              + maximum.asLong()
              + ". "
              + plan.bytesBilled()
              + " or higher required.");
    }
  }

  /** As long as the fault says now: to clear it lets the running queries go on. */
  private void pause(Faults faults) {
    while (System.currentTimeMillis() - started < faults.queryDuration().toMillis()) {
      stopIfAsked();
      LockSupport.parkNanos(5_000_000);
    }
  }

  private void stopIfAsked() {
    long timeout = configuration.path("jobTimeoutMs").asLong(0);
    if (timeout > 0 && System.currentTimeMillis() - started > timeout) {
      throw new ApiError(
          499,
          "stopped",
          null,
          "Job execution was cancelled: Job timed out after " + timeout + "ms");
    }
    if (cancelled) {
      throw new ApiError(
          499, "stopped", null, "Job execution was cancelled: User requested cancellation");
    }
  }

  ObjectNode reference() {
    ObjectNode reference = JsonNodeFactory.instance.objectNode();
    reference.put("projectId", project);
    if (id != null) {
      reference.put("jobId", id);
    }
    return reference.put("location", location);
  }

  /** The name of the anonymous table that holds the result. */
  String destination() {
    return "anon" + Integer.toHexString(id.hashCode()) + "_" + id;
  }

  /** The job as jobs.get answers it. */
  ObjectNode toResource() {
    boolean finished = id == null || isDone();
    ObjectNode job = JsonNodeFactory.instance.objectNode();
    job.put("kind", "bigquery#job");
    job.put("id", project + ":" + location + (id == null ? "" : "." + id));
    job.put("user_email", "local@" + project + ".iam.gserviceaccount.com");
    job.set("jobReference", reference());
    ObjectNode echoed = configuration.deepCopy();
    echoed.put("jobType", "QUERY");
    if (id != null) {
      echoed
          .withObjectProperty("query")
          .putObject("destinationTable")
          .put("projectId", project)
          .put("datasetId", Jobs.ANONYMOUS_DATASET)
          .put("tableId", destination());
    }
    job.set("configuration", echoed);
    ObjectNode status = job.putObject("status");
    status.put("state", finished ? "DONE" : started == 0 ? "PENDING" : "RUNNING");
    if (finished && error != null) {
      status.set("errorResult", error.toErrorProto());
      status.putArray("errors").add(error.toErrorProto());
    }
    putStatistics(job.putObject("statistics"), finished);
    return job;
  }

  private void putStatistics(ObjectNode statistics, boolean finished) {
    String bytes = Long.toString(plan.bytesProcessed());
    statistics.put("creationTime", Long.toString(created));
    ObjectNode query = statistics.putObject("query");
    query.put("statementType", "SELECT");
    if (id == null) {
      statistics.put("totalBytesProcessed", bytes);
      query.put("totalBytesProcessed", bytes);
      query.put("totalBytesBilled", "0");
      query.put("totalBytesProcessedAccuracy", "PRECISE");
      query.put("cacheHit", false);
      query.set("schema", Column.toSchema(plan.columns()));
      return;
    }
    if (started > 0) {
      statistics.put("startTime", Long.toString(started));
    }
    if (finished) {
      String slotMillis = Long.toString(Math.max(1, ended - started));
      statistics.put("endTime", Long.toString(ended));
      statistics.put("totalBytesProcessed", error == null ? bytes : "0");
      statistics.put("totalSlotMs", slotMillis);
      query.put("totalBytesProcessed", error == null ? bytes : "0");
      query.put("totalBytesBilled", error == null ? Long.toString(plan.bytesBilled()) : "0");
      query.put("totalSlotMs", slotMillis);
      query.put("cacheHit", false);
    }
  }
}
