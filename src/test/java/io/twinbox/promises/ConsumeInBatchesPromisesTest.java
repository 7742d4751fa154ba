package io.twinbox.promises;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.SQLException;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.springframework.context.ConfigurableApplicationContext;

/**
 * Every promise of consume once more, with up to twenty messages in a transaction; and what batches
 * alone can break.
 */
class ConsumeInBatchesPromisesTest extends ConsumePromisesTest {

  @Override
  protected ConfigurableApplicationContext start(
      Class<?> application, String routes, String... settings) {
    return super.start(
        application,
        routes,
        Stream.concat(Stream.of("twinbox.consume.batch-size=20"), Arrays.stream(settings))
            .toArray(String[]::new));
  }

  @Test
  void messagesOfABatchShareOneTransaction() throws IOException {
    createTopicAndSubscription();
    jdbc.execute("ALTER TABLE effect ADD COLUMN tx bigint DEFAULT txid_current()");
    for (int i = 0; i < 200; i++) {
      publish("event %03d".formatted(i), Map.of("outbox_id", "id-" + i));
    }
    start("consume", "twinbox.consume.concurrency=2");

    eventually().until(() -> count("effect") == 200 && backlog() == 0);
    assertThat(jdbc.queryForObject("SELECT count(DISTINCT tx) FROM effect", Integer.class))
        .isLessThan(100);
  }

  @Test
  void failedMessageOfABatchTakesNeitherItsMatesNorItsKeyWithIt() throws IOException {
    createTopicAndSubscription();
    topicFile(
        "post.sql",
        """
        -- Posts, and then fails for every tenth event.
        WITH posted AS (
          INSERT INTO effect (what) VALUES (convert_from(:#${body}, 'UTF8')) RETURNING what)
        SELECT 1 / CAST(right(what, 1) AS int) FROM posted
        """);
    for (int i = 0; i < 100; i++) {
      publish("event %03d".formatted(i), Map.of("outbox_id", "id-" + i));
    }
    start("consume", "twinbox.consume.max-attempts=3");

    eventually().until(() -> count("transactional_inbox_dead_letter") == 10 && backlog() == 0);
    assertThat(effects())
        .containsExactlyElementsOf(
            IntStream.range(0, 100)
                .filter(i -> i % 10 != 0)
                .mapToObj("event %03d"::formatted)
                .toList());
    assertThat(count("transactional_inbox")).isEqualTo(90);
    assertThat(
            jdbc.queryForList(
                "SELECT DISTINCT attempts FROM transactional_inbox_dead_letter", Integer.class))
        .containsExactly(3);
  }

  @Test
  void batchWhoseCommitBreaksAConstraintIsAppliedOneByOne() {
    createTopicAndSubscription();
    jdbc.execute(
        "ALTER TABLE effect ADD CONSTRAINT once UNIQUE (what) DEFERRABLE INITIALLY DEFERRED");
    jdbc.execute("INSERT INTO effect VALUES ('bad')");
    for (int i = 0; i < 40; i++) {
      publish(i == 20 ? "bad" : "event %03d".formatted(i), Map.of("outbox_id", "id-" + i));
    }
    start("consume", "twinbox.consume.max-attempts=2", "twinbox.consume.concurrency=2");

    eventually().until(() -> count("transactional_inbox_dead_letter") == 1 && backlog() == 0);
    assertThat(effects()).hasSize(40).doesNotHaveDuplicates();
  }

  @Test
  void batchThatMeetsALockItDoesNotGetGoesOnOneByOne() throws Exception {
    createTopicAndSubscription();
    jdbc.execute("ALTER TABLE effect ADD COLUMN tx bigint DEFAULT txid_current()");
    jdbc.execute("CREATE TABLE account (id text PRIMARY KEY, n int NOT NULL)");
    jdbc.execute(
        "INSERT INTO account VALUES ('first', 0), ('a', 0), ('b', 0), ('c', 0), ('d', 0), ('e', 0)");
    topicFile(
        "post.sql",
        """
        -- Every event touches its own row.
        WITH touched AS (
          UPDATE account SET n = n + 1 WHERE id = convert_from(:#${body}, 'UTF8') RETURNING id)
        INSERT INTO effect (what) SELECT id FROM touched
        """);
    try (Connection gate = connection();
        Connection holder = connection()) {
      lockAccount(gate, "first");
      lockAccount(holder, "c");
      // The first message waits alone, until those behind it are here to make one batch.
      start("consume", "twinbox.consume.concurrency=1", "twinbox.consume.lock-timeout=4s");
      publish("first", Map.of("outbox_id", "first"));
      awaitBlockedSessions(1);
      for (String id : List.of("a", "b", "c", "d", "e")) {
        publish(id, Map.of("outbox_id", id));
      }
      eventually().until(() -> pubSub.stats().snapshot().delivered() >= 6);
      gate.rollback();

      eventually().until(() -> effects().containsAll(List.of("a", "b", "d", "e")));
      assertThat(effects()).doesNotContain("c");
      assertThat(transactionsOf("a", "b")).hasSize(1);
      assertThat(transactionsOf("d", "e")).hasSize(2);
      holder.rollback();
    }

    eventually().until(() -> count("effect") == 6 && backlog() == 0);
    assertThat(effects()).doesNotHaveDuplicates();
    assertThat(count("transactional_inbox_failure")).isZero();
  }

  /** Two processes that get the same messages the other way round would deadlock. */
  @Test
  void messagesOfABatchGoByTheirKeys() throws Exception {
    createTopicAndSubscription();
    jdbc.execute("ALTER TABLE effect ADD COLUMN tx bigint DEFAULT txid_current()");
    jdbc.execute("ALTER TABLE effect ADD COLUMN seq bigint GENERATED ALWAYS AS IDENTITY");
    jdbc.execute("CREATE TABLE account (id text PRIMARY KEY)");
    jdbc.execute("INSERT INTO account VALUES ('first')");
    topicFile(
        "post.sql",
        """
        -- The first waits for its account.
        WITH waited AS MATERIALIZED (
          SELECT FROM account WHERE id = convert_from(:#${body}, 'UTF8') FOR UPDATE)
        INSERT INTO effect (what)
        SELECT convert_from(:#${body}, 'UTF8') FROM (SELECT count(*) FROM waited) AS w
        """);
    try (Connection gate = connection()) {
      lockAccount(gate, "first");
      start("consume", "twinbox.consume.concurrency=1", "twinbox.consume.lock-timeout=60s");
      publish("first", Map.of("outbox_id", "first"));
      awaitBlockedSessions(1);
      for (String id : List.of("d", "b", "e", "a", "c")) {
        publish(id, Map.of("outbox_id", id));
      }
      eventually().until(() -> pubSub.stats().snapshot().delivered() >= 6);
      gate.rollback();
      eventually().until(() -> count("effect") == 6 && backlog() == 0);
    }

    assertThat(transactionsOf("a", "b", "c", "d", "e")).hasSize(1);
    assertThat(jdbc.queryForList("SELECT what FROM effect ORDER BY seq", String.class))
        .containsExactly("first", "a", "b", "c", "d", "e");
  }

  private void lockAccount(Connection connection, String id) throws SQLException {
    connection.setAutoCommit(false);
    try (PreparedStatement lock =
        connection.prepareStatement("SELECT FROM account WHERE id = ? FOR UPDATE")) {
      lock.setString(1, id);
      lock.execute();
    }
  }

  private List<Long> transactionsOf(String... events) {
    return jdbc.queryForList(
        "SELECT DISTINCT tx FROM effect WHERE what = ANY (string_to_array(?, ','))",
        Long.class,
        String.join(",", events));
  }

  @Test
  void handlersThatDeadlockDoNotBringTheBatchesToAStandstill() throws IOException {
    createTopicAndSubscription();
    jdbc.execute("CREATE TABLE account (id int PRIMARY KEY, n int NOT NULL)");
    jdbc.execute("INSERT INTO account SELECT i, 0 FROM generate_series(0, 4) i");
    jdbc.execute("ALTER DATABASE " + database() + " SET deadlock_timeout = '50ms'");
    topicFile(
        "post.sql",
        """
        -- Every event touches one of a few rows, in an order that has nothing to do with the keys.
        WITH touched AS (
          UPDATE account SET n = n + 1 WHERE id = abs(hashtext(convert_from(:#${body}, 'UTF8'))) % 5 RETURNING id)
        INSERT INTO effect (what) SELECT convert_from(:#${body}, 'UTF8') FROM touched
        """);
    for (int i = 0; i < 300; i++) {
      publish("event %03d".formatted(i), Map.of("outbox_id", "id-" + i));
    }
    start("consume", "twinbox.consume.concurrency=4");
    start("consume", "twinbox.consume.concurrency=4");

    eventually().until(() -> count("effect") == 300 && backlog() == 0);
    assertThat(effects()).doesNotHaveDuplicates();
    assertThat(jdbc.queryForObject("SELECT sum(n) FROM account", Long.class)).isEqualTo(300);
    assertThat(count("transactional_inbox_dead_letter")).isZero();
  }

  @Test
  void batchThatDoesNotCommitIsAppliedOneByOne() throws IOException {
    createTopicAndSubscription();
    // Fails at commit, when nobody can tell which message it was.
    jdbc.execute(
        """
        CREATE FUNCTION refuse_bad() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
          IF NEW.what = 'bad' THEN
            RAISE EXCEPTION 'refused at commit';
          END IF;
          RETURN NULL;
        END $$
        """);
    jdbc.execute(
        "CREATE CONSTRAINT TRIGGER refuse_bad AFTER INSERT ON effect DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse_bad()");
    for (int i = 0; i < 40; i++) {
      publish(i == 20 ? "bad" : "event %03d".formatted(i), Map.of("outbox_id", "id-" + i));
    }
    start("consume", "twinbox.consume.max-attempts=2");

    eventually().until(() -> count("transactional_inbox_dead_letter") == 1 && backlog() == 0);
    assertThat(effects()).hasSize(39).doesNotContain("bad").doesNotHaveDuplicates();
    assertThat(count("transactional_inbox")).isEqualTo(39);
  }
}
