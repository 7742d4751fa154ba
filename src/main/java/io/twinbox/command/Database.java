package io.twinbox.command;

import io.twinbox.config.DatabaseUrl;
import io.twinbox.config.SqlFiles;
import io.twinbox.operate.Repairs;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.regex.Pattern;
import org.springframework.dao.DataAccessException;
import org.springframework.jdbc.core.namedparam.NamedParameterJdbcTemplate;
import org.springframework.jdbc.datasource.SingleConnectionDataSource;

/**
 * One connection for one command, in one transaction that is rolled back unless the command commits
 * it. What the database refuses is the user's to read, in the database's own words.
 */
final class Database implements AutoCloseable {

  /** Wrong values, unknown or unsuitable rows: the classes that the repair functions raise. */
  private static final Set<String> REFUSALS = Set.of("22", "23", "P0", "55", "02");

  private static final Pattern FUNCTION =
      Pattern.compile(
          "\\b(outbox|inbox)_(dead|replay|discard|republish|assign_key)(?:_ids)?\\b(?:\\(\\))?(?:, by JMX \\w+,)?");
  private static final Pattern OPTION = Pattern.compile("\\b(?:max_rows|per_second)\\b");

  private final Connection connection;
  private final NamedParameterJdbcTemplate jdbc;

  private Database(Connection connection) {
    this.connection = connection;
    this.jdbc = new NamedParameterJdbcTemplate(new SingleConnectionDataSource(connection, true));
  }

  /** The database of {@code SPRING_DATASOURCE_URL}. */
  static Database of(Settings settings, boolean readOnly) throws SQLException {
    return open(
        "SPRING_DATASOURCE_URL",
        settings.require("spring.datasource.url", "--spring.datasource.url=jdbc:postgresql://..."),
        settings.get("spring.datasource.username"),
        settings.get("spring.datasource.password"),
        readOnly);
  }

  /**
   * @param variable the setting that holds the URL, as its environment variable
   */
  static Database open(String variable, String url, String user, String password, boolean readOnly)
      throws SQLException {
    DatabaseUrl.check(variable, url);
    Properties properties = new Properties();
    if (!user.isEmpty()) {
      properties.setProperty("user", user);
    }
    if (!password.isEmpty()) {
      properties.setProperty("password", password);
    }
    properties.setProperty("ApplicationName", "twinbox-command");
    properties.setProperty("connectTimeout", "5");
    properties.setProperty("tcpKeepAlive", "true");
    properties.setProperty("logServerErrorDetail", "false");
    properties.setProperty("targetServerType", readOnly ? "any" : "primary");
    // Results of many rows come in portions; a lock that somebody keeps is an error and no wait.
    properties.setProperty("defaultRowFetchSize", "5000");
    properties.setProperty("options", "-c lock_timeout=10s");
    Connection connection = DriverManager.getConnection(url, properties);
    connection.setReadOnly(readOnly);
    connection.setAutoCommit(false);
    return new Database(connection);
  }

  Connection connection() {
    return connection;
  }

  NamedParameterJdbcTemplate jdbc() {
    return jdbc;
  }

  /** The rows of a statement of {@code sql/operate}. */
  List<Map<String, Object>> operate(String statement, Map<String, Object> parameters) {
    return rows(SqlFiles.read("sql/operate/" + statement), parameters);
  }

  List<Map<String, Object>> rows(String sql, Map<String, Object> parameters) {
    try {
      return jdbc.queryForList(sql, parameters);
    } catch (DataAccessException e) {
      if (e.getMostSpecificCause() instanceof SQLException cause
          && cause.getSQLState() != null
          && REFUSALS.contains(cause.getSQLState().substring(0, 2))) {
        throw Refused.byTheDatabase(inCommands(Repairs.sentence(e)));
      }
      throw e;
    }
  }

  /**
   * The database speaks of its functions and of JMX, whose operations are the same; here they are
   * commands and options.
   */
  static String inCommands(String sentence) {
    return OPTION
        .matcher(
            FUNCTION
                .matcher(sentence)
                .replaceAll(
                    call -> "`%s %s`".formatted(call.group(1), call.group(2).replace('_', '-'))))
        .replaceAll(option -> "--" + option.group().replace('_', '-'));
  }

  void commit() throws SQLException {
    connection.commit();
  }

  /**
   * Ends the transaction, so that it holds back no vacuum while the command does something else.
   */
  void rollback() throws SQLException {
    connection.rollback();
  }

  @Override
  public void close() throws SQLException {
    try (connection) {
      connection.rollback();
    }
  }
}
