package io.twinbox.sql;

import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.Nested;
import org.junit.jupiter.api.TestInstance;

/** Every test of the SQL, on one server. */
@TestInstance(TestInstance.Lifecycle.PER_CLASS)
abstract class SqlSuite {

  abstract PostgresServer server();

  @BeforeAll
  void sayTheVersion() {
    try (TestDatabase db = new TestDatabase(server().createDatabase())) {
      System.out.printf(
          "%s runs on PostgreSQL %s%n",
          getClass().getSimpleName(), db.string("SHOW server_version"));
    }
  }

  @Nested
  class Identities extends IdentitySpec {
    @Override
    PostgresServer server() {
      return SqlSuite.this.server();
    }
  }
}
