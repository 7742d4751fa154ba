package io.twinbox.bigquery;

import com.google.cloud.bigquery.BigQuery;
import com.google.cloud.bigquery.BigQueryException;
import io.twinbox.config.Causes;
import io.twinbox.config.TwinboxProperties;
import io.twinbox.routes.Finding;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Asks BigQuery about a topic's query as {@code produce} would run it for the first time: a dry
 * run, which costs nothing and reads nothing.
 */
public final class QueryCheck {

  /** BigQuery cannot be asked. */
  public static final class Unreachable extends Exception {
    Unreachable(String message) {
      super(message);
    }
  }

  private static final Set<Integer> NOT_ALLOWED = Set.of(401, 403);
  private static final Set<String> BOUND = Set.of("watermark", "last");

  private QueryCheck() {}

  /**
   * What is wrong with the query file that nobody must ask BigQuery about.
   *
   * @return empty when nothing, or when there is no such file
   */
  public static List<Finding> read(TwinboxProperties properties) throws IOException {
    Path file = file(properties);
    if (!Files.isRegularFile(file)) {
      return List.of();
    }
    String sql = Files.readString(file);
    if (QueryParameters.empty(sql)) {
      return List.of(
          finding(
              file,
              1,
              "the file has no statement",
              "Write one SELECT that returns event_key and payload."));
    }
    List<Finding> findings = new ArrayList<>();
    QueryParameters.lines(sql)
        .forEach(
            (name, line) -> {
              if (!BOUND.contains(name)) {
                findings.add(
                    finding(
                        file,
                        line,
                        "nobody gives @%s a value".formatted(name),
                        "Twinbox binds @watermark and @last; write anything else as it is."));
              }
            });
    return findings;
  }

  /** What in the settings keeps a first run from being planned, or null. */
  public static String unplanned(TwinboxProperties properties) throws IOException {
    try {
      String sql = Files.readString(file(properties));
      new Extraction(null, properties, "", new ProduceFigures(), () -> sql).plan(null, "check");
      return null;
    } catch (IllegalArgumentException e) {
      return e.getMessage();
    }
  }

  /**
   * What BigQuery or Twinbox has against the query, or null.
   *
   * @param project whose jobs these are
   * @param emulatorHost {@code host:port} of a stand-in, or blank
   * @throws Unreachable when BigQuery does not answer, or says that one may not ask
   */
  public static Finding fault(
      String project, String emulatorHost, TwinboxProperties properties, String topic)
      throws Unreachable, IOException {
    return fault(project, emulatorHost, properties, topic, Files.readString(file(properties)));
  }

  /** As above, of this text. */
  static Finding fault(
      String project, String emulatorHost, TwinboxProperties properties, String topic, String sql)
      throws Unreachable, IOException {
    BigQuery bigQuery = new BigQueryConfiguration().bigQuery(project, emulatorHost);
    Extraction extraction =
        new Extraction(bigQuery, properties, topic, new ProduceFigures(), () -> sql);
    try {
      extraction.price(extraction.plan(null, "check"));
      return null;
    } catch (QueryFault e) {
      for (Throwable answer : e.getSuppressed()) {
        if (answer instanceof BigQueryException said && NOT_ALLOWED.contains(said.getCode())) {
          throw new Unreachable(e.getMessage());
        }
      }
      return finding(file(properties), e.getMessage());
    } catch (Retries.NoAnswer e) {
      throw new Unreachable(e.getMessage());
    } catch (IllegalArgumentException | IllegalStateException e) {
      return finding(file(properties), Causes.describe(e));
    }
  }

  private static Path file(TwinboxProperties properties) {
    return properties.topicDir().resolve("query.sql");
  }

  /**
   * A run's message names the file, and where BigQuery says it, line and column; a finding has them
   * as its own.
   */
  public static Finding finding(Path file, String said) {
    Matcher position =
        Pattern.compile("(?s)" + Pattern.quote(file.toString()) + "(?::(\\d+):\\d+)?:? (.*)")
            .matcher(said);
    boolean found = position.matches();
    return finding(
        file,
        found && position.group(1) != null ? Integer.parseInt(position.group(1)) : 1,
        // That belongs to a run; here nobody was going to write.
        (found ? position.group(2) : said)
            .replaceFirst("(?: Nothing was written)?\\.$", "")
            .replaceFirst("\\.$", ""),
        "Correct the query, or the setting that it names.");
  }

  private static Finding finding(Path file, int line, String problem, String remedy) {
    return new Finding(file.toString(), line, null, null, problem, remedy);
  }
}
