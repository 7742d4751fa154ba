package io.twinbox.sql;

import static org.assertj.core.api.Assertions.assertThat;

import io.twinbox.outbox.OrderedKeysByHand;
import io.twinbox.sql.Outbox.Claim;
import io.twinbox.sql.Outbox.OrderedClaim;
import io.twinbox.sql.Outbox.Outcome;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Timestamp;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Deque;
import java.util.HashMap;
import java.util.HashSet;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Random;
import java.util.Set;
import java.util.TreeMap;
import java.util.function.Supplier;
import java.util.stream.IntStream;
import java.util.stream.LongStream;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * Three pods, services and operators do to ordered events what a random number says, and after each
 * step it is checked what must always be true: a claim takes a key's oldest rows, without a gap,
 * and nothing of a key in flight; first publications of a key are in the order of the outbox; and
 * what may be claimed is claimed by the next few claims.
 *
 * <p>Time is moved by moving the times in the tables: a second later means that all of them are a
 * second earlier.
 */
class OrderedModelTest extends DatabaseSpec {

  private static final int STEPS = Integer.getInteger("model.steps", 200);
  private static final int SEEDS = Integer.getInteger("model.seeds", 2);
  private static final int PODS = 3;
  private static final int KEYS = 8;
  private static final Duration PUBLISH_TIMEOUT = Duration.ofSeconds(30);
  private static final Duration LEASE = Duration.ofSeconds(60);

  /** Longer than the longest time without a sweep. */
  private static final Duration SWEEPS_COME = Duration.ofSeconds(61);

  private final List<String> history = new ArrayList<>();
  private final Map<String, TreeMap<Long, Boolean>> eventsOfKey = new TreeMap<>();
  private final Set<Long> discarded = new HashSet<>();
  private final Set<String> republished = new HashSet<>();
  private final List<Pod> pods = new ArrayList<>();
  private Outbox outbox;
  private Random random;
  private Duration moved;
  private Duration sweptBy;
  private int steps;
  private Late late;

  /** A transaction that has emitted and not committed. */
  private record Late(Connection connection, String key, List<Long> seqs, Duration since) {}

  private record Row(long seq, String token, Instant due, boolean dead) {
    boolean claimable(Instant now) {
      return !due.isAfter(now) && !dead && token == null;
    }
  }

  private record InFlight(Claim claim, Duration leaseEnd) {}

  private final class Pod {
    final String name;
    final Deque<InFlight> inFlight = new ArrayDeque<>();
    OrderedKeysByHand keys = new OrderedKeysByHand();

    Pod(String name) {
      this.name = name;
    }

    Claim claim(int limit) {
      Map<String, List<Row>> before = queue();
      String floor = keys.floorAt(nanoTime());
      OrderedClaim claimed =
          asPod(
              name,
              () ->
                  outbox.claimOrderedRows(
                      limit,
                      keys.cursor(),
                      floor.equals("-infinity")
                          ? floor
                          : Instant.parse(floor).minus(moved).toString(),
                      keys.held()));
      Map<String, Object> said = new HashMap<>(claimed.said());
      said.compute(
          "looked_at", (column, at) -> Timestamp.from(((Timestamp) at).toInstant().plus(moved)));
      keys.learnAt(said, nanoTime());
      Claim claim = claimed.claim();
      note("%s claims %d from %s: %s", name, limit, floor, claim.seqs());
      check(claim, before, false, now());
      took(claim);
      return claim;
    }

    Claim claimSuspect() {
      Map<String, List<Row>> before = queue();
      Claim claim = asPod(name, outbox::claimSuspect);
      note("%s claims a suspect: %s", name, claim.seqs());
      check(claim, before, true, now());
      took(claim);
      return claim;
    }

    private void took(Claim claim) {
      if (!claim.rows().isEmpty()) {
        inFlight.add(new InFlight(claim, moved.plus(LEASE)));
      }
    }

    /** Publishes and settles a claim; some rows fail, some outcomes stay unknown. */
    void settle(InFlight settled, double faults) {
      boolean mayPublish = settled.leaseEnd.minus(PUBLISH_TIMEOUT).compareTo(moved) > 0;
      Set<String> broken = new HashSet<>();
      List<Outcome> outcomes = new ArrayList<>();
      for (Map<String, Object> row : settled.claim.rows()) {
        String key = (String) row.get("ordering_key");
        long seq = (Long) row.get("seq");
        if (!mayPublish || broken.contains(key)) {
          outcomes.add(Outcome.released(seq));
        } else if (random.nextDouble() < faults) {
          broken.add(key);
          if (random.nextInt(4) > 0) {
            outcomes.add(random.nextBoolean() ? Outcome.refused(seq) : Outcome.released(seq));
          }
        } else {
          sent(key, seq);
          outcomes.add(Outcome.published(seq));
        }
      }
      note(
          "%s settles %s",
          name, outcomes.stream().map(outcome -> outcome.seq() + outcome.kind()).toList());
      if (!outcomes.isEmpty()) {
        asPod(name, () -> outbox.settle(settled.claim.token(), outcomes));
      }
    }

    void die() {
      note("%s dies and starts again", name);
      inFlight.clear();
      keys = new OrderedKeysByHand();
    }
  }

  @Override
  PostgresServer server() {
    return EmbeddedServer.get();
  }

  @BeforeEach
  void begin() {
    outbox = new Outbox(db);
    db.set("twinbox.dispatch.max-attempts", "3");
    db.set("twinbox.dispatch.max-crashes", "3");
    db.set("twinbox.dispatch.backoff-base", "4s");
    history.clear();
    eventsOfKey.clear();
    discarded.clear();
    republished.clear();
    pods.clear();
    IntStream.range(0, PODS).forEach(i -> pods.add(new Pod("pod-" + i)));
    moved = Duration.ZERO;
    sweptBy = Duration.ZERO;
    steps = 0;
    late = null;
  }

  static LongStream seeds() {
    return LongStream.rangeClosed(1, SEEDS);
  }

  @ParameterizedTest
  @MethodSource("seeds")
  void orderIsKeptAndNothingStarvesWhateverHappens(long seed) throws SQLException {
    random = new Random(seed);
    otherTopic();
    try {
      for (steps = 0; steps < STEPS; steps++) {
        anything();
        if (steps % 20 == 19) {
          nothingStarves(SWEEPS_COME);
        }
      }
      commitLate();
      everythingIsPublishedInTheEnd();
    } catch (AssertionError | RuntimeException e) {
      throw new AssertionError(lately(seed), e);
    } finally {
      if (late != null) {
        late.connection.close();
      }
    }
    assertThat(db.count("pubsub_outbox_due WHERE topic_name = 'other' AND claims = 0"))
        .as("another topic's events of the same keys")
        .isEqualTo(KEYS);
  }

  /** Where nobody dies and no transaction is long, nothing waits for a sweep. */
  @ParameterizedTest
  @MethodSource("seeds")
  void nothingWaitsForASweepUnlessSomebodyDiesOrIsLate(long seed) {
    random = new Random(seed);
    try {
      for (steps = 0; steps < STEPS; steps++) {
        somethingUsual();
        if (steps % 10 == 9) {
          nothingStarves(Duration.ZERO);
        }
      }
      everythingIsPublishedInTheEnd();
    } catch (AssertionError | RuntimeException e) {
      throw new AssertionError(lately(seed), e);
    }
  }

  private void anything() throws SQLException {
    switch (random.nextInt(14)) {
      case 0 -> operatorActs();
      case 1 -> {
        if (random.nextInt(3) == 0) {
          pod().die();
        }
      }
      case 2 -> {
        if (late == null) {
          emitLate();
        } else {
          commitLate();
        }
      }
      case 3 -> {
        Duration by = Duration.ofSeconds(random.nextInt(20));
        move(by);
        sweptBy = sweptBy.plus(by);
      }
      default -> somethingUsual();
    }
  }

  private void somethingUsual() {
    switch (random.nextInt(10)) {
      case 0, 1, 2 -> emit(random.nextInt(15) == 0 ? 40 : 1 + random.nextInt(4));
      case 3, 4, 5 -> pod().claim(limit());
      case 6, 7 -> {
        Pod pod = pod();
        if (!pod.inFlight.isEmpty()) {
          pod.settle(pod.inFlight.poll(), 0.1);
        }
      }
      case 8 -> {
        pod().claimSuspect();
      }
      default ->
          move(
              random.nextInt(10) == 0
                  ? LEASE
                  : Duration.ofMillis(random.nextInt(random.nextBoolean() ? 500 : 9_000)));
    }
  }

  private void operatorActs() {
    switch (random.nextInt(4)) {
      case 0 -> replayDead();
      case 1 -> discardDead();
      case 2 -> {
        Pod pod = pod();
        if (db.count("pubsub_outbox_due WHERE lock_id = '" + pod.name + "'") > 0) {
          note("an operator takes away what %s holds", pod.name);
          db.jdbc.queryForList("SELECT outbox_release(?, ?, 'test')", TestDatabase.TOPIC, pod.name);
          pod.inFlight.clear();
        }
      }
      default -> {
        List<Map<String, Object>> old =
            db.jdbc.queryForList(
                "SELECT o.id, o.ordering_key FROM pubsub_outbox_published AS p"
                    + " JOIN pubsub_outbox AS o USING (id)"
                    + " WHERE NOT EXISTS (SELECT FROM pubsub_outbox_due AS d WHERE d.seq = o.seq)"
                    + " ORDER BY o.seq DESC LIMIT 20");
        if (!old.isEmpty()) {
          Map<String, Object> one = old.get(random.nextInt(old.size()));
          note("%s is published again", one);
          republished.add((String) one.get("ordering_key"));
          db.jdbc.queryForList(
              "SELECT outbox_republish_ids(ARRAY[CAST(? AS uuid)], 'test')", one.get("id"));
        }
      }
    }
  }

  private void replayDead() {
    if (db.count("pubsub_outbox_due WHERE dead_at IS NOT NULL") > 0) {
      note("dead events are replayed");
      db.jdbc.queryForList("SELECT outbox_replay(?, 'test', per_second => 2)", TestDatabase.TOPIC);
    }
  }

  private void discardDead() {
    List<Long> dead =
        db.jdbc.queryForList(
            "SELECT seq FROM pubsub_outbox_due WHERE dead_at IS NOT NULL", Long.class);
    if (!dead.isEmpty()) {
      note("%s are discarded", dead);
      discarded.addAll(dead);
      db.jdbc.queryForList("SELECT outbox_discard(?, 'test')", TestDatabase.TOPIC);
    }
  }

  private Pod pod() {
    return pods.get(random.nextInt(PODS));
  }

  private int limit() {
    return new int[] {1, 2, 5, 40, 500}[random.nextInt(5)];
  }

  private String key() {
    return "key-" + random.nextInt(1 + random.nextInt(KEYS));
  }

  private void emit(int count) {
    String key = key();
    if (late != null && late.key.equals(key)) {
      return;
    }
    List<Long> seqs = outbox.emit(count, key);
    note("%s gets %s", key, seqs);
    seqs.forEach(seq -> events(key).put(seq, false));
  }

  private void emitLate() throws SQLException {
    String key = key();
    Connection connection = db.connect();
    connection.setAutoCommit(false);
    List<Long> seqs = new ArrayList<>();
    try (PreparedStatement insert =
        connection.prepareStatement(
            "INSERT INTO pubsub_outbox (topic_name, payload, ordering_key)"
                + " SELECT ?, 'x', ? FROM generate_series(1, ?) RETURNING seq")) {
      insert.setString(1, TestDatabase.TOPIC);
      insert.setString(2, key);
      insert.setInt(3, 1 + random.nextInt(3));
      ResultSet inserted = insert.executeQuery();
      while (inserted.next()) {
        seqs.add(inserted.getLong(1));
      }
    }
    note("%s gets %s, not committed", key, seqs);
    late = new Late(connection, key, seqs, moved);
  }

  private void commitLate() throws SQLException {
    if (late == null) {
      return;
    }
    note("%s are committed", late.seqs);
    try (PreparedStatement age =
        late.connection.prepareStatement(
            "UPDATE pubsub_outbox_due SET next_retry_at = next_retry_at - make_interval(secs => ?)"
                + " WHERE seq = ANY (?)")) {
      age.setDouble(1, moved.minus(late.since).toMillis() / 1000.0);
      age.setArray(2, late.connection.createArrayOf("bigint", late.seqs.toArray()));
      age.executeUpdate();
    }
    late.connection.commit();
    late.connection.close();
    String key = late.key;
    late.seqs.forEach(seq -> events(key).put(seq, false));
    late = null;
  }

  private void otherTopic() {
    db.jdbc.update(
        "INSERT INTO pubsub_outbox (topic_name, payload, ordering_key)"
            + " SELECT 'other', 'x', 'key-' || i FROM generate_series(0, ?) i",
        KEYS - 1);
  }

  private void move(Duration by) {
    note("%d ms pass", by.toMillis());
    moved = moved.plus(by);
    db.jdbc.update(
        "UPDATE pubsub_outbox_due SET next_retry_at = next_retry_at - make_interval(secs => ?)",
        by.toMillis() / 1000.0);
  }

  /** Sweeps come by it; stands still where they are not to help. */
  private long nanoTime() {
    return sweptBy.toNanos();
  }

  private <T> T asPod(String name, Supplier<T> action) {
    db.set("twinbox.pod", name);
    return action.get();
  }

  private TreeMap<Long, Boolean> events(String key) {
    return eventsOfKey.computeIfAbsent(key, k -> new TreeMap<>());
  }

  /** The queue, by key and in order, as it is between two steps. */
  private Map<String, List<Row>> queue() {
    Map<String, List<Row>> queue = new LinkedHashMap<>();
    db.jdbc.query(
        "SELECT seq, ordering_key, claim_token, next_retry_at, dead_at IS NOT NULL AS dead"
            + " FROM pubsub_outbox_due"
            + " WHERE topic_name = ? ORDER BY ordering_key, seq",
        row -> {
          queue
              .computeIfAbsent(row.getString("ordering_key"), k -> new ArrayList<>())
              .add(
                  new Row(
                      row.getLong("seq"),
                      row.getString("claim_token"),
                      row.getTimestamp("next_retry_at").toInstant(),
                      row.getBoolean("dead")));
        },
        TestDatabase.TOPIC);
    return queue;
  }

  private Instant now() {
    return db.jdbc.queryForObject("SELECT clock_timestamp()", Timestamp.class).toInstant();
  }

  /**
   * What is claimed are the oldest rows of their keys, and could be claimed.
   *
   * @param after when the claim was made, at the latest
   */
  private void check(Claim claim, Map<String, List<Row>> before, boolean suspect, Instant after) {
    Map<String, List<Long>> claimed = new LinkedHashMap<>();
    claim
        .rows()
        .forEach(
            row ->
                claimed
                    .computeIfAbsent((String) row.get("ordering_key"), k -> new ArrayList<>())
                    .add((Long) row.get("seq")));
    claimed.forEach(
        (key, seqs) -> {
          List<Row> oldest = before.get(key).subList(0, seqs.size());
          assertThat(seqs).isEqualTo(oldest.stream().map(Row::seq).toList());
          assertThat(oldest)
              .allMatch(
                  row ->
                      suspect
                          ? row.token != null && !row.due.isAfter(after) && !row.dead
                          : row.claimable(after));
          if (!republished.contains(key)) {
            assertThat(before.get(key))
                .as("%s, of which nothing is in flight", key)
                .allMatch(row -> row.token == null || !row.due.isAfter(after));
          }
        });
  }

  private void sent(String key, long seq) {
    if (Boolean.FALSE.equals(events(key).put(seq, true))) {
      assertThat(events(key).headMap(seq).entrySet())
          .as("%s before %d", key, seq)
          .allMatch(older -> older.getValue() || discarded.contains(older.getKey()));
      assertThat(events(key).tailMap(seq, false).values())
          .as("%s behind %d", key, seq)
          .doesNotContain(true);
    }
  }

  /** What may be claimed is in flight after each pod has claimed once or twice. */
  private void nothingStarves(Duration sweeps) {
    sweptBy = sweptBy.plus(sweeps);
    Instant since = now();
    for (int round = 0; round < 2; round++) {
      pods.forEach(pod -> pod.claim(500));
    }
    assertThat(queue())
        .allSatisfy(
            (key, rows) ->
                assertThat(rows.get(0).claimable(since))
                    .as("%s from %s on, at %s", key, rows.get(0), since)
                    .isFalse());
    for (Pod pod : pods) {
      while (random.nextBoolean() && !pod.inFlight.isEmpty()) {
        pod.settle(pod.inFlight.poll(), 0.1);
      }
    }
  }

  private void everythingIsPublishedInTheEnd() {
    for (int round = 0; !queue().isEmpty(); round++) {
      assertThat(round).as("rounds; left are %s", queue()).isLessThan(500);
      replayDead();
      for (Pod pod : pods) {
        while (!pod.inFlight.isEmpty()) {
          pod.settle(pod.inFlight.poll(), 0);
        }
        pod.claimSuspect();
        pod.claim(40);
      }
      move(Duration.ofSeconds(20));
      sweptBy = sweptBy.plus(SWEEPS_COME);
    }
    eventsOfKey.forEach(
        (key, events) ->
            assertThat(events.entrySet())
                .as("%s", key)
                .allMatch(event -> event.getValue() || discarded.contains(event.getKey())));
  }

  private void note(String format, Object... values) {
    history.add("%4d  %s".formatted(steps, format.formatted(values)));
  }

  private String lately(long seed) {
    return "with seed %d:%n%s"
        .formatted(
            seed,
            String.join(
                System.lineSeparator(),
                history.subList(Math.max(0, history.size() - 60), history.size())));
  }
}
