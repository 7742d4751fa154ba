package io.twinbox.reconcile;

import io.twinbox.config.SqlFiles;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.sql.Connection;
import java.sql.SQLException;
import java.util.List;
import java.util.Map;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.jdbc.core.namedparam.NamedParameterJdbcTemplate;
import org.springframework.jdbc.datasource.SingleConnectionDataSource;

/**
 * One database of a reconciliation, only read. Every statement is a transaction of its own: none
 * holds back vacuum while another side is asked.
 */
final class Side {

  interface Ids {
    void id(String id) throws IOException;
  }

  private final Connection connection;
  private final NamedParameterJdbcTemplate jdbc;

  /**
   * @param connection without auto-commit, so that results come in portions
   */
  Side(Connection connection) {
    this.connection = connection;
    JdbcTemplate template = new JdbcTemplate(new SingleConnectionDataSource(connection, true));
    template.setFetchSize(5_000);
    this.jdbc = new NamedParameterJdbcTemplate(template);
  }

  List<Map<String, Object>> rows(String statement, Map<String, Object> parameters)
      throws SQLException {
    try {
      return jdbc.queryForList(SqlFiles.read("sql/reconcile/" + statement), parameters);
    } finally {
      connection.rollback();
    }
  }

  /** The first column of many rows, as they come. */
  void ids(String statement, Map<String, Object> parameters, Ids receiver) throws SQLException {
    try {
      jdbc.query(
          SqlFiles.read("sql/reconcile/" + statement),
          parameters,
          row -> {
            try {
              receiver.id(row.getString(1));
            } catch (IOException e) {
              throw new UncheckedIOException(e);
            }
          });
    } finally {
      connection.rollback();
    }
  }
}
