package io.twinbox.bench;

import static org.awaitility.Awaitility.await;

import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.Duration;
import java.util.UUID;

/** Rows that wait, and when the last of them left: the same measure for all that drain them. */
final class Queue implements AutoCloseable {

  private static final Duration PATIENCE = Duration.ofMinutes(10);

  private final Connection connection;
  private final String topic;
  private final boolean wide;

  Queue(BenchServer server, String database, String topic, boolean wide) throws SQLException {
    this.connection = server.connect(database);
    this.topic = topic;
    this.wide = wide;
  }

  /** Twinbox's three tables. */
  static Queue twinbox(BenchServer server, String database, String topic) throws SQLException {
    return new Queue(server, database, topic, false);
  }

  /** The references' one wide table. */
  static Queue wide(BenchServer server, String database, String topic) throws SQLException {
    return new Queue(server, database, topic, true);
  }

  /**
   * Makes rows visible at once, and waits until all have left.
   *
   * @return rows per second, by the database's clock
   */
  double drain(int rows) throws SQLException {
    return drain(rows, 0, () -> {});
  }

  /**
   * @param keys how many ordering keys the rows have, 0 for none
   * @param visible runs when the rows can be seen
   */
  double drain(int rows, int keys, Runnable visible) throws SQLException {
    try (Statement statement = connection.createStatement()) {
      statement.execute("CHECKPOINT");
    }
    insert(rows, keys);
    double start = number("SELECT extract(EPOCH FROM clock_timestamp())");
    visible.run();
    awaitEmpty();
    double end =
        number(
            "SELECT extract(EPOCH FROM max(completed_at)) FROM "
                + (wide ? "wide_outbox" : "pubsub_outbox_published")
                + " WHERE topic_name = '"
                + topic
                + "'");
    return rows / (end - start);
  }

  /** 1 KiB payloads and ids hashed from an event key, in one transaction. */
  void insert(int rows, int keys) throws SQLException {
    String columns =
        wide
            ? "wide_outbox (id, topic_name, payload"
            : "pubsub_outbox (id, topic_name, payload, ordering_key";
    String sql =
        "INSERT INTO "
            + columns
            + ") SELECT outbox_event_id(?, 'bench', ? || i), ?, convert_to(repeat(md5(i::text), 32), 'UTF8')"
            + (wide
                ? ""
                : ", CASE WHEN " + keys + " > 0 THEN 'key-' || i % " + Math.max(1, keys) + " END")
            + " FROM generate_series(1, ?) i";
    try (PreparedStatement insert = connection.prepareStatement(sql)) {
      insert.setString(1, topic);
      insert.setString(2, UUID.randomUUID().toString());
      insert.setString(3, topic);
      insert.setInt(4, rows);
      insert.executeUpdate();
    }
  }

  /** Rows that were published before, small ones, in favour of the wide table. */
  void history(int rows) throws SQLException {
    if (rows == 0) {
      return;
    }
    String event =
        "outbox_event_id('history', 'bench', 'history' || i) AS id, '"
            + topic
            + "' AS topic_name, convert_to(rpad(i::text, 16), 'UTF8') AS payload FROM generate_series(1, "
            + rows
            + ") i";
    try (Statement statement = connection.createStatement()) {
      if (wide) {
        statement.execute(
            "INSERT INTO wide_outbox (id, topic_name, payload, completed_at, message_id) SELECT id, topic_name, payload, now(), '1' FROM (SELECT "
                + event
                + ") AS e");
        statement.execute("VACUUM ANALYZE wide_outbox");
      } else {
        statement.execute("ALTER TABLE pubsub_outbox DISABLE TRIGGER pubsub_outbox_queue");
        statement.execute(
            "WITH e AS (INSERT INTO pubsub_outbox (id, topic_name, payload) SELECT "
                + event
                + " RETURNING id, topic_name, payload_hash)"
                + " INSERT INTO pubsub_outbox_published (id, topic_name, completed_at, message_id, payload_hash)"
                + " SELECT id, topic_name, now(), '1', payload_hash FROM e");
        statement.execute("ALTER TABLE pubsub_outbox ENABLE TRIGGER pubsub_outbox_queue");
        statement.execute("VACUUM ANALYZE pubsub_outbox, pubsub_outbox_published");
      }
    }
  }

  void awaitEmpty() {
    String waiting =
        wide
            ? "SELECT count(*) FROM (SELECT FROM wide_outbox WHERE topic_name = '"
                + topic
                + "' AND completed_at IS NULL LIMIT 1) AS one"
            : "SELECT count(*) FROM (SELECT FROM pubsub_outbox_due LIMIT 1) AS one";
    await().atMost(PATIENCE).pollInterval(Duration.ofMillis(200)).until(() -> number(waiting) == 0);
  }

  String text(String sql) throws SQLException {
    try (Statement statement = connection.createStatement();
        ResultSet row = statement.executeQuery(sql)) {
      row.next();
      return row.getString(1);
    }
  }

  double number(String sql) throws SQLException {
    try (Statement statement = connection.createStatement();
        ResultSet row = statement.executeQuery(sql)) {
      row.next();
      return row.getDouble(1);
    }
  }

  @Override
  public void close() throws SQLException {
    connection.close();
  }
}
