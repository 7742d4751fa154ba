package io.twinbox.sql;

import java.util.concurrent.CountDownLatch;
import java.util.concurrent.TimeUnit;
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

  /** Waits inside a transaction that a test holds open. */
  static void await(CountDownLatch latch) {
    try {
      if (!latch.await(30, TimeUnit.SECONDS)) {
        throw new IllegalStateException("The test did not go on");
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new IllegalStateException(e);
    }
  }

  @AfterAll
  void closeDatabase() {
    if (db != null) {
      db.close();
    }
  }
}
