package io.twinbox.local.bigquery;

import java.time.Duration;
import java.util.EnumMap;
import java.util.Map;
import java.util.Queue;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.atomic.AtomicLong;

/**
 * What the local BigQuery does wrong on purpose, switchable while it runs. Every fault that
 * BigQuery is known for and Twinbox must survive can be asked for here.
 */
public final class Faults {
  /** The kinds of calls that can be made to fail. */
  public enum Call {
    /** jobs.insert. */
    INSERT_JOB,
    /** jobs.query. */
    QUERY,
    /** jobs.get. */
    GET_JOB,
    /** jobs.getQueryResults. */
    QUERY_RESULTS,
    /** tabledata.list. */
    TABLE_DATA,
    /** tabledata.insertAll. */
    INSERT_ALL,
    /** Everything else. */
    OTHER
  }

  /** A way to fail. */
  sealed interface Fault {
    /** An error answer instead of the call's effect. */
    record Answer(ApiError error) implements Fault {}

    /** No fault: the call is answered, and those behind it are not. */
    record None() implements Fault {}

    /** The call takes effect; its answer is cut off in the middle of the body. */
    record CutConnection() implements Fault {}
  }

  private final Map<Call, Queue<Fault>> next = new EnumMap<>(Call.class);
  private final Map<Call, AtomicLong> calls = new EnumMap<>(Call.class);
  private final Queue<ApiError> jobErrors = new ConcurrentLinkedQueue<>();
  private volatile Duration latency = Duration.ZERO;
  private volatile Duration queryDuration = Duration.ZERO;
  private volatile int pageRows = Integer.MAX_VALUE;
  private final Map<String, String> longTexts = new ConcurrentHashMap<>();

  Faults() {
    for (Call call : Call.values()) {
      next.put(call, new ConcurrentLinkedQueue<>());
      calls.put(call, new AtomicLong());
    }
  }

  /**
   * The next calls of a kind answer with an error and do nothing.
   *
   * @param status HTTP status, for example 503
   * @param reason Google's reason, for example backendError or rateLimitExceeded
   */
  public void fail(Call call, int times, int status, String reason) {
    ApiError error = new ApiError(status, reason, null, message(reason));
    for (int i = 0; i < times; i++) {
      next.get(call).add(new Fault.Answer(error));
    }
  }

  /** The next calls of a kind are answered before the faults that are asked for later. */
  public void answer(Call call, int times) {
    for (int i = 0; i < times; i++) {
      next.get(call).add(new Fault.None());
    }
  }

  /** The next calls of a kind take effect, but their answers break off in the middle. */
  public void cutConnection(Call call, int times) {
    for (int i = 0; i < times; i++) {
      next.get(call).add(new Fault.CutConnection());
    }
  }

  /** The next jobs are accepted and then end with this error as their result. */
  public void failJobs(int times, int status, String reason) {
    for (int i = 0; i < times; i++) {
      jobErrors.add(new ApiError(status, reason, null, message(reason)));
    }
  }

  /** Google's words: the client recognises rate limits by them, and not by the reason. */
  private static String message(String reason) {
    return switch (reason) {
      case "backendError" -> "Error encountered during execution. Retrying may solve the problem.";
      case "internalError" -> "An internal error occurred and the request could not be completed.";
      case "rateLimitExceeded" ->
          "Exceeded rate limits: too many api requests per user per method for this user_method.";
      case "jobRateLimitExceeded" ->
          "Job exceeded rate limits: Your project exceeded quota for concurrent queries.";
      case "quotaExceeded" -> "Quota exceeded: Your project exceeded quota for free query bytes.";
      case "notFound" -> "Not found: Job";
      case "accessDenied" -> "Access Denied: Project: User does not have permission.";
      default -> "Injected fault: " + reason;
    };
  }

  /** Every answer waits this long. */
  public void latency(Duration perCall) {
    latency = perCall;
  }

  /** Every query runs at least this long, or until the faults are cleared. */
  public void queryDuration(Duration atLeast) {
    queryDuration = atLeast;
  }

  /** No page of rows has more than this many. */
  public void pageRows(int atMost) {
    if (atMost < 1) {
      throw new IllegalArgumentException("A page has at least one row, not " + atMost);
    }
    pageRows = atMost;
  }

  /**
   * A result's STRING that is {@code text} is answered as {@code longText}. No fault, but ZetaSQL's
   * evaluator makes no text over a mebibyte, and BigQuery does.
   */
  public void longText(String text, String longText) {
    longTexts.put(text, longText);
  }

  String longText(String text) {
    return longTexts.isEmpty() ? text : longTexts.getOrDefault(text, text);
  }

  /** Ends all faults, also those that have not happened yet. */
  public void clear() {
    next.values().forEach(Queue::clear);
    jobErrors.clear();
    longTexts.clear();
    latency = Duration.ZERO;
    queryDuration = Duration.ZERO;
    pageRows = Integer.MAX_VALUE;
  }

  /** How many calls of a kind came in so far, failed ones included. */
  public long calls(Call call) {
    return calls.get(call).get();
  }

  /** Counts the call and gives its fault, or null. */
  Fault take(Call call) {
    calls.get(call).incrementAndGet();
    Fault fault = next.get(call).poll();
    return fault instanceof Fault.None ? null : fault;
  }

  ApiError takeJobError() {
    return jobErrors.poll();
  }

  Duration latency() {
    return latency;
  }

  Duration queryDuration() {
    return queryDuration;
  }

  int pageRows() {
    return pageRows;
  }
}
