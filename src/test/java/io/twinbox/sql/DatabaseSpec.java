package io.twinbox.sql;

import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.TestInstance;

/**
 * Tests of the SQL on one database of the server under test; every test starts with empty tables.
 */
@TestInstance(TestInstance.Lifecycle.PER_CLASS)
abstract class DatabaseSpec {

  TestDatabase db;

  abstract PostgresServer server();

  @BeforeAll
  void openDatabase() {
    db = new TestDatabase(server().createDatabase());
  }

  @BeforeEach
  void emptyTables() {
    db.reset();
  }

  @AfterAll
  void closeDatabase() {
    if (db != null) {
      db.close();
    }
  }
}
