package io.twinbox.operate;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.SerializationFeature;
import com.fasterxml.jackson.databind.util.StdDateFormat;
import io.twinbox.config.Causes;
import io.twinbox.config.SqlFiles;
import java.time.OffsetDateTime;
import java.time.format.DateTimeParseException;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.TimeZone;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import javax.management.MalformedObjectNameException;
import javax.management.ObjectName;
import org.postgresql.util.PSQLException;
import org.postgresql.util.ServerErrorMessage;
import org.springframework.dao.DataAccessException;
import org.springframework.jdbc.core.namedparam.NamedParameterJdbcTemplate;
import org.springframework.stereotype.Component;

/**
 * Runs the statements of {@code sql/operate} for the JMX operations. What goes wrong comes back as
 * an exception of the JDK with the database's own sentence: a JMX client has none of our classes.
 */
@Component
public class Repairs {

  private final NamedParameterJdbcTemplate jdbc;
  private final ObjectMapper json =
      new ObjectMapper()
          .setDateFormat(new StdDateFormat().withTimeZone(TimeZone.getTimeZone("UTC")))
          .disable(SerializationFeature.WRITE_DATES_AS_TIMESTAMPS)
          .enable(SerializationFeature.INDENT_OUTPUT);

  Repairs(NamedParameterJdbcTemplate jdbc) {
    this.jdbc = jdbc;
  }

  /** The rows of a statement, as indented JSON text, which every JMX client shows. */
  String list(String statement, Map<String, Object> parameters) {
    try {
      return json.writeValueAsString(rows(statement, parameters));
    } catch (JsonProcessingException e) {
      throw new IllegalStateException(e.getMessage());
    }
  }

  /** The one row of a statement. */
  Map<String, Object> row(String statement, Map<String, Object> parameters) {
    return rows(statement, parameters).get(0);
  }

  private List<Map<String, Object>> rows(String statement, Map<String, Object> parameters) {
    try {
      return jdbc.queryForList(SqlFiles.read("sql/operate/" + statement), parameters);
    } catch (DataAccessException e) {
      throw new IllegalArgumentException(sentence(e));
    }
  }

  /** The database's own sentence and hint, without its call stack. */
  public static String sentence(DataAccessException e) {
    if (e.getMostSpecificCause() instanceof PSQLException failure) {
      ServerErrorMessage server = failure.getServerErrorMessage();
      if (server != null) {
        return server.getMessage() + (server.getHint() == null ? "" : ". " + server.getHint());
      }
    }
    return Causes.describe(e);
  }

  /** Parameters by name; unlike {@code Map.of} it takes null, which a blank text becomes. */
  public static Map<String, Object> parameters(Object... namesAndValues) {
    Map<String, Object> parameters = new LinkedHashMap<>();
    for (int i = 0; i < namesAndValues.length; i += 2) {
      Object value = namesAndValues[i + 1];
      parameters.put(
          (String) namesAndValues[i],
          value instanceof String text && text.isBlank() ? null : value);
    }
    return parameters;
  }

  /** Consoles give 0 for a number that nobody typed. */
  static int orDefault(int number, int defaultNumber) {
    return number == 0 ? defaultNumber : number;
  }

  /**
   * @throws IllegalArgumentException when it is blank: the audit trail must not say "twinbox"
   */
  static String who(String who) {
    if (who == null || who.isBlank()) {
      throw new IllegalArgumentException(
          "who is missing: give your name, it goes into twinbox_audit");
    }
    return who;
  }

  /** Ids as a person pastes them, as a comma list. */
  public static String ids(String ids) {
    return ids == null
        ? ""
        : Stream.of(ids.split("[\\s,;\"'\\[\\]{}]+"))
            .filter(id -> !id.isEmpty())
            .collect(Collectors.joining(","));
  }

  /** A time with its zone: without one, the server's own zone would be guessed. */
  public static String time(String name, String text) {
    if (text == null || text.isBlank()) {
      return null;
    }
    try {
      return OffsetDateTime.parse(text.strip().replace(' ', 'T')).toString();
    } catch (DateTimeParseException e) {
      throw new IllegalArgumentException(
          "%s '%s' is no time with a zone; write it like 2026-01-31T09:00:00Z or 2026-01-31T10:00:00+01:00"
              .formatted(name, text));
    }
  }

  /** A time of the database as {@link #time} reads it. */
  public static String instant(Object time) {
    return time == null ? null : ((java.sql.Timestamp) time).toInstant().toString();
  }

  /** Quotes the value where an object name would not take it as it is. */
  static ObjectName objectName(String type, String key, String value)
      throws MalformedObjectNameException {
    String safe = value.matches("[^,=:\"*?\\n]+") ? value : ObjectName.quote(value);
    return new ObjectName("io.twinbox:type=%s,%s=%s".formatted(type, key, safe));
  }
}
