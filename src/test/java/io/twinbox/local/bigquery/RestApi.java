package io.twinbox.local.bigquery;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import io.twinbox.local.bigquery.RestServer.Request;
import java.io.IOException;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The calls of BigQuery's REST API v2 that the Google client makes for queries
 * (cloud.google.com/bigquery/docs/reference/rest).
 */
final class RestApi implements RestServer.Handler {
  private static final Pattern PATH =
      Pattern.compile(
          "/(?:bigquery/v2/)?projects/([^/]+)/"
              + "(?:(?<jobs>jobs)(?:/(?<job>[^/]+?)(?<cancel>/cancel)?)?"
              + "|(?<queries>queries)(?:/(?<query>[^/]+))?"
              + "|datasets/(?<dataset>[^/]+)(?:/(?<tables>tables)(?:/(?<table>[^/]+)"
              + "(?:/(?<data>data|insertAll))?)?)?)");

  /**
   * The longest that jobs.query and getQueryResults wait for a job unless told otherwise, in ms.
   */
  private static final long DEFAULT_WAIT_MILLIS = 10_000;

  private final String project;
  private final Catalog catalog;
  private final Jobs jobs;
  private final ResultPages pages;

  RestApi(String project, Catalog catalog, Jobs jobs, Faults faults) {
    this.project = project;
    this.catalog = catalog;
    this.jobs = jobs;
    this.pages = new ResultPages(faults);
  }

  @Override
  public Faults.Call callOf(Request request) {
    Matcher path = PATH.matcher(request.path());
    if (!path.matches()) {
      return Faults.Call.OTHER;
    }
    boolean post = request.method().equals("POST");
    if (path.group("jobs") != null) {
      return path.group("job") == null ? Faults.Call.INSERT_JOB : Faults.Call.GET_JOB;
    }
    if (path.group("queries") != null) {
      return post ? Faults.Call.QUERY : Faults.Call.QUERY_RESULTS;
    }
    if (path.group("data") != null) {
      return post ? Faults.Call.INSERT_ALL : Faults.Call.TABLE_DATA;
    }
    return Faults.Call.OTHER;
  }

  @Override
  public byte[] answer(Request request) throws IOException {
    Matcher path = PATH.matcher(request.path());
    if (!path.matches()) {
      throw new ApiError(
          404, "notFound", null, "The local BigQuery has no " + request.path() + " to call");
    }
    if (!path.group(1).equals(project)) {
      throw new ApiError(
          404,
          "notFound",
          null,
          "Not found: Project " + path.group(1) + "; this local BigQuery is project " + project);
    }
    String call = request.method() + " " + kindOf(path);
    return switch (call) {
      case "POST jobs" -> bytes(jobs.insert(request.body()));
      case "GET job" -> bytes(jobs.get(path.group("job")).toResource());
      case "POST job/cancel" -> cancel(path.group("job"));
      case "POST queries" -> query(request);
      case "GET query" -> queryResults(jobs.get(path.group("query")), request);
      case "GET dataset" -> bytes(dataset(path.group("dataset")));
      case "POST tables" -> createTable(path.group("dataset"), request.body());
      case "GET table" -> bytes(table(path.group("dataset"), path.group("table")));
      case "GET table/data" -> tableData(path.group("dataset"), path.group("table"), request);
      case "POST table/insertAll" ->
          insertAll(path.group("dataset"), path.group("table"), request.body());
      default ->
          throw new ApiError(404, "notFound", null, "The local BigQuery does not answer " + call);
    };
  }

  private static String kindOf(Matcher path) {
    if (path.group("jobs") != null) {
      return path.group("job") == null
          ? "jobs"
          : path.group("cancel") == null ? "job" : "job/cancel";
    }
    if (path.group("queries") != null) {
      return path.group("query") == null ? "queries" : "query";
    }
    if (path.group("data") != null) {
      return "table/" + path.group("data");
    }
    return path.group("table") != null
        ? "table"
        : path.group("tables") != null ? "tables" : "dataset";
  }

  private byte[] cancel(String id) throws IOException {
    QueryJob job = jobs.get(id);
    job.cancel();
    ObjectNode response = JsonNodeFactory.instance.objectNode();
    response.put("kind", "bigquery#jobCancelResponse");
    response.set("job", job.toResource());
    return bytes(response);
  }

  private byte[] query(Request request) throws IOException {
    JsonNode body = request.body();
    ObjectNode configuration = JsonNodeFactory.instance.objectNode();
    ObjectNode query = configuration.putObject("query");
    for (String name :
        List.of(
            "query",
            "queryParameters",
            "parameterMode",
            "useLegacySql",
            "defaultDataset",
            "maximumBytesBilled",
            "useQueryCache")) {
      if (body.has(name)) {
        query.set(name, body.get(name));
      }
    }
    if (body.has("labels")) {
      configuration.set("labels", body.get("labels"));
    }
    if (body.has("jobTimeoutMs")) {
      configuration.set("jobTimeoutMs", body.get("jobTimeoutMs"));
    }
    QueryJob job = jobs.query(body, configuration);
    ObjectNode head = JsonNodeFactory.instance.objectNode();
    head.put("kind", "bigquery#queryResponse");
    if (job.id() == null) {
      head.put("jobComplete", true);
      head.set("jobReference", job.reference());
      head.set("schema", Column.toSchema(job.plan().columns()));
      head.put("totalBytesProcessed", Long.toString(job.plan().bytesProcessed()));
      return bytes(head);
    }
    head.put("queryId", job.id());
    return pages.jobPage(
        head,
        job,
        new ResultPages.Page(
            0,
            body.has("maxResults") ? body.get("maxResults").asLong() : Long.MAX_VALUE,
            body.path("formatOptions").path("useInt64Timestamp").asBoolean(false)),
        body.path("timeoutMs").asLong(DEFAULT_WAIT_MILLIS));
  }

  private byte[] queryResults(QueryJob job, Request request) throws IOException {
    ObjectNode head = JsonNodeFactory.instance.objectNode();
    head.put("kind", "bigquery#getQueryResultsResponse");
    long wait =
        Long.parseLong(
            request.parameters().getOrDefault("timeoutMs", String.valueOf(DEFAULT_WAIT_MILLIS)));
    return pages.jobPage(head, job, ResultPages.Page.of(request.parameters()), wait);
  }

  private byte[] tableData(String dataset, String table, Request request) throws IOException {
    if (request.parameters().containsKey("selectedFields")) {
      throw Unsupported.SELECTED_FIELDS.error();
    }
    ResultPages.Page page = ResultPages.Page.of(request.parameters());
    if (dataset.equals(Jobs.ANONYMOUS_DATASET)) {
      QueryJob job = jobs.byDestination(table);
      if (!job.isDone() || job.error() != null) {
        throw ApiError.notFound("Table " + project + ":" + dataset + "." + table);
      }
      return pages.tablePage(job.plan().columns(), job.rows(), page);
    }
    Table.Snapshot snapshot = catalog.get(dataset, table).snapshot();
    try (QueryRows rows = new QueryRows()) {
      snapshot.chunks().forEach(c -> rows.append(snapshot.file().read(List.of(c)), c.rows()));
      return pages.tablePage(snapshot.columns(), rows, page);
    }
  }

  /** All rows are tried first: with one bad row none is inserted, as without skipInvalidRows. */
  private byte[] insertAll(String dataset, String name, JsonNode body) throws IOException {
    Table table = catalog.get(dataset, name);
    ObjectNode response = JsonNodeFactory.instance.objectNode();
    response.put("kind", "bigquery#tableDataInsertAllResponse");
    ArrayNode errors = JsonNodeFactory.instance.arrayNode();
    List<JsonNode> rows = new ArrayList<>();
    for (JsonNode row : body.path("rows")) {
      try {
        table.check(row.path("json"));
      } catch (ApiError e) {
        errors.addObject().put("index", rows.size()).putArray("errors").add(e.toErrorProto());
      }
      rows.add(row.path("json"));
    }
    if (rows.isEmpty()) {
      throw ApiError.invalid("No rows present in the request.");
    }
    if (errors.isEmpty()) {
      table.append(rows);
    } else {
      response.set("insertErrors", errors);
    }
    return bytes(response);
  }

  private byte[] createTable(String dataset, JsonNode body) throws IOException {
    String name = body.path("tableReference").path("tableId").asText("");
    String partitionColumn =
        body.path("timePartitioning")
            .path("field")
            .asText(body.path("rangePartitioning").path("field").asText(null));
    boolean required = body.path("requirePartitionFilter").asBoolean(false);
    catalog.create(
        dataset,
        name,
        Column.parseSchema(body.path("schema").path("fields")),
        required ? partitionColumn : null);
    return bytes(table(dataset, name));
  }

  private ObjectNode dataset(String dataset) {
    if (!catalog.hasDataset(dataset)) {
      throw ApiError.notFound("Dataset " + project + ":" + dataset);
    }
    ObjectNode resource = JsonNodeFactory.instance.objectNode();
    resource.put("kind", "bigquery#dataset");
    resource.put("id", project + ":" + dataset);
    resource.putObject("datasetReference").put("projectId", project).put("datasetId", dataset);
    return resource.put("location", catalog.location());
  }

  private ObjectNode table(String dataset, String table) {
    Table.Snapshot snapshot = catalog.get(dataset, table).snapshot();
    long bytes = Arrays.stream(snapshot.columnBytes()).sum();
    ObjectNode resource = JsonNodeFactory.instance.objectNode();
    resource.put("kind", "bigquery#table");
    resource.put("id", project + ":" + dataset + "." + table);
    resource
        .putObject("tableReference")
        .put("projectId", project)
        .put("datasetId", dataset)
        .put("tableId", table);
    resource.put("type", "TABLE");
    resource.put("location", catalog.location());
    resource.put("numRows", Long.toString(snapshot.rows()));
    resource.put("numBytes", Long.toString(bytes));
    resource.set("schema", Column.toSchema(snapshot.columns()));
    if (snapshot.partitionFilter() != null) {
      resource.put("requirePartitionFilter", true);
    }
    return resource;
  }

  private static byte[] bytes(JsonNode json) throws IOException {
    return Json.MAPPER.writeValueAsBytes(json);
  }
}
