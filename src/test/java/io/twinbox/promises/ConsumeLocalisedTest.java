package io.twinbox.promises;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.twinbox.local.LocalPostgres;
import io.twinbox.process.DebianPostgres;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.Statement;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicReference;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/**
 * What the database says is for people, in their language; consume decides by SQLSTATEs. The server
 * is Debian's, told to speak German; where there is none, it is the embedded one.
 */
class ConsumeLocalisedTest extends PromiseTest {

  private String user = LocalPostgres.USER;
  private String password = LocalPostgres.PASSWORD;

  private static boolean germanIsInstalled() {
    try (Stream<Path> catalogs = Files.list(Path.of("/usr/share/locale/de/LC_MESSAGES"))) {
      return catalogs.anyMatch(file -> file.getFileName().toString().startsWith("postgres-"));
    } catch (IOException e) {
      return false;
    }
  }

  @Test
  void noDecisionDependsOnWhatTheServerSaysInWords() throws Exception {
    // Not lc_messages=de_DE: a C.UTF-8 that is asked for another language needs no such locale.
    Optional<DebianPostgres> server = DebianPostgres.start(Map.of("LANGUAGE", "de"));
    try (AutoCloseable closing = server.<AutoCloseable>map(s -> s).orElse(() -> {})) {
      if (server.isPresent()) {
        user = DebianPostgres.USER;
        password = DebianPostgres.PASSWORD;
        databaseUrl = DebianPostgres.createDatabase(server.get().url(), user, password);
        prepareDatabase(user, password);
      } else {
        System.out.println("No PostgreSQL of Debian's was found: the embedded one speaks English.");
      }
      if (server.isPresent() && germanIsInstalled()) {
        assertThatThrownBy(() -> jdbc.execute("SELECT 1 / 0"))
            .hasMessageContaining("Division durch Null");
      } else {
        System.out.println("PostgreSQL's German messages were not found: it speaks English.");
      }
      decidesBySqlStates();
      stopAll();
    }
  }

  private void decidesBySqlStates() throws Exception {
    createTopicAndSubscription();
    jdbc.execute("CREATE TABLE gate (id int PRIMARY KEY)");
    jdbc.execute("INSERT INTO gate VALUES (1)");
    jdbc.execute(
        """
        CREATE FUNCTION handle(event text) RETURNS void LANGUAGE plpgsql AS $$
        BEGIN
          INSERT INTO effect (what) VALUES (event);
          IF event = 'own fault' THEN
            PERFORM 1 / 0;
          ELSIF event = 'own fault, words of trouble' THEN
            RAISE EXCEPTION 'canceling statement due to lock timeout: deadlock detected, terminating connection'
              USING ERRCODE = '22023';
          ELSIF event = 'locked' THEN
            PERFORM FROM gate FOR UPDATE;
          END IF;
        END $$
        """);
    topicFile(
        "post.sql",
        """
        -- Posts, and fails by what the event says.
        SELECT handle(convert_from(:#${body}, 'UTF8'))
        """);
    AtomicReference<String> german = new AtomicReference<>();
    try (Connection holder = DriverManager.getConnection(databaseUrl, user, password);
        Statement statement = holder.createStatement()) {
      holder.setAutoCommit(false);
      statement.execute("SELECT FROM gate FOR UPDATE");
      start(
          "consume",
          "spring.datasource.url=" + databaseUrl,
          "spring.datasource.username=" + user,
          "spring.datasource.password=" + password,
          "twinbox.consume.max-attempts=2",
          "twinbox.consume.lock-timeout=500ms");
      publish("locked", Map.of("outbox_id", "locked"));
      // More often than it could fail by its own fault.
      eventually().until(() -> pubSub.stats().nacks() >= 3);
      assertThat(count("transactional_inbox_failure")).isZero();
      holder.rollback();
    }
    eventually().until(() -> effects().contains("locked") && backlog() == 0);

    for (String event : new String[] {"fine", "own fault", "own fault, words of trouble"}) {
      publish(event, Map.of("outbox_id", event));
      publish(event, Map.of("outbox_id", event));
    }
    eventually().until(() -> count("transactional_inbox_dead_letter") == 2 && backlog() == 0);
    publish("fine", Map.of("outbox_id", "fine"));
    eventually().until(() -> backlog() == 0);
    assertThat(effects()).containsExactly("fine", "locked");
    assertThatThrownBy(() -> jdbc.execute("SELECT 1 / 0"))
        .rootCause()
        .satisfies(failure -> german.set(failure.getMessage().lines().findFirst().orElseThrow()));
    assertThat(
            jdbc.queryForObject(
                "SELECT reason FROM transactional_inbox_dead_letter WHERE idempotency_key = 'own fault'",
                String.class))
        .contains(german.get());
  }
}
