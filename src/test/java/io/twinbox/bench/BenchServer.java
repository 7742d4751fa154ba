package io.twinbox.bench;

import io.twinbox.local.LocalPostgres;
import io.twinbox.process.DebianPostgres;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.Optional;
import org.flywaydb.core.Flyway;

/** Debian's PostgreSQL where it is found, else the embedded one; durable commits either way. */
final class BenchServer implements AutoCloseable {

  private final AutoCloseable server;
  private final String name;
  private final String url;
  final String user;
  final String password;

  private BenchServer(AutoCloseable server, String name, String url, String user, String password) {
    this.server = server;
    this.name = name;
    this.url = url;
    this.user = user;
    this.password = password;
  }

  static BenchServer start() {
    Optional<DebianPostgres> debian = DebianPostgres.start();
    if (debian.isPresent()) {
      DebianPostgres found = debian.get();
      return new BenchServer(
          found, found.name(), found.url(), DebianPostgres.USER, DebianPostgres.PASSWORD);
    }
    LocalPostgres embedded = LocalPostgres.start();
    return new BenchServer(
        embedded,
        "embedded PostgreSQL",
        embedded.url(),
        LocalPostgres.USER,
        LocalPostgres.PASSWORD);
  }

  String name() {
    return name;
  }

  /** URL of the server's first database, where nothing is measured. */
  String adminUrl() {
    return url;
  }

  /** A new database with Twinbox's schema and the wide table of the references. */
  String createDatabase() throws SQLException {
    String database = DebianPostgres.createDatabase(url, user, password);
    Flyway.configure()
        .dataSource(database, user, password)
        .locations("classpath:sql/schema")
        .table("twinbox_schema_history")
        .load()
        .migrate();
    execute(database, Reference.SCHEMA);
    return database;
  }

  Connection connect(String database) throws SQLException {
    return DriverManager.getConnection(database, user, password);
  }

  void execute(String database, String sql) throws SQLException {
    try (Connection connection = connect(database);
        Statement statement = connection.createStatement()) {
      statement.execute(sql);
    }
  }

  void drop(String database) throws SQLException {
    execute(
        url,
        "DROP DATABASE " + database.substring(database.lastIndexOf('/') + 1) + " WITH (FORCE)");
  }

  double number(String database, String sql) throws SQLException {
    try (Connection connection = connect(database);
        Statement statement = connection.createStatement();
        ResultSet row = statement.executeQuery(sql)) {
      row.next();
      return row.getDouble(1);
    }
  }

  @Override
  public void close() throws Exception {
    server.close();
  }
}
