package io.twinbox.process;

import io.twinbox.local.InvoicesSample;
import io.twinbox.local.LocalPostgres;
import java.io.IOException;
import java.math.BigDecimal;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.List;

/**
 * A database of its own with the invoices topic's tables: what a test puts in and sees come out.
 */
final class Ledger implements AutoCloseable {
  private final String url;
  private final Connection connection;

  /** Makes the database and the business tables; Twinbox's own tables come with its first start. */
  Ledger(String url, String user, String password) throws SQLException, IOException {
    this.url = url;
    this.connection = DriverManager.getConnection(url, user, password);
    execute(Files.readString(Path.of("topics/invoices/business-tables.sql")));
  }

  static Ledger on(LocalPostgres postgres) throws SQLException, IOException {
    return new Ledger(postgres.createDatabase(), LocalPostgres.USER, LocalPostgres.PASSWORD);
  }

  String url() {
    return url;
  }

  /** Emits the sample's rows from one index to another as a service does, 100 a transaction. */
  void put(int from, int to) throws SQLException {
    connection.setAutoCommit(false);
    try (PreparedStatement put =
        connection.prepareStatement("SELECT outbox_put('invoices', CAST(? AS text))")) {
      int inTransaction = 0;
      for (String row : InvoicesSample.rows(from, to)) {
        put.setString(1, row);
        put.execute();
        if (++inTransaction % 100 == 0) {
          connection.commit();
        }
      }
      connection.commit();
    } finally {
      connection.setAutoCommit(true);
    }
  }

  void execute(String sql) throws SQLException {
    try (Statement statement = connection.createStatement()) {
      statement.execute(sql);
    }
  }

  /** A figure; 0 while the table is not there yet. */
  long count(String sql) {
    try (Statement statement = connection.createStatement();
        ResultSet rows = statement.executeQuery(sql)) {
      rows.next();
      return rows.getLong(1);
    } catch (SQLException e) {
      if ("42P01".equals(e.getSQLState())) {
        return 0;
      }
      throw new IllegalStateException(e);
    }
  }

  BigDecimal sum(String sql) throws SQLException {
    try (Statement statement = connection.createStatement();
        ResultSet rows = statement.executeQuery(sql)) {
      rows.next();
      return rows.getBigDecimal(1);
    }
  }

  List<String> texts(String sql) throws SQLException {
    List<String> texts = new ArrayList<>();
    try (Statement statement = connection.createStatement();
        ResultSet rows = statement.executeQuery(sql)) {
      while (rows.next()) {
        texts.add(rows.getString(1));
      }
    }
    return texts;
  }

  long published() {
    return count("SELECT count(*) FROM pubsub_outbox_published");
  }

  long due() {
    return count("SELECT count(*) FROM pubsub_outbox_due");
  }

  /** Rows that a pod holds now, whether its lease still runs or not. */
  long claimedBy(String pod) {
    return count(
        "SELECT count(*) FROM pubsub_outbox_due WHERE claim_token IS NOT NULL AND lock_id = '"
            + pod
            + "'");
  }

  long applied() {
    return count("SELECT count(*) FROM transactional_inbox");
  }

  /** Transactions of a process that wait for a lock. */
  long waitingForALock(String applicationName) {
    return count(
        "SELECT count(*) FROM pg_stat_activity WHERE xact_start IS NOT NULL AND state = 'active'"
            + " AND wait_event_type = 'Lock' AND application_name = '"
            + applicationName
            + "'");
  }

  /** Connections of a process, as the server sees them: some outlive a killed one for a moment. */
  long backendsOf(String applicationName) {
    return count(
        "SELECT count(*) FROM pg_stat_activity WHERE application_name = '" + applicationName + "'");
  }

  /**
   * Ends what is left of a killed process in the server, as a lost connection does sooner or later.
   */
  void endBackendsOf(String applicationName) throws SQLException {
    execute(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = '"
            + applicationName
            + "'");
  }

  /** Another connection, for locks. */
  Connection another() throws SQLException {
    Connection other = DriverManager.getConnection(url, LocalPostgres.USER, LocalPostgres.PASSWORD);
    other.setAutoCommit(false);
    return other;
  }

  @Override
  public void close() throws SQLException {
    connection.close();
  }
}
