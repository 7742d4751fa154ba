package io.twinbox.process;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.twinbox.local.LocalPostgres;
import io.twinbox.local.bigquery.Faults.Call;
import io.twinbox.local.bigquery.LocalBigQuery;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.List;
import java.util.Random;
import java.util.Set;
import java.util.TreeSet;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/**
 * produce killed at random, again and again, while rows are added and others come late. {@code mvn
 * -Plong test} runs it at full size: 200,000 rows, 12 kills.
 */
class ProduceUnderFireTest {

  private static final Duration PATIENCE = Duration.ofSeconds(300);
  private static final int KILLS = Integer.getInteger("twinbox.fire.kills", 3);
  private static final int ADDED = 500;
  private static final int LATE = 50;
  private static final Instant FIRST = Instant.parse("2026-03-01T00:00:00Z");

  @TempDir Path topic;

  private final int rows = Integer.getInteger("twinbox.fire.rows", 20_000);
  private final long seed = System.nanoTime();
  private final Random random = new Random(seed);
  private final Set<String> keys = new TreeSet<>();
  private LocalBigQuery bigQuery;
  private int next;

  @Test
  void producerThatIsKilledAtRandomQueuesExactlyTheEventsOfItsSource() throws Exception {
    Files.writeString(
        topic.resolve("query.sql"),
        """
        -- All events.
        SELECT event_key, payload, updated_at AS watermark
        FROM shop.events
        WHERE updated_at >= @watermark
        """);
    int killed = 0;
    int finished = 0;
    try (LocalPostgres postgres = LocalPostgres.start();
        LocalBigQuery local = LocalBigQuery.start("local");
        Ledger ledger = Ledger.on(postgres)) {
      bigQuery = local;
      createTable();
      add(rows, 0);
      TwinboxProcess.Launch launch = launch(ledger);
      while (killed < KILLS || finished < 1) {
        // Slow enough to be caught in the act; every third one is let through.
        boolean mayFinish = (killed + finished) % 3 == 2 || killed == KILLS;
        bigQuery.faults().latency(Duration.ofMillis(mayFinish ? 0 : 80));
        try (TwinboxProcess process = launch.start()) {
          if (mayFinish) {
            add(ADDED, LATE);
            assertThat(process.exitCode(PATIENCE)).as(process.output()).isZero();
            finished++;
            add(ADDED, LATE);
            continue;
          }
          long queries = bigQuery.faults().calls(Call.TABLE_DATA);
          int pages = 1 + random.nextInt(8);
          await()
              .atMost(PATIENCE)
              .pollInterval(Duration.ofMillis(5))
              .until(
                  () ->
                      !process.isAlive()
                          || bigQuery.faults().calls(Call.TABLE_DATA) >= queries + pages);
          if (process.isAlive()) {
            killed++;
          }
          process.kill9();
          add(ADDED, LATE);
        }
        await().atMost(PATIENCE).until(() -> ledger.backendsOf("fire") == 0);
      }
      bigQuery.faults().clear();
      // By its command, which runs once whatever the folder's schedule is; its check writes
      // nothing.
      long runs = ledger.count("SELECT count(*) FROM produce_run");
      try (TwinboxProcess check = command(ledger, "produce", "--check")) {
        assertThat(check.exitCode(PATIENCE)).as(check.output()).isZero();
        assertThat(check.output()).contains("\"check\":\"passed\"");
        assertThat(ledger.count("SELECT count(*) FROM produce_run")).isEqualTo(runs);
      }
      try (TwinboxProcess last = command(ledger, "produce")) {
        assertThat(last.exitCode(PATIENCE)).as(last.output()).isZero();
      }

      assertThat(ids(ledger, "SELECT id FROM pubsub_outbox"))
          .as("seed %d", seed)
          .isEqualTo(
              ids(
                  ledger,
                  "SELECT outbox_event_id('events', 'fire', key) FROM unnest(CAST(? AS text[])) AS key"));
      assertThat(ledger.count("SELECT count(*) FROM pubsub_outbox")).isEqualTo(keys.size());
      assertThat(ledger.count("SELECT count(*) FROM pubsub_outbox_due")).isEqualTo(keys.size());
      // More when one was through before it was to be killed.
      assertThat(ledger.count("SELECT count(*) FROM produce_run WHERE state = 'succeeded'"))
          .isGreaterThanOrEqualTo(finished + 1);
      System.out.printf(
          "produce was killed %d times and let through %d times: %d events, each once%n",
          killed, finished + 1, keys.size());
    }
  }

  @Test
  void backfillWhoseProcessesAreKilledAtRandomQueuesExactlyItsWindow() throws Exception {
    Files.writeString(
        topic.resolve("query.sql"),
        """
        -- All events.
        SELECT event_key, payload, updated_at AS watermark
        FROM shop.events
        WHERE updated_at BETWEEN @watermark AND @last
        """);
    int killed = 0;
    try (LocalPostgres postgres = LocalPostgres.start();
        LocalBigQuery local = LocalBigQuery.start("local");
        Ledger ledger = Ledger.on(postgres)) {
      bigQuery = local;
      createTable();
      int window = rows / 4;
      // Behind the window are as many rows again, and those are not the backfill's.
      add(window, 0);
      Set<String> inWindow = new TreeSet<>(keys);
      Instant until = FIRST.plusMillis(next * 100L);
      add(window, 0);
      TwinboxProcess.Launch launch =
          launch(ledger)
              .with("TWINBOX_PRODUCE_BACKFILL_LEASE", "3s")
              .arguments(
                  "backfill",
                  "--from=" + FIRST,
                  "--until=" + until,
                  "--step=" + window * 100L / 9 + "ms");
      bigQuery.faults().latency(Duration.ofMillis(80));
      int kills = Math.max(1, KILLS - 1);
      while (killed < kills) {
        try (TwinboxProcess process = launch.start();
            TwinboxProcess other = launch.start()) {
          long calls = bigQuery.faults().calls(Call.INSERT_JOB);
          int more = 1 + random.nextInt(4);
          await()
              .atMost(PATIENCE)
              .pollInterval(Duration.ofMillis(5))
              .until(
                  () ->
                      !process.isAlive()
                          || bigQuery.faults().calls(Call.INSERT_JOB) >= calls + more);
          killed += process.isAlive() ? 1 : 0;
          process.kill9();
          if (killed == kills) {
            bigQuery.faults().clear();
            assertThat(other.exitCode(PATIENCE)).as(other.output()).isZero();
          } else {
            other.kill9();
          }
        }
        await().atMost(PATIENCE).until(() -> ledger.backendsOf("fire") == 0);
      }

      keys.retainAll(inWindow);
      assertThat(ids(ledger, "SELECT id FROM pubsub_outbox"))
          .as("seed %d", seed)
          .isEqualTo(
              ids(
                  ledger,
                  "SELECT outbox_event_id('events', 'fire', key) FROM unnest(CAST(? AS text[])) AS key"));
      assertThat(ledger.count("SELECT count(*) FROM pubsub_outbox")).isEqualTo(keys.size());
      assertThat(ledger.count("SELECT count(*) FROM produce_watermark")).isZero();
      assertThat(ledger.count("SELECT steps - steps_done FROM produce_backfill_status")).isZero();
      assertThat(ledger.count("SELECT rows_read FROM produce_backfill_status"))
          .isEqualTo(keys.size());
      // Also those that were queued by a process that was then killed.
      assertThat(ledger.count("SELECT rows_queued FROM produce_backfill_status"))
          .isEqualTo(keys.size());
      System.out.printf(
          "a backfill was killed %d times: %d events, each once, in %d runs for %d steps%n",
          killed,
          keys.size(),
          ledger.count("SELECT count(*) FROM produce_run"),
          ledger.count("SELECT steps FROM produce_backfill_status"));
    }
  }

  private void createTable() {
    bigQuery.createTable(
        "shop",
        "events",
        """
        [{"name": "event_key", "type": "STRING"}, {"name": "payload", "type": "STRING"},
         {"name": "updated_at", "type": "TIMESTAMP"}]
        """);
  }

  private TwinboxProcess.Launch launch(Ledger ledger) {
    return TwinboxProcess.classes("fire")
        .with(
            "TWINBOX_ROUTES",
            "produce",
            "TWINBOX_TOPIC_DIR",
            topic.toString(),
            "TWINBOX_SOURCE",
            "fire",
            "TOPIC_NAME",
            "events",
            "GOOGLE_CLOUD_PROJECT",
            "local",
            "BIGQUERY_EMULATOR_HOST",
            bigQuery.url(),
            "TWINBOX_PRODUCE_FIRST_WATERMARK",
            "2026-03-01T00:00:00Z",
            "TWINBOX_PRODUCE_LOOKBACK",
            "1h",
            "TWINBOX_PRODUCE_CHUNK_ROWS",
            "500",
            "TWINBOX_PRODUCE_PAGE_ROWS",
            // Enough pages within the lookback, that a later run can be caught in the act, too.
            String.valueOf(Math.max(1000, Math.min(4000, rows / 20))),
            "SPRING_DATASOURCE_URL",
            ledger.url() + "?ApplicationName=fire",
            "SPRING_DATASOURCE_USERNAME",
            LocalPostgres.USER,
            "SPRING_DATASOURCE_PASSWORD",
            LocalPostgres.PASSWORD);
  }

  private TwinboxProcess command(Ledger ledger, String... arguments) throws Exception {
    return launch(ledger)
        .with("TWINBOX_PRODUCE_SCHEDULE", "0 0 0 29 2 *")
        .arguments(arguments)
        .start();
  }

  /** Rows that are newer than all before, and rows of up to half an hour before the newest. */
  private void add(int newer, int late) {
    List<String> lines = new ArrayList<>();
    for (int i = 0; i < newer + late; i++) {
      boolean isLate = i >= newer;
      String key = (isLate ? "late-" : "new-") + next;
      Instant time =
          isLate
              ? FIRST.plusMillis(next * 100L).minusSeconds(random.nextInt(1800))
              : FIRST.plusMillis(next * 100L);
      if (time.isBefore(FIRST)) {
        time = FIRST;
      }
      next++;
      keys.add(key);
      lines.add(
          "{\"event_key\": \"%s\", \"payload\": \"%s\", \"updated_at\": \"%s\"}"
              .formatted(key, key, time));
    }
    bigQuery.append("shop", "events", lines);
  }

  private Set<String> ids(Ledger ledger, String sql) throws SQLException {
    try (Connection connection = ledger.another();
        PreparedStatement statement = connection.prepareStatement(sql)) {
      if (sql.contains("?")) {
        statement.setArray(1, connection.createArrayOf("text", keys.toArray()));
      }
      try (ResultSet found = statement.executeQuery()) {
        Set<String> ids = new TreeSet<>();
        while (found.next()) {
          ids.add(found.getString(1));
        }
        return ids;
      }
    }
  }
}
