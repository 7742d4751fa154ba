package io.twinbox.promises;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.twinbox.local.bigquery.Faults;
import java.io.IOException;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import org.junit.jupiter.api.Test;

/** What README promises of the way from BigQuery into the outbox. */
class ProducePromisesTest extends ProduceTest {

  @Test
  void rowsReadAgainAreNotQueuedAgain() {
    for (int i = 0; i < 25; i++) {
      row("key-" + i, "payload " + i, "2026-03-01T10:00:00.%06dZ".formatted(i));
    }
    startProduce("twinbox.produce.chunk-rows=10");
    run();
    run();

    assertThat(count("pubsub_outbox")).isEqualTo(25);
    // Also when their payloads have gone.
    jdbc.execute(
        "INSERT INTO pubsub_outbox_published SELECT id, topic_name, now(), 'm', payload_hash FROM pubsub_outbox");
    jdbc.execute("DELETE FROM pubsub_outbox_due");
    jdbc.execute("DELETE FROM pubsub_outbox");
    run();
    assertThat(count("pubsub_outbox")).isZero();
  }

  @Test
  void rowThatBecomesVisibleLateWithinTheLookbackIsDelivered() {
    row("first", "1", "2026-03-01T10:00:00.000001Z");
    startProduce("twinbox.produce.lookback=1h");
    run();
    row("same microsecond", "2", "2026-03-01T10:00:00.000001Z");
    row("earlier", "3", "2026-03-01T09:30:00Z");
    row("next microsecond", "4", "2026-03-01T10:00:00.000002Z");
    run();

    assertThat(queued()).containsExactlyInAnyOrder("1", "2", "3", "4");
    assertThat(watermark()).isEqualTo("2026-03-01T10:00:00.000002Z");
  }

  @Test
  void watermarkMovesOnlyAfterTheLastRowIsCommitted() {
    for (int i = 0; i < 30; i++) {
      row("key-%02d".formatted(i), "payload " + i, "2026-03-01T10:00:%02dZ".formatted(i));
    }
    startProduce("twinbox.produce.chunk-rows=5", "twinbox.produce.page-rows=5");
    // The first page is answered, a later one is not.
    bigQuery.faults().pageRows(5);
    jdbc.execute(
        """
        CREATE FUNCTION stop_here() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
          IF (SELECT count(*) FROM pubsub_outbox) > 12 THEN
            RAISE EXCEPTION 'the run dies here';
          END IF;
          RETURN NULL;
        END $$
        """);
    jdbc.execute(
        "CREATE TRIGGER stop_here AFTER INSERT ON pubsub_outbox FOR EACH STATEMENT EXECUTE FUNCTION stop_here()");
    assertThatThrownBy(this::run).rootCause().hasMessageContaining("the run dies here");
    assertThat(count("pubsub_outbox")).isEqualTo(10);
    assertThat(count("produce_watermark")).isZero();

    jdbc.execute("DROP TRIGGER stop_here ON pubsub_outbox");
    run();
    assertThat(count("pubsub_outbox")).isEqualTo(30);
    assertThat(watermark()).isEqualTo("2026-03-01T10:00:29Z");
  }

  @Test
  void rowThatTheOutboxRefusesDoesNotStopTheOthers() {
    row("good 1", "1", "2026-03-01T10:00:00Z");
    appendRow("null, \"payload\": \"no key\"", "2026-03-01T10:00:01Z");
    row(" ", "blank key", "2026-03-01T10:00:02Z");
    row("nul\\u0000key", "NUL in the key", "2026-03-01T10:00:03Z");
    rowWithAttributes(
        "long value", "2", "{\\\"a\\\": \\\"" + "x".repeat(1025) + "\\\"}", "2026-03-01T10:00:04Z");
    rowWithAttributes("no object", "3", "[1]", "2026-03-01T10:00:05Z");
    rowWithAttributes(
        "nul attribute", "4", "{\\\"a\\\": \\\"\\\\u0000\\\"}", "2026-03-01T10:00:06Z");
    rowWithAttributes("bad json", "5", "{", "2026-03-01T10:00:07Z");
    row("good 2", "nul \\u0000 in the payload", "2026-03-01T10:00:08Z");
    startProduce();
    run();
    run();

    assertThat(queued()).containsExactlyInAnyOrder("1", "nul \0 in the payload");
    assertThat(jdbc.queryForList("SELECT reason FROM produce_reject", String.class))
        .hasSize(7)
        .anyMatch(r -> r.contains("event_key is NULL"))
        .anyMatch(r -> r.contains("event_key is blank"))
        .anyMatch(r -> r.contains("event_key contains a NUL"))
        .anyMatch(r -> r.contains("1,024") || r.contains("1025"))
        .anyMatch(r -> r.contains("object of strings"))
        .anyMatch(r -> r.contains("attribute 'a' contains a NUL"))
        .anyMatch(r -> r.contains("no JSON"));
    assertThat(watermark()).isEqualTo("2026-03-01T10:00:08Z");
  }

  @Test
  void queryOverThePriceDoesNotRun() {
    row("key", "payload", "2026-03-01T10:00:00Z");
    startProduce("twinbox.produce.max-bytes-billed=1");
    long queries = bigQuery.faults().calls(Faults.Call.QUERY_RESULTS);
    assertThatThrownBy(this::run).rootCause().hasMessageContaining("max-bytes-billed allows 1");
    assertThat(bigQuery.faults().calls(Faults.Call.QUERY_RESULTS)).isEqualTo(queries);
    assertThat(count("pubsub_outbox")).isZero();
  }

  @Test
  void rowDatedAheadDoesNotSilenceTheStream() {
    row("ahead", "1", "2099-01-01T00:00:00Z");
    startProduce();
    run();
    assertThat(Instant.parse(watermark())).isBefore(Instant.now().plus(1, ChronoUnit.MINUTES));
    row("now", "2", Instant.now().truncatedTo(ChronoUnit.MICROS).toString());
    run();
    assertThat(queued()).containsExactlyInAnyOrder("1", "2");
  }

  @Test
  void emptySourceIsNoFailureAndMovesNothing() {
    startProduce();
    run();
    assertThat(count("produce_watermark")).isZero();
    row("null watermark", "1", null);
    row("key", "2", "2026-03-01T10:00:00Z");
    run();
    assertThat(watermark()).isEqualTo("2026-03-01T10:00:00Z");
  }

  @Test
  void changedPayloadIsListedAndNotSentAgain() {
    row("key", "old", "2026-03-01T10:00:00Z");
    startProduce();
    run();
    row("key", "new", "2026-03-01T10:00:01Z");
    run();
    assertThat(queued()).containsExactly("old");
    assertThat(jdbc.queryForList("SELECT event_key FROM produce_changed", String.class))
        .containsExactly("key");
  }

  @Test
  void operatorsSetIsNotOverwrittenByARunInFlight() {
    row("key", "1", "2026-03-01T10:00:00Z");
    startProduce();
    run();
    row("later", "2", "2026-03-01T11:00:00Z");
    // While the run's rows are queued, the operator sets the watermark back.
    jdbc.execute(
        """
        CREATE FUNCTION operator_sets() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
          UPDATE produce_watermark SET value = '2026-01-01T00:00:00Z', epoch = epoch + 1;
          RETURN NULL;
        END $$
        """);
    jdbc.execute(
        "CREATE TRIGGER operator_sets AFTER INSERT ON pubsub_outbox FOR EACH STATEMENT EXECUTE FUNCTION operator_sets()");
    run();
    assertThat(watermark()).isEqualTo("2026-01-01T00:00:00Z");
    assertThat(queued()).containsExactlyInAnyOrder("1", "2");
  }

  @Test
  void queryThatLacksOrMistypesAColumnIsRefusedBeforeAnythingIsWritten() throws IOException {
    row("key", "1", "2026-03-01T10:00:00Z");
    topicFile(
        "query.sql",
        """
        -- Lacks payload, and the key is a number.
        SELECT 1 AS event_key, updated_at AS watermark
        FROM shop.%s
        """
            .formatted(table));
    startProduce();
    assertThatThrownBy(this::run)
        .rootCause()
        .hasMessageContaining("query.sql")
        .hasMessageContaining("column event_key is INT64 and must be STRING")
        .hasMessageContaining("column payload is missing");
    assertThat(count("pubsub_outbox")).isZero();
  }
}
