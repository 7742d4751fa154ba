package io.twinbox.operate;

import static org.assertj.core.api.Assertions.assertThat;

import io.grpc.Status;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.junit.jupiter.api.Test;
import org.springframework.context.ConfigurableApplicationContext;

/** docs/metrics.md and what is scraped are the same, and the figures are right. */
class MetricsTest extends ServingTest {

  private static final String OPEN = "twinbox.operate.metrics-open=true";

  private static Set<String> documented() throws IOException {
    Set<String> names = new TreeSet<>();
    Matcher row =
        Pattern.compile("(?m)^\\| `((?:twinbox|camel)_[a-z_]+)` \\|")
            .matcher(Files.readString(Path.of("docs/metrics.md")));
    while (row.find()) {
      names.add(row.group(1));
    }
    return names;
  }

  @Test
  void everyDocumentedMetricIsScrapedAndEveryScrapedOneDocumented() throws Exception {
    createTopicAndSubscription();
    topicFile(
        "query.sql",
        """
        -- Never run here.
        SELECT event_key, payload, updated_at AS watermark FROM shop.orders WHERE updated_at >= @watermark
        """);
    ConfigurableApplicationContext context =
        serve(
            "dispatch,consume,maintain,produce",
            OPEN,
            "bigquery.emulator.host=127.0.0.1:1",
            "twinbox.produce.schedule=0 0 0 1 1 *",
            "twinbox.produce.first-watermark=2026-01-01T00:00:00Z");
    put("one");
    put("elsewhere", "{}", "held");
    jdbc.update(
        "INSERT INTO produce_watermark (topic_name, source, type, value) VALUES ('orders', 'orders-source', 'TIMESTAMP', '2026-01-01T00:00:00Z')");
    jdbc.update(
        "INSERT INTO produce_run (run_id, topic_name, source, state, finished_at, bytes_estimated) VALUES ('r', 'orders', 'orders-source', 'succeeded', now(), 1)");
    backfillOfTwoSteps();
    jdbc.queryForObject("SELECT outbox_put('orphans', 'nobody sends it')", Object.class);
    eventually().until(() -> count("effect") == 2);
    awaitLook(context);
    Scrape scrape = scrape();
    Set<String> ours =
        scrape.families().stream()
            .filter(name -> name.startsWith("twinbox_") || name.startsWith("camel_"))
            .collect(Collectors.toCollection(TreeSet::new));
    assertThat(ours).isEqualTo(documented());
  }

  @Test
  void everyLabelValueThatIsScrapedIsDocumented() throws Exception {
    createTopicAndSubscription();
    ConfigurableApplicationContext context = serve("dispatch,consume,maintain", OPEN);
    put("one");
    eventually().until(() -> count("effect") == 1);
    awaitLook(context);
    String document = Files.readString(Path.of("docs/metrics.md"));
    Set<String> free = Set.of("topic", "source", "consumer", "table", "code", "le");
    scrape()
        .samples()
        .keySet()
        .forEach(
            series -> {
              if (series.name().startsWith("twinbox_")) {
                series
                    .labels()
                    .forEach(
                        (label, value) -> {
                          assertThat(document)
                              .contains("`" + (label.equals("le") ? "step" : label) + "`");
                          if (!free.contains(label)) {
                            assertThat(document).as(series.text()).contains("`" + value + "`");
                          }
                        });
              }
            });
  }

  /** Camel's own; a handler's route has them without doing anything for it. */
  @Test
  void routesAreCountedById() throws IOException {
    createTopicAndSubscription();
    topicFile(
        "post.sql",
        """
        -- Fails for one payload.
        INSERT INTO effect (what) VALUES (nullif(convert_from(:#${body}, 'UTF8'), 'bad'))
        """);
    ConfigurableApplicationContext context =
        serve("consume", OPEN, "twinbox.consume.max-attempts=1");
    publish("one", Map.of("outbox_id", "a"));
    publish("two", Map.of("outbox_id", "b"));
    publish("bad", Map.of("outbox_id", "c"));
    eventually().until(() -> count("transactional_inbox_dead_letter") == 1 && backlog() == 0);
    awaitLook(context);
    Scrape scrape = scrape();
    assertThat(scrape.sum("camel_exchanges_total", "routeId", "consume")).isEqualTo(3);
    assertThat(scrape.sum("camel_exchanges_total", "routeId", "apply")).isEqualTo(3);
    assertThat(scrape.sum("camel_exchanges_failed_total", "routeId", "apply")).isEqualTo(1);
    assertThat(scrape.sum("camel_exchanges_failed_total", "routeId", "bury")).isZero();
    assertThat(scrape.sum("camel_route_policy_seconds_count", "routeId", "apply")).isEqualTo(3);
    assertThat(scrape.samples().keySet())
        .filteredOn(series -> series.name().startsWith("camel_"))
        .isNotEmpty()
        .allSatisfy(
            series ->
                assertThat(series.labels().values())
                    .as(series.text())
                    .noneMatch(value -> value.contains(":") || value.contains("/")));
  }

  private void backfillOfTwoSteps() {
    jdbc.update(
        "INSERT INTO produce_backfill (topic_name, source, name, type, from_value, until_value, step) VALUES ('orders', 'orders-source', 'b', 'INT64', '1', '5', '2')");
    jdbc.update(
        "INSERT INTO produce_backfill_step (topic_name, source, name, number, from_value, until_value, done_at, bytes_billed) VALUES ('orders', 'orders-source', 'b', 1, '1', '3', now(), 77), ('orders', 'orders-source', 'b', 2, '3', '5', NULL, NULL)");
  }

  /** A job has ended when it is scraped; dispatch shows what it did. */
  @Test
  void runThatWasAJobOfItsOwnIsShownByTheOtherProcesses() {
    createTopicAndSubscription();
    jdbc.update(
        """
        INSERT INTO produce_run (run_id, topic_name, source, state, started_at, finished_at, bytes_estimated, bytes_billed,
          slot_ms, rows_read, rows_queued, rows_changed, rows_revived, rows_rejected)
        VALUES ('r', 'orders', 'orders-source', 'succeeded', now(), now(), 1, 100, 1500, 10, 7, 1, 0, 2),
               ('s', 'orders', 'orders-source', 'running', now(), NULL, 5, NULL, NULL, 3, 3, 0, 0, 0),
               ('t', 'orders', 'orders-source', 'succeeded', now() - interval '2 days', now() - interval '2 days', 1, 100, 1500, 10, 7, 1, 0, 2)
        """);
    backfillOfTwoSteps();
    ConfigurableApplicationContext context = serve("dispatch", OPEN);
    awaitLook(context);
    Scrape scrape = scrape();
    String[] of = {"topic", "orders", "source", "orders-source"};
    assertThat(scrape.sum("twinbox_source_bytes_today", of)).isEqualTo(105);
    assertThat(scrape.sum("twinbox_source_slot_today_seconds", of)).isEqualTo(1.5);
    assertThat(scrape.sum("twinbox_source_rows_today", "outcome", "read")).isEqualTo(13);
    assertThat(scrape.sum("twinbox_source_rows_today", "outcome", "queued")).isEqualTo(10);
    assertThat(scrape.sum("twinbox_source_rows_today", "outcome", "rejected")).isEqualTo(2);
    assertThat(scrape.sum("twinbox_source_backfill_steps", "state", "done")).isEqualTo(1);
    assertThat(scrape.sum("twinbox_source_backfill_steps", "state", "left")).isEqualTo(1);
    assertThat(scrape.sum("twinbox_source_backfill_bytes", of)).isEqualTo(77);
  }

  @Test
  void dispatchIsCounted() {
    createTopicAndSubscription();
    try (var refused =
        pubSub
            .faults()
            .failPublishWhen(
                m -> m.getData().toStringUtf8().equals("bad"), Status.INVALID_ARGUMENT)) {
      ConfigurableApplicationContext context =
          serve("dispatch", OPEN, "twinbox.dispatch.max-attempts=1");
      for (int i = 0; i < 7; i++) {
        put("good " + i);
      }
      put("ordered", "{}", "key");
      eventually().until(() -> count("pubsub_outbox_published") == 8);
      put("bad");
      put("good at last");
      eventually().until(() -> count("pubsub_outbox_published") == 9);
      awaitLook(context);
      eventually()
          .until(() -> scrape().sum("twinbox_dispatch_events_total", "outcome", "dead") == 1);
      awaitLook(context);
      Scrape scrape = scrape();
      assertThat(scrape.sum("twinbox_dispatch_events_total", "outcome", "published")).isEqualTo(9);
      assertThat(
              scrape.sum(
                  "twinbox_dispatch_failures_total",
                  "class",
                  "message",
                  "code",
                  "INVALID_ARGUMENT"))
          .isEqualTo(1);
      assertThat(scrape.sum("twinbox_dispatch_age_seconds_count")).isEqualTo(9);
      assertThat(scrape.sum("twinbox_dispatch_claim_rows_sum")).isEqualTo(10);
      assertThat(scrape.sum("twinbox_dispatch_batch_fill_sum")).isBetween(10 / 500.0 - 1e-9, 10.0);
      assertThat(
              scrape.sum("twinbox_step_seconds_count", "step", "publish-settle", "outcome", "ok"))
          .isBetween(1.0, 10.0);
      assertThat(scrape.sum("twinbox_outbox_events", "topic", TOPIC, "state", "dead")).isEqualTo(1);
    }
  }

  @Test
  void consumeIsCounted() throws IOException {
    createTopicAndSubscription();
    topicFile(
        "post.sql",
        """
        -- Fails for one payload.
        INSERT INTO effect (what) VALUES (nullif(convert_from(:#${body}, 'UTF8'), 'bad'))
        """);
    ConfigurableApplicationContext context =
        serve("consume", OPEN, "twinbox.consume.max-attempts=2");
    // A time-ordered id of an hour before 2026-11-30T00:00:00Z holds its time.
    publish("one", Map.of("outbox_id", "0195d2a0-0000-7000-8000-000000000001"));
    publish("two", Map.of("outbox_id", "hashed"));
    publish("two", Map.of("outbox_id", "hashed"));
    publish("bad", Map.of("outbox_id", "bad"));
    publish("keyless", Map.of());
    eventually().until(() -> count("transactional_inbox_dead_letter") == 2 && backlog() == 0);
    awaitLook(context);
    Scrape scrape = scrape();
    assertThat(scrape.sum("twinbox_consume_messages_total", "outcome", "applied")).isEqualTo(2);
    assertThat(scrape.sum("twinbox_consume_messages_total", "outcome", "duplicate")).isEqualTo(1);
    assertThat(scrape.sum("twinbox_consume_failures_total", "class", "handler")).isEqualTo(2);
    assertThat(scrape.sum("twinbox_consume_failures_total", "class", "database")).isZero();
    assertThat(scrape.sum("twinbox_consume_dead_letters_total", "cause", "failures")).isEqualTo(1);
    assertThat(scrape.sum("twinbox_consume_dead_letters_total", "cause", "no_key")).isEqualTo(1);
    assertThat(scrape.sum("twinbox_inbox_dead_letters", "consumer", "ledger")).isEqualTo(2);
    assertThat(scrape.sum("twinbox_consume_age_seconds_count")).isEqualTo(2);
    assertThat(scrape.sum("twinbox_consume_event_age_seconds_count")).isEqualTo(1);
    assertThat(scrape.sum("twinbox_consume_event_age_seconds_sum")).isGreaterThan(3600);
    assertThat(scrape.sum("twinbox_consume_in_hand")).isZero();
    assertThat(
            scrape.sum("twinbox_step_seconds_count", "step", "apply-handle", "outcome", "failed"))
        .isEqualTo(2);
  }

  @Test
  void retentionIsCounted() {
    put("old");
    jdbc.update("DELETE FROM pubsub_outbox_due");
    jdbc.update("UPDATE pubsub_outbox SET created_at = now() - interval '60 days'");
    jdbc.update(
        "INSERT INTO pubsub_outbox_published SELECT id, topic_name, now() - interval '60 days', '1', payload_hash FROM pubsub_outbox");
    serve("maintain", OPEN);
    eventually()
        .until(
            () ->
                scrape().sum("twinbox_maintain_deleted_payloads_total", "kind", "published") == 1);
    assertThat(count("pubsub_outbox")).isZero();
  }

  /** A look costs the same however much waits: it stops counting. */
  @Test
  void aLookIsBoundedAndIsNotTakenPerScrape() {
    createTopicAndSubscription();
    jdbc.update(
        """
        INSERT INTO pubsub_outbox_due (seq, topic_name, payload_bytes, next_retry_at)
        SELECT -n, 'orphans', 0, now() - interval '1 hour' FROM generate_series(1, 120000) AS n
        """);
    ConfigurableApplicationContext context =
        serve("dispatch", OPEN, "twinbox.operate.sample-interval=1h");
    DatabaseSampler sampler = context.getBean(DatabaseSampler.class);
    eventually().until(() -> sampler.sample() != null);
    DatabaseSample first = sampler.sample();
    for (int i = 0; i < 20; i++) {
      assertThat(scrape().sum("twinbox_outbox_events", "topic", "orphans", "state", "due"))
          .isEqualTo(100_000);
    }
    assertThat(sampler.sample()).isSameAs(first);
  }
}
