package io.twinbox.bench;

import java.sql.SQLException;
import org.springframework.util.Assert;

/**
 * Pages that a claim of 500 touches with 100,000 due rows alone, and with the same among 5,000,000
 * published and 500,000 waiting ones. Pages do not depend on the machine.
 */
final class ClaimCost {

  private static final int LIMIT = 500;
  private static final String TOPIC = "claims";

  private final BenchServer server;
  private final double scale;

  ClaimCost(BenchServer server, double scale) {
    this.server = server;
    this.scale = scale;
  }

  void measure() throws SQLException {
    Assert.isTrue(scale > 0 && scale <= 1, "--scale is above 0 and at most 1");
    compare("unordered", "claim.sql", "NULL", 0);
    // 49,999 keys of two rows and, in front of them, one blocked key.
    compare("ordered", "claim-ordered.sql", "'key-' || i % " + (rows(50_000) - 1), rows(100_000));
  }

  private int rows(int full) {
    return (int) Math.round(full * scale);
  }

  private void compare(String what, String file, String key, int blocked) throws SQLException {
    String alone = server.createDatabase();
    load(alone, "due", rows(100_000), 1024, key, "clock_timestamp()");
    ExplainedClaim little = claim(alone, file);
    server.drop(alone);

    String full = server.createDatabase();
    publish(full, rows(5_000_000));
    load(full, "waiting", rows(500_000), 16, "NULL", "now() + interval '1 hour' * (1 + random())");
    if (blocked > 0) {
      load(full, "blocked", 1, 16, "'a'", "now() + interval '1 hour'");
      load(full, "behind", blocked, 16, "'a'", "clock_timestamp()");
    }
    load(full, "due", rows(100_000), 1024, key, "clock_timestamp()");
    ExplainedClaim much = claim(full, file);
    server.drop(full);
    System.out.printf(
        "  %s: %,d pages among %,d due rows alone, %,d among %,d published, %,d waiting%s: %.2f times (goal 1.5); %.1f and %.1f ms%n",
        what,
        little.buffers(),
        rows(100_000),
        much.buffers(),
        rows(5_000_000),
        rows(500_000),
        blocked > 0 ? String.format(" and %,d behind one blocked key", blocked) : "",
        (double) much.buffers() / little.buffers(),
        little.millis(),
        much.millis());
  }

  private ExplainedClaim claim(String database, String file) throws SQLException {
    server.execute(database, "VACUUM ANALYZE");
    ExplainedClaim claim = ExplainedClaim.of(server, database, TOPIC, file, LIMIT);
    if (Boolean.getBoolean("bench.plans")) {
      System.out.println(claim.plan());
    }
    return claim;
  }

  /** Straight into the tables: what is measured is not how rows come in. */
  private void load(
      String database, String name, int count, int bytes, String key, String nextRetryAt)
      throws SQLException {
    server.execute(
        database,
        """
        ALTER TABLE pubsub_outbox DROP CONSTRAINT IF EXISTS pubsub_outbox_within_pubsub_limits;
        ALTER TABLE pubsub_outbox DISABLE TRIGGER pubsub_outbox_queue;
        WITH event AS (
          INSERT INTO pubsub_outbox (id, topic_name, payload, ordering_key)
          SELECT outbox_event_id('%1$s', 'bench', '%2$s' || i), '%1$s', convert_to(rpad(i::text, %4$d), 'UTF8'), %5$s
          FROM generate_series(1, %3$d) i
          RETURNING seq, topic_name, ordering_key, payload)
        INSERT INTO pubsub_outbox_due (seq, topic_name, ordering_key, payload_bytes, next_retry_at)
        SELECT seq, topic_name, ordering_key, octet_length(payload), %6$s FROM event
        """
            .formatted(TOPIC, name, count, bytes, key, nextRetryAt));
  }

  private void publish(String database, int count) throws SQLException {
    server.execute(
        database,
        """
        ALTER TABLE pubsub_outbox DROP CONSTRAINT IF EXISTS pubsub_outbox_within_pubsub_limits;
        ALTER TABLE pubsub_outbox DISABLE TRIGGER pubsub_outbox_queue;
        WITH event AS (
          INSERT INTO pubsub_outbox (id, topic_name, payload)
          SELECT outbox_event_id('%1$s', 'bench', 'published' || i), '%1$s', convert_to(rpad(i::text, 16), 'UTF8')
          FROM generate_series(1, %2$d) i
          RETURNING id, topic_name, payload_hash)
        INSERT INTO pubsub_outbox_published (id, topic_name, completed_at, message_id, payload_hash)
        SELECT id, topic_name, clock_timestamp(), '1', payload_hash FROM event
        """
            .formatted(TOPIC, count));
  }
}
