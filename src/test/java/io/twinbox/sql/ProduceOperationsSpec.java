package io.twinbox.sql;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Future;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** The runs of produce with their price, and the operator's watermark. */
abstract class ProduceOperationsSpec extends DatabaseSpec {

  private static final long MIB = 1024 * 1024;

  private Map<String, Object> begin(String run, long estimate, long perDay) {
    db.set("twinbox.produce.max-bytes-billed-per-day", String.valueOf(perDay));
    Map<String, Object> body = new HashMap<>();
    body.put("estimate", estimate);
    body.put("watermarkBefore", null);
    body.put("backfill", null);
    body.put("step", null);
    return db.query("produce/begin-run.sql", Map.of("runId", run), body).get(0);
  }

  private void finish(String run, String state, long billed) {
    Map<String, Object> body = new HashMap<>();
    for (String name :
        new String[] {
          "bytesProcessed", "slotMs", "jobs", "read", "queued", "changed", "revived", "rejected"
        }) {
      body.put(name, 1);
    }
    body.put("state", state);
    body.put("bytesBilled", billed);
    body.put("watermarkAfter", "2026-01-01T00:00:00Z");
    body.put("error", null);
    db.update("produce/finish-run.sql", Map.of("runId", run), body);
  }

  private Map<String, Object> set(String type, String value, String reason) {
    return db.jdbc.queryForMap(
        "SELECT * FROM produce_watermark_set('invoices', 'billing', ?, ?, 'ann', ?)",
        type,
        value,
        reason);
  }

  @Test
  void runIsRefusedWhenTheDayHasNoMoneyLeft() {
    assertThat(begin("run-1", 6 * MIB, 20 * MIB)).containsEntry("admitted", true);
    finish("run-1", "succeeded", 10 * MIB);
    // Not finished, so it counts with its estimate; a failed one with what it was billed.
    assertThat(begin("run-2", 4 * MIB, 20 * MIB)).containsEntry("spent", 10 * MIB);
    assertThat(begin("run-3", 7 * MIB, 20 * MIB))
        .containsEntry("admitted", false)
        .containsEntry("spent", 14 * MIB);
    finish("run-2", "failed", 0);
    assertThat(begin("run-4", 7 * MIB, 20 * MIB)).containsEntry("admitted", true);
    assertThat(db.count("produce_run")).isEqualTo(3);
  }

  @Test
  void otherDaysAndOtherSourcesDoNotCount() {
    begin("run-1", 10 * MIB, 10 * MIB);
    assertThat(begin("run-2", 1, 10 * MIB)).containsEntry("admitted", false);
    db.set("twinbox.source", "other");
    assertThat(begin("run-3", 10 * MIB, 10 * MIB)).containsEntry("admitted", true);
    db.set("twinbox.source", "billing");
    db.jdbc.update(
        "UPDATE produce_run SET started_at = date_trunc('day', now() AT TIME ZONE 'UTC') AT TIME ZONE 'UTC' - interval '1 us'");
    assertThat(begin("run-4", 10 * MIB, 10 * MIB)).containsEntry("spent", 0L);
  }

  @Test
  void withoutALimitEveryRunIsEntered() {
    assertThat(begin("run-1", Long.MAX_VALUE, 0)).containsEntry("admitted", true);
    assertThat(begin("run-2", Long.MAX_VALUE, 0)).containsEntry("admitted", true);
  }

  @Test
  void twoRunsAtTheSameTimeDoNotBothTakeWhatIsLeft() throws Exception {
    CountDownLatch finish = new CountDownLatch(1);
    CountDownLatch entered = new CountDownLatch(1);
    Future<?> first =
        db.async(
            () ->
                db.transaction.execute(
                    status -> {
                      begin("run-1", 6 * MIB, 10 * MIB);
                      entered.countDown();
                      await(finish);
                      return null;
                    }));
    await(entered);
    Future<Map<String, Object>> second = db.async(() -> begin("run-2", 6 * MIB, 10 * MIB));
    db.awaitBlockedSession();
    finish.countDown();
    first.get();

    assertThat(second.get()).containsEntry("admitted", false).containsEntry("spent", 6 * MIB);
  }

  @Test
  void runsOfLongAgoAreForgotten() {
    begin("old", 1, 0);
    db.jdbc.update("UPDATE produce_run SET started_at = now() - interval '36 days'");
    begin("new", 1, 0);
    finish("new", "succeeded", 1);
    assertThat(db.string("SELECT string_agg(run_id || ' ' || state, ',') FROM produce_run"))
        .isEqualTo("new succeeded");
  }

  @Test
  void operatorsSetMovesTheEpochAndIsWrittenDown() {
    assertThat(set("TIMESTAMP", "2026-02-01T00:00:00Z", "first"))
        .containsEntry("old_value", null)
        .containsEntry("epoch", 1L);
    assertThat(set("TIMESTAMP", "2026-01-01T00:00:00Z", "rows came late"))
        .containsEntry("old_value", "2026-02-01T00:00:00Z")
        .containsEntry("new_value", "2026-01-01T00:00:00Z")
        .containsEntry("epoch", 2L);

    assertThat(
            db.jdbc.queryForMap(
                "SELECT who, action, topic_name, reason, rows, detail ->> 'source' AS source,"
                    + " detail ->> 'old_value' AS old_value FROM twinbox_audit ORDER BY id DESC LIMIT 1"))
        .containsEntry("who", "ann")
        .containsEntry("action", "produce_watermark_set")
        .containsEntry("topic_name", "invoices")
        .containsEntry("reason", "rows came late")
        .containsEntry("source", "billing")
        .containsEntry("old_value", "2026-02-01T00:00:00Z");
    assertThat(db.jdbc.queryForMap("SELECT * FROM produce_watermark_status"))
        .containsEntry("value", "2026-01-01T00:00:00Z")
        .containsEntry("set_by", "ann")
        .containsEntry("set_reason", "rows came late");
  }

  @Test
  void runThatBeganBeforeTheOperatorsSetDoesNotOverwriteIt() {
    set("TIMESTAMP", "2026-02-01T00:00:00Z", "first");
    set("TIMESTAMP", "2026-01-01T00:00:00Z", "again");
    assertThat(
            db.update(
                "produce/advance-watermark.sql",
                Map.of("runId", "run-1"),
                Map.of(
                    "type", "TIMESTAMP",
                    "value", "2026-03-01T00:00:00Z",
                    "epoch", 1L,
                    "startValue", "2026-02-01T00:00:00Z")))
        .isZero();
    assertThat(db.string("SELECT value FROM produce_watermark")).isEqualTo("2026-01-01T00:00:00Z");
  }

  @ParameterizedTest
  @CsvSource({
    "TIMESTAMP, 2026-01-31T23:59:59.123456Z, 2026-01-31T23:59:59.123456Z",
    "TIMESTAMP, 0001-01-01T00:00:00Z, 0001-01-01T00:00:00Z",
    "DATETIME, 2026-01-31 09:00:00, 2026-01-31T09:00:00",
    "DATE, 2024-02-29, 2024-02-29",
    "INT64, -9223372036854775808, -9223372036854775808",
    "STRING, '', ''",
    "STRING, ü~, ü~",
  })
  void valueIsStoredAsProduceReadsIt(String type, String value, String stored) {
    assertThat(set(type, value, "test")).containsEntry("new_value", stored);
  }

  @ParameterizedTest
  @CsvSource({
    "TIMESTAMP, 2026-01-31, is no TIMESTAMP",
    "TIMESTAMP, 2026-01-31T09:00:00+02, is no TIMESTAMP",
    "TIMESTAMP, 2026-01-31T09:00:00, is no TIMESTAMP",
    "TIMESTAMP, 2026-02-30T09:00:00Z, is no TIMESTAMP",
    "TIMESTAMP, 2026-01-31T24:00:00Z, is no TIMESTAMP",
    "TIMESTAMP, 2026-01-31T09:00:00.1234567Z, is no TIMESTAMP",
    "TIMESTAMP, now, is no TIMESTAMP",
    "TIMESTAMP, , is no TIMESTAMP",
    "TIMESTAMP, 2999-01-01T00:00:00Z, lies ahead",
    "DATETIME, 2026-01-31T09:00:00Z, is no DATETIME",
    "DATE, 2023-02-29, is no DATE",
    "DATE, 2999-01-01, lies ahead",
    "INT64, 9223372036854775808, is no INT64",
    "INT64, 1.5, is no INT64",
    "STRING, , is no STRING",
    "FLOAT64, 1.5, is no watermark type",
  })
  void valueThatProduceCouldNotReadIsRefused(String type, String value, String message) {
    assertThatThrownBy(() -> set(type, value, "test")).hasMessageContaining(message);
    assertThat(db.count("produce_watermark")).isZero();
    assertThat(db.count("twinbox_audit")).isZero();
  }

  @Test
  void setWithoutAReasonIsRefused() {
    assertThatThrownBy(() -> set("DATE", "2026-01-01", " ")).hasMessageContaining("reason");
    assertThatThrownBy(
            () ->
                db.jdbc.queryForMap(
                    "SELECT * FROM produce_watermark_set('', 'billing', 'DATE', '2026-01-01', 'ann', 'why')"))
        .hasMessageContaining("topic or source is missing");
  }
}
