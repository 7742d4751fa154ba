package io.twinbox.sql;

import static org.assertj.core.api.Assertions.assertThat;

import com.zaxxer.hikari.HikariDataSource;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Future;
import java.util.stream.Stream;
import org.flywaydb.core.api.output.ValidateResult;
import org.junit.jupiter.api.Test;
import org.springframework.jdbc.core.JdbcTemplate;

/** The migrations themselves. */
abstract class MigrationSpec extends DatabaseSpec {

  private static final List<String> TABLES =
      List.of(
          "produce_changed",
          "produce_reject",
          "produce_watermark",
          "pubsub_outbox",
          "pubsub_outbox_due",
          "pubsub_outbox_published",
          "transactional_inbox",
          "transactional_inbox_dead_letter",
          "transactional_inbox_failure");

  private static int migrations() {
    try (Stream<Path> files = Files.list(Path.of("sql/schema"))) {
      return Math.toIntExact(files.count());
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  @Test
  void emptyDatabaseGetsTheSchemaOnce() {
    try (HikariDataSource dataSource = emptyDatabase()) {
      assertThat(TestDatabase.flyway(dataSource).migrate().migrationsExecuted)
          .isEqualTo(migrations());
      assertThat(TestDatabase.flyway(dataSource).migrate().migrationsExecuted).isZero();
      assertThat(tables(dataSource)).containsAll(TABLES);
      ValidateResult result = TestDatabase.flyway(dataSource).validateWithResult();
      assertThat(result.validationSuccessful).isTrue();
    }
  }

  @Test
  void schemaComesBesideTheConsumersOwnTables() {
    try (HikariDataSource dataSource = emptyDatabase()) {
      JdbcTemplate jdbc = new JdbcTemplate(dataSource);
      jdbc.execute("CREATE TABLE ledger_entry (id int)");
      jdbc.execute("CREATE TABLE flyway_schema_history (id int)");
      jdbc.update("INSERT INTO ledger_entry VALUES (1)");

      TestDatabase.flyway(dataSource).migrate();

      assertThat(tables(dataSource)).containsAll(TABLES).contains("ledger_entry");
      assertThat(jdbc.queryForObject("SELECT count(*) FROM ledger_entry", Long.class)).isEqualTo(1);
    }
  }

  @Test
  void processesThatMigrateAtTheSameTimeAreSafe() throws Exception {
    for (boolean besideOthers : new boolean[] {false, true}) {
      try (HikariDataSource dataSource = emptyDatabase()) {
        if (besideOthers) {
          new JdbcTemplate(dataSource).execute("CREATE TABLE ledger_entry (id int)");
        }
        CountDownLatch start = new CountDownLatch(1);
        List<Future<Integer>> processes = new ArrayList<>();
        for (int i = 0; i < 3; i++) {
          processes.add(
              db.async(
                  () -> {
                    await(start);
                    return TestDatabase.flyway(dataSource).migrate().migrationsExecuted;
                  }));
        }
        start.countDown();
        int executed = 0;
        for (Future<Integer> process : processes) {
          executed += process.get();
        }

        assertThat(executed).isEqualTo(migrations());
        assertThat(tables(dataSource)).containsAll(TABLES);
      }
    }
  }

  @Test
  void schemaWorksUnderAnotherName() {
    try (HikariDataSource dataSource = emptyDatabase()) {
      org.flywaydb.core.Flyway.configure()
          .configuration(TestDatabase.flyway(dataSource).getConfiguration())
          .schemas("twinbox")
          .load()
          .migrate();
      JdbcTemplate jdbc = new JdbcTemplate(dataSource);

      jdbc.queryForList("SELECT twinbox.outbox_put('invoices', 'x', '{}', 'key', 'INV-1')");

      assertThat(jdbc.queryForObject("SELECT count(*) FROM twinbox.pubsub_outbox_due", Long.class))
          .isEqualTo(1);
    }
  }

  private HikariDataSource emptyDatabase() {
    HikariDataSource dataSource = new HikariDataSource();
    dataSource.setJdbcUrl(server().createDatabase());
    dataSource.setUsername(PostgresServer.USER);
    dataSource.setPassword(PostgresServer.PASSWORD);
    dataSource.setMaximumPoolSize(8);
    dataSource.setMinimumIdle(0);
    return dataSource;
  }

  private static List<String> tables(HikariDataSource dataSource) {
    return new JdbcTemplate(dataSource)
        .queryForList(
            "SELECT table_name FROM information_schema.tables WHERE table_schema = 'public'",
            String.class);
  }
}
