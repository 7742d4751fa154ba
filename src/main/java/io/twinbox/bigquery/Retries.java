package io.twinbox.bigquery;

import com.google.api.client.http.HttpResponseException;
import com.google.auth.Retryable;
import com.google.cloud.bigquery.BigQueryError;
import com.google.cloud.bigquery.BigQueryException;
import io.twinbox.config.Causes;
import java.io.IOException;
import java.time.Duration;
import java.util.Set;
import java.util.concurrent.ThreadLocalRandom;
import java.util.function.Supplier;
import java.util.stream.Stream;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * Asks BigQuery again while its trouble is of the kind that passes. Google's client (2.57.1) tries
 * a rate limit again and a 503 not; so its own retries are off, and these are the only ones.
 *
 * <p>A pause is a random time of at most base, 2 base, 4 base ..., 32 s, and at least half of that.
 */
final class Retries {

  /** Google's table of errors (cloud.google.com/bigquery/docs/error-messages): try again later. */
  private static final Set<String> PASSING_REASONS =
      Set.of(
          "backendError",
          "internalError",
          "jobBackendError",
          "jobInternalError",
          "jobRateLimitExceeded",
          "rateLimitExceeded",
          "tableUnavailable");

  private static final Set<Integer> PASSING_CODES = Set.of(408, 429, 500, 502, 503, 504);
  private static final long CAP_MILLIS = 32_000;
  private static final int NOT_FOUND = 404;
  private static final Logger log = LoggerFactory.getLogger("io.twinbox.produce");

  /** BigQuery's trouble did not pass in time. */
  static final class NoAnswer extends IllegalStateException {
    NoAnswer(String message) {
      super(message);
    }
  }

  private final Duration base;
  private final Duration timeout;

  /**
   * @param base the first pause
   * @param timeout how long one call is tried again
   */
  Retries(Duration base, Duration timeout) {
    this.base = base;
    this.timeout = timeout;
  }

  /**
   * Calls until it answers, or with trouble that stays, or for too long.
   *
   * @param what what is asked for, as in "the price of the query"
   * @throws BigQueryException when the trouble stays
   * @throws IllegalStateException when it did not pass in time
   */
  <T> T call(String what, Supplier<T> call) {
    long start = System.nanoTime();
    for (int failures = 1; ; failures++) {
      try {
        return call.get();
      } catch (BigQueryException e) {
        if (!passes(e)) {
          throw e;
        }
        Duration pause = pause(failures);
        if (Duration.ofNanos(System.nanoTime() - start).plus(pause).compareTo(timeout) > 0) {
          throw new NoAnswer(
              "BigQuery did not answer for %s, %d tries in %d s (twinbox.produce.retry-timeout): %s"
                  .formatted(
                      what,
                      failures,
                      Duration.ofNanos(System.nanoTime() - start).toSeconds(),
                      describe(e)));
        }
        log.warn(
            "BigQuery did not answer for {}: {}; asked again in {} ms.",
            what,
            describe(e),
            pause.toMillis());
        sleep(pause);
      }
    }
  }

  /** Waits before the query is run again as another job. */
  void pauseBefore(int restart) {
    sleep(pause(restart));
  }

  private Duration pause(int failures) {
    long most = Math.min(CAP_MILLIS, base.toMillis() << Math.min(failures - 1, 20));
    return Duration.ofMillis(
        most - ThreadLocalRandom.current().nextLong(Math.max(1, most / 2 + 1)));
  }

  /** Waits; the thread of a process that stops does not wait on. */
  static void sleep(Duration pause) {
    try {
      Thread.sleep(pause.toMillis());
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new IllegalStateException("The run was interrupted while it waited for BigQuery");
    }
  }

  static boolean passes(BigQueryException e) {
    if (PASSING_CODES.contains(e.getCode())) {
      return true;
    }
    if (reasons(e).anyMatch(PASSING_REASONS::contains)) {
      return true;
    }
    if (Causes.any(e, cause -> cause instanceof Retryable auth && !auth.isRetryable())) {
      return false;
    }
    // A connection that broke, or never came about; an answer with a status is judged above.
    return !Causes.any(e, HttpResponseException.class::isInstance)
        && Causes.any(e, IOException.class::isInstance);
  }

  static boolean passes(BigQueryError error) {
    return PASSING_REASONS.contains(error.getReason());
  }

  /** BigQuery knows neither the job nor its result any more. */
  static boolean isGone(BigQueryException e) {
    return e.getCode() == NOT_FOUND;
  }

  private static Stream<String> reasons(BigQueryException e) {
    return Stream.concat(
        Stream.ofNullable(e.getReason()),
        e.getErrors() == null
            ? Stream.empty()
            : e.getErrors().stream().map(BigQueryError::getReason));
  }

  /** BigQuery's own words in one line, with the reason where there is one. */
  static String describe(BigQueryException e) {
    String message =
        e.getError() != null && e.getError().getMessage() != null
            ? e.getError().getMessage()
            : e.getMessage() == null ? Causes.describe(e) : e.getMessage();
    return message.replaceAll("\\s*[\\r\\n]+\\s*", " ")
        + (e.getReason() == null ? "" : " (" + e.getReason() + ")");
  }
}
