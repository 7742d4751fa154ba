package io.twinbox.promises;

import static org.assertj.core.api.Assertions.assertThat;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.twinbox.command.CommandRun;
import io.twinbox.config.SqlFiles;
import io.twinbox.local.LocalPostgres;
import java.io.File;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.UUID;
import java.util.concurrent.TimeUnit;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import java.util.stream.StreamSupport;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.springframework.boot.ExitCodeGenerator;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.jdbc.core.namedparam.NamedParameterJdbcTemplate;
import org.springframework.jdbc.datasource.DriverManagerDataSource;

/**
 * Every way in which an event can be lost, stuck or too much between BigQuery and a consumer is
 * made, and reconcile names exactly that event; then the repair that it prints is run.
 */
class ReconcileTest extends ProduceTest {

  private static final String FROM = "2026-01-01T00:00:00Z";

  private String[] arguments(String... words) {
    List<String> all = new ArrayList<>(List.of("reconcile", "--from=" + FROM));
    all.addAll(
        List.of(
            "--twinbox.topic-dir=" + topicDir,
            "--topic.name=" + TOPIC,
            "--twinbox.source=orders-source",
            "--twinbox.consumer=ledger",
            "--google.cloud.project=" + PROJECT,
            "--bigquery.emulator.host=" + bigQuery.url(),
            "--twinbox.reconcile.grace=1ms",
            "--twinbox.produce.first-watermark=2020-01-01T00:00:00Z",
            "--spring.datasource.url=" + databaseUrl,
            "--spring.datasource.username=" + LocalPostgres.USER,
            "--spring.datasource.password=" + LocalPostgres.PASSWORD));
    for (String word : words) {
      if (word.contains("=")) {
        all.removeIf(given -> given.startsWith(word.substring(0, word.indexOf('=') + 1)));
      }
      all.add(word);
    }
    return all.toArray(String[]::new);
  }

  private JsonNode reconcile(int exitCode, String... words) throws Exception {
    List<String> all = new ArrayList<>(List.of(words));
    all.add("--json");
    CommandRun run = CommandRun.of(arguments(all.toArray(String[]::new)));
    assertThat(run.exitCode()).as(run.out() + run.err()).isEqualTo(exitCode);
    return new ObjectMapper().readTree(run.out());
  }

  /** The ids (or, without one, keys or letters) of each kind. */
  private static Map<String, List<String>> found(JsonNode report) {
    Map<String, List<String>> found = new TreeMap<>();
    for (JsonNode finding : report.get("findings")) {
      List<String> events = new ArrayList<>();
      for (JsonNode event : finding.get("events")) {
        events.add(
            Stream.of("id", "event_key", "letter")
                .map(event::get)
                .filter(value -> !value.isNull())
                .map(JsonNode::asText)
                .findFirst()
                .orElse("?"));
      }
      assertThat(finding.get("count").asInt()).isEqualTo(events.size());
      found.put(finding.get("kind").asText(), events);
    }
    return found;
  }

  private static List<String> repairs(JsonNode report) {
    return StreamSupport.stream(report.get("findings").spliterator(), false)
        .flatMap(finding -> StreamSupport.stream(finding.get("repair").spliterator(), false))
        .map(JsonNode::asText)
        .toList();
  }

  private String id(String key) {
    return jdbc.queryForObject(
        "SELECT CAST(outbox_event_id('orders', 'orders-source', ?) AS text)", String.class, key);
  }

  private String id(int n) {
    return id("key-" + n);
  }

  /** The rows of BigQuery through all of Twinbox, which then stops. */
  private void flow(int rows) {
    createTopicAndSubscription();
    rows(rows);
    through(rows);
  }

  private void through(int effects) {
    startProduce();
    run();
    ConfigurableApplicationContext rest =
        start("dispatch,consume", "twinbox.consume.replay-interval=20ms");
    eventually().until(() -> count("effect") == effects && count("pubsub_outbox_due") == 0);
    eventually().until(() -> backlog() == 0);
    stop(rest);
  }

  private void unapply(int n) {
    assertThat(jdbc.update("DELETE FROM transactional_inbox WHERE idempotency_key = ?", id(n)))
        .isOne();
    jdbc.update("DELETE FROM effect WHERE what = ?", "payload " + n);
  }

  private void unpublish(int n) {
    unapply(n);
    jdbc.update("DELETE FROM pubsub_outbox_published WHERE id = CAST(? AS uuid)", id(n));
  }

  private void queue(int n, boolean dead) {
    jdbc.update(
        """
        INSERT INTO pubsub_outbox_due (seq, topic_name, payload_bytes, next_retry_at, attempts, last_error, dead_at)
        SELECT seq, topic_name, octet_length(payload), now(), 10, 'refused', CASE WHEN ? THEN now() END
        FROM pubsub_outbox WHERE id = CAST(? AS uuid)
        """,
        dead,
        id(n));
  }

  private void letter(int n) {
    unapply(n);
    jdbc.update(
        """
        INSERT INTO transactional_inbox_dead_letter (consumer, idempotency_key, message_id, payload, attributes, reason, attempts)
        VALUES ('ledger', ?, 'm' || ?, convert_to(?, 'UTF8'), '{}', 'no such account', 10)
        """,
        id(n),
        n,
        "payload " + n);
  }

  @Test
  void whatIsRepairedByThePrintedCommandsReconciles() throws Exception {
    flow(10);
    JsonNode before = reconcile(0);
    assertThat(before.get("reconciled").asBoolean()).isTrue();
    assertThat(before.get("findings")).isEmpty();
    assertThat(before.at("/from_bigquery/applied").asInt()).isEqualTo(10);
    assertThat(CommandRun.of(arguments()).out())
        .contains("Reconciled: BigQuery = outbox = published = applied.");

    unpublish(1);
    queue(1, true);
    unpublish(2);
    unapply(3);
    unapply(4);
    letter(5);
    // Visible only now, and far before where produce has come.
    row("late", "payload late", "2026-02-01T00:00:00Z");
    JsonNode report = reconcile(1);
    assertThat(found(report))
        .isEqualTo(
            Map.of(
                "dead", List.of(id(1)),
                "unqueued", List.of(id(2)),
                "unapplied", all("unapplied", report, id(3), id(4)),
                "letter", List.of(id(5)),
                "missing", List.of(id("late"))));
    assertThat(report.at("/bigquery/events").asInt()).isEqualTo(11);
    assertThat(report.at("/from_bigquery/outbox").asInt()).isEqualTo(10);
    assertThat(report.at("/from_bigquery/published").asInt()).isEqualTo(8);
    assertThat(report.at("/from_bigquery/applied").asInt()).isEqualTo(5);

    assertThat(repairs(report)).hasSize(5);
    for (String repair : repairs(report)) {
      assertThat(repair).startsWith("SELECT * FROM ").endsWith(";");
      jdbc.queryForList(repair);
    }
    assertThat(jdbc.queryForList("SELECT action FROM twinbox_audit ORDER BY 1", String.class))
        .containsExactly(
            "inbox_replay_ids",
            "outbox_replay_ids",
            "outbox_republish_ids",
            "outbox_republish_ids",
            "produce_watermark_set");
    assertThat(found(reconcile(1)).keySet()).containsExactly("coming");
    through(11);
    assertThat(reconcile(0).at("/from_bigquery/applied").asInt()).isEqualTo(11);
  }

  /** Both, in the order in which they were found. */
  private static List<String> all(String kind, JsonNode report, String... ids) {
    List<String> found = found(report).get(kind);
    assertThat(found).containsExactlyInAnyOrder(ids);
    return found;
  }

  @Test
  void whatNobodyCanRepairIsNamed() throws Exception {
    rowWithAttributes("bad", "payload bad", "no json", "2026-03-01T09:00:00Z");
    createTopicAndSubscription();
    rows(10);
    // As if BigQuery had lost its row after it was read.
    UUID gone =
        jdbc.queryForObject(
            "SELECT outbox_put('orders', 'payload gone', event_key => 'gone', source => 'orders-source')",
            UUID.class);
    put("of a service");
    through(12);

    row("key-0", "payload 0 again", "2026-03-01T10:00:00Z");
    appendRow("null, \"payload\": \"no key\"", "2026-03-01T10:00:00Z");
    unapply(1);
    jdbc.update("DELETE FROM pubsub_outbox WHERE id = CAST(? AS uuid)", id(1));
    unpublish(2);
    queue(2, true);
    jdbc.queryForList("SELECT outbox_discard_ids(ARRAY[CAST(? AS uuid)], 'unwanted')", id(2));
    letter(3);
    jdbc.queryForList(
        "SELECT inbox_discard_ids(ARRAY(SELECT id FROM transactional_inbox_dead_letter), 'unwanted')");
    unpublish(4);
    queue(4, false);
    unapply(5);
    jdbc.update(
        "INSERT INTO transactional_inbox_failure (consumer, idempotency_key, last_error) VALUES ('ledger', ?, 'no account')",
        id(5));
    row("new", "payload new", Instant.now().minusSeconds(5).toString());
    String unknown = UUID.randomUUID().toString();
    jdbc.update(
        "INSERT INTO transactional_inbox (consumer, idempotency_key) VALUES ('ledger', ?), ('ledger', 'not ours'), ('other', ?)",
        unknown,
        UUID.randomUUID().toString());
    String keyless =
        jdbc.queryForObject(
            """
            INSERT INTO transactional_inbox_dead_letter (consumer, message_id, payload, attributes, reason, attempts)
            VALUES ('ledger', 'm', '', '{}', 'no key', 1) RETURNING CAST(id AS text)
            """,
            String.class);

    JsonNode report = reconcile(1);
    Map<String, List<String>> expected = new TreeMap<>();
    expected.put("doubled", List.of(id(0)));
    expected.put("no-key", List.of("?"));
    expected.put("coming", all("coming", report, id(4), id(5), id("new")));
    expected.put("rejected", List.of(id("bad")));
    expected.put("payload-gone", List.of(id(1)));
    expected.put("discarded", all("discarded", report, id(2), id(3)));
    expected.put("not-in-bigquery", List.of(gone.toString()));
    expected.put("unknown", List.of(unknown));
    expected.put("letter-without-key", List.of(keyless));
    assertThat(found(report)).isEqualTo(expected);
    assertThat(repairs(report)).isEmpty();
    assertThat(report.at("/others/applied").asInt()).isEqualTo(2);
    assertThat(report.get("notes").toString()).contains("1 keys of the consumer are no ids");
    String table = CommandRun.of(arguments()).out();
    assertThat(table)
        .contains(
            id("bad") + "  key bad  attributes are no JSON",
            "published, failed 1 times so far: no account",
            "DIFFERENT: see above.");

    // One query may be paid for (10 MB at least), and not two: then it is not known.
    assertThat(found(reconcile(1, "--twinbox.produce.max-bytes-billed=15000000")).get("unproven"))
        .containsExactly(gone.toString());

    // BigQuery has it again: then nothing is too much, though a first run would not read that far.
    row("gone", "payload gone", "2019-01-01T00:00:00Z");
    assertThat(found(reconcile(1))).doesNotContainKey("not-in-bigquery");
    JsonNode listed = reconcile(1, "--list=1", "--no-bigquery");
    assertThat(listed.get("bigquery_looked_at").asBoolean()).isFalse();
    for (JsonNode finding : listed.get("findings")) {
      assertThat(finding.get("kind").asText()).isNotIn("doubled", "rejected", "no-key");
      assertThat(finding.get("events")).hasSize(1);
      assertThat(finding.get("truncated").asBoolean()).isEqualTo(finding.get("count").asInt() > 1);
    }
  }

  /** Pub/Sub took it, and the outbox does not know: nothing is lost, and the sides differ. */
  @Test
  void whatIsAppliedAndNotPublishedIsNamedAndRepaired() throws Exception {
    queuedAndSent(4);
    for (int n : List.of(0, 1, 2, 3)) {
      jdbc.update("DELETE FROM pubsub_outbox_published WHERE id = CAST(? AS uuid)", id(n));
    }
    queue(1, true);
    queue(2, false);
    queue(3, true);
    jdbc.queryForList("SELECT outbox_discard_ids(ARRAY[CAST(? AS uuid)], 'unwanted')", id(3));
    JsonNode report = reconcile(1);
    assertThat(found(report))
        .isEqualTo(
            Map.of(
                "unqueued", List.of(id(0)),
                "dead", List.of(id(1)),
                "coming", List.of(id(2)),
                "discarded", List.of(id(3))));
    assertThat(report.at("/from_bigquery/applied").asInt()).isEqualTo(4);
    assertThat(report.at("/from_bigquery/published").asInt()).isZero();
    assertThat(CommandRun.of(arguments()).out())
        .contains("applied all the same; refused", "applied all the same; queued, failed 10 times");
    repairs(report).forEach(jdbc::queryForList);
    sent();
    assertThat(found(reconcile(0)).keySet()).containsExactly("discarded");
  }

  @Test
  void whatWasPublishedLatelyIsOnItsWay() throws Exception {
    queuedAndSent(2);
    unapply(1);
    assertThat(found(reconcile(1, "--twinbox.reconcile.grace=1h")))
        .isEqualTo(Map.of("coming", List.of(id(1))));
    assertThat(found(reconcile(1))).isEqualTo(Map.of("unapplied", List.of(id(1))));
  }

  @Test
  void changedPayloadsAreNamedAsFarAsTheyAreKnown() throws Exception {
    queuedAndSent(4);
    String put = "SELECT outbox_put('orders', ?, event_key => 'service-key', source => 'billing')";
    UUID ofService = jdbc.queryForObject(put, UUID.class, "first");
    jdbc.queryForObject(put, UUID.class, "changed");
    sent();
    assertThat(found(reconcile(0))).isEqualTo(Map.of("changed", List.of(ofService.toString())));

    // Changed and read again: produce has seen it.
    topicFile("query.sql", changing(1));
    run();
    JsonNode report = reconcile(0);
    assertThat(found(report).get("changed")).containsExactlyInAnyOrder(ofService.toString(), id(1));
    assertThat(repairs(report)).isEmpty();
    assertThat(CommandRun.of(arguments()).out())
        .contains("published = applied. 2 changed later under their keys (see above).");

    // Changed where produce no longer looks: only the payloads themselves tell, kept or not.
    topicFile("query.sql", changing(2));
    assertThat(found(reconcile(0)).get("changed")).doesNotContain(id(2));
    Map<String, List<String>> compared =
        Map.of("payload-differs", List.of(id(2)), "changed", List.of(ofService.toString()));
    assertThat(found(reconcile(1, "--payloads"))).isEqualTo(compared);
    jdbc.update("DELETE FROM pubsub_outbox");
    assertThat(found(reconcile(1, "--payloads"))).isEqualTo(compared);
  }

  private String changing(int n) {
    return QUERY
        .formatted(table)
        .replace(
            "payload,", "IF(event_key = 'key-%d', 'changed', payload) AS payload,".formatted(n));
  }

  /** The rows of BigQuery in the outbox, and as if they had gone through all of the rest. */
  private void queuedAndSent(int rows) {
    rows(rows);
    startProduce();
    run();
    sent();
  }

  /** As if all that is queued had been published and applied. */
  private void sent() {
    jdbc.update(
        """
        INSERT INTO pubsub_outbox_published (id, topic_name, completed_at, message_id, payload_hash, source)
        SELECT o.id, o.topic_name, now(), 'm', o.payload_hash, o.source
        FROM pubsub_outbox_due AS d JOIN pubsub_outbox AS o USING (seq)
        """);
    jdbc.update("DELETE FROM pubsub_outbox_due");
    jdbc.update(
        "INSERT INTO transactional_inbox (consumer, idempotency_key) SELECT 'ledger', id FROM pubsub_outbox_published ON CONFLICT DO NOTHING");
  }

  /** BigQuery and services feed one topic, another topic shares the database and the consumer. */
  @Test
  void servicesAndOtherTopicsAreNoDifferenceWithAndWithoutPayloads() throws Exception {
    queuedAndSent(2);
    String put = "SELECT outbox_put(?, 'x', event_key => ?, source => ?)";
    jdbc.queryForObject(put, UUID.class, TOPIC, "key-0", "billing");
    jdbc.queryForObject(put, UUID.class, "other-topic", "key-0", "orders-source");
    UUID lost = jdbc.queryForObject(put, UUID.class, TOPIC, "lost", "orders-source");
    put("without a key");
    sent();
    jdbc.queryForObject(put, UUID.class, "other-topic", "waits", "orders-source");
    JsonNode report = reconcile(1);
    assertThat(found(report)).isEqualTo(Map.of("not-in-bigquery", List.of(lost.toString())));
    assertThat(report.at("/others/applied").asInt()).isEqualTo(3);
    assertThat(report.at("/from_bigquery/applied").asInt()).isEqualTo(2);

    jdbc.update("DELETE FROM pubsub_outbox WHERE seq NOT IN (SELECT seq FROM pubsub_outbox_due)");
    report = reconcile(1);
    assertThat(found(report)).isEqualTo(Map.of("not-in-bigquery", List.of(lost.toString())));
    assertThat(report.at("/others/applied").asInt()).isEqualTo(3);
    assertThat(found(reconcile(1, "--topic=other-topic", "--no-bigquery")).keySet())
        .containsExactly("coming");
  }

  /**
   * Rows 1, 2 and 4 have one position, 3 and 5 one behind the lookback, 6 and 7 none. After 1, 3
   * and 6 are through the others come.
   */
  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      textBlock =
          """
          TIMESTAMP | 1h | TIMESTAMP '2026-03-01 10:00:00.000001+00' | TIMESTAMP '2026-03-01 12:00:00+00' | |
          DATETIME  | 1h | DATETIME '2026-03-01 10:00:00.000001'     | DATETIME '2026-03-01 12:00:00'     | |
          DATE      | 1d | DATE '2026-03-01'                         | DATE '2026-03-05'                  | |
          INT64     | 5  | 10                                        | 20                                 | -5 | 21
          STRING    |    | "it's"                                    | "mé"                               | a  | z
          """)
  void repairOfAWatermarkOfEveryTypeIsRunAsPrinted(
      String type, String lookback, String one, String next, String from, String until)
      throws Exception {
    bigQuery.createTable("shop", table + "_typed", "[{\"name\": \"n\", \"type\": \"INT64\"}]");
    topicFile(
        "query.sql",
        """
        SELECT CAST(n AS STRING) AS event_key, CAST(n AS STRING) AS payload, position AS watermark
        FROM (
          SELECT n, CASE WHEN n IN (1, 2, 4) THEN %s WHEN n IN (3, 5) THEN %s END AS position
          FROM shop.%s_typed)
        WHERE position BETWEEN @watermark AND @last OR position IS NULL
        """
            .formatted(one, next, table));
    List<String> settings = new ArrayList<>();
    settings.add("twinbox.produce.watermark-type=" + type);
    settings.add("twinbox.produce.lookback=" + (lookback == null ? "" : lookback));
    settings.add(
        "twinbox.produce.first-watermark="
            + switch (type) {
              case "TIMESTAMP" -> "2020-01-01T00:00:00Z";
              case "DATETIME" -> "2020-01-01T00:00:00";
              case "DATE" -> "2020-01-01";
              default -> "1";
            });
    List<String> words = new ArrayList<>(settings.stream().map(s -> "--" + s).toList());
    if (from != null) {
      words.add("--watermark-from=" + from);
      words.add("--watermark-until=" + until);
    }
    String[] span = words.toArray(String[]::new);
    startProduce(settings.toArray(String[]::new));
    number(1, 3, 6);
    run();
    sent();
    JsonNode report = reconcile(0, span);
    assertThat(report.at("/from_bigquery/applied").asInt()).isEqualTo(3);
    assertThat(report.get("notes").toString()).contains("1 rows of BigQuery have no watermark");

    number(2, 5, 7);
    report = reconcile(1, span);
    assertThat(found(report))
        .isEqualTo(
            Map.of("missing", List.of(id("2")), "coming", all("coming", report, id("5"), id("7"))));
    backfill(repairs(report), settings, type.equals("STRING"));
    run();
    sent();
    assertThat(reconcile(0, span).at("/from_bigquery/applied").asInt()).isEqualTo(6);

    if (type.equals("TIMESTAMP")) {
      // Once more into a window that was read again before.
      number(4);
      report = reconcile(1, span);
      assertThat(found(report)).isEqualTo(Map.of("missing", List.of(id("4"))));
      backfill(repairs(report), settings, false);
      sent();
      assertThat(reconcile(0, span).at("/from_bigquery/applied").asInt()).isEqualTo(7);
    }
  }

  private void number(int... numbers) {
    bigQuery.append(
        "shop",
        table + "_typed",
        Arrays.stream(numbers).mapToObj(n -> "{\"n\": %d}".formatted(n)).toList());
  }

  /** Runs the one repair as a shell takes it: its words, or all of it as a process of its own. */
  private void backfill(List<String> repairs, List<String> settings, boolean asProcess)
      throws Exception {
    assertThat(repairs).hasSize(1).allMatch(r -> r.startsWith("java -jar twinbox.jar backfill --"));
    if (asProcess) {
      String classpath = classpath();
      File said = topicDir.resolve("backfill").toFile();
      ProcessBuilder shell =
          new ProcessBuilder(
              "bash",
              "-c",
              "java() { shift 2; \"$JAVA\" -cp \"$CLASSES\" io.twinbox.TwinboxApplication \"$@\"; }\n"
                  + repairs.get(0));
      shell.environment().put("JAVA", java());
      shell.environment().put("CLASSES", classpath);
      List<String> all = new ArrayList<>(settings);
      Arrays.stream(arguments()).skip(2).map(word -> word.substring(2)).forEach(all::add);
      for (String setting : all) {
        String[] parts = setting.split("=", 2);
        shell
            .environment()
            .putIfAbsent(
                parts[0].replace("-", "").replace('.', '_').toUpperCase(java.util.Locale.ROOT),
                parts[1]);
      }
      Process process = shell.redirectErrorStream(true).redirectOutput(said).start();
      assertThat(process.waitFor(120, TimeUnit.SECONDS)).isTrue();
      assertThat(process.exitValue()).as(Files.readString(said.toPath())).isZero();
      return;
    }
    Process shell = new ProcessBuilder("bash", "-c", "printf '%s\\0' " + repairs.get(0)).start();
    List<String> words =
        List.of(
            new String(shell.getInputStream().readAllBytes(), StandardCharsets.UTF_8).split("\0"));
    List<String> all = new ArrayList<>(settings);
    all.add("bigquery.emulator.host=" + bigQuery.url());
    for (int i = 4; i < words.size(); i += 2) {
      all.add(
          "twinbox.produce.backfill.%s=%s".formatted(words.get(i).substring(2), words.get(i + 1)));
    }
    ConfigurableApplicationContext done = start("produce", all.toArray(String[]::new));
    assertThat(done.getBean(ExitCodeGenerator.class).getExitCode()).isZero();
    stop(done);
  }

  private static String java() {
    return Path.of(System.getProperty("java.home"), "bin", "java").toString();
  }

  private static String classpath() throws IOException {
    return Path.of("target/classes").toAbsolutePath()
        + File.pathSeparator
        + Files.readString(Path.of("target/runtime-classpath.txt")).strip();
  }

  /** Rows of one position are in a span all together, or not at all. */
  @Test
  void spanThatIsCutBetweenTiesHasAllOfThemOrNone() throws Exception {
    row("a", "a", "2026-03-01T10:00:00Z");
    row("b", "b", "2026-03-01T10:00:00Z");
    row("c", "c", "2026-03-01T10:00:00.000001Z");
    row("last", "last", "2026-11-01T00:00:00Z");
    startProduce();
    run();
    sent();
    assertThat(events("2026-03-01T09:00:00Z", "2026-03-01T10:00:00Z")).isZero();
    assertThat(events("2026-03-01T10:00:00Z", "2026-03-01T10:00:00.000001Z")).isEqualTo(2);
    assertThat(events("2026-03-01T10:00:00.000001Z", "2026-03-01T10:00:01Z")).isEqualTo(1);
    row("d", "d", "2026-03-01T10:00:00Z");
    JsonNode report =
        reconcile(1, "--from=2026-03-01T10:00:00Z", "--until=2026-03-01T10:00:00.000001Z");
    assertThat(found(report)).isEqualTo(Map.of("missing", List.of(id("d"))));
    assertThat(reconcile(0, "--until=2026-03-01T10:00:00Z").get("findings")).isEmpty();
  }

  private int events(String from, String until) throws Exception {
    return reconcile(0, "--from=" + from, "--until=" + until).at("/bigquery/events").asInt();
  }

  @Test
  void spanThatIsNoneOfTheWatermarksIsRefused() throws Exception {
    for (String[] words :
        List.of(
            new String[] {"--twinbox.produce.watermark-type=INT64"},
            new String[] {"--watermark-from=1", "--watermark-until=2"},
            new String[] {
              "--twinbox.produce.watermark-type=INT64", "--watermark-from=2", "--watermark-until=2"
            },
            new String[] {
              "--twinbox.produce.watermark-type=DATE", "--from=2026-01-01T10:00:00Z"
            })) {
      CommandRun run = CommandRun.of(arguments(words));
      assertThat(run.exitCode()).as(run.err()).isEqualTo(2);
      assertThat(run.err()).containsAnyOf("span");
    }
  }

  /** A repair is for the source and topic that were asked for, wherever it is pasted. */
  @Test
  void repairCarriesTheSourceThatWasNamedOnTheLine() throws Exception {
    topicFile("query.sql", QUERY.formatted(table) + "AND updated_at <= @last");
    rows(1);
    jdbc.update(
        "INSERT INTO produce_watermark (topic_name, source, type, value) VALUES ('orders', 'named', 'TIMESTAMP', '2026-11-01T00:00:00Z')");
    assertThat(repairs(reconcile(1, "--source=named")))
        .hasSize(1)
        .allMatch(r -> r.endsWith(" --twinbox.source='named'"));
  }

  /** An outbox that was restored from an old backup knows nothing of what came after. */
  @Test
  void anOpenLetterOfAnEventThatTheOutboxLostIsNamed() throws Exception {
    flow(3);
    letter(2);
    jdbc.update("DELETE FROM pubsub_outbox_published WHERE id = CAST(? AS uuid)", id(2));
    jdbc.update("DELETE FROM pubsub_outbox WHERE id = CAST(? AS uuid)", id(2));
    assertThat(found(reconcile(1, "--no-bigquery"))).isEqualTo(Map.of("unknown", List.of(id(2))));
  }

  /** Produce keeps one watermark per query, under the folder's topic. */
  @Test
  void theWatermarkOfTheFoldersTopicIsSetBack() throws Exception {
    flow(3);
    topicFile(
        "query.sql",
        "SELECT *, 'other-topic' AS topic_name FROM (%s)"
            .formatted(Files.readString(topicDir.resolve("query.sql"))));
    jdbc.update("UPDATE produce_watermark SET value = '2026-11-01T00:00:00Z'");
    JsonNode report = reconcile(1, "--topic=other-topic", "--no-consumer");
    assertThat(found(report).get("missing")).hasSize(3);
    assertThat(repairs(report)).hasSize(1).allMatch(r -> r.contains("set('" + TOPIC + "',"));
  }

  @Test
  void payloadsMayBeGoneAndTheConsumerElsewhere() throws Exception {
    flow(5);
    jdbc.update("DELETE FROM pubsub_outbox");
    assertThat(reconcile(0).at("/from_bigquery/applied").asInt()).isEqualTo(5);

    // A topic of services has no source and no query.
    assertThat(reconcile(0, "--no-bigquery", "--twinbox.source=").at("/others/applied").asInt())
        .isEqualTo(5);

    // The consumer's tables in a database of their own; a template must have no session.
    stopAll();
    DriverManagerDataSource otherSource =
        new DriverManagerDataSource(
            databaseUrl.replaceFirst("/[^/]*$", "/postgres"),
            LocalPostgres.USER,
            LocalPostgres.PASSWORD);
    String name = "consumer_" + System.nanoTime();
    new JdbcTemplate(otherSource)
        .execute(
            "CREATE DATABASE %s TEMPLATE %s"
                .formatted(name, databaseUrl.substring(databaseUrl.lastIndexOf('/') + 1)));
    String consumer = databaseUrl.replaceFirst("/[^/]*$", "/" + name);
    jdbc.update("DELETE FROM transactional_inbox");
    JsonNode wrong = reconcile(1);
    assertThat(found(wrong).keySet()).containsExactly("payload-gone");
    assertThat(wrong.get("notes").toString()).contains("has nothing of consumer ledger");
    JsonNode right =
        reconcile(
            0,
            "--twinbox.reconcile.consumer-url=" + consumer,
            "--twinbox.reconcile.consumer-username=" + LocalPostgres.USER,
            "--twinbox.reconcile.consumer-password=" + LocalPostgres.PASSWORD);
    assertThat(right.at("/from_bigquery/applied").asInt()).isEqualTo(5);

    JsonNode blind = reconcile(0, "--no-consumer");
    assertThat(blind.at("/from_bigquery/applied").isNull()).isTrue();
    assertThat(CommandRun.of(arguments("--no-consumer")).out())
        .contains("Reconciled: BigQuery = outbox = published. What was applied was not looked at.");
    CommandRun away =
        CommandRun.of(
            arguments("--twinbox.reconcile.consumer-url=jdbc:postgresql://127.0.0.1:1/none"));
    assertThat(away.exitCode()).isEqualTo(3);
  }

  @Test
  void priceIsSaidFirstAndTheLimitObeyed() {
    rows(3);
    CommandRun run = CommandRun.of(arguments());
    assertThat(run.err()).contains("BigQuery will process ", "1,000,000,000,000 are allowed");
    run = CommandRun.of(arguments("--twinbox.produce.max-bytes-billed=1"));
    assertThat(run.exitCode()).isEqualTo(3);
    assertThat(run.err()).contains("1 are allowed").contains("It was not asked");
    assertThat(run.out()).isEmpty();
    run =
        CommandRun.of(
            arguments(
                "--bigquery.emulator.host=127.0.0.1:1", "--twinbox.produce.retry-timeout=10ms"));
    assertThat(run.exitCode()).isEqualTo(3);
    run = CommandRun.of(arguments("--from=2030-01-01T00:00:00Z"));
    assertThat(run.exitCode()).isEqualTo(2);
    assertThat(run.err()).contains("no span of time");
  }

  @Test
  void faultOfTheQueryNamesItsFileOnce() throws Exception {
    row("a", "a", "2026-03-01T10:00:00Z");
    topicFile("query.sql", QUERY.formatted(table).replace("payload,", "paylod AS payload,"));
    String dryRun = CommandRun.of(arguments()).err();
    assertThat(dryRun).contains("query.sql:2:").containsOnlyOnce("query.sql");
    // One that BigQuery finds when it runs the query.
    topicFile("query.sql", QUERY.formatted(table) + "AND ERROR('a bad row') IS NULL");
    CommandRun job = CommandRun.of(arguments());
    assertThat(job.exitCode()).isEqualTo(3);
    assertThat(job.err()).contains("query.sql: ", "a bad row").containsOnlyOnce("query.sql");
  }

  /** Of 100,000 events one hour's are asked for: no table is read from end to end. */
  @Test
  void statementsOfAShortSpanReadByIndex() {
    jdbc.execute("ALTER TABLE pubsub_outbox DISABLE TRIGGER pubsub_outbox_queue");
    jdbc.update(
        """
        INSERT INTO pubsub_outbox (id, topic_name, source, payload, created_at)
        SELECT outbox_event_id('orders', 'orders-source', 'key-' || i), 'orders', 'orders-source', 'x',
               timestamptz '2026-01-01' + i * interval '1 minute'
        FROM generate_series(1, 100000) AS i
        """);
    jdbc.update(
        "INSERT INTO pubsub_outbox_published SELECT id, topic_name, created_at, 'm', payload_hash FROM pubsub_outbox ORDER BY seq");
    jdbc.update(
        "INSERT INTO pubsub_outbox_due (seq, topic_name, payload_bytes, next_retry_at) SELECT seq, topic_name, 1, created_at FROM pubsub_outbox");
    jdbc.update(
        "INSERT INTO transactional_inbox SELECT 'ledger', id, created_at FROM pubsub_outbox ORDER BY seq");
    jdbc.update(
        """
        INSERT INTO produce_reject (id, topic_name, source, event_key, reason, run_id)
        SELECT id, topic_name, source, 'key ' || seq, 'r', 'r' FROM pubsub_outbox
        """);
    jdbc.execute("VACUUM ANALYZE");
    String[] ids =
        IntStream.range(0, 500).mapToObj(i -> UUID.randomUUID().toString()).toArray(String[]::new);
    Map<String, Object> parameters = new java.util.HashMap<>();
    parameters.put("topic", "orders");
    parameters.put("source", "orders-source");
    parameters.put("consumer", "ledger");
    parameters.put("from", "2026-02-01T00:00:00Z");
    parameters.put("until", "2026-02-01T01:00:00Z");
    parameters.put("afterTime", "2026-02-01T00:00:00Z");
    parameters.put("afterSeq", -1L);
    parameters.put("rows", 5_000);
    parameters.put("ids", ids);
    parameters.put("grace", "900 seconds");
    parameters.put("eventKeys", ids);
    parameters.put("topics", new String[ids.length]);
    for (String statement :
        List.of(
            "outbox-created.sql",
            "published-without-payload.sql",
            "outbox-states.sql",
            "rejects.sql",
            "inbox-created.sql",
            "inbox-states.sql")) {
      String plan =
          String.join(
              "\n",
              new NamedParameterJdbcTemplate(jdbc)
                  .queryForList(
                      "EXPLAIN " + SqlFiles.read("sql/reconcile/" + statement),
                      parameters,
                      String.class));
      assertThat(plan)
          .as(statement)
          .contains("Index")
          .doesNotContainPattern(
              "Seq Scan on (pubsub_outbox |pubsub_outbox_published|pubsub_outbox_due|transactional_inbox |produce_reject)");
    }
  }

  /**
   * In a process that may hold 64 MB: 20,000 events on each side, 120,000 with {@code mvn -Plong
   * test}.
   */
  @Test
  void memoryDoesNotGrowWithTheSpan() throws Exception {
    int events = Integer.getInteger("twinbox.fire", 20) > 20 ? 120_000 : 20_000;
    bigQuery.append(
        "shop",
        table,
        IntStream.range(0, events)
            .mapToObj(
                i ->
                    "{\"event_key\": \"key-%d\", \"payload\": \"x\", \"updated_at\": \"2026-03-01T10:00:00Z\"}"
                        .formatted(i))
            .toList());
    jdbc.update(
        "INSERT INTO produce_watermark (topic_name, source, type, value) VALUES ('orders', 'orders-source', 'TIMESTAMP', '2026-04-01T00:00:00Z')");
    jdbc.execute("ALTER TABLE pubsub_outbox DISABLE TRIGGER pubsub_outbox_queue");
    // One less than BigQuery has.
    jdbc.update(
        """
        INSERT INTO pubsub_outbox (id, topic_name, source, payload)
        SELECT outbox_event_id('orders', 'orders-source', 'key-' || i), 'orders', 'orders-source', 'x'
        FROM generate_series(1, ? - 1) AS i
        """,
        events);
    jdbc.update(
        "INSERT INTO pubsub_outbox_published SELECT id, topic_name, now() - interval '1 hour', 'm', payload_hash FROM pubsub_outbox");
    jdbc.update(
        "INSERT INTO transactional_inbox (consumer, idempotency_key) SELECT 'ledger', id FROM pubsub_outbox");
    jdbc.execute("ANALYZE");
    List<String> command =
        new ArrayList<>(
            List.of(java(), "-Xmx64m", "-cp", classpath(), "io.twinbox.TwinboxApplication"));
    command.addAll(Arrays.asList(arguments("--json")));
    File out = topicDir.resolve("out").toFile();
    File err = topicDir.resolve("err").toFile();
    Process process = new ProcessBuilder(command).redirectOutput(out).redirectError(err).start();
    assertThat(process.waitFor(120, TimeUnit.SECONDS)).isTrue();
    String said = Files.readString(out.toPath());
    assertThat(process.exitValue()).as(said + Files.readString(err.toPath())).isEqualTo(1);
    JsonNode report = new ObjectMapper().readTree(said);
    assertThat(found(report)).isEqualTo(Map.of("missing", List.of(id(0))));
    assertThat(report.at("/from_bigquery/applied").asInt()).isEqualTo(events - 1);
    assertThat(
            Arrays.stream(Path.of(System.getProperty("java.io.tmpdir")).toFile().list())
                .filter(name -> name.startsWith("twinbox-reconcile"))
                .collect(Collectors.toList()))
        .isEmpty();
  }
}
