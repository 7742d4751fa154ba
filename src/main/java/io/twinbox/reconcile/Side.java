package io.twinbox.reconcile;

import io.twinbox.config.SqlFiles;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.sql.Connection;
import java.sql.ResultSet;
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

  interface Row {
    void row(ResultSet row) throws SQLException, IOException;
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

  /** Many rows, as they come. */
  void each(String statement, Map<String, Object> parameters, Row receiver) throws SQLException {
    try {
      jdbc.query(
          SqlFiles.read("sql/reconcile/" + statement),
          parameters,
          row -> {
            try {
              receiver.row(row);
            } catch (IOException e) {
              throw new UncheckedIOException(e);
            }
          });
    } finally {
      connection.rollback();
    }
  }
}
