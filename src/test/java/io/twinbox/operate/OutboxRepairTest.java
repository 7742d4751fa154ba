package io.twinbox.operate;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.twinbox.promises.PromiseTest;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.Statement;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.camel.CamelContext;
import org.apache.camel.ProducerTemplate;
import org.junit.jupiter.api.Test;
import org.springframework.dao.DataAccessException;

/** Dead, discarded and republished events: the functions on PostgreSQL, and what they promise. */
class OutboxRepairTest extends PromiseTest {

  private void die(UUID id, String error) {
    assertThat(
            jdbc.update(
                """
                UPDATE pubsub_outbox_due SET dead_at = clock_timestamp(), attempts = 10, last_error = ?
                WHERE seq = (SELECT seq FROM pubsub_outbox WHERE id = ?)
                """,
                error,
                id))
        .isEqualTo(1);
  }

  private String state(UUID id) {
    List<String> states =
        jdbc.queryForList("SELECT state FROM pubsub_outbox_status WHERE id = ?", String.class, id);
    assertThat(states).as("rows of one event in the status view").hasSizeLessThanOrEqualTo(1);
    return states.isEmpty() ? null : states.get(0);
  }

  private Map<String, Object> lastRepair() {
    return jdbc.queryForMap("SELECT * FROM twinbox_audit ORDER BY id DESC LIMIT 1");
  }

  private Map<String, Object> call(String sql, Object... arguments) {
    return jdbc.queryForMap(sql, arguments);
  }

  /** Reads events again as produce does, through its own statement. */
  private Map<String, Object> read(CamelContext camel, String[] keys, String[] payloads) {
    try (ProducerTemplate template = camel.createProducerTemplate()) {
      String[] nulls = new String[keys.length];
      byte[][] bytes = new byte[keys.length][];
      for (int i = 0; i < keys.length; i++) {
        bytes[i] = payloads[i].getBytes(java.nio.charset.StandardCharsets.UTF_8);
      }
      @SuppressWarnings("unchecked")
      Map<String, Object> result =
          template
              .request(
                  "sql:classpath:sql/produce/queue-events.sql?outputType=SelectOne",
                  e -> {
                    e.setProperty("runId", "run");
                    e.getMessage()
                        .setBody(
                            Map.of(
                                "eventKeys", keys,
                                "payloads", bytes,
                                "attributes", nulls,
                                "orderingKeys", nulls,
                                "topics", nulls,
                                "reasons", nulls));
                  })
              .getMessage()
              .getBody(Map.class);
      return result;
    } catch (java.io.IOException e) {
      throw new java.io.UncheckedIOException(e);
    }
  }

  @Test
  void deadEventsAreListedByTopicErrorAndAge() {
    UUID first = put("first", "{\"type\": \"a\"}", "k");
    put("behind", "{}", "k");
    put("far behind", "{}", "k");
    UUID second = put("second");
    put("alive");
    die(first, "INVALID_ARGUMENT: Too Big");
    die(second, "INVALID_ARGUMENT: 100% wrong");
    jdbc.update(
        "UPDATE pubsub_outbox_due SET dead_at = now() - interval '3 hours' WHERE last_error LIKE '%Too Big'");

    List<Map<String, Object>> all = jdbc.queryForList("SELECT * FROM outbox_dead()");
    assertThat(all).extracting(r -> r.get("id")).containsExactly(first, second);
    assertThat(all.get(0))
        .containsEntry("topic_name", TOPIC)
        .containsEntry("ordering_key", "k")
        .containsEntry("blocked", 2L)
        .containsEntry("attempts", 10)
        .containsEntry("payload_bytes", 5);
    assertThat(ids("SELECT id FROM outbox_dead(error_like => 'too big')")).containsExactly(first);
    assertThat(ids("SELECT id FROM outbox_dead(error_like => '100% w')")).containsExactly(second);
    assertThat(ids("SELECT id FROM outbox_dead(error_like => '')")).hasSize(2);
    assertThat(ids("SELECT id FROM outbox_dead(older_than => interval '2 hours')"))
        .containsExactly(first);
    assertThat(ids("SELECT id FROM outbox_dead('orders', max_rows => 1)")).containsExactly(first);
    assertThat(ids("SELECT id FROM outbox_dead('other')")).isEmpty();
  }

  private List<UUID> ids(String sql) {
    return jdbc.queryForList(sql, UUID.class);
  }

  @Test
  void replayedEventIsPublishedAndTheRestStaysDead() {
    createTopicAndSubscription();
    UUID mended = put("mended");
    UUID other = put("other");
    die(mended, "schema mismatch");
    die(other, "too large");

    Map<String, Object> result =
        call("SELECT * FROM outbox_replay('orders', 'schema mended', 'schema', who => 'mia')");
    assertThat(result).containsEntry("replayed", 1L).containsEntry("more", false);
    Map<String, Object> row =
        jdbc.queryForMap(
            "SELECT attempts, last_error, dead_at, next_retry_at <= now() AS due FROM pubsub_outbox_due WHERE last_error = 'schema mismatch'");
    assertThat(row)
        .containsEntry("attempts", 0)
        .containsEntry("dead_at", null)
        .containsEntry("due", true);
    assertThat(lastRepair())
        .containsEntry("who", "mia")
        .containsEntry("action", "outbox_replay")
        .containsEntry("topic_name", TOPIC)
        .containsEntry("reason", "schema mended")
        .containsEntry("rows", 1L);
    assertThat(lastRepair().get("detail").toString()).contains("\"error_like\": \"schema\"");

    start("dispatch");
    eventually().until(() -> "published".equals(state(mended)));
    assertThat(publishedTexts()).containsExactly("mended");
    assertThat(state(other)).isEqualTo("dead");
  }

  @Test
  void replayIsSpreadOverTimeAndGoesOnWhereItStopped() {
    for (int i = 0; i < 30; i++) {
      die(put("event " + i), "late");
    }
    Map<String, Object> first =
        call("SELECT * FROM outbox_replay('orders', 'r', max_rows => 20, per_second => 10)");
    assertThat(first).containsEntry("replayed", 20L).containsEntry("more", true);
    Map<String, Object> second =
        call(
            "SELECT * FROM outbox_replay('orders', 'r', per_second => 10, not_before => ?)",
            first.get("last_due_at"));
    assertThat(second).containsEntry("replayed", 10L).containsEntry("more", false);

    List<Double> gaps =
        jdbc.queryForList(
            """
            SELECT CAST(extract(EPOCH FROM next_retry_at - lag(next_retry_at) OVER (ORDER BY next_retry_at, seq)) AS double precision)
            FROM pubsub_outbox_due ORDER BY next_retry_at, seq OFFSET 1
            """,
            Double.class);
    assertThat(gaps).hasSize(29);
    // The second call begins where the first ended.
    assertThat(gaps.get(19)).isZero();
    for (int i = 0; i < 29; i++) {
      if (i != 19) {
        assertThat(gaps.get(i)).isBetween(0.0999, 0.1001);
      }
    }
    // Oldest first, and a new event is due before most of them.
    UUID fresh = put("fresh");
    assertThat(
            jdbc.queryForObject(
                "SELECT count(*) FROM pubsub_outbox_due WHERE next_retry_at <= (SELECT d.next_retry_at FROM pubsub_outbox_due d JOIN pubsub_outbox o USING (seq) WHERE o.id = ?)",
                Long.class,
                fresh))
        .isLessThan(25);
  }

  @Test
  void replayByIdsIsAllOrNothingAndNamesTheOffender() {
    UUID dead = put("dead");
    UUID due = put("due");
    UUID unknown = UUID.randomUUID();
    die(dead, "e");
    assertThatThrownBy(
            () -> call("SELECT outbox_replay_ids(ARRAY[?, ?, ?], 'r')", dead, due, unknown))
        .hasMessageContaining("of the ids given 2 cannot be used")
        .hasMessageContaining(due + " is due")
        .hasMessageContaining(unknown + " is unknown");
    assertThat(state(dead)).isEqualTo("dead");
    assertThat(count("twinbox_audit")).isZero();

    assertThat(call("SELECT outbox_replay_ids(ARRAY[?, ?], 'r') AS n", dead, dead))
        .containsEntry("n", 1L);
    assertThat(state(dead)).isEqualTo("due");
    assertThat(lastRepair().get("detail").toString()).contains(dead.toString());
    assertThat((String) lastRepair().get("who")).startsWith("postgres");
  }

  @Test
  void wrongCallsSayWhatIsWrong() {
    die(put("dead"), "e");
    for (Map.Entry<String, String> wrong :
        Map.of(
                "outbox_replay('orders')", "reason is missing",
                "outbox_replay('orders', '  ')", "reason is missing",
                "outbox_replay('order', 'r')", "topic order has no dead event that matches",
                "outbox_replay('orders', 'r', 'nobody has this')", "no dead event that matches",
                "outbox_replay('orders', 'r', max_rows => 0)", "max_rows is 0",
                "outbox_replay('orders', 'r', per_second => 0)", "per_second is 0",
                "outbox_discard('orders', 'r', 'nobody has this')", "no dead event that matches",
                "outbox_discard_ids(ARRAY[]::uuid[], 'r')", "no ids given",
                "outbox_republish('orders', now(), now() - interval '1 day', 'r')",
                    "no span of time",
                "outbox_republish('orders', now() - interval '1 day', now(), 'r')",
                    "no event of topic orders was published")
            .entrySet()) {
      assertThatThrownBy(() -> jdbc.queryForList("SELECT * FROM " + wrong.getKey()))
          .as(wrong.getKey())
          .isInstanceOf(DataAccessException.class)
          .hasMessageContaining(wrong.getValue());
    }
    assertThat(count("twinbox_audit")).isZero();
  }

  @Test
  void discardUnblocksTheOrderingKey() {
    createTopicAndSubscription();
    UUID poison = put("poison", "{}", "k");
    UUID next = put("next", "{}", "k");
    die(poison, "refused");
    start("dispatch");
    UUID free = put("free", "{}", "other key");
    eventually().until(() -> "published".equals(state(free)));
    assertThat(state(next)).isEqualTo("due");

    assertThat(call("SELECT outbox_discard_ids(ARRAY[?], 'wrong by design', 'mia') AS n", poison))
        .containsEntry("n", 1L);
    eventually().until(() -> "published".equals(state(next)));
    assertThat(publishedTexts()).containsExactlyInAnyOrder("free", "next");
    Map<String, Object> shown =
        jdbc.queryForMap("SELECT * FROM pubsub_outbox_status WHERE id = ?", poison);
    assertThat(shown)
        .containsEntry("state", "discarded")
        .containsEntry("discard_reason", "wrong by design")
        .containsEntry("discarded_by", "mia");
    assertThat(shown.get("discarded_at")).isNotNull();
    assertThat(lastRepair())
        .containsEntry("action", "outbox_discard_ids")
        .containsEntry("rows", 1L);
  }

  @Test
  void discardedEventIsNotQueuedByARereadNorByAPutEvenWithoutItsPayload() {
    CamelContext camel = start("maintain").getBean(CamelContext.class);
    assertThat(read(camel, new String[] {"k1", "k2"}, new String[] {"one", "two"}))
        .containsEntry("queued", 2L);
    UUID event = id("orders-source", "k1");
    UUID served =
        jdbc.queryForObject("SELECT outbox_put('orders', 'served', event_key => 's1')", UUID.class);
    die(event, "e");
    die(served, "e");
    assertThat(
            call(
                "SELECT * FROM outbox_discard('orders', 'not wanted', older_than => interval '0')"))
        .containsEntry("discarded", 2L)
        .containsEntry("more", false);

    for (boolean payloadKept : new boolean[] {true, false}) {
      if (!payloadKept) {
        // As retention does.
        assertThat(jdbc.update("DELETE FROM pubsub_outbox WHERE id IN (?, ?)", event, served))
            .isEqualTo(2);
      }
      assertThat(read(camel, new String[] {"k1"}, new String[] {"one"}))
          .containsEntry("queued", 0L)
          .containsEntry("changed", 0L);
      assertThat(read(camel, new String[] {"k1"}, new String[] {"one, changed"}))
          .containsEntry("queued", 0L)
          .containsEntry("changed", 1L)
          .containsEntry("revived", 0L);
      assertThat(
              jdbc.queryForObject(
                  "SELECT outbox_put('orders', 'served', event_key => 's1')", UUID.class))
          .isEqualTo(served);
      assertThat(state(event)).isEqualTo("discarded");
      assertThat(state(served)).isEqualTo("discarded");
    }
    assertThat(
            jdbc.queryForObject(
                "SELECT count(*) FROM pubsub_outbox WHERE id IN (?, ?)", Long.class, event, served))
        .isZero();
  }

  private UUID id(String source, String key) {
    return jdbc.queryForObject("SELECT outbox_event_id('orders', ?, ?)", UUID.class, source, key);
  }

  @Test
  void eventThatAPodHoldsIsNotDiscarded() {
    UUID held = put("held");
    jdbc.update(
        "UPDATE pubsub_outbox_due SET lock_id = 'pod', claim_token = gen_random_uuid(), locked_at = now(), next_retry_at = now() + interval '1 minute'");
    assertThatThrownBy(() -> call("SELECT outbox_discard_ids(ARRAY[?], 'r')", held))
        .hasMessageContaining(held + " is claimed");
    assertThat(state(held)).isEqualTo("claimed");
    // The pod died.
    jdbc.update("UPDATE pubsub_outbox_due SET next_retry_at = now() - interval '1 second'");
    call("SELECT outbox_discard_ids(ARRAY[?], 'r')", held);
    assertThat(state(held)).isEqualTo("discarded");
  }

  @Test
  void claimThatComesBetweenStopsADiscard() throws Exception {
    UUID event = put("event");
    try (Connection pod = connection();
        Statement statement = pod.createStatement()) {
      pod.setAutoCommit(false);
      statement.execute(
          "UPDATE pubsub_outbox_due SET lock_id = 'pod', claim_token = gen_random_uuid(), locked_at = now(), next_retry_at = now() + interval '1 minute'");
      Thread committer =
          new Thread(
              () -> {
                awaitBlockedSessions(1);
                try {
                  pod.commit();
                } catch (java.sql.SQLException e) {
                  throw new IllegalStateException(e);
                }
              });
      committer.start();
      assertThatThrownBy(() -> call("SELECT outbox_discard_ids(ARRAY[?], 'r')", event))
          .hasMessageContaining("claimed meanwhile");
      committer.join();
    }
    assertThat(state(event)).isEqualTo("claimed");
    assertThat(count("pubsub_outbox_discarded")).isZero();
    assertThat(count("twinbox_audit")).isZero();
  }

  @Test
  void discardedEventComesBackByRepublish() {
    createTopicAndSubscription();
    UUID event = put("event");
    die(event, "e");
    call("SELECT outbox_discard_ids(ARRAY[?], 'by mistake')", event);
    assertThat(call("SELECT * FROM outbox_republish_ids(ARRAY[?], 'was a mistake')", event))
        .containsEntry("queued", 1L);
    assertThat(count("pubsub_outbox_discarded")).isZero();
    start("dispatch");
    eventually().until(() -> "published".equals(state(event)));
    assertThat(publishedTexts()).containsExactly("event");
  }

  @Test
  void republishAppliesExactlyWhatAConsumersRestoreHasLost() {
    createTopicAndSubscription();
    start("dispatch,consume");
    for (int i = 0; i < 40; i++) {
      put("event %02d".formatted(i), "{}", i % 2 == 0 ? "key " + i % 3 : null);
    }
    eventually().until(() -> count("effect") == 40 && count("pubsub_outbox_due") == 0);
    // The consumer's database goes back: effects and keys of the last fifteen are gone.
    assertThat(jdbc.update("DELETE FROM effect WHERE what >= 'event 25'")).isEqualTo(15);
    assertThat(
            jdbc.update(
                "DELETE FROM transactional_inbox WHERE idempotency_key IN (SELECT CAST(id AS text) FROM pubsub_outbox WHERE convert_from(payload, 'UTF8') >= 'event 25')"))
        .isEqualTo(15);
    int before = published().size();

    Map<String, Object> result =
        call(
            "SELECT * FROM outbox_republish('orders', now() - interval '1 hour', now(), 'ledger restored', who => 'mia')");
    assertThat(result)
        .containsEntry("queued", 40L)
        .containsEntry("already_queued", 0L)
        .containsEntry("without_payload", 0L)
        .containsEntry("next_from", null);
    eventually()
        .until(
            () ->
                count("effect") >= 40
                    && count("pubsub_outbox_due") == 0
                    && published().size() == before + 40
                    && backlog() == 0);
    assertThat(effects())
        .containsExactlyElementsOf(
            IntStream.range(0, 40).mapToObj("event %02d"::formatted).toList());
    assertThat(count("pubsub_outbox_published")).isEqualTo(40);
    assertThat(lastRepair()).containsEntry("who", "mia").containsEntry("rows", 40L);
  }

  @Test
  void republishQueuesOnceInOrderAndCountsWhatItCannot() {
    List<UUID> ids = IntStream.range(0, 10).mapToObj(i -> put("event " + i, "{}", "k")).toList();
    publishedAlready("now()");
    jdbc.update("DELETE FROM pubsub_outbox WHERE id IN (?, ?)", ids.get(0), ids.get(1));

    String republish =
        "SELECT * FROM outbox_republish('orders', now() - interval '1 hour', now() + interval '1 hour', 'r')";
    assertThat(call(republish))
        .containsEntry("queued", 8L)
        .containsEntry("already_queued", 0L)
        .containsEntry("without_payload", 2L);
    assertThat(call(republish))
        .containsEntry("queued", 0L)
        .containsEntry("already_queued", 8L)
        .containsEntry("without_payload", 2L);
    assertThat(
            call("SELECT * FROM outbox_republish_ids(?, 'r')", (Object) ids.toArray(UUID[]::new)))
        .containsEntry("queued", 0L)
        .containsEntry("already_queued", 8L)
        .containsEntry("without_payload", 2L);
    assertThat(count("pubsub_outbox_due")).isEqualTo(8);
    assertThat(
            jdbc.queryForList(
                "SELECT seq FROM pubsub_outbox_due ORDER BY next_retry_at", Long.class))
        .isSorted();

    createTopicAndSubscription();
    start("dispatch");
    eventually().until(() -> count("pubsub_outbox_due") == 0);
    assertThat(publishedTexts())
        .containsExactlyElementsOf(IntStream.range(2, 10).mapToObj(i -> "event " + i).toList());
  }

  @Test
  void republishGoesOnInBatchesWithoutPartingAClaim() {
    for (int i = 0; i < 30; i++) {
      put("event " + i);
    }
    // Three claims of ten.
    publishedAlready("timestamptz '2026-01-01 00:00Z' + interval '1 minute' * ((seq - 1) / 10)");
    UUID discarded = put("discarded");
    jdbc.update(
        "INSERT INTO pubsub_outbox_discarded SELECT id, topic_name, now(), 'r', 'w', payload_hash FROM pubsub_outbox WHERE id = ?",
        discarded);
    publishedAlready("timestamptz '2026-01-01 00:00Z'");

    String from = "2026-01-01T00:00:00Z";
    String notBefore = null;
    long queued = 0;
    int calls = 0;
    while (from != null) {
      Map<String, Object> result =
          call(
              "SELECT *, CAST(next_from AS text) AS next, CAST(last_due_at AS text) AS last FROM outbox_republish('orders', CAST(? AS timestamptz), timestamptz '2026-01-02', 'r', max_rows => 12, not_before => CAST(? AS timestamptz))",
              from,
              notBefore);
      queued += (long) result.get("queued");
      from = (String) result.get("next");
      notBefore = (String) result.get("last");
      calls++;
      // Twelve would part the second claim, so it is taken whole.
      assertThat(queued).isIn(20L, 30L);
    }
    assertThat(calls).isEqualTo(2);
    assertThat(count("pubsub_outbox_due")).isEqualTo(30);
    assertThat(state(discarded)).isEqualTo("discarded");
    // until is outside the span.
    assertThatThrownBy(
            () ->
                call(
                    "SELECT * FROM outbox_republish('orders', timestamptz '2025-01-01 00:00Z', timestamptz '2026-01-01 00:00Z', 'r')"))
        .hasMessageContaining("was published");
  }

  private void publishedAlready(String completedAt) {
    jdbc.update(
        "INSERT INTO pubsub_outbox_published SELECT o.id, o.topic_name, "
            + completedAt
            + ", 'm', o.payload_hash FROM pubsub_outbox o JOIN pubsub_outbox_due d USING (seq)");
    jdbc.update("DELETE FROM pubsub_outbox_due");
  }

  @Test
  void republishByIdsRefusesUnknownAndDeadEvents() {
    UUID dead = put("dead");
    die(dead, "e");
    UUID unknown = UUID.randomUUID();
    assertThatThrownBy(
            () -> call("SELECT * FROM outbox_republish_ids(ARRAY[?, ?], 'r')", dead, unknown))
        .hasMessageContaining(dead + " is dead")
        .hasMessageContaining(unknown + " is unknown");
    assertThat(count("twinbox_audit")).isZero();
  }

  @Test
  void retentionDeletesPayloadsOfDiscardedEventsUnderATimeLimit() {
    UUID old = put("old");
    UUID young = put("young");
    die(old, "e");
    die(young, "e");
    call("SELECT * FROM outbox_discard('orders', 'r')");
    jdbc.update(
        "UPDATE pubsub_outbox_discarded SET discarded_at = now() - interval '40 days' WHERE id = ?",
        old);
    // Each delete notes the limit it runs under.
    jdbc.execute("CREATE TABLE seen (what text)");
    jdbc.execute(
        """
        CREATE FUNCTION note_limit() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
          INSERT INTO seen VALUES (current_setting('statement_timeout'));
          RETURN NULL;
        END $$
        """);
    jdbc.execute(
        "CREATE TRIGGER note_limit AFTER DELETE ON pubsub_outbox FOR EACH STATEMENT EXECUTE FUNCTION note_limit()");
    start("maintain", "twinbox.maintain.interval=50ms", "twinbox.maintain.statement-timeout=2m");

    eventually().until(() -> ids("SELECT id FROM pubsub_outbox").equals(List.of(young)));
    assertThat(state(old)).isEqualTo("discarded");
    assertThat(jdbc.queryForList("SELECT DISTINCT what FROM seen", String.class))
        .containsExactly("2min");
  }

  @Test
  void cleanUpThatTakesTooLongGivesUpAndHarmsNothing() {
    put("old");
    publishedAlready("now() - interval '40 days'");
    jdbc.update("UPDATE pubsub_outbox SET created_at = now() - interval '40 days'");
    jdbc.execute(
        """
        CREATE FUNCTION dawdle() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
          PERFORM nextval('tries');
          PERFORM pg_sleep(60);
          RETURN OLD;
        END $$
        """);
    jdbc.execute("CREATE SEQUENCE tries");
    jdbc.execute(
        "CREATE TRIGGER dawdle BEFORE DELETE ON pubsub_outbox FOR EACH ROW EXECUTE FUNCTION dawdle()");
    start("maintain", "twinbox.maintain.interval=50ms", "twinbox.maintain.statement-timeout=100ms");
    eventually().until(() -> jdbc.queryForObject("SELECT last_value FROM tries", Long.class) >= 3);
    assertThat(count("pubsub_outbox")).isEqualTo(1);
  }

  @Test
  void backlogShowsEveryTopicAlsoOneThatNobodyServes() {
    put("due");
    put("keyed", "{}", "k");
    UUID dead = put("dead", "{}", "k");
    die(dead, "e");
    UUID waiting = put("waiting");
    UUID claimed = put("claimed", "{}", "k2");
    jdbc.update(
        "UPDATE pubsub_outbox_due SET next_retry_at = now() + interval '1 hour' WHERE seq = (SELECT seq FROM pubsub_outbox WHERE id = ?)",
        waiting);
    jdbc.update(
        "UPDATE pubsub_outbox_due SET next_retry_at = now() + interval '1 hour', lock_id = 'p', claim_token = gen_random_uuid() WHERE seq = (SELECT seq FROM pubsub_outbox WHERE id = ?)",
        claimed);
    UUID keyedWaiting = put("waiting", "{}", "k3");
    UUID keyedLapsed = put("lapsed", "{}", "k4");
    UUID lapsed = put("lapsed");
    jdbc.update(
        "UPDATE pubsub_outbox_due SET next_retry_at = now() + interval '1 hour' WHERE seq = (SELECT seq FROM pubsub_outbox WHERE id = ?)",
        keyedWaiting);
    for (UUID id : List.of(keyedLapsed, lapsed)) {
      jdbc.update(
          "UPDATE pubsub_outbox_due SET next_retry_at = now() - CAST(? AS interval), lock_id = 'p', claim_token = gen_random_uuid() WHERE seq = (SELECT seq FROM pubsub_outbox WHERE id = ?)",
          id.equals(lapsed) ? "1 hour" : "2 hours",
          id);
    }
    jdbc.queryForObject("SELECT outbox_put('nobody-serves', 'x')", UUID.class);
    jdbc.queryForObject("SELECT outbox_put('abandoned', 'x', '{}', 'k')", UUID.class);
    jdbc.update(
        "UPDATE pubsub_outbox_due SET next_retry_at = now() - interval '3 hours' WHERE topic_name = 'abandoned'");
    UUID onlyDead = jdbc.queryForObject("SELECT outbox_put('zombies', 'x')", UUID.class);
    die(onlyDead, "e");

    Map<Object, Map<String, Object>> topics =
        jdbc
            .queryForList(
                "SELECT *, CAST(extract(EPOCH FROM oldest_due_age) / 3600 AS int) AS hours FROM pubsub_outbox_backlog")
            .stream()
            .collect(Collectors.toMap(r -> r.get("topic_name"), r -> r));
    assertThat(topics).containsOnlyKeys(TOPIC, "nobody-serves", "abandoned", "zombies");
    assertThat(topics.get(TOPIC))
        .containsEntry("due", 4L)
        .containsEntry("claimed", 1L)
        .containsEntry("waiting", 2L)
        .containsEntry("dead", 1L)
        .containsEntry("hours", 2);
    assertThat(topics.get("abandoned")).containsEntry("due", 1L).containsEntry("hours", 3);
    assertThat(topics.get("zombies"))
        .containsEntry("due", 0L)
        .containsEntry("dead", 1L)
        .containsEntry("oldest_due_age", null);
  }

  private Connection connection() throws java.sql.SQLException {
    return DriverManager.getConnection(
        databaseUrl, io.twinbox.local.LocalPostgres.USER, io.twinbox.local.LocalPostgres.PASSWORD);
  }
}
