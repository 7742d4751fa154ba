package io.twinbox.local.bigquery;

/**
 * Everything that BigQuery can do and this local one cannot: the one list of it. Each entry is met
 * with HTTP 501 and a message that says so, never with a result that quietly differs.
 *
 * <p>One more limit is of size and not of kind: a join, grouping or window over more than 4 MB of
 * the columns that it reads ends with reason {@code resourcesExceeded} ({@link QueryPlan} says
 * why). And of time: joins are nested loops in this evaluator, and a subquery in WHERE runs once
 * per row, so that either takes minutes over 20,000 rows.
 *
 * <p>INTERVAL and RANGE are supported. Seen with ZetaSQL 2024.11.1, by asking it.
 */
enum Unsupported {
  /** ZetaSQL knows the type, its reference evaluator has none of the ST_ functions. */
  GEOGRAPHY("GEOGRAPHY and the ST_ functions: ZetaSQL's evaluator has no geography"),
  /** Types of ZetaSQL that BigQuery's REST API has no encoding for (FLOAT32, UUID, MAP...). */
  TYPE("a result column of this type"),
  /**
   * Functions without an implementation in the evaluator: SESSION_USER, HLL_COUNT.*, and others.
   */
  FUNCTION("this built-in function: ZetaSQL's evaluator does not implement it"),
  /** Only queries. No DML, no DDL, no scripts: the local tables are filled by append. */
  STATEMENT("any statement but a query; append rows with insertAll instead"),
  /** No query has a destination but the anonymous table of its job. */
  DESTINATION("a destination table"),
  /** Only query jobs. */
  JOB_TYPE("load, copy and extract jobs"),
  /** The old dialect. */
  LEGACY_SQL("legacy SQL; set useLegacySql to false"),
  /** SELECT AS STRUCT and SELECT AS VALUE as the outermost query. */
  VALUE_TABLE("SELECT AS STRUCT or AS VALUE as the outermost query"),
  /** FOR SYSTEM_TIME AS OF. */
  TIME_TRAVEL("FOR SYSTEM_TIME AS OF"),
  /** tabledata.list and jobs.getQueryResults with a part of the columns. */
  SELECTED_FIELDS("selectedFields");

  private final String what;

  Unsupported(String what) {
    this.what = what;
  }

  ApiError error() {
    return error(null);
  }

  ApiError error(String detail) {
    return new ApiError(
        501,
        "notImplemented",
        null,
        "The local BigQuery does not support "
            + what
            + (detail == null ? "" : " (" + detail + ")"));
  }
}
