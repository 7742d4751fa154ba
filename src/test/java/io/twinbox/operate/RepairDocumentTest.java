package io.twinbox.operate;

import static org.assertj.core.api.Assertions.assertThat;

import io.twinbox.promises.PromiseTest;
import java.io.IOException;
import java.lang.reflect.Method;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.junit.jupiter.api.Test;
import org.springframework.jmx.export.annotation.ManagedOperation;

/**
 * docs/repair.md says what is there: its statements run, and it names every function and operation.
 */
class RepairDocumentTest extends PromiseTest {

  private static final Pattern SQL = Pattern.compile("(?s)```sql\\n(.*?)```");
  private static final String EVENT = "0195d2a0-0000-7000-8000-000000000001";

  private static String document() throws IOException {
    return Files.readString(Path.of("docs/repair.md"));
  }

  @Test
  void statementsOfTheDocumentRun() throws Exception {
    List<String> statements = new ArrayList<>();
    Matcher block = SQL.matcher(document());
    while (block.find()) {
      for (String statement : block.group(1).split(";\\n")) {
        if (!statement.isBlank()) {
          statements.add(statement.strip());
        }
      }
    }
    assertThat(statements).hasSizeGreaterThan(15);
    try (Connection connection =
            DriverManager.getConnection(
                databaseUrl,
                io.twinbox.local.LocalPostgres.USER,
                io.twinbox.local.LocalPostgres.PASSWORD);
        Statement run = connection.createStatement()) {
      connection.setAutoCommit(false);
      for (String statement : statements) {
        prepare(run, statement);
        try {
          run.execute(statement);
        } catch (SQLException e) {
          throw new AssertionError("docs/repair.md: " + statement, e);
        }
        connection.rollback();
      }
    }
  }

  /** The rows that the document speaks of, in the state that the statement is for. */
  private static void prepare(Statement run, String statement) throws SQLException {
    run.execute(
        "INSERT INTO pubsub_outbox (id, topic_name, payload) VALUES ('"
            + EVENT
            + "', 'invoices', 'x')");
    if (statement.contains("republish")) {
      run.execute(
          "INSERT INTO pubsub_outbox_published SELECT id, topic_name, '2026-01-31T10:00:00Z', 'm', payload_hash FROM pubsub_outbox");
      run.execute("DELETE FROM pubsub_outbox_due");
    } else if (statement.contains("outbox_release")) {
      run.execute(
          "UPDATE pubsub_outbox_due SET lock_id = 'invoices-dispatch-7d9f', claim_token = gen_random_uuid()");
    } else {
      run.execute(
          "UPDATE pubsub_outbox_due SET dead_at = now() - interval '2 days', last_error = 'too large, unknown field'");
    }
    for (int id = 17; id <= 18; id++) {
      run.execute(
          """
          INSERT INTO transactional_inbox_dead_letter
            (id, consumer, idempotency_key, message_id, payload, attributes, reason, attempts)
          OVERRIDING SYSTEM VALUE
          VALUES (%d, 'ledger', %s, 'm%d', 'x', '{}', 'no such account', 10)
          """
              .formatted(id, statement.contains("assign_key") ? "NULL" : "'k" + id + "'", id));
    }
  }

  @Test
  void everyFunctionAndOperationIsInTheDocument() throws IOException {
    String document = document();
    List<String> functions =
        jdbc.queryForList(
            """
            SELECT DISTINCT proname FROM pg_proc
            WHERE pronamespace = 'public'::regnamespace
              AND 'reason' = ANY (proargnames)
              AND proname ~ '^(outbox|inbox)_' AND proname !~ '_seqs$'
               OR proname IN ('outbox_dead', 'inbox_dead')
            """,
            String.class);
    assertThat(functions).hasSize(13);
    assertThat(functions).allSatisfy(f -> assertThat(document).contains(f));
    for (Class<?> bean : new Class<?>[] {OutboxOperations.class, InboxOperations.class}) {
      List<String> operations =
          Arrays.stream(bean.getDeclaredMethods())
              .filter(m -> m.isAnnotationPresent(ManagedOperation.class))
              .map(Method::getName)
              .toList();
      assertThat(operations).hasSizeGreaterThan(5);
      assertThat(operations).allSatisfy(o -> assertThat(document).contains("`" + o + "`"));
    }
  }

  @Test
  void everyFunctionOfTheRepairHasAComment() {
    assertThat(
            jdbc.queryForList(
                "SELECT proname FROM pg_proc WHERE pronamespace = 'public'::regnamespace AND proname ~ '^(outbox_(dead|re|dis|queue|states|topic_of)|inbox_|twinbox_)' AND obj_description(oid, 'pg_proc') IS NULL",
                String.class))
        .isEmpty();
  }
}
