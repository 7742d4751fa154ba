package io.twinbox.sql;

import java.sql.Connection;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.concurrent.atomic.AtomicInteger;
import org.testcontainers.DockerClientFactory;
import org.testcontainers.containers.PostgreSQLContainer;

/** A server of an official image, where Docker is found running. */
final class DockerServer implements PostgresServer {

  private static final AtomicInteger DATABASES = new AtomicInteger();

  private final PostgreSQLContainer<?> container;

  private DockerServer(String image) {
    container = new PostgreSQLContainer<>(image).withUsername(USER).withPassword(PASSWORD);
    container.start();
  }

  static PostgresServer start(String image) {
    return new DockerServer(image);
  }

  static String missing() {
    return DockerClientFactory.instance().isDockerAvailable() ? null : "no Docker found running";
  }

  @Override
  public String createDatabase() {
    String name = "twinbox_" + DATABASES.incrementAndGet();
    try (Connection connection = container.createConnection("");
        Statement statement = connection.createStatement()) {
      statement.execute("CREATE DATABASE " + name);
      return container.getJdbcUrl().replace("/" + container.getDatabaseName(), "/" + name);
    } catch (SQLException e) {
      throw new IllegalStateException(e);
    }
  }
}
