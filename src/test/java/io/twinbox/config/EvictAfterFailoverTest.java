package io.twinbox.config;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import io.twinbox.local.LocalPostgres;
import java.io.IOException;
import java.io.InputStream;
import java.sql.Connection;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.Properties;
import org.junit.jupiter.api.Test;

/** With the pool's setting of application.properties, on a pool of one connection. */
class EvictAfterFailoverTest {

  @Test
  void connectionWhoseServerIsReadOnlyIsNotUsedAgain() throws Exception {
    try (LocalPostgres postgres = LocalPostgres.start();
        HikariDataSource pool = pool(postgres)) {
      int old;
      try (Connection connection = pool.getConnection();
          Statement statement = connection.createStatement()) {
        old = backend(statement);
        statement.execute("SET default_transaction_read_only = on");
        assertThatThrownBy(() -> statement.execute("CREATE TABLE written ()"))
            .isInstanceOfSatisfying(
                SQLException.class, e -> assertThat(e.getSQLState()).isEqualTo("25006"));
      }

      try (Connection connection = pool.getConnection();
          Statement statement = connection.createStatement()) {
        assertThat(backend(statement)).isNotEqualTo(old);
        statement.execute("CREATE TABLE written ()");
      }
    }
  }

  @Test
  void connectionThatMetAnotherErrorIsKept() throws Exception {
    try (LocalPostgres postgres = LocalPostgres.start();
        HikariDataSource pool = pool(postgres)) {
      int first;
      try (Connection connection = pool.getConnection();
          Statement statement = connection.createStatement()) {
        first = backend(statement);
        assertThatThrownBy(() -> statement.execute("SELECT 1 / 0"))
            .isInstanceOf(SQLException.class);
      }

      try (Connection connection = pool.getConnection();
          Statement statement = connection.createStatement()) {
        assertThat(backend(statement)).isEqualTo(first);
      }
    }
  }

  private static HikariDataSource pool(LocalPostgres postgres) throws IOException {
    Properties settings = new Properties();
    try (InputStream file =
        EvictAfterFailoverTest.class.getResourceAsStream("/application.properties")) {
      settings.load(file);
    }
    HikariConfig config = new HikariConfig();
    config.setJdbcUrl(postgres.url());
    config.setUsername(LocalPostgres.USER);
    config.setPassword(LocalPostgres.PASSWORD);
    config.setMaximumPoolSize(1);
    config.setExceptionOverrideClassName(
        settings.getProperty("spring.datasource.hikari.exception-override-class-name"));
    return new HikariDataSource(config);
  }

  private static int backend(Statement statement) throws SQLException {
    try (ResultSet result = statement.executeQuery("SELECT pg_backend_pid()")) {
      result.next();
      return result.getInt(1);
    }
  }
}
