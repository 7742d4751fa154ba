package io.twinbox.sql;

import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Nested;

class DockerPostgresSqlTest {

  @BeforeAll
  static void findIt() {
    Backend.need("PostgreSQL 16, 17 and 18 in Docker", DockerServer.missing());
  }

  @Nested
  class Postgres16 extends SqlSuite {
    private final PostgresServer server = DockerServer.start("postgres:16");

    @Override
    PostgresServer server() {
      return server;
    }
  }

  @Nested
  class Postgres17 extends SqlSuite {
    private final PostgresServer server = DockerServer.start("postgres:17");

    @Override
    PostgresServer server() {
      return server;
    }
  }

  @Nested
  class Postgres18 extends SqlSuite {
    private final PostgresServer server = DockerServer.start("postgres:18");

    @Override
    PostgresServer server() {
      return server;
    }
  }
}
