package io.twinbox.operate;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.grpc.Status;
import io.twinbox.local.LocalPostgres;
import java.io.File;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.Arrays;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.Test;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.jdbc.datasource.DriverManagerDataSource;
import org.yaml.snakeyaml.Yaml;

/**
 * Every alert fires in its situation and not before it. Each situation is a real one, over two
 * scrapes; the expression is read by {@link AlertExpression} and, where promtool is found, by
 * Prometheus itself.
 */
class AlertsTest extends ServingTest {

  private static final Path RULES = Path.of("k8s/alerts/rules.yaml");
  private static final String OPEN = "twinbox.operate.metrics-open=true";
  private static final Set<String> FIRED = new TreeSet<>();

  /** Every rule by its alert's name. */
  @SuppressWarnings("unchecked")
  private static Map<String, Map<String, Object>> rules() throws IOException {
    Map<String, Object> file = new Yaml().load(Files.readString(RULES));
    Map<String, Map<String, Object>> rules = new LinkedHashMap<>();
    Map<String, Object> spec = (Map<String, Object>) file.get("spec");
    for (Map<String, Object> group : (Iterable<Map<String, Object>>) spec.get("groups")) {
      for (Map<String, Object> rule : (Iterable<Map<String, Object>>) group.get("rules")) {
        rules.put((String) rule.get("alert"), rule);
      }
    }
    return rules;
  }

  private static boolean fires(String alert, Scrape before, Scrape after) throws IOException {
    String expression = (String) rules().get(alert).get("expr");
    return !AlertExpression.firing(expression, before, after).isEmpty();
  }

  /** Waits for it to fire; it must not have fired before. */
  private void becomesTrue(String alert, Scrape start, Scrape before) throws IOException {
    assertThat(fires(alert, start, before)).as(alert + " before").isFalse();
    Scrape[] after = new Scrape[1];
    eventually()
        .until(
            () -> {
              after[0] = scrape();
              return fires(alert, before, after[0]);
            });
    if (promtool() != null) {
      assertThat(prometheusSays(alert, before, after[0])).as("Prometheus on " + alert).isTrue();
      assertThat(prometheusSays(alert, before, before)).as("Prometheus before " + alert).isFalse();
    }
    FIRED.add(alert);
  }

  private static Path promtool() {
    return Arrays.stream(System.getenv("PATH").split(File.pathSeparator))
        .map(folder -> Path.of(folder, "promtool"))
        .filter(Files::isExecutable)
        .findFirst()
        .orElse(null);
  }

  /** Fifteen minutes of one scrape, then fifteen of the other, by Prometheus' own engine. */
  private boolean prometheusSays(String alert, Scrape before, Scrape after) throws IOException {
    ObjectMapper json = new ObjectMapper();
    Path rules = topicDir.resolve("rules.json");
    Map<String, Object> rule = rules().get(alert);
    Files.writeString(
        rules,
        json.writeValueAsString(
            Map.of(
                "groups",
                java.util.List.of(Map.of("name", "one", "rules", java.util.List.of(rule))))));
    Map<Scrape.Series, String> values = new LinkedHashMap<>();
    for (Map.Entry<Scrape.Series, Double> sample : before.samples().entrySet()) {
      if (sample.getKey().name().startsWith("twinbox_")) {
        values.put(sample.getKey(), "%sx15".formatted(number(sample.getValue()) + "+0"));
      }
    }
    for (Map.Entry<Scrape.Series, Double> sample : after.samples().entrySet()) {
      if (sample.getKey().name().startsWith("twinbox_")) {
        values.merge(
            sample.getKey(),
            "%s+0x15".formatted(number(sample.getValue())),
            (first, second) -> first + " " + second);
        values.computeIfPresent(
            sample.getKey(), (series, text) -> text.contains(" ") ? text : "_x15 " + text);
      }
    }
    Duration wait = wait((String) rule.get("for"));
    Map<String, Object> test = new TreeMap<>();
    test.put("interval", "1m");
    test.put(
        "input_series",
        values.entrySet().stream()
            .map(e -> Map.of("series", e.getKey().text(), "values", e.getValue()))
            .toList());
    // Nothing is expected: promtool fails, and shows what it got, when the alert fires.
    test.put(
        "alert_rule_test",
        java.util.List.of(
            Map.of(
                "eval_time",
                (18 + wait.toMinutes()) + "m",
                "alertname",
                alert,
                "exp_alerts",
                java.util.List.of())));
    Path file = topicDir.resolve("test.json");
    Files.writeString(
        file,
        json.writeValueAsString(
            Map.of(
                "rule_files", java.util.List.of(rules.toString()),
                "evaluation_interval", "1m",
                "tests", java.util.List.of(test))));
    Output output = run(promtool().toString(), "test", "rules", file.toString());
    assertThat(output.text()).containsAnyOf("SUCCESS", "alertname=\"" + alert + "\"");
    return output.code() != 0;
  }

  private static String number(double value) {
    return Double.isNaN(value) ? "0" : new java.math.BigDecimal(value).toPlainString();
  }

  private static Duration wait(String text) {
    int number = Integer.parseInt(text.replaceAll("[a-z]", ""));
    return text.endsWith("m") ? Duration.ofMinutes(number) : Duration.ofHours(number);
  }

  private record Output(int code, String text) {}

  private static Output run(String... command) throws IOException {
    Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
    String text = new String(process.getInputStream().readAllBytes(), StandardCharsets.UTF_8);
    try {
      assertThat(process.waitFor(60, TimeUnit.SECONDS)).isTrue();
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new AssertionError(e);
    }
    return new Output(process.exitValue(), text);
  }

  @AfterAll
  static void everyAlertHasFired() throws IOException {
    assertThat(FIRED).isEqualTo(new TreeSet<>(rules().keySet()));
  }

  @Test
  void prometheusTakesTheRules() throws IOException {
    if (promtool() == null) {
      System.out.println(
          "SKIPPED on promtool: check of the alert rules by Prometheus itself (promtool is not on the path)");
    }
    assumeTrue(promtool() != null, "promtool is not on the path");
    Path file = topicDir.resolve("all.json");
    Files.writeString(
        file,
        new ObjectMapper()
            .writeValueAsString(
                ((Map<?, ?>) new Yaml().load(Files.readString(RULES))).get("spec")));
    Output output = run(promtool().toString(), "check", "rules", file.toString());
    assertThat(output.code()).as(output.text()).isZero();
    assertThat(output.text()).contains(rules().size() + " rules found");
  }

  @Test
  void everyAlertHasItsSectionInTheRunbook() throws IOException {
    String runbook = Files.readString(Path.of("docs/runbook.md"));
    for (Map.Entry<String, Map<String, Object>> rule : rules().entrySet()) {
      int start = runbook.indexOf("\n### " + rule.getKey() + "\n");
      assertThat(start).as(rule.getKey()).isPositive();
      String section = runbook.substring(start, runbook.indexOf("\n###", start + 5));
      assertThat(section).as(rule.getKey()).contains("Means:", "Look:", "Do:");
      assertThat(((Map<?, ?>) rule.getValue().get("annotations")).get("runbook"))
          .isEqualTo("docs/runbook.md#" + rule.getKey().toLowerCase(java.util.Locale.ROOT));
    }
  }

  /** One rule serves every topic of the namespace, so its alerts are told apart by their labels. */
  @Test
  void everyAlertSaysWhoseItIs() throws IOException {
    for (Map.Entry<String, Map<String, Object>> rule : rules().entrySet()) {
      String expression = (String) rule.getValue().get("expr");
      java.util.regex.Matcher by =
          java.util.regex.Pattern.compile("(?:max|sum) by \\(([a-z, ]+)\\)").matcher(expression);
      int grouped = 0;
      while (by.find()) {
        grouped++;
        assertThat(by.group(1).split(", "))
            .as(rule.getKey())
            .containsAnyOf("topic", "consumer", "job", "table");
        String summary = (String) ((Map<?, ?>) rule.getValue().get("annotations")).get("summary");
        assertThat(Arrays.stream(by.group(1).split(", ")).map(l -> "$labels." + l + " "))
            .as(rule.getKey() + ": " + summary)
            .anyMatch(summary::contains);
      }
      assertThat(grouped).as(expression).isPositive();
    }
  }

  @Test
  void dashboardAndRulesAskOnlyForMetricsThatThereAre() throws IOException {
    String document = Files.readString(Path.of("docs/metrics.md"));
    JsonNode dashboard =
        new ObjectMapper().readTree(Path.of("k8s/dashboards/twinbox.json").toFile());
    assertThat(dashboard.findValuesAsText("expr")).hasSizeGreaterThan(12);
    String all = dashboard.findValuesAsText("expr") + Files.readString(RULES);
    java.util.regex.Matcher name = java.util.regex.Pattern.compile("twinbox_[a-z_]+").matcher(all);
    while (name.find()) {
      String family = name.group().replaceAll("_(bucket|sum|count)$", "");
      assertThat(document).contains("| `" + family + "` |");
    }
  }

  @Test
  void alertsOfTheOutboxFire() throws IOException {
    createTopicAndSubscription();
    ConfigurableApplicationContext context = serve("dispatch", OPEN);
    put("one");
    eventually().until(() -> published().size() == 1);
    awaitLook(context);
    Scrape start = scrape();
    put("two");
    eventually().until(() -> published().size() == 2);
    awaitLook(context);
    Scrape before = scrape();

    jdbc.queryForObject("SELECT outbox_put('orphans', 'x')", Object.class);
    jdbc.update(
        "UPDATE pubsub_outbox_due SET next_retry_at = now() - interval '10 minutes' WHERE topic_name = 'orphans'");
    becomesTrue("TwinboxOutboxOld", start, before);

    jdbc.update("UPDATE pubsub_outbox_due SET dead_at = now() WHERE topic_name = 'orphans'");
    becomesTrue("TwinboxOutboxDead", start, before);

    jdbc.execute("ALTER TABLE pubsub_outbox_due SET (autovacuum_enabled = false)");
    jdbc.update(
        """
        INSERT INTO pubsub_outbox_due (seq, topic_name, payload_bytes, next_retry_at)
        SELECT -n, 'orphans', 0, now() + interval '1 day' FROM generate_series(1, 210000) AS n
        """);
    jdbc.update("DELETE FROM pubsub_outbox_due WHERE seq < 0");
    becomesTrue("TwinboxDeadRows", start, before);

    jdbc.update(
        "INSERT INTO pubsub_outbox (topic_name, payload, created_at) VALUES (?, 'late', now() - interval '2 hours')",
        TOPIC);
    becomesTrue("TwinboxPublishLate", start, before);

    try (var refused = pubSub.faults().failPublishWhen(m -> true, Status.NOT_FOUND)) {
      put("three");
      becomesTrue("TwinboxTopicRefuses", start, before);
    }

    jdbc.execute(
        """
        CREATE FUNCTION slow() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(2); RETURN NULL; END';
        CREATE TRIGGER slow BEFORE UPDATE ON pubsub_outbox_due EXECUTE FUNCTION slow()
        """);
    Scrape now = scrape();
    becomesTrue("TwinboxClaimSlow", before, now);
  }

  @Test
  void alertsOfTheConsumerFire() throws IOException {
    createTopicAndSubscription();
    ConfigurableApplicationContext context =
        serve("consume", OPEN, "twinbox.consume.max-attempts=1000");
    publish("one", Map.of("outbox_id", "one"));
    eventually().until(() -> count("effect") == 1);
    awaitLook(context);
    Scrape start = scrape();
    Scrape before = scrape();

    publish("keyless", Map.of());
    becomesTrue("TwinboxInboxDead", start, before);

    jdbc.execute("ALTER TABLE effect RENAME TO hidden");
    publish("two", Map.of("outbox_id", "two"));
    becomesTrue("TwinboxHandlerFails", start, before);
    jdbc.execute("ALTER TABLE hidden RENAME TO effect");
    eventually().until(() -> count("effect") == 2);

    pubSub.faults().breakStreams(Status.NOT_FOUND);
    becomesTrue("TwinboxSubscriptionLost", start, before);
  }

  @Test
  void alertOfTheDatabaseFires() throws IOException {
    createTopicAndSubscription();
    ConfigurableApplicationContext context = serve("dispatch", OPEN);
    awaitLook(context);
    Scrape start = scrape();
    Scrape before = scrape();
    String database = databaseUrl.replaceAll("^.*/([^/?]+).*$", "$1");
    JdbcTemplate server =
        new JdbcTemplate(
            new DriverManagerDataSource(
                databaseUrl.replace("/" + database, "/postgres"),
                LocalPostgres.USER,
                LocalPostgres.PASSWORD));
    server.execute("ALTER DATABASE " + database + " ALLOW_CONNECTIONS false");
    server.queryForList(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = ?", database);
    becomesTrue("TwinboxDatabaseAway", start, before);
    assertThat(get("/actuator/health/readiness").statusCode()).isEqualTo(503);
    assertThat(get("/actuator/health/liveness").statusCode())
        .as("no restart cures it")
        .isEqualTo(200);
    server.execute("ALTER DATABASE " + database + " ALLOW_CONNECTIONS true");
    awaitLook(context);
    eventually().until(() -> get("/actuator/health/readiness").statusCode() == 200);
  }

  @Test
  void alertsOfProduceFire() throws IOException {
    createTopicAndSubscription();
    ConfigurableApplicationContext context = serve("maintain", OPEN);
    run("good", "succeeded", "1 minute", 1000);
    awaitLook(context);
    Scrape start = scrape();
    Scrape before = scrape();
    assertThat(before.has("twinbox_source_failing")).isTrue();

    run("bad", "failed", "0 minutes", 0);
    becomesTrue("TwinboxProduceFails", start, before);
    run("dear", "succeeded", "0 minutes", 6_000_000_000_000L);
    becomesTrue("TwinboxProduceDear", start, before);
    jdbc.update(
        "INSERT INTO produce_reject (id, topic_name, source, reason, run_id) VALUES (gen_random_uuid(), 'orders', 'src', 'too large', 'dear')");
    becomesTrue("TwinboxProduceRejects", start, before);
    jdbc.update("UPDATE produce_run SET finished_at = now() - interval '7 hours'");
    becomesTrue("TwinboxProduceOld", start, before);
  }

  private void run(String id, String state, String ago, long billed) {
    jdbc.update(
        """
        INSERT INTO produce_run (run_id, topic_name, source, state, started_at, finished_at, bytes_estimated, bytes_billed)
        VALUES (?, 'orders', 'src', ?, clock_timestamp() - CAST(? AS interval), clock_timestamp(), 1, ?)
        """,
        id,
        state,
        ago,
        billed);
  }

  /** Also what liveness says; the clock of the judgement is put ahead, nothing else. */
  @Test
  void alertOfAStuckStageFiresAndLivenessFails() throws IOException {
    createTopicAndSubscription();
    ConfigurableApplicationContext context = serve("dispatch,consume", OPEN);
    Progress progress = context.getBean(Progress.class);
    publish("one", Map.of("outbox_id", "one"));
    eventually().until(() -> count("effect") == 1);
    awaitLook(context);
    Scrape start = scrape();
    Scrape before = scrape();
    long ahead = Duration.ofHours(3).toNanos();

    // Hours without work are no reason.
    progress.clock(() -> System.nanoTime() + ahead);
    assertThat(progress.stuck()).isEmpty();
    progress.clock(System::nanoTime);
    assertThat(get("/actuator/health/liveness").statusCode()).isEqualTo(200);

    jdbc.execute(
        """
        CREATE FUNCTION hang() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(600); RETURN NULL; END';
        CREATE TRIGGER hang BEFORE INSERT ON effect EXECUTE FUNCTION hang()
        """);
    publish("two", Map.of("outbox_id", "two"));
    eventually().until(() -> scrape().sum("twinbox_consume_in_hand") == 1);
    assertThat(progress.stuck()).isEmpty();
    progress.clock(() -> System.nanoTime() + ahead);
    assertThat(progress.stuck()).singleElement().asString().startsWith("consume: 1 messages");
    becomesTrue("TwinboxStuck", start, before);
    assertThat(get("/actuator/health/liveness").statusCode()).isEqualTo(503);
    assertThat(get("/actuator/health/liveness").body()).isEqualTo("{\"status\":\"DOWN\"}");

    progress.clock(System::nanoTime);
    jdbc.queryForList(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'");
  }

  @Test
  void aStuckDispatcherIsSeen() {
    createTopicAndSubscription();
    ConfigurableApplicationContext context = serve("dispatch", OPEN);
    Progress progress = context.getBean(Progress.class);
    awaitLook(context);
    jdbc.execute(
        """
        CREATE FUNCTION hang() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(600); RETURN NULL; END';
        CREATE TRIGGER hang BEFORE UPDATE ON pubsub_outbox_due EXECUTE FUNCTION hang()
        """);
    put("one");
    awaitSleeping(1);
    awaitLook(context);
    assertThat(progress.stuck()).isEmpty();
    long ahead = Duration.ofHours(3).toNanos();
    progress.clock(() -> System.nanoTime() + ahead);
    // An event that has been due for a second only is no work left undone.
    assertThat(progress.stuck()).isEmpty();
    jdbc.update(
        "INSERT INTO pubsub_outbox_due (seq, topic_name, payload_bytes, next_retry_at) VALUES (-1, ?, 0, now() - interval '1 hour')",
        TOPIC);
    awaitLook(context);
    assertThat(progress.stuck()).isNotEmpty().allSatisfy(s -> assertThat(s).startsWith("dispatch"));
    jdbc.queryForList(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'");
  }

  /** The others go on; what it has to look after would wait for ever. */
  @Test
  void aStuckLookForSuspectsIsSeen() {
    createTopicAndSubscription();
    put("suspect");
    jdbc.execute(
        "UPDATE pubsub_outbox_due SET lock_id = 'pod-7', claim_token = gen_random_uuid(), locked_at = now() - interval '2 hours', next_retry_at = now() - interval '1 hour'");
    jdbc.execute(
        """
        CREATE FUNCTION hang() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN PERFORM pg_sleep(600); RETURN NULL; END';
        CREATE TRIGGER hang BEFORE UPDATE ON pubsub_outbox_due FOR EACH ROW WHEN (NEW.solo) EXECUTE FUNCTION hang()
        """);
    ConfigurableApplicationContext context = serve("dispatch", OPEN);
    Progress progress = context.getBean(Progress.class);
    awaitSleeping(1);
    awaitLook(context);
    long ahead = Duration.ofHours(3).toNanos();
    progress.clock(() -> System.nanoTime() + ahead);
    eventually()
        .untilAsserted(
            () ->
                assertThat(progress.stuck())
                    .singleElement()
                    .asString()
                    .startsWith("dispatch-suspects: 1 events are due"));
    assertThat(get("/actuator/health/liveness").statusCode()).isEqualTo(503);
    jdbc.queryForList(
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'");
  }

  private void awaitSleeping(int sessions) {
    eventually()
        .until(
            () ->
                jdbc.queryForObject(
                        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event = 'PgSleep'",
                        Integer.class)
                    >= sessions);
  }
}
