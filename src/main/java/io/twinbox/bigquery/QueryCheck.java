package io.twinbox.bigquery;

import com.google.cloud.bigquery.BigQuery;
import com.google.cloud.bigquery.BigQueryException;
import io.twinbox.config.Causes;
import io.twinbox.config.TwinboxProperties;
import java.io.IOException;
import java.nio.file.Files;
import java.util.Set;

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

  private QueryCheck() {}

  /**
   * What BigQuery or Twinbox has against the query, beginning with its file, or null.
   *
   * @param project whose jobs these are
   * @param emulatorHost {@code host:port} of a stand-in, or blank
   * @throws Unreachable when BigQuery does not answer, or says that one may not ask
   */
  public static String fault(
      String project, String emulatorHost, TwinboxProperties properties, String topic)
      throws Unreachable, IOException {
    return fault(
        project,
        emulatorHost,
        properties,
        topic,
        Files.readString(properties.topicDir().resolve("query.sql")));
  }

  /** As above, of this text. */
  static String fault(
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
      return e.getMessage();
    } catch (Retries.NoAnswer e) {
      throw new Unreachable(e.getMessage());
    } catch (IllegalArgumentException | IllegalStateException e) {
      return Causes.describe(e);
    }
  }
}
