package io.twinbox.promises;

import static org.assertj.core.api.Assertions.assertThat;

import io.twinbox.local.LocalPostgres;
import java.io.IOException;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.Statement;
import java.util.Map;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.TimeUnit;
import org.apache.camel.CamelContext;
import org.apache.camel.spi.RouteController;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.springframework.context.ConfigurableApplicationContext;

/** The consume route stopped and started while the process runs on, as by JMX and Hawtio. */
class ConsumeStopTest extends PromiseTest {

  private static RouteController routes(ConfigurableApplicationContext twinbox) {
    return twinbox.getBean(CamelContext.class).getRouteController();
  }

  private interface RouteOperation {
    void on(RouteController routes) throws Exception;
  }

  private static CompletableFuture<Void> run(
      ConfigurableApplicationContext twinbox, RouteOperation operation) {
    return CompletableFuture.runAsync(
        () -> {
          try {
            operation.on(routes(twinbox));
          } catch (Exception e) {
            throw new IllegalStateException(e);
          }
        });
  }

  private void gatedHandler() throws IOException {
    jdbc.execute("CREATE TABLE gate (id int PRIMARY KEY)");
    jdbc.execute(
        "ALTER TABLE effect ADD COLUMN pod text DEFAULT current_setting('application_name')");
    topicFile(
        "post.sql",
        """
        -- The first two events wait for whoever holds the gate.
        WITH passed AS (
          INSERT INTO gate (id)
          SELECT 1 WHERE convert_from(:#${body}, 'UTF8') IN ('event 000', 'event 001')
          ON CONFLICT DO NOTHING)
        INSERT INTO effect (what) VALUES (convert_from(:#${body}, 'UTF8'))
        """);
  }

  @ParameterizedTest
  @CsvSource({"stop, 1", "suspend, 1", "stop, 20"})
  void stoppedRouteGivesBackWhatHasNotBegunAndFinishesWhatHas(String how, int batchSize)
      throws Exception {
    createTopicAndSubscription();
    gatedHandler();
    int events = 200;
    for (int i = 0; i < events; i++) {
      publish("event %03d".formatted(i), Map.of("outbox_id", "id-%03d".formatted(i)));
    }
    ConfigurableApplicationContext first;
    CompletableFuture<Void> stopping;
    try (Connection holder =
            DriverManager.getConnection(databaseUrl, LocalPostgres.USER, LocalPostgres.PASSWORD);
        Statement gate = holder.createStatement()) {
      holder.setAutoCommit(false);
      gate.execute("INSERT INTO gate (id) VALUES (1)");
      first =
          start(
              "consume",
              "twinbox.consume.batch-size=" + batchSize,
              // One at a time: it has all leased, and is held by the first.
              "twinbox.consume.concurrency=1",
              "spring.datasource.hikari.data-source-properties.ApplicationName=first");
      awaitBlockedSessions(1);
      eventually().until(() -> pubSub.stats().deliveries() == events);

      stopping =
          run(
              first,
              how.equals("stop") ? r -> r.stopRoute("consume") : r -> r.suspendRoute("consume"));

      // Another pod has the others at once: no lease has to end first.
      start("consume", "spring.datasource.hikari.data-source-properties.ApplicationName=second");
      eventually().until(() -> count("effect") >= events - 2);
      assertThat(count("effect")).isEqualTo(events - 2);
      assertThat(stopping).isNotDone();
      holder.rollback();
    }
    stopping.get(60, TimeUnit.SECONDS);

    eventually().until(() -> backlog() == 0);
    assertThat(effects()).hasSize(events).doesNotHaveDuplicates();
    assertThat(pubSub.stats().expiredLeases()).as("messages held back for a lease").isZero();
    assertThat(jdbc.queryForList("SELECT what FROM effect WHERE pod = 'first'", String.class))
        .as("begun before the stop")
        .containsExactly("event 000");

    // What was suspended is resumed by the same operation that starts what was stopped.
    stop(running().get(1));
    publish("afterwards", Map.of("outbox_id", "afterwards"));
    assertThat(effects()).doesNotContain("afterwards");
    run(first, how.equals("stop") ? r -> r.startRoute("consume") : r -> r.resumeRoute("consume"))
        .get(60, TimeUnit.SECONDS);
    eventually().until(() -> effects().contains("afterwards") && backlog() == 0);
    assertThat(pubSub.stats().expiredLeases()).isZero();
  }

  @Test
  void routeThatIsStoppedAndStartedAgainAndAgainLeavesNothingBehind() throws Exception {
    createTopicAndSubscription();
    ConfigurableApplicationContext twinbox = start("consume", "twinbox.consume.concurrency=4");
    int threads = 0;
    for (int turn = 1; turn <= 50; turn++) {
      // At once: a stop finds its reader not yet made, starting, or reading.
      routes(twinbox).stopRoute("consume");
      routes(twinbox).startRoute("consume");
      if (turn % 10 == 0) {
        publish("event %03d".formatted(turn), Map.of("outbox_id", "id-" + turn));
        long applied = turn / 10;
        eventually().until(() -> count("effect") == applied && backlog() == 0);
        if (turn == 10) {
          threads = Thread.getAllStackTraces().size();
        }
      }
    }

    int before = threads;
    // Each turn left several behind if any: a reader has a dozen threads.
    eventually().until(() -> Thread.getAllStackTraces().size() < before + 20);
    assertThat(pubSub.stats().deliveries()).as("read by one, once").isEqualTo(5);
  }
}
