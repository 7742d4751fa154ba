package io.twinbox.sql;

import static org.assertj.core.api.Assertions.assertThat;

import io.twinbox.sql.Outbox.Claim;
import io.twinbox.sql.Outbox.Outcome;
import io.twinbox.sql.QueueEventsSpec.Row;
import io.twinbox.sql.TestDatabase.Plan;
import java.sql.Connection;
import java.sql.Timestamp;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.function.LongFunction;
import java.util.stream.IntStream;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * What the statements read, in pages of 8 KB, when little is to be done among many rows. Pages, not
 * times: they do not depend on the machine.
 */
abstract class PlanSpec extends DatabaseSpec {

  private static final int DUE = 2_000;
  private static final int PUBLISHED = 50_000;
  private static final int WAITING = 20_000;

  private Outbox outbox;

  @BeforeEach
  void outbox() {
    outbox = new Outbox(db);
  }

  @AfterEach
  void leaveNoStatistics() {
    db.reset();
    db.jdbc.execute("VACUUM ANALYZE");
  }

  private void due(int count, String orderingKey) {
    emitLarge("due", count, orderingKey);
  }

  private void emitLarge(String name, int count, String orderingKey) {
    db.jdbc.update(
        "INSERT INTO pubsub_outbox (id, topic_name, source, payload, ordering_key)"
            + " SELECT outbox_event_id('invoices', 'billing', ? || i), 'invoices', 'billing',"
            + " convert_to(repeat(md5(i::text), 8), 'UTF8'), "
            + orderingKey
            + " FROM generate_series(1, ?) i",
        name,
        count);
  }

  private void published() {
    emitLarge("published", PUBLISHED, "NULL");
    db.jdbc.update(
        "WITH d AS (DELETE FROM pubsub_outbox_due RETURNING seq)"
            + " INSERT INTO pubsub_outbox_published"
            + " SELECT o.id, o.topic_name, now(), 'm', o.payload_hash"
            + " FROM d JOIN pubsub_outbox o USING (seq)");
  }

  private void waiting(String orderingKey) {
    emitLarge("waiting", WAITING, orderingKey);
    db.jdbc.update(
        "UPDATE pubsub_outbox_due SET attempts = 3,"
            + " next_retry_at = now() + interval '1 hour' * (1 + random())");
  }

  private void discarded() {
    db.jdbc.update(
        "INSERT INTO pubsub_outbox_discarded"
            + " SELECT gen_random_uuid(), 'invoices', now(), 'r', 'w', 'h'"
            + " FROM generate_series(1, 20000)");
  }

  private void everythingButTheDueRows(String orderingKey) {
    published();
    waiting(orderingKey);
    discarded();
    db.jdbc.execute("VACUUM ANALYZE");
  }

  private Plan explainAndRollBack(String file, Map<String, Object> properties, Object body) {
    return db.transaction.execute(
        status -> {
          status.setRollbackOnly();
          return db.explain(file, properties, body);
        });
  }

  private static Map<String, Object> claim() {
    return Map.of(
        "claimToken",
        UUID.randomUUID().toString(),
        "claimLimit",
        500,
        "cursor",
        "",
        "floor",
        "-infinity",
        "held",
        "[]");
  }

  private void compare(String what, Plan alone, Plan full) {
    System.out.printf(
        "%s on %s: %d pages alone, %d among %,d published and %,d waiting%n",
        what,
        db.string("SHOW server_version"),
        alone.buffers(),
        full.buffers(),
        PUBLISHED,
        WAITING);
    assertThat(full.sequentialScans()).isEmpty();
    assertThat(full.buffers()).isLessThanOrEqualTo(alone.buffers() * 3 / 2);
  }

  @Test
  void claimReadsDueRowsOnly() {
    due(DUE, "NULL");
    db.jdbc.execute("VACUUM ANALYZE");
    Plan alone = explainAndRollBack("dispatch/claim.sql", claim(), null);
    db.reset();
    everythingButTheDueRows("NULL");
    due(DUE, "NULL");
    db.jdbc.execute("VACUUM ANALYZE");
    Plan full = explainAndRollBack("dispatch/claim.sql", claim(), null);

    assertThat(full.uses("pubsub_outbox_due_by_time")).isTrue();
    compare("claim of 500", alone, full);
  }

  @Test
  void emptyPollReadsNextToNothing() {
    everythingButTheDueRows("NULL");

    Plan plan = explainAndRollBack("dispatch/claim.sql", claim(), null);

    System.out.printf(
        "empty poll on %s: %d pages%n", db.string("SHOW server_version"), plan.buffers());
    assertThat(plan.buffers()).isLessThan(10);
  }

  /** What was published before the floor leaves dead rows that nobody may remove. */
  @Test
  void claimsDoNotReadWhatALongTransactionKeepsFromVacuum() throws Exception {
    String floor;
    try (Connection pin = db.connect()) {
      pin.setAutoCommit(false);
      pin.setTransactionIsolation(Connection.TRANSACTION_REPEATABLE_READ);
      pin.createStatement().execute("SELECT count(*) FROM pubsub_outbox_due");
      due(WAITING, "NULL");
      for (int left = WAITING; left > 0; left -= 5_000) {
        outbox.publishAll(outbox.claim(5_000));
      }
      floor = db.string("SELECT CAST(clock_timestamp() AS text)");
      db.jdbc.execute("VACUUM ANALYZE pubsub_outbox_due");
      Map<String, Object> without = claim();
      Map<String, Object> with = new HashMap<>(without);
      with.put("floor", floor);

      long sweep = explainAndRollBack("dispatch/claim.sql", without, null).buffers();
      long empty = explainAndRollBack("dispatch/claim.sql", with, null).buffers();

      System.out.printf(
          "empty poll behind %,d pinned rows on %s: %,d pages, %d from the floor on%n",
          WAITING, db.string("SHOW server_version"), sweep, empty);
      assertThat(sweep).as("else the pin does not pin").isGreaterThan(200);
      assertThat(empty).isLessThan(30);
    }
  }

  /**
   * Rows of one backlog came due within seconds of one another, so it is where the last claim ended
   * that keeps the next one from what was claimed before.
   */
  @Test
  void claimsOfABacklogDoNotReadWhatTheClaimsBeforeThemTook() throws Exception {
    try (Connection pin = db.connect()) {
      pin.setAutoCommit(false);
      pin.setTransactionIsolation(Connection.TRANSACTION_REPEATABLE_READ);
      pin.createStatement().execute("SELECT count(*) FROM pubsub_outbox_due");
      due(WAITING, "NULL");
      db.jdbc.execute("VACUUM ANALYZE pubsub_outbox_due");
      String floor = "-infinity";
      long second = 0;
      long last = 0;
      for (int taken = 0; taken < WAITING; taken += 500) {
        Map<String, Object> next = new HashMap<>(claim());
        next.put("floor", floor);
        if (taken == 500) {
          second = explainAndRollBack("dispatch/claim.sql", next, null).buffers();
        } else if (taken == WAITING - 500) {
          last = explainAndRollBack("dispatch/claim.sql", next, null).buffers();
        }
        Claim claim = outbox.claim(500, floor);
        outbox.publishAll(claim);
        // As ClaimFloor after a full claim.
        floor = ((Timestamp) claim.rows().get(0).get("last_due_at")).toInstant().toString();
      }

      System.out.printf(
          "second and last claim of a backlog of %,d on %s: %,d and %,d pages%n",
          WAITING, db.string("SHOW server_version"), second, last);
      assertThat(last).isLessThanOrEqualTo(second * 3 / 2);
    }
  }

  /** Neither those of many short keys. */
  @Test
  void orderedClaimsDoNotReadWhatALongTransactionKeepsFromVacuum() throws Exception {
    try (Connection pin = db.connect()) {
      pin.setAutoCommit(false);
      pin.setTransactionIsolation(Connection.TRANSACTION_REPEATABLE_READ);
      pin.createStatement().execute("SELECT count(*) FROM pubsub_outbox_due");
      due(WAITING, "'key-' || i / 4");
      for (Claim claim = outbox.claimOrdered(5_000, "");
          !claim.rows().isEmpty();
          claim = outbox.claimOrdered(5_000, claim.cursor() == null ? "" : claim.cursor())) {
        outbox.publishAll(claim);
      }
      assertThat(db.count("pubsub_outbox_due")).isZero();
      String floor = db.string("SELECT CAST(clock_timestamp() AS text)");
      db.jdbc.execute("VACUUM ANALYZE pubsub_outbox_due");
      Map<String, Object> without = claim();
      Map<String, Object> with = new HashMap<>(without);
      with.put("floor", floor);

      long sweep = explainAndRollBack("dispatch/claim-ordered.sql", without, null).buffers();
      long empty = explainAndRollBack("dispatch/claim-ordered.sql", with, null).buffers();
      outbox.emit(100, "new");
      Plan found = explainAndRollBack("dispatch/claim-ordered.sql", with, null);
      with.put("held", "[\"new\"]");
      long held = explainAndRollBack("dispatch/claim-ordered.sql", with, null).buffers();

      System.out.printf(
          "ordered behind %,d pinned rows on %s: empty poll %,d pages, %d from the floor on; claim of 100 from the floor on %d%n",
          WAITING, db.string("SHOW server_version"), sweep, empty, found.buffers());
      assertThat(sweep).as("else the pin does not pin").isGreaterThan(200);
      assertThat(empty).isLessThan(30);
      assertThat(found.uses("pubsub_outbox_due_lately")).isTrue();
      assertThat(found.buffers()).isLessThan(100 * 25);
      assertThat(held).as("when the key is held, too").isLessThan(100 * 25);
    }
  }

  @Test
  void orderedClaimReadsDueKeysOnly() {
    due(DUE, "'key-' || i / 4");
    db.jdbc.execute("VACUUM ANALYZE");
    Plan alone = explainAndRollBack("dispatch/claim-ordered.sql", claim(), null);
    db.reset();
    // The waiting rows are one blocked key, in front of the others.
    everythingButTheDueRows("'a'");
    due(DUE, "'key-' || i / 4");
    db.jdbc.execute("VACUUM ANALYZE");
    Plan full = explainAndRollBack("dispatch/claim-ordered.sql", claim(), null);

    assertThat(full.uses("pubsub_outbox_due_by_key")).isTrue();
    compare("ordered claim of 500", alone, full);
  }

  @Test
  void orderedClaimOfOneBusyKeyReadsItsOldestRowsOnly() {
    due(WAITING, "'key'");
    db.jdbc.execute("VACUUM ANALYZE");

    Plan plan = explainAndRollBack("dispatch/claim-ordered.sql", claim(), null);

    System.out.printf(
        "ordered claim of 500 of one key of %,d on %s: %d pages%n",
        WAITING, db.string("SHOW server_version"), plan.buffers());
    assertThat(plan.sequentialScans()).isEmpty();
    assertThat(plan.buffers()).isLessThan(500 * 14);
  }

  @Test
  void settlementReadsItsRowsOnly() {
    due(DUE, "NULL");
    db.jdbc.execute("VACUUM ANALYZE");
    Plan alone = settlement();
    db.reset();
    everythingButTheDueRows("NULL");
    due(DUE, "NULL");
    db.jdbc.execute("VACUUM ANALYZE");
    Plan full = settlement();

    compare("settlement of 500", alone, full);
  }

  private Plan settlement() {
    Claim claim = outbox.claim(500);
    List<Outcome> outcomes =
        IntStream.range(0, 500)
            .mapToObj(
                i -> {
                  long seq = claim.seqs().get(i);
                  return i % 10 == 0
                      ? Outcome.refused(seq)
                      : i % 10 == 1 ? Outcome.released(seq) : Outcome.published(seq);
                })
            .toList();
    return explainAndRollBack(
        "dispatch/settle.sql", Map.of("claimToken", claim.token()), Outbox.settlement(outcomes));
  }

  /**
   * Autovacuum analyzes the queue when it has just been emptied, and the next backlog comes before
   * it does so again: the planner takes a queue of many rows for an empty one.
   */
  @Test
  void queueThatTheStatisticsTakeForEmptyIsNotReadWhole() throws Exception {
    try (Connection pin = db.connect()) {
      // The dead rows stay, so that the queue keeps its pages.
      pin.setAutoCommit(false);
      pin.setTransactionIsolation(Connection.TRANSACTION_REPEATABLE_READ);
      pin.createStatement().execute("SELECT count(*) FROM pubsub_outbox_due");
      due(WAITING, "NULL");
      for (int left = WAITING; left > 0; left -= 5_000) {
        outbox.publishAll(outbox.claim(5_000));
      }
      db.jdbc.execute("VACUUM ANALYZE pubsub_outbox_due");
      String floor = db.string("SELECT CAST(clock_timestamp() AS text)");
      emitLarge("backlog", WAITING, "CASE WHEN i % 2 = 0 THEN 'key-' || i / 8 END");
      Map<String, Object> claim = new HashMap<>(claim());
      claim.put("floor", floor);

      long claimed = explainAndRollBack("dispatch/claim.sql", claim, null).buffers();
      long ordered = explainAndRollBack("dispatch/claim-ordered.sql", claim, null).buffers();
      long settled = settlement().buffers();

      System.out.printf(
          "in a queue taken for empty on %s: claim of 500 %,d pages, ordered %,d, settlement %,d%n",
          db.string("SHOW server_version"), claimed, ordered, settled);
      assertThat(claimed).isLessThan(500 * 20);
      assertThat(ordered).isLessThan(500 * 40);
      assertThat(settled).isLessThan(500 * 30);
    }
  }

  /**
   * The planner that takes a queue for empty, or for unclaimed, would join by comparing each row
   * with each of a claim: 100 ms a settlement.
   */
  @ParameterizedTest
  @ValueSource(ints = {1_500, WAITING})
  void noStatisticsMakeClaimsAndSettlementsCompareEachRowWithEach(int rows) {
    String keys = "CASE WHEN i % 2 = 0 THEN 'key-' || i / 8 END";
    due(rows, keys);
    db.jdbc.execute("VACUUM ANALYZE");
    compareNoRowWithEach("of which nothing was claimed");

    db.reset();
    db.jdbc.execute("ALTER TABLE pubsub_outbox_due SET (vacuum_truncate = off)");
    try {
      due(rows, keys);
      db.jdbc.update("DELETE FROM pubsub_outbox_due");
      db.jdbc.execute("VACUUM ANALYZE");
      emitLarge("backlog", rows, keys);
      compareNoRowWithEach("that was empty");
    } finally {
      db.jdbc.execute("ALTER TABLE pubsub_outbox_due RESET (vacuum_truncate)");
    }
  }

  private void compareNoRowWithEach(String queue) {
    long claimed = explainAndRollBack("dispatch/claim.sql", claim(), null).passedOver();
    long ordered = explainAndRollBack("dispatch/claim-ordered.sql", claim(), null).passedOver();
    Claim claim = outbox.claim(500);
    outbox.claimOrdered(500, "");
    long published = settlement(claim, Outcome::published).passedOver();
    long refused = settlement(claim, Outcome::refused).passedOver();
    long released = settlement(claim, Outcome::released).passedOver();

    System.out.printf(
        "in a queue %s, on %s: passed over by claims %,d and %,d, by settlements %,d, %,d and %,d%n",
        queue, db.string("SHOW server_version"), claimed, ordered, published, refused, released);
    assertThat(List.of(claimed, ordered, published, refused, released))
        .allMatch(passedOver -> passedOver < 100 * 500);
  }

  private Plan settlement(Claim claim, LongFunction<Outcome> outcome) {
    assertThat(claim.seqs()).hasSize(500);
    return explainAndRollBack(
        "dispatch/settle.sql",
        Map.of("claimToken", claim.token()),
        Outbox.settlement(claim.seqs().stream().map(outcome::apply).toList()));
  }

  /** What metrics, JMX and the scaler ask for again and again. */
  @Test
  void lookAtTheQueueReadsNoPublishedEventAndNoOldRun() {
    String runs =
        """
        INSERT INTO produce_run (run_id, topic_name, source, state, started_at, finished_at, bytes_estimated)
        SELECT 'run-' || n, 'orders', 'source', 'succeeded', now() - n * interval '5 minutes', now() - n * interval '5 minutes', 1
        FROM generate_series(%d, %d) AS n
        """;
    due(DUE, "CASE WHEN i % 2 = 0 THEN 'key-' || i / 8 END");
    db.jdbc.execute(runs.formatted(1, 300));
    db.jdbc.execute("VACUUM ANALYZE");
    long queue = explainAndRollBack("operate/sample-outbox.sql", Map.of(), null).buffers();
    long sources = explainAndRollBack("operate/sample-produce.sql", Map.of(), null).buffers();

    everythingButTheDueRows("CASE WHEN i % 2 = 0 THEN 'other-' || i / 8 END");
    db.jdbc.execute(runs.formatted(301, 20_000));
    db.jdbc.execute("VACUUM ANALYZE");
    Plan fullQueue = explainAndRollBack("operate/sample-outbox.sql", Map.of(), null);
    Plan fullSources = explainAndRollBack("operate/sample-produce.sql", Map.of(), null);

    System.out.printf(
        "look on %s: queue %d pages, among many %d; sources %d, among many runs %d%n",
        db.string("SHOW server_version"),
        queue,
        fullQueue.buffers(),
        sources,
        fullSources.buffers());
    // What waits is counted too, a page for each row at most.
    assertThat(fullQueue.buffers()).isLessThan(2 * (DUE + WAITING));
    assertThat(fullQueue.json().toString())
        .doesNotContain("\"Relation Name\":\"pubsub_outbox\"", "pubsub_outbox_published");
    // Else all keys of a topic are read and sorted.
    assertThat(fullQueue.uses("pubsub_outbox_due_lately")).isTrue();
    assertThat(fullSources.sequentialScans()).doesNotContain("produce_run");
    assertThat(fullSources.buffers()).isLessThan(3 * sources + 300);
  }

  @Test
  void chunkReadsItsRowsOnly() {
    Plan alone = explainAndRollBack("produce/queue-events.sql", Map.of("runId", "r"), chunk());
    everythingButTheDueRows("NULL");
    db.jdbc.execute(
        """
        INSERT INTO produce_run (run_id, topic_name, source, bytes_estimated)
        SELECT 'run-' || n, 'orders', 'source-' || n % 7, 1
        FROM generate_series(1, 20000) AS n
        """);
    db.jdbc.execute("ANALYZE produce_run");
    Plan full = explainAndRollBack("produce/queue-events.sql", Map.of("runId", "r"), chunk());

    System.out.printf(
        "chunk of 1000 on %s: %d pages alone, %d in full%n",
        db.string("SHOW server_version"), alone.buffers(), full.buffers());
    assertThat(full.sequentialScans()).isEmpty();
    // Half of the chunk is known; each known row is a descent of two unique indexes and its page.
    assertThat(full.buffers()).isLessThan(1000 * 35);
  }

  private static Map<String, Object> chunk() {
    return QueueEventsSpec.chunk(
        IntStream.rangeClosed(1, 1000)
            .mapToObj(i -> Row.of(i % 2 == 0 ? "published" + i : "new" + i, "payload " + i))
            .toList());
  }

  @Test
  void retentionThatFindsNothingReadsNextToNothing() {
    everythingButTheDueRows("NULL");

    Plan plan = explainAndRollBack("maintain/delete-published-payloads.sql", Map.of(), null);

    System.out.printf(
        "retention without work on %s: %d pages%n",
        db.string("SHOW server_version"), plan.buffers());
    assertThat(plan.sequentialScans()).isEmpty();
    assertThat(plan.buffers()).isLessThan(10);
  }

  @Test
  void retentionReadsTheRowsThatItDeletesOnly() {
    everythingButTheDueRows("NULL");
    db.jdbc.update("UPDATE pubsub_outbox SET created_at = now() - interval '40 days'");
    db.jdbc.update(
        "UPDATE pubsub_outbox_published SET completed_at = now() - interval '40 days'"
            + " WHERE id IN (SELECT id FROM pubsub_outbox ORDER BY seq LIMIT 5000)");
    db.jdbc.execute("VACUUM ANALYZE");

    Plan plan = explainAndRollBack("maintain/delete-published-payloads.sql", Map.of(), null);

    System.out.printf(
        "retention of 1000 on %s: %d pages%n", db.string("SHOW server_version"), plan.buffers());
    assertThat(plan.sequentialScans()).isEmpty();
    assertThat(plan.buffers()).isLessThan(1000 * 30);
  }

  @Test
  void inboxReadsItsKeyOnly() {
    db.jdbc.update(
        "INSERT INTO transactional_inbox (consumer, idempotency_key)"
            + " SELECT 'ledger', md5(i::text) FROM generate_series(1, 50000) i");
    db.jdbc.execute("VACUUM ANALYZE");

    db.transaction.executeWithoutResult(
        status -> {
          // Not from zero: the vacuum that filled the index by time is counted, too, when it was in
          // this connection.
          long before = sequentiallyReadRows("transactional_inbox");
          assertThat(db.takeInboxKey("new")).isTrue();
          assertThat(sequentiallyReadRows("transactional_inbox") - before).isZero();
        });
  }

  @Test
  void plansThatWereMadeOnEmptyTablesDoNotStay() {
    db.jdbc.execute("VACUUM ANALYZE");
    // One transaction is one connection, with its prepared statements and its own counters.
    db.transaction.executeWithoutResult(
        status -> {
          status.setRollbackOnly();
          // The driver prepares a statement on the server at its fifth run; from the tenth on the
          // server may keep one plan for all runs.
          for (int poll = 0; poll < 15; poll++) {
            outbox.settle(outbox.claim(500).token(), List.of(Outcome.published(-1)));
            outbox.claimOrdered(500, "");
            db.queryOne(
                "produce/queue-events.sql", Map.of("runId", "r"), QueueEventsSpec.chunk(List.of()));
          }
          due(20_000, "NULL");
          emitLarge("ordered", 4_000, "'key-' || i / 4");
          // Due by the transaction's clock.
          db.jdbc.update(
              "UPDATE pubsub_outbox_due SET next_retry_at = now() - interval '1 second'");

          readsNoTableWhole(() -> assertThat(outbox.claim(500).rows()).hasSize(500));
          Claim claim = outbox.claim(500);
          readsNoTableWhole(
              () -> assertThat(outbox.publishAll(claim)).containsEntry("published", 500L));
          readsNoTableWhole(() -> assertThat(outbox.claimOrdered(500, "").rows()).hasSize(500));
          readsNoTableWhole(
              () -> db.queryOne("produce/queue-events.sql", Map.of("runId", "r"), chunk()));
        });
  }

  /**
   * A plan from when the queue had no pages joins by reading all of it for each row: 0.8 s a claim
   * of 500 among 20,000. So a connection of dispatch keeps none.
   */
  @Test
  void connectionOfDispatchKeepsNoPlans() {
    List<Runnable> statements =
        List.of(
            () -> outbox.claim(1),
            () -> outbox.claimOrdered(1, ""),
            () -> outbox.claimSuspect(),
            () -> outbox.settle(UUID.randomUUID().toString(), List.of(Outcome.published(-1))));
    for (Runnable statement : statements) {
      db.transaction.executeWithoutResult(
          status -> {
            status.setRollbackOnly();
            db.jdbc.execute("SET plan_cache_mode = auto");
            statement.run();
            assertThat(db.string("SHOW plan_cache_mode")).isEqualTo("force_custom_plan");
          });
    }
  }

  private void readsNoTableWhole(Runnable work) {
    String[] tables = {"pubsub_outbox", "pubsub_outbox_due", "pubsub_outbox_published"};
    long before = sequentiallyReadRows(tables);
    work.run();
    // Of a table of a few hundred rows the planner may read all.
    assertThat(sequentiallyReadRows(tables) - before).isLessThan(2_000);
  }

  /** Rows that this transaction has read by sequential scans of the tables. */
  private long sequentiallyReadRows(String... tables) {
    return db.jdbc.queryForObject(
        "SELECT coalesce(sum(seq_tup_read), 0) FROM pg_stat_xact_user_tables"
            + " WHERE relname = ANY (string_to_array(?, ','))",
        Long.class,
        String.join(",", tables));
  }
}
