package io.twinbox.sql;

import org.junit.jupiter.api.BeforeAll;

class InstalledPostgresSqlTest extends SqlSuite {

  @BeforeAll
  static void findIt() {
    Backend.need("installed PostgreSQL", InstalledServer.missing());
  }

  @Override
  PostgresServer server() {
    return InstalledServer.get();
  }
}
