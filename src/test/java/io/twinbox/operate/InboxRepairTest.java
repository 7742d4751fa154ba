package io.twinbox.operate;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.twinbox.local.LocalPostgres;
import io.twinbox.promises.PromiseTest;
import java.io.IOException;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.List;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;

/** Dead letters of the inbox: replayed, given up, given a key; and what comes between. */
class InboxRepairTest extends PromiseTest {

  /** The handler posts what it sees, then fails while the table {@code broken} has a row. */
  @BeforeEach
  void handlerThatCanBeMended() throws IOException {
    createTopicAndSubscription();
    jdbc.execute("CREATE TABLE broken (why text NOT NULL)");
    jdbc.execute("CREATE SEQUENCE handler_calls");
    jdbc.execute(
        """
        CREATE FUNCTION fail_while_broken() RETURNS void LANGUAGE plpgsql AS $$
        DECLARE
          message text;
        BEGIN
          PERFORM nextval('handler_calls');
          SELECT why INTO message FROM broken;
          IF message LIKE '40001%' THEN
            RAISE EXCEPTION '%', message USING ERRCODE = '40001';
          ELSIF message IS NOT NULL THEN
            RAISE EXCEPTION '%', message;
          END IF;
        END $$
        """);
    topicFile(
        "post.sql",
        """
        -- Posts, then fails while the handler is broken.
        WITH posted AS (
          INSERT INTO effect (what) VALUES (convert_from(:#${body}, 'UTF8')) RETURNING what)
        SELECT fail_while_broken() FROM posted
        """);
  }

  private void broken(String why) {
    jdbc.update("DELETE FROM broken");
    if (why != null) {
      jdbc.update("INSERT INTO broken (why) VALUES (?)", why);
    }
  }

  private long calls() {
    return jdbc.queryForObject(
        "SELECT CASE WHEN is_called THEN last_value ELSE 0 END FROM handler_calls", Long.class);
  }

  private static String[] settings(String... more) {
    String[] all = java.util.Arrays.copyOf(more, more.length + 2);
    all[more.length] = "twinbox.consume.max-attempts=1";
    all[more.length + 1] = "twinbox.consume.replay-interval=20ms";
    return all;
  }

  private static Map<String, String> key(String key) {
    return Map.of("outbox_id", key);
  }

  private Map<String, Object> letter(String key) {
    return jdbc.queryForMap(
        "SELECT * FROM transactional_inbox_dead_letter WHERE idempotency_key = ?", key);
  }

  private long id(String key) {
    return (long) letter(key).get("id");
  }

  private void awaitLetters(int letters) {
    eventually().until(() -> count("transactional_inbox_dead_letter") == letters && backlog() == 0);
  }

  /** Puts a letter there as bury does, without a subscriber. */
  private long store(String key, String payload) {
    return jdbc.queryForObject(
        """
        INSERT INTO transactional_inbox_dead_letter
          (consumer, idempotency_key, message_id, payload, attributes, reason, attempts, published_at)
        VALUES ('ledger', ?, 'message-' || coalesce(?, 'none'), convert_to(?, 'UTF8'), '{"type": "a"}', 'it failed', 3, now())
        RETURNING id
        """,
        Long.class,
        key,
        key,
        payload);
  }

  private String closedAs(long id) {
    return jdbc.queryForObject(
        "SELECT closed_as FROM transactional_inbox_dead_letter WHERE id = ?", String.class, id);
  }

  private Map<String, Object> lastRepair() {
    return jdbc.queryForMap("SELECT * FROM twinbox_audit ORDER BY id DESC LIMIT 1");
  }

  private Object call(String sql, Object... arguments) {
    return jdbc.queryForMap(sql, arguments).values().iterator().next();
  }

  @Test
  void replayAfterTheHandlerIsMendedTakesEffectOnceAndClosesTheLetter() {
    broken("no such account");
    start("consume", settings());
    publish("event", key("k"));
    publish("other", key("other"));
    awaitLetters(2);
    assertThat(count("effect")).isZero();
    assertThat(
            jdbc.queryForList(
                "SELECT idempotency_key FROM inbox_dead('ledger', 'NO SUCH')", String.class))
        .containsExactlyInAnyOrder("k", "other");
    assertThat(jdbc.queryForList("SELECT id FROM inbox_dead('ledger', 'something else')"))
        .isEmpty();
    assertThat(jdbc.queryForList("SELECT id FROM inbox_dead(older_than => interval '1 hour')"))
        .isEmpty();

    broken(null);
    assertThat(call("SELECT inbox_replay_ids(ARRAY[?], 'account added', 'mia')", id("k")))
        .isEqualTo(1L);
    eventually().until(() -> letter("k").get("closed_at") != null);
    assertThat(effects()).containsExactly("event");
    assertThat(jdbc.queryForList("SELECT idempotency_key FROM transactional_inbox", String.class))
        .containsExactly("k");
    assertThat(letter("k"))
        .containsEntry("closed_as", "replayed")
        .containsEntry("closed_by", "mia")
        .containsEntry("replay_requested_at", null);
    assertThat(letter("other")).containsEntry("closed_at", null);
    assertThat(jdbc.queryForList("SELECT idempotency_key FROM inbox_dead()", String.class))
        .containsExactly("other");
    assertThat(lastRepair())
        .containsEntry("who", "mia")
        .containsEntry("action", "inbox_replay_ids")
        .containsEntry("consumer", "ledger")
        .containsEntry("reason", "account added")
        .containsEntry("rows", 1L);

    // The same message again does nothing.
    publish("event", key("k"));
    eventually().until(() -> backlog() == 0 && pubSub.stats().deliveries() >= 3);
    assertThat(effects()).containsExactly("event");
  }

  @Test
  void replayThatFailsAgainStaysWithTheNewReasonAndIsNotTriedByItself() {
    broken("still broken");
    long id = store("k", "event");
    start("consume", settings());
    call("SELECT requested FROM inbox_replay('ledger', 'try')");
    eventually().until(() -> letter("k").get("attempts").equals(4));
    assertThat(letter("k"))
        .containsEntry("closed_at", null)
        .containsEntry("replay_requested_at", null)
        .containsEntry("replay_token", null);
    assertThat((String) letter("k").get("reason")).contains("still broken");
    assertThat(count("effect")).isZero();
    assertThat(count("transactional_inbox")).isZero();

    // Another one goes through meanwhile: the first would have been tried again before it.
    broken(null);
    store("later", "later");
    call("SELECT inbox_replay_ids(ARRAY[?], 'try')", id("later"));
    eventually().until(() -> "replayed".equals(closedAs(id("later"))));
    assertThat(closedAs(id)).isNull();
    assertThat(calls()).isEqualTo(2);
  }

  @Test
  void letterWhoseTwinTookEffectIsClosedWithoutASecondEffect() {
    broken("broken");
    start("consume", settings());
    publish("event", key("k"));
    awaitLetters(1);
    broken(null);
    publish("event", key("k"));
    eventually().until(() -> count("effect") == 1);
    assertThat(call("SELECT applied FROM inbox_dead()")).isEqualTo(true);

    call("SELECT requested FROM inbox_replay('ledger', 'clear up')");
    eventually().until(() -> letter("k").get("closed_at") != null);
    assertThat(letter("k")).containsEntry("closed_as", "already applied");
    assertThat(effects()).containsExactly("event");
    assertThatThrownBy(() -> call("SELECT inbox_replay_ids(ARRAY[?], 'again')", id("k")))
        .hasMessageContaining("is already applied");
  }

  @Test
  void handlerSeesAReplayedMessageAsADeliveredOne() throws IOException {
    topicFile(
        "post.sql",
        """
        -- Posts what the handler sees.
        INSERT INTO effect (what)
        SELECT concat_ws('|', convert_from(:#${body}, 'UTF8'), CAST(:#${header.type} AS text), CAST(:#${header.outbox_id} AS text),
                         CAST(:#${header.CamelSqlQuery} AS text), CAST(:#${header.CamelGooglePubsubMessageId} AS text),
                         CAST(:#${header.CamelGooglePubsubPublishTime.seconds} AS text),
                         CAST(:#${header.CamelGooglePubsubPublishTime.nanos} / 1000 AS text),
                         CAST(:#${header.CamelGooglePubsubAttributes[CAMELSqlQuery]} AS text),
                         fail_while_broken())
        """);
    broken("broken");
    start("consume", settings());
    Map<String, String> attributes =
        Map.of("outbox_id", "k", "type", "issued", "CAMELSqlQuery", "SELECT 1 / 0");
    publish("päyload", attributes);
    awaitLetters(1);
    broken(null);
    // The same message, delivered.
    publish("päyload", attributes);
    eventually().until(() -> count("effect") == 1);
    String delivered = effects().get(0);
    jdbc.update("DELETE FROM transactional_inbox");
    jdbc.update(
        "UPDATE transactional_inbox_dead_letter SET message_id = ?, published_at = to_timestamp(?) + ? * interval '1 microsecond'",
        delivered.split("\\|")[3],
        Long.parseLong(delivered.split("\\|")[4]),
        Integer.parseInt(delivered.split("\\|")[5]));
    call("SELECT requested FROM inbox_replay('ledger', 'r')");
    eventually().until(() -> count("effect") == 2);
    assertThat(effects()).containsExactly(delivered, delivered);
    assertThat(delivered).startsWith("päyload|issued|k|").endsWith("|SELECT 1 / 0|");
  }

  @Test
  void discardedMessageDoesNotTakeEffectWhenItComesAgain() {
    broken("broken");
    start("consume", settings());
    publish("event", key("k"));
    awaitLetters(1);
    broken(null);
    assertThat(call("SELECT inbox_discard_ids(ARRAY[?], 'double booking', 'mia')", id("k")))
        .isEqualTo(1L);
    assertThat(letter("k"))
        .containsEntry("closed_as", "discarded")
        .containsEntry("closed_by", "mia")
        .containsEntry("closed_reason", "double booking");
    publish("event", key("k"));
    eventually().until(() -> pubSub.stats().deliveries() >= 2 && backlog() == 0);
    assertThat(effects()).isEmpty();
    assertThat(jdbc.queryForList("SELECT * FROM inbox_dead()")).isEmpty();

    // A mistake: it is opened again, and takes effect.
    assertThat(call("SELECT inbox_replay_ids(ARRAY[?], 'was none')", id("k"))).isEqualTo(1L);
    eventually().until(() -> "replayed".equals(closedAs(id("k"))));
    assertThat(effects()).containsExactly("event");
  }

  @Test
  void discardWaitsForATwinInFlightAndRefusesWhenItTookEffect() throws Exception {
    long id = store("k", "event");
    try (Connection twin = connection();
        Statement statement = twin.createStatement()) {
      twin.setAutoCommit(false);
      statement.execute(
          "INSERT INTO transactional_inbox (consumer, idempotency_key) VALUES ('ledger', 'k')");
      statement.execute("INSERT INTO effect (what) VALUES ('event')");
      CompletableFuture<Object> discard =
          CompletableFuture.supplyAsync(() -> call("SELECT inbox_discard_ids(ARRAY[?], 'r')", id));
      awaitBlockedSessions(1);
      twin.commit();
      assertThatThrownBy(discard::join).hasMessageContaining("has taken effect");
    }
    assertThat(closedAs(id)).isNull();
    assertThat(count("transactional_inbox")).isEqualTo(1);
    assertThat(count("twinbox_audit")).isZero();
  }

  @Test
  void letterWithoutAKeyIsReplayedOnlyAfterItWasGivenOne() {
    start("consume", settings());
    publish("keyless", Map.of("type", "a"));
    awaitLetters(1);
    long id = jdbc.queryForObject("SELECT id FROM transactional_inbox_dead_letter", Long.class);
    assertThatThrownBy(() -> call("SELECT inbox_replay_ids(ARRAY[?], 'r')", id))
        .hasMessageContaining("without a key")
        .hasMessageContaining("inbox_assign_key");
    assertThatThrownBy(() -> call("SELECT requested FROM inbox_replay('ledger', 'r')"))
        .hasMessageContaining("no open dead letter with a key");
    for (String bad : new String[] {null, "", " ", "x".repeat(513)}) {
      assertThatThrownBy(() -> call("SELECT inbox_assign_key(?, CAST(? AS text), 'r')", id, bad))
          .hasMessageContaining("1 to 512 bytes");
    }
    long other = store("taken", "x");
    assertThatThrownBy(() -> call("SELECT inbox_assign_key(?, 'taken', 'r')", id))
        .hasMessageContaining("another dead letter with the key taken");
    assertThatThrownBy(() -> call("SELECT inbox_assign_key(?, 'new', 'r')", other))
        .hasMessageContaining("has the key taken already");
    assertThat(count("twinbox_audit")).isZero();

    call("SELECT inbox_assign_key(?, 'order-7', 'from the sender''s log', 'mia')", id);
    assertThat(lastRepair())
        .containsEntry("action", "inbox_assign_key")
        .containsEntry("who", "mia")
        .containsEntry("consumer", "ledger");
    call("SELECT inbox_replay_ids(ARRAY[?], 'r')", id);
    eventually().until(() -> "replayed".equals(closedAs(id)));
    assertThat(effects()).containsExactly("keyless");
    assertThat(jdbc.queryForList("SELECT idempotency_key FROM transactional_inbox", String.class))
        .containsExactly("order-7");
  }

  @Test
  void replayOfAPodThatDiedIsTakenOverWhenItsLeaseEndsAndTakesEffectOnce() throws Exception {
    long id = store("k", "event");
    call("SELECT inbox_replay_ids(ARRAY[?], 'r')", id);
    // A pod claims the letter, and dies with its transaction open.
    Connection dead = connection();
    dead.setAutoCommit(false);
    String token = "00000000-0000-0000-0000-000000000001";
    claim(token);
    try (Statement statement = dead.createStatement()) {
      statement.execute("SELECT inbox_replay_begin(" + id + ", '" + token + "')");
      statement.execute(
          "INSERT INTO transactional_inbox (consumer, idempotency_key) VALUES ('ledger', 'k')");
      statement.execute("INSERT INTO effect (what) VALUES ('event')");
    }
    dead.abort(Runnable::run);
    start("consume", settings());
    // Its lease holds.
    long other = store("other", "other");
    call("SELECT inbox_replay_ids(ARRAY[?], 'r')", other);
    eventually().until(() -> "replayed".equals(closedAs(other)));
    assertThat(closedAs(id)).isNull();

    endLease(id);
    eventually().until(() -> "replayed".equals(closedAs(id)));
    assertThat(effects()).containsExactly("event", "other");
    assertThat(count("transactional_inbox")).isEqualTo(2);
  }

  @Test
  void replayOfASlowPodIsNotTakenOverAndALateOneChangesNothing() throws Exception {
    long id = store("k", "event");
    call("SELECT inbox_replay_ids(ARRAY[?], 'r')", id);
    String slow = "00000000-0000-0000-0000-000000000001";
    claim(slow);
    try (Connection pod = connection();
        Statement statement = pod.createStatement()) {
      pod.setAutoCommit(false);
      statement.execute("SELECT inbox_replay_begin(" + id + ", '" + slow + "')");
      endLease(id, pod);
      start("consume", settings());
      long other = store("other", "other");
      call("SELECT inbox_replay_ids(ARRAY[?], 'r')", other);
      eventually().until(() -> "replayed".equals(closedAs(other)));
      // Its transaction holds the letter although the lease has run out.
      assertThat(effects()).containsExactly("other");
      pod.rollback();
      endLease(id);
      eventually().until(() -> "replayed".equals(closedAs(id)));
      // It wakes and goes on with its old token.
      assertThatThrownBy(
              () -> statement.execute("SELECT inbox_replay_begin(" + id + ", '" + slow + "')"))
          .hasMessageContaining("another pod's now, or it was closed");
      pod.rollback();
    }
    assertThat(effects()).containsExactly("event", "other");
  }

  @Test
  void replayWhoseLetterIsNotClosedRollsItsEffectBack() throws Exception {
    long id = store("k", "event");
    // The handler's transaction loses the claim before its end, as when an operator deletes the
    // letter.
    jdbc.execute(
        """
        CREATE FUNCTION lose_claim() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
          UPDATE transactional_inbox_dead_letter SET replay_token = NULL;
          RETURN NULL;
        END $$
        """);
    jdbc.execute(
        "CREATE TRIGGER lose_claim AFTER INSERT ON effect FOR EACH STATEMENT EXECUTE FUNCTION lose_claim()");
    start("consume", settings());
    call("SELECT inbox_replay_ids(ARRAY[?], 'r')", id);
    eventually().until(() -> letter("k").get("attempts").equals(4));
    assertThat((String) letter("k").get("reason")).contains("another pod's now");
    assertThat(count("effect")).isZero();
    assertThat(count("transactional_inbox")).isZero();
  }

  @Test
  void messageThatKillsItsProcessIsNotReplayedForEver() {
    long id = store("k", "event");
    call("SELECT inbox_replay_ids(ARRAY[?], 'r')", id);
    for (int death = 1; death <= 3; death++) {
      claim("00000000-0000-0000-0000-00000000000" + death);
      endLease(id);
    }
    start("consume", settings());
    eventually().until(() -> letter("k").get("attempts").equals(4));
    assertThat((String) letter("k").get("reason")).contains("without an outcome 3 times");
    assertThat(calls()).isZero();
    // Asked for again, it has three tries again.
    call("SELECT inbox_replay_ids(ARRAY[?], 'r')", id);
    eventually().until(() -> "replayed".equals(closedAs(id)));
    assertThat(effects()).containsExactly("event");
  }

  @Test
  void troubleOfTheDatabaseDoesNotCountAgainstAReplay() {
    long id = store("k", "event");
    broken("40001 serialization failure");
    start("consume", settings());
    call("SELECT inbox_replay_ids(ARRAY[?], 'r')", id);
    eventually().until(() -> calls() == 1 && letter("k").get("replay_token") == null);
    assertThat(letter("k")).containsEntry("attempts", 3).containsEntry("replay_claims", 0);
    assertThat(letter("k").get("replay_requested_at")).isNotNull();
    broken(null);
    endLease(id);
    eventually().until(() -> "replayed".equals(closedAs(id)));
    assertThat(effects()).containsExactly("event");
  }

  @Test
  void manyReplaysOverTwoPodsTakeEffectOnceEach() {
    for (int i = 0; i < 60; i++) {
      store("k" + i, "event %02d".formatted(i));
    }
    start("consume", settings());
    start("consume", settings());
    Map<String, Object> asked =
        jdbc.queryForMap("SELECT * FROM inbox_replay('ledger', 'r', max_rows => 50)");
    assertThat(asked).containsEntry("requested", 50L).containsEntry("more", true);
    assertThat(jdbc.queryForMap("SELECT * FROM inbox_replay('ledger', 'r')"))
        .containsEntry("requested", 10L)
        .containsEntry("more", false);
    eventually().until(() -> jdbc.queryForList("SELECT id FROM inbox_dead()").isEmpty());
    assertThat(effects()).hasSize(60).doesNotHaveDuplicates();
    assertThat(calls()).isEqualTo(60);
  }

  @Test
  void messageThatDiesAgainAfterARestoreOpensItsLetterButNotADiscardedOne() {
    broken("broken");
    start("consume", settings());
    publish("event", key("k"));
    publish("wrong", key("wrong"));
    awaitLetters(2);
    broken(null);
    call("SELECT inbox_replay_ids(ARRAY[?], 'r')", id("k"));
    call("SELECT inbox_discard_ids(ARRAY[?], 'r')", id("wrong"));
    eventually().until(() -> "replayed".equals(closedAs(id("k"))));
    jdbc.update("DELETE FROM transactional_inbox");
    jdbc.update("DELETE FROM effect");
    broken("broken again");
    publish("event", key("k"));
    publish("wrong", key("wrong"));
    eventually().until(() -> calls() == 5 && backlog() == 0);
    assertThat(closedAs(id("k"))).isNull();
    assertThat((String) letter("k").get("reason")).contains("broken again");
    assertThat(closedAs(id("wrong"))).isEqualTo("discarded");
  }

  @Test
  void wrongCallsSayWhatIsWrong() {
    long id = store("k", "event");
    for (Map.Entry<String, String> wrong :
        Map.of(
                "inbox_replay('ledger')",
                "reason is missing",
                "inbox_replay('ledgers', 'r')",
                "consumer ledgers has no open dead letter",
                "inbox_replay('ledger', 'r', 'nobody has this')",
                "no open dead letter",
                "inbox_replay_ids(ARRAY[4711], 'r')",
                "4711 is unknown",
                "inbox_replay_ids(ARRAY[]::bigint[], 'r')",
                "no ids given",
                "inbox_discard_ids(ARRAY[" + id + "])",
                "reason is missing",
                "inbox_discard_ids(ARRAY[" + id + ", 4711], 'r')",
                "4711 is unknown",
                "inbox_assign_key(4711, 'key', 'r')",
                "4711 is unknown")
            .entrySet()) {
      assertThatThrownBy(() -> jdbc.queryForList("SELECT * FROM " + wrong.getKey()))
          .as(wrong.getKey())
          .hasMessageContaining(wrong.getValue());
    }
    assertThat(count("twinbox_audit")).isZero();
    assertThat(closedAs(id)).isNull();
  }

  /** Claims as the route does, with its own statement, in another context's name. */
  private void claim(String token) {
    String sql =
        io.twinbox.config.SqlFiles.read("sql/operate/claim-replay.sql")
            .replaceAll("(?m)^--.*$", "")
            .replace(":#${properties:twinbox.pod}", "'dead pod'")
            .replace(":#${properties:twinbox.consumer}", "'ledger'")
            .replace(":#${exchangeProperty.replayToken}", "'" + token + "'");
    List<Map<String, Object>> claimed = jdbc.queryForList(sql);
    assertThat(claimed).hasSize(1);
  }

  private void endLease(long id) {
    jdbc.update(
        "UPDATE transactional_inbox_dead_letter SET replay_next_at = now() - interval '1 second' WHERE id = ?",
        id);
  }

  /** In the transaction that holds the letter: nobody else could. */
  private static void endLease(long id, Connection holder) throws SQLException {
    try (Statement statement = holder.createStatement()) {
      statement.execute(
          "UPDATE transactional_inbox_dead_letter SET replay_next_at = now() - interval '1 second' WHERE id = "
              + id);
    }
  }

  private Connection connection() throws SQLException {
    return DriverManager.getConnection(databaseUrl, LocalPostgres.USER, LocalPostgres.PASSWORD);
  }
}
