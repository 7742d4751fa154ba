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

  @Nested
  class OutboxPut extends OutboxPutSpec {
    @Override
    PostgresServer server() {
      return SqlSuite.this.server();
    }
  }

  @Nested
  class Claims extends ClaimSpec {
    @Override
    PostgresServer server() {
      return SqlSuite.this.server();
    }
  }

  @Nested
  class OrderedClaims extends ClaimOrderedSpec {
    @Override
    PostgresServer server() {
      return SqlSuite.this.server();
    }
  }

  @Nested
  class Quarantine extends QuarantineSpec {
    @Override
    PostgresServer server() {
      return SqlSuite.this.server();
    }
  }

  @Nested
  class Settlements extends SettleSpec {
    @Override
    PostgresServer server() {
      return SqlSuite.this.server();
    }
  }

  @Nested
  class Chunks extends QueueEventsSpec {
    @Override
    PostgresServer server() {
      return SqlSuite.this.server();
    }
  }

  @Nested
  class Watermarks extends WatermarkSpec {
    @Override
    PostgresServer server() {
      return SqlSuite.this.server();
    }
  }

  @Nested
  class ProduceOperations extends ProduceOperationsSpec {
    @Override
    PostgresServer server() {
      return SqlSuite.this.server();
    }
  }

  @Nested
  class Inbox extends InboxSpec {
    @Override
    PostgresServer server() {
      return SqlSuite.this.server();
    }
  }

  @Nested
  class Maintenance extends MaintainSpec {
    @Override
    PostgresServer server() {
      return SqlSuite.this.server();
    }
  }

  @Nested
  class Migrations extends MigrationSpec {
    @Override
    PostgresServer server() {
      return SqlSuite.this.server();
    }
  }

  @Nested
  class Plans extends PlanSpec {
    @Override
    PostgresServer server() {
      return SqlSuite.this.server();
    }
  }
}
