package io.twinbox.promises;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.grpc.Status;
import io.twinbox.config.SqlFiles;
import io.twinbox.local.LocalPostgres;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;
import java.sql.Savepoint;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.UUID;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.jdbc.core.namedparam.NamedParameterJdbcTemplate;
import org.springframework.jdbc.datasource.DriverManagerDataSource;

/**
 * Each route set, service, operator and dashboard has a database user of its own, which can do its
 * work and nothing else ({@code sql/schema/R__roles.sql}).
 */
class RolesTest extends ProduceTest {

  private static final String PASSWORD = "pod";
  private static final String DENIED = "42501";

  /**
   * All that each role may do. Written down a second time on purpose: a right that somebody adds to
   * R__roles.sql has to be wanted here, too.
   */
  private static final Map<String, Set<String>> RIGHTS =
      Map.of(
          "emit",
          Set.of("SELECT twinbox_schema_history", "EXECUTE outbox_put"),
          "produce",
          Set.of(
              "SELECT pubsub_outbox_backlog",
              "SELECT twinbox_schema_history",
              "SELECT pubsub_outbox",
              "INSERT pubsub_outbox(attributes,id,ordering_key,payload,source,topic_name)",
              "UPDATE pubsub_outbox(attributes,payload)",
              "SELECT pubsub_outbox_due",
              "UPDATE pubsub_outbox_due(attempts,crashes,dead_at,next_retry_at,payload_bytes,solo)",
              "SELECT pubsub_outbox_published",
              "SELECT pubsub_outbox_discarded",
              "SELECT produce_watermark",
              "INSERT produce_watermark",
              "UPDATE produce_watermark",
              "SELECT produce_reject",
              "INSERT produce_reject",
              "UPDATE produce_reject",
              "SELECT produce_changed",
              "INSERT produce_changed",
              "UPDATE produce_changed",
              "SELECT produce_run",
              "INSERT produce_run",
              "UPDATE produce_run",
              "DELETE produce_run",
              "SELECT produce_backfill",
              "INSERT produce_backfill",
              "SELECT produce_backfill_step",
              "INSERT produce_backfill_step",
              "UPDATE produce_backfill_step",
              "SELECT produce_backfill_status",
              "EXECUTE produce_backfill_begin",
              "EXECUTE produce_bytes_today",
              "EXECUTE produce_run_begin",
              "EXECUTE produce_watermark_not_above"),
          "dispatch",
          Set.of(
              // Figures for metrics.
              "SELECT pubsub_outbox_backlog",
              "SELECT produce_watermark",
              "SELECT produce_run",
              "SELECT produce_backfill_status",
              "SELECT produce_reject(source,topic_name)",
              "EXECUTE produce_bytes_today",
              "SELECT twinbox_schema_history",
              "SELECT pubsub_outbox",
              "SELECT pubsub_outbox_due",
              "UPDATE pubsub_outbox_due(attempts,claim_token,claims,crashes,dead_at,last_error,lock_id,locked_at,next_retry_at,solo)",
              "DELETE pubsub_outbox_due",
              "SELECT pubsub_outbox_published",
              "INSERT pubsub_outbox_published",
              "UPDATE pubsub_outbox_published(completed_at,message_id)"),
          "consume",
          Set.of(
              // Figures for metrics.
              "SELECT pubsub_outbox_backlog",
              "SELECT produce_watermark",
              "SELECT produce_run",
              "SELECT produce_backfill_status",
              "SELECT produce_reject(source,topic_name)",
              "EXECUTE produce_bytes_today",
              "SELECT twinbox_schema_history",
              "SELECT transactional_inbox",
              "INSERT transactional_inbox",
              "SELECT transactional_inbox_failure",
              "INSERT transactional_inbox_failure",
              "UPDATE transactional_inbox_failure",
              "DELETE transactional_inbox_failure",
              "SELECT transactional_inbox_dead_letter",
              "INSERT transactional_inbox_dead_letter",
              "UPDATE transactional_inbox_dead_letter",
              "SELECT transactional_inbox_server",
              "INSERT transactional_inbox_server",
              "UPDATE transactional_inbox_server",
              "EXECUTE inbox_key_is_free",
              "EXECUTE inbox_replay_begin",
              "EXECUTE inbox_replay_end",
              // Given to this consumer's user by the topic's grants, not by the role.
              "INSERT effect"),
          "maintain",
          Set.of(
              // Figures for metrics.
              "SELECT pubsub_outbox_backlog",
              "SELECT produce_watermark",
              "SELECT produce_run",
              "SELECT produce_backfill_status",
              "SELECT produce_reject(source,topic_name)",
              "EXECUTE produce_bytes_today",
              "SELECT twinbox_schema_history",
              "SELECT pubsub_outbox",
              "DELETE pubsub_outbox",
              // Locks a row. The column is generated, so nothing can be written into it.
              "UPDATE pubsub_outbox(payload_hash)",
              "SELECT pubsub_outbox_due",
              "SELECT pubsub_outbox_published",
              "SELECT pubsub_outbox_discarded"),
          "operate",
          Set.of(
              "SELECT twinbox_schema_history",
              "SELECT pubsub_outbox",
              "SELECT pubsub_outbox_due",
              "SELECT pubsub_outbox_published",
              "SELECT pubsub_outbox_discarded",
              "SELECT pubsub_outbox_status",
              "SELECT pubsub_outbox_backlog",
              "SELECT transactional_inbox",
              "SELECT transactional_inbox_failure",
              "SELECT transactional_inbox_dead_letter",
              "SELECT transactional_inbox_server",
              "SELECT produce_watermark",
              "SELECT produce_watermark_status",
              "SELECT produce_reject",
              "SELECT produce_changed",
              "SELECT produce_run",
              "SELECT produce_backfill",
              "SELECT produce_backfill_step",
              "SELECT produce_backfill_status",
              "SELECT twinbox_audit",
              "EXECUTE outbox_dead",
              "EXECUTE outbox_states",
              "EXECUTE inbox_dead",
              "EXECUTE produce_bytes_today",
              "EXECUTE outbox_replay",
              "EXECUTE outbox_replay_ids",
              "EXECUTE outbox_discard",
              "EXECUTE outbox_discard_ids",
              "EXECUTE outbox_republish",
              "EXECUTE outbox_republish_ids",
              "EXECUTE outbox_release",
              "EXECUTE twinbox_audit_add",
              "EXECUTE inbox_replay",
              "EXECUTE inbox_replay_ids",
              "EXECUTE inbox_discard_ids",
              "EXECUTE inbox_assign_key",
              "EXECUTE produce_watermark_set"),
          "read",
          Set.of(
              "SELECT twinbox_schema_history",
              "SELECT pubsub_outbox_status",
              "SELECT pubsub_outbox_backlog",
              "SELECT produce_watermark_status",
              "SELECT produce_backfill_status",
              "SELECT produce_run",
              "SELECT twinbox_audit",
              "SELECT transactional_inbox_failure(attempts,consumer,first_failed_at,last_failed_at)",
              "SELECT transactional_inbox_dead_letter(attempts,closed_as,closed_at,consumer,first_dead_at,id,last_dead_at,published_at,reason,replay_requested_at)",
              "EXECUTE produce_bytes_today"));

  @BeforeEach
  void createRolesAndUsers() throws IOException {
    jdbc.execute(Files.readString(Path.of("sql/roles/create-roles.sql")));
    for (String role : RIGHTS.keySet()) {
      String user = user(role);
      if (jdbc.queryForObject(
              "SELECT count(*) FROM pg_roles WHERE rolname = ?", Integer.class, user)
          == 0) {
        jdbc.execute(
            "CREATE ROLE %s LOGIN PASSWORD '%s' IN ROLE twinbox_%s"
                .formatted(user, PASSWORD, role));
      }
    }
    jdbc.execute("GRANT INSERT ON effect TO " + user("consume"));
  }

  private static String user(String role) {
    return "pod_" + role;
  }

  private static String[] as(String role, String... settings) {
    List<String> all = new ArrayList<>();
    all.add("spring.datasource.username=" + user(role));
    all.add("spring.datasource.password=" + PASSWORD);
    all.add("twinbox.migrations=wait");
    all.addAll(List.of(settings));
    return all.toArray(String[]::new);
  }

  private JdbcTemplate jdbcAs(String role) {
    return new JdbcTemplate(new DriverManagerDataSource(databaseUrl, user(role), PASSWORD));
  }

  @ParameterizedTest
  @ValueSource(strings = {"emit", "produce", "dispatch", "consume", "maintain", "operate", "read"})
  void roleCanDoItsWorkAndNothingElse(String role) throws SQLException {
    assertThat(rights(role)).isEqualTo(new TreeSet<>(RIGHTS.get(role)));
  }

  @ParameterizedTest
  @ValueSource(strings = {"emit", "produce", "dispatch", "consume", "maintain", "operate", "read"})
  void roleCanNeitherMakeNorChangeObjectsNorBecomeAnother(String role) throws SQLException {
    try (Connection connection = DriverManager.getConnection(databaseUrl, user(role), PASSWORD)) {
      connection.setAutoCommit(false);
      for (String statement :
          List.of(
              "CREATE TABLE public.own (id int)",
              "CREATE FUNCTION public.outbox_refusal(bytea, jsonb, varchar) RETURNS text LANGUAGE sql AS 'SELECT 1'",
              "CREATE SCHEMA own",
              "CREATE ROLE own",
              "SET ROLE " + LocalPostgres.USER,
              "SET ROLE " + (role.equals("operate") ? "twinbox_dispatch" : "twinbox_operate"),
              "GRANT twinbox_operate TO " + user(role),
              "ALTER TABLE pubsub_outbox DISABLE TRIGGER ALL",
              "SET session_replication_role = replica",
              "ALTER FUNCTION outbox_put(text, text, jsonb, text, text, text) SECURITY INVOKER",
              "SELECT twinbox_grant_roles()",
              "SELECT pg_read_file('PG_VERSION')",
              "COPY (SELECT 1) TO PROGRAM 'true'",
              "SELECT * FROM pg_authid")) {
        assertThat(state(connection, statement)).as(statement).isEqualTo(DENIED);
      }
    }
  }

  @Test
  void dispatchPublishesUnderItsOwnRole() {
    createTopicAndSubscription();
    UUID unkeyed = put("unkeyed");
    put("keyed", "{}", "key");
    pubSub
        .faults()
        .failPublishWhen(
            message -> message.getData().toStringUtf8().equals("refused"), Status.INVALID_ARGUMENT);
    UUID refused = put("refused");

    start("dispatch", as("dispatch", "twinbox.dispatch.max-attempts=1"));

    eventually()
        .untilAsserted(
            () -> {
              assertThat(publishedTexts()).containsExactlyInAnyOrder("unkeyed", "keyed");
              assertThat(state(refused)).isEqualTo("dead");
              assertThat(state(unkeyed)).isEqualTo("published");
            });
  }

  @Test
  void consumeAppliesCountsBuriesAndReplaysUnderItsOwnRole() throws IOException {
    createTopicAndSubscription();
    topicFile(
        "post.sql",
        """
        -- Posts the payload's text; fails for one that is no number.
        INSERT INTO effect (what) VALUES (CAST(CAST(convert_from(:#${body}, 'UTF8') AS int) AS text))
        """);
    start("consume", as("consume", "twinbox.consume.max-attempts=2"));

    publish("1", Map.of("outbox_id", "one"));
    publish("1", Map.of("outbox_id", "one"));
    publish("no number", Map.of("outbox_id", "two"));
    publish("3", Map.of());
    eventually()
        .untilAsserted(
            () -> {
              assertThat(effects()).containsExactly("1");
              assertThat(count("transactional_inbox_dead_letter")).isEqualTo(2);
              assertThat(backlog()).isZero();
            });

    jdbcAs("operate")
        .queryForList("SELECT inbox_replay('ledger', reason => 'the handler is mended')");
    eventually()
        .untilAsserted(
            () ->
                assertThat(
                        jdbc.queryForList(
                            "SELECT attempts FROM transactional_inbox_dead_letter WHERE idempotency_key = 'two' AND replay_requested_at IS NULL",
                            Integer.class))
                    .containsExactly(3));
    jdbc.update(
        "UPDATE transactional_inbox_dead_letter SET payload = '2' WHERE idempotency_key = 'two'");
    jdbcAs("operate").queryForList("SELECT inbox_replay('ledger', reason => 'again')");
    eventually().untilAsserted(() -> assertThat(effects()).containsExactly("1", "2"));
    assertThat(
            jdbc.queryForObject(
                "SELECT who FROM twinbox_audit ORDER BY id DESC LIMIT 1", String.class))
        .startsWith(user("operate"));

    jdbcAs("operate")
        .queryForList(
            "SELECT inbox_assign_key(id, 'three', 'for a friend', 'mia') FROM inbox_dead('ledger') WHERE idempotency_key IS NULL");
    assertThat(
            jdbc.queryForObject(
                "SELECT who || ' ' || db_user FROM twinbox_audit ORDER BY id DESC LIMIT 1",
                String.class))
        .isEqualTo("mia " + user("operate"));
  }

  @Test
  void produceQueuesListsAndRejectsUnderItsOwnRole() {
    startProduce(as("produce"));
    row("key-1", "one", "2026-03-01T10:00:00Z");
    rowWithAttributes("key-2", "two", "{\\\"googx\\\": \\\"y\\\"}", "2026-03-01T10:00:00Z");
    run();
    row("key-1", "one, changed", "2026-03-01T10:00:01Z");
    run();

    assertThat(queued()).containsExactly("one");
    assertThat(count("produce_reject")).isEqualTo(1);
    assertThat(count("produce_changed")).isEqualTo(1);
    assertThat(lastRun()).containsEntry("state", "succeeded");
    assertThat(watermark()).startsWith("2026-03-01T10:00:01");
    assertThat(count("pubsub_outbox_due")).isEqualTo(1);
  }

  @Test
  void maintainDeletesPayloadsUnderItsOwnRole() {
    put("old");
    put("new");
    jdbc.update(
        """
        WITH published AS (
          INSERT INTO pubsub_outbox_published (id, topic_name, completed_at, message_id, payload_hash)
          SELECT id, topic_name, now() - interval '60 days', '1', payload_hash
          FROM pubsub_outbox
          WHERE payload = 'old'
        )
        DELETE FROM pubsub_outbox_due
        WHERE seq = (SELECT seq FROM pubsub_outbox WHERE payload = 'old')
        """);
    jdbc.update("UPDATE pubsub_outbox SET created_at = now() - interval '60 days'");

    start("maintain", as("maintain", "twinbox.maintain.interval=50ms"));

    eventually().untilAsserted(() -> assertThat(queued()).containsExactly("new"));
    assertThat(count("pubsub_outbox_published")).isEqualTo(1);
  }

  @Test
  void serviceEmitsThroughOutboxPutOnly() throws SQLException {
    UUID id =
        jdbcAs("emit")
            .queryForObject("SELECT outbox_put('orders', 'paid', '{}', 'key', 'K-1')", UUID.class);

    assertThat(state(id)).isEqualTo("due");
    // Another payload under its key: listed, by a role that may not even read the list.
    assertThat(
            jdbcAs("emit")
                .queryForObject(
                    "SELECT outbox_put('orders', 'other', '{}', 'key', 'K-1')", UUID.class))
        .isEqualTo(id);
    assertThat(jdbc.queryForList("SELECT id FROM produce_changed", UUID.class)).containsExactly(id);
    assertThatThrownBy(
            () ->
                jdbcAs("emit")
                    .queryForObject(
                        "SELECT outbox_put('orders', 'x', '{\"googx\": \"y\"}')", UUID.class))
        .hasMessageContaining("which Pub/Sub keeps for itself");
    try (Connection connection = DriverManager.getConnection(databaseUrl, user("emit"), PASSWORD)) {
      assertThat(
              state(
                  connection,
                  "INSERT INTO pubsub_outbox (topic_name, payload) VALUES ('orders', 'x')"))
          .isEqualTo(DENIED);
      assertThat(state(connection, "SELECT payload FROM pubsub_outbox")).isEqualTo(DENIED);
      assertThat(state(connection, "SELECT id FROM produce_changed")).isEqualTo(DENIED);
    }
  }

  @Test
  void temporaryTableOfTheSameNameCatchesNoEventAndRunsNothingAsTheOwner() throws SQLException {
    try (Connection connection = DriverManager.getConnection(databaseUrl, user("emit"), PASSWORD);
        Statement statement = connection.createStatement()) {
      statement.execute(
          "CREATE TEMPORARY TABLE pubsub_outbox (id uuid CONSTRAINT pubsub_outbox_id_unique UNIQUE, topic_name text, source text, payload bytea, attributes jsonb, ordering_key text)");
      statement.execute("GRANT ALL ON pubsub_outbox TO PUBLIC");
      statement.execute("SELECT outbox_put('orders', 'paid')");
      statement.execute("SELECT count(*) FROM pg_temp.pubsub_outbox");
      try (var caught = statement.getResultSet()) {
        caught.next();
        assertThat(caught.getLong(1)).isZero();
      }
    }
    assertThat(queued()).containsExactly("paid");
  }

  @Test
  void operatorRepairsThroughFunctionsThatAreWrittenDown() throws SQLException {
    UUID id = put("dead");
    jdbc.update("UPDATE pubsub_outbox_due SET dead_at = now(), last_error = 'refused'");

    jdbcAs("operate").queryForList("SELECT outbox_replay('orders', reason => 'mended')");

    assertThat(state(id)).isEqualTo("due");
    assertThat(jdbc.queryForMap("SELECT who, action, reason FROM twinbox_audit"))
        .containsEntry("action", "outbox_replay")
        .containsEntry("reason", "mended")
        .hasEntrySatisfying("who", who -> assertThat((String) who).startsWith(user("operate")));
    assertThat(jdbcAs("operate").queryForList("SELECT * FROM pubsub_outbox_backlog")).hasSize(1);
  }

  @Test
  void dashboardsAndScalingReadFiguresAndNoPayload() {
    put("secret");

    assertThat(
            jdbcAs("read")
                .queryForObject(
                    "SELECT due FROM pubsub_outbox_backlog WHERE topic_name = 'orders'",
                    Long.class))
        .isEqualTo(1);
    assertThat(jdbcAs("read").queryForList("SELECT state FROM pubsub_outbox_status", String.class))
        .containsExactly("due");
    assertThat(jdbcAs("read").queryForList("SELECT * FROM produce_watermark_status")).isEmpty();
  }

  @ParameterizedTest
  @ValueSource(strings = {"produce", "dispatch", "consume", "maintain"})
  void everyProcessReadsTheFiguresOfItsMetrics(String role) {
    put("due");
    for (String sample : List.of("sample-outbox", "sample-produce", "sample-tables")) {
      jdbcAs(role).queryForList(SqlFiles.read("sql/operate/" + sample + ".sql"));
    }
    if (role.equals("consume")) {
      new NamedParameterJdbcTemplate(jdbcAs(role))
          .queryForList(
              SqlFiles.read("sql/operate/sample-inbox.sql"), Map.of("consumer", "ledger"));
    }
    assertThat(jdbcAs(role).queryForList(SqlFiles.read("sql/operate/sample-outbox.sql")).get(0))
        .containsEntry("due", 1L);
  }

  private String state(UUID id) {
    return jdbc.queryForObject(
        "SELECT state FROM pubsub_outbox_status WHERE id = ?", String.class, id);
  }

  /**
   * What a user can really do with every table, view and function, tried statement by statement.
   */
  private Set<String> rights(String role) throws SQLException {
    Map<String, List<String>> columns = new LinkedHashMap<>();
    jdbc.query(
        """
        SELECT c.relname, a.attname
        FROM pg_class AS c
        JOIN pg_attribute AS a ON a.attrelid = c.oid AND a.attnum > 0 AND NOT a.attisdropped
        WHERE c.relnamespace = CAST('public' AS regnamespace)
          AND c.relkind IN ('r', 'v', 'm', 'p')
        ORDER BY c.relname, a.attname
        """,
        row -> {
          columns
              .computeIfAbsent(row.getString(1), table -> new ArrayList<>())
              .add(row.getString(2));
        });
    Set<String> rights = new TreeSet<>();
    try (Connection connection = DriverManager.getConnection(databaseUrl, user(role), PASSWORD)) {
      connection.setAutoCommit(false);
      for (Map.Entry<String, List<String>> table : columns.entrySet()) {
        String name = table.getKey();
        add(rights, connection, "SELECT", table, "SELECT %2$s FROM %1$s LIMIT 0");
        add(rights, connection, "INSERT", table, "INSERT INTO %1$s (%2$s) VALUES (DEFAULT)");
        add(rights, connection, "UPDATE", table, "UPDATE %1$s SET %2$s = DEFAULT WHERE false");
        for (String whole :
            List.of("DELETE FROM %s WHERE false", "TRUNCATE %s", "DROP TABLE %s CASCADE")) {
          if (!denied(connection, whole.formatted(name))) {
            rights.add(whole.split(" ")[0] + " " + name);
          }
        }
      }
    }
    // Those that touch tables or sequences; what only computes is everybody's.
    rights.addAll(
        jdbc.queryForList(
            """
            SELECT DISTINCT 'EXECUTE ' || p.proname
            FROM pg_proc AS p
            WHERE p.pronamespace = CAST('public' AS regnamespace)
              AND p.provolatile <> 'i'
              AND p.proname <> 'outbox_new_id'
              AND has_function_privilege(?, p.oid, 'EXECUTE')
            """,
            String.class,
            user(role)));
    return rights;
  }

  private static void add(
      Set<String> rights,
      Connection connection,
      String right,
      Map.Entry<String, List<String>> table,
      String statement)
      throws SQLException {
    List<String> allowed = new ArrayList<>();
    for (String column : table.getValue()) {
      if (!denied(connection, statement.formatted(table.getKey(), column))) {
        allowed.add(column);
      }
    }
    if (allowed.equals(table.getValue())) {
      rights.add(right + " " + table.getKey());
    } else if (!allowed.isEmpty()) {
      rights.add(right + " " + table.getKey() + "(" + String.join(",", allowed) + ")");
    }
  }

  /** A view that takes no writes at all says so before it looks at the rights. */
  private static boolean denied(Connection connection, String statement) throws SQLException {
    return Set.of(DENIED, "42809", "55000", "0A000").contains(state(connection, statement));
  }

  /** The SQLSTATE that a statement ends with, 00000 when it works; it changes nothing. */
  private static String state(Connection connection, String sql) throws SQLException {
    boolean autoCommit = connection.getAutoCommit();
    connection.setAutoCommit(false);
    Savepoint before = connection.setSavepoint();
    try (Statement statement = connection.createStatement()) {
      statement.execute(sql);
      return "00000";
    } catch (SQLException e) {
      return e.getSQLState();
    } finally {
      connection.rollback(before);
      connection.setAutoCommit(autoCommit);
    }
  }
}
