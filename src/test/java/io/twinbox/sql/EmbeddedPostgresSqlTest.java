package io.twinbox.sql;

class EmbeddedPostgresSqlTest extends SqlSuite {
  @Override
  PostgresServer server() {
    return EmbeddedServer.get();
  }
}
