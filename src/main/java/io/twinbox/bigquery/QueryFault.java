package io.twinbox.bigquery;

import com.google.cloud.bigquery.BigQueryException;
import java.nio.file.Path;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * What BigQuery has against a query, as compilers say it: file, line, column, and BigQuery's own
 * words. Carries no cause: who reads the log wants these words, and not the HTTP answer under them.
 */
class QueryFault extends RuntimeException {

  /** As in "Unrecognized name: totl at [3:10]". */
  private static final Pattern POSITION = Pattern.compile("\\[(\\d+):(\\d+)]");

  private QueryFault(String message, BigQueryException answer) {
    super(message);
    addSuppressed(answer);
  }

  static QueryFault of(Path queryFile, BigQueryException e) {
    String message = Retries.describe(e);
    Matcher position = POSITION.matcher(message);
    return new QueryFault(
        position.find()
            ? "%s:%s:%s: %s".formatted(queryFile, position.group(1), position.group(2), message)
            : "%s: %s".formatted(queryFile, message),
        e);
  }

  /** A message without the query's file at its beginning, for who names the file himself. */
  static String words(Path queryFile, String message) {
    return Pattern.compile(Pattern.quote(queryFile.toString()) + "(?::\\d+:\\d+)?: ?")
        .matcher(message)
        .replaceFirst("");
  }
}
