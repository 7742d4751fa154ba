package io.twinbox.local.bigquery;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The jobs of one local BigQuery: starts them and finds them again. It remembers the latest {@value
 * #KEPT}; an older one is gone with its rows, as BigQuery's are after a day.
 */
final class Jobs implements AutoCloseable {
  static final String ANONYMOUS_DATASET = "_local_results";
  private static final int KEPT = 200;
  private static final int THREADS = 2;

  private static final Pattern FIRST_WORDS =
      Pattern.compile(
          "(?:\\s|--[^\\n]*\\n|#[^\\n]*\\n|/\\*[\\s\\S]*?\\*/)*([A-Za-z]+)\\s+([A-Za-z]*)");

  private final String project;
  private final String location;
  private final Catalog catalog;
  private final Faults faults;
  private final ExecutorService runners =
      Executors.newFixedThreadPool(THREADS, Threads.named("local-bigquery-job"));
  private final Map<String, QueryJob> jobs = new LinkedHashMap<>();
  private final Map<String, String> requests = new LinkedHashMap<>();

  Jobs(String project, String location, Catalog catalog, Faults faults) {
    this.project = project;
    this.location = location;
    this.catalog = catalog;
    this.faults = faults;
  }

  /**
   * jobs.insert: what it answers. A query that cannot be analysed fails this call; what goes wrong
   * later, the byte limit included, is the job's result.
   */
  ObjectNode insert(JsonNode request) {
    JsonNode configuration = request.path("configuration");
    if (!configuration.has("query")) {
      throw Unsupported.JOB_TYPE.error();
    }
    JsonNode reference = request.path("jobReference");
    checkLocation(reference.path("location").asText(null));
    String id = reference.path("jobId").asText(null);
    if (id != null) {
      checkNew(id);
    }
    boolean dryRun = configuration.path("dryRun").asBoolean(false);
    String statement = statementType(configuration.path("query").path("query").asText(""));
    if (dryRun && statement != null) {
      return dryRunOf(statement, configuration);
    }
    QueryPlan plan = plan(configuration.get("query"));
    if (dryRun) {
      return new QueryJob(project, location, null, configuration, plan).toResource();
    }
    return start(id == null ? newId() : id, configuration, plan).toResource();
  }

  /**
   * What BigQuery calls a statement that is no query, by its first words; null for a query. Such a
   * statement is not run here, but its dry run says what it is.
   */
  private static String statementType(String sql) {
    Matcher words = FIRST_WORDS.matcher(sql);
    if (!words.lookingAt()) {
      return null;
    }
    String first = words.group(1).toUpperCase(Locale.ROOT);
    return switch (first) {
      case "INSERT", "UPDATE", "DELETE", "MERGE" -> first;
      case "DECLARE", "BEGIN", "IF", "EXECUTE", "CALL", "SET" -> "SCRIPT";
      case "CREATE", "DROP", "ALTER" ->
          first + "_" + words.group(2).toUpperCase(Locale.ROOT).replace("OR", "TABLE");
      case "EXPORT" -> "EXPORT_DATA";
      default -> null;
    };
  }

  private ObjectNode dryRunOf(String statement, JsonNode configuration) {
    ObjectNode job = JsonNodeFactory.instance.objectNode();
    job.put("kind", "bigquery#job");
    job.putObject("jobReference").put("projectId", project).put("location", location);
    job.set("configuration", ((ObjectNode) configuration.deepCopy()).put("jobType", "QUERY"));
    job.putObject("status").put("state", "DONE");
    ObjectNode statistics = job.putObject("statistics");
    statistics.put("creationTime", Long.toString(System.currentTimeMillis()));
    statistics.putObject("query").put("statementType", statement).put("totalBytesProcessed", "0");
    return job;
  }

  /** jobs.query: the job that a request started, now or, with the same request id, before. */
  QueryJob query(JsonNode request, ObjectNode configuration) {
    checkLocation(request.path("location").asText(null));
    String requestId = request.path("requestId").asText(null);
    synchronized (jobs) {
      QueryJob earlier = requestId == null ? null : jobs.get(requests.get(requestId));
      if (earlier != null) {
        return earlier;
      }
    }
    QueryPlan plan = plan(configuration.get("query"));
    if (request.path("dryRun").asBoolean(false)) {
      return new QueryJob(project, location, null, configuration, plan);
    }
    QueryJob.refuseOverBudget(plan, request.path("maximumBytesBilled"));
    QueryJob job = start(newId(), configuration, plan);
    if (requestId != null) {
      synchronized (jobs) {
        requests.put(requestId, job.id());
      }
    }
    return job;
  }

  private QueryPlan plan(JsonNode query) {
    if (query.path("useLegacySql").asBoolean(false)) {
      throw Unsupported.LEGACY_SQL.error();
    }
    if (query.hasNonNull("destinationTable")) {
      throw Unsupported.DESTINATION.error();
    }
    String sql = query.path("query").asText("");
    if (sql.isBlank()) {
      throw ApiError.invalid("Required parameter is missing: query");
    }
    Parameters parameters =
        new Parameters(query.path("queryParameters"), query.path("parameterMode").asText(null));
    return new QueryPlan(
        sql,
        parameters,
        catalog.snapshot(),
        query.path("defaultDataset").path("datasetId").asText(null));
  }

  private QueryJob start(String id, JsonNode configuration, QueryPlan plan) {
    QueryJob job = new QueryJob(project, location, id, configuration, plan);
    synchronized (jobs) {
      checkNew(id);
      jobs.put(id, job);
      if (jobs.size() > KEPT) {
        forgetOldest();
      }
    }
    runners.execute(() -> job.run(faults));
    return job;
  }

  private void forgetOldest() {
    jobs.values().stream()
        .filter(QueryJob::isDone)
        .findFirst()
        .ifPresent(
            old -> {
              jobs.remove(old.id());
              requests.values().removeIf(old.id()::equals);
              old.rows().close();
            });
  }

  /** As after a loss of the service's state: no job is known any more. */
  void forgetAll() {
    synchronized (jobs) {
      jobs.clear();
      requests.clear();
    }
  }

  QueryJob get(String id) {
    synchronized (jobs) {
      QueryJob job = jobs.get(id);
      if (job == null) {
        throw ApiError.notFound("Job " + project + ":" + id);
      }
      return job;
    }
  }

  QueryJob byDestination(String table) {
    synchronized (jobs) {
      return jobs.values().stream()
          .filter(job -> job.destination().equals(table))
          .findFirst()
          .orElseThrow(
              () -> ApiError.notFound("Table " + project + ":" + ANONYMOUS_DATASET + "." + table));
    }
  }

  private void checkNew(String id) {
    synchronized (jobs) {
      if (jobs.containsKey(id)) {
        throw new ApiError(
            409, "duplicate", null, "Already Exists: Job " + project + ":" + location + "." + id);
      }
    }
  }

  private void checkLocation(String asked) {
    if (asked != null && !asked.equalsIgnoreCase(location)) {
      throw ApiError.notFound(
          "Project " + project + " has no data in location " + asked + ", only in " + location);
    }
  }

  private static String newId() {
    return "job_" + UUID.randomUUID().toString().replace("-", "");
  }

  @Override
  public void close() {
    runners.shutdownNow();
    synchronized (jobs) {
      jobs.values().forEach(job -> job.rows().close());
    }
  }
}
