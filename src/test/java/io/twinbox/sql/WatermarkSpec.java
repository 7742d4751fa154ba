package io.twinbox.sql;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.util.List;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Future;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** How far a source was read. */
abstract class WatermarkSpec extends DatabaseSpec {

  private static final String FIRST = "2026-01-01T00:00:00Z";
  private static final String SECOND = "2026-01-02T00:00:00Z";
  private static final String THIRD = "2026-01-03T00:00:00.000001Z";

  private int advance(String type, String start, long epoch, String value) {
    return db.update(
        "produce/advance-watermark.sql",
        Map.of("runId", "run-1"),
        Map.of("type", type, "value", value, "epoch", epoch, "startValue", start));
  }

  private int advance(String start, long epoch, String value) {
    return advance("TIMESTAMP", start, epoch, value);
  }

  private String value() {
    return db.string("SELECT value FROM produce_watermark");
  }

  /** As the runbook tells an operator to set it. */
  private void operatorSets(String value) {
    db.jdbc.update("UPDATE produce_watermark SET value = ?, epoch = epoch + 1", value);
  }

  @Test
  void beforeTheFirstRunThereIsNone() {
    assertThat(db.query("produce/read-watermark.sql", Map.of())).isEmpty();
  }

  @Test
  void firstRunSetsIt() {
    assertThat(advance("", 0, FIRST)).isEqualTo(1);

    assertThat(db.query("produce/read-watermark.sql", Map.of()))
        .containsExactly(Map.of("type", "TIMESTAMP", "value", FIRST, "epoch", 0L));
    assertThat(db.string("SELECT run_id FROM produce_watermark")).isEqualTo("run-1");
  }

  @Test
  void laterRunMovesIt() {
    advance("", 0, FIRST);

    assertThat(advance(FIRST, 0, SECOND)).isEqualTo(1);
    assertThat(value()).isEqualTo(SECOND);
  }

  @Test
  void otherTopicsAndSourcesKeepTheirs() {
    advance("", 0, FIRST);
    db.set("twinbox.source", "other");
    assertThat(db.query("produce/read-watermark.sql", Map.of())).isEmpty();

    advance("", 0, SECOND);

    assertThat(db.count("produce_watermark")).isEqualTo(2);
  }

  @Test
  void operatorsSetIsNotOverwrittenByARunInFlight() {
    advance("", 0, FIRST);
    operatorSets("2025-06-01T00:00:00Z");

    assertThat(advance(FIRST, 0, SECOND)).isZero();
    assertThat(value()).isEqualTo("2025-06-01T00:00:00Z");
  }

  @Test
  void operatorsFirstSetIsNotOverwrittenByTheFirstRun() {
    db.jdbc.update(
        "INSERT INTO produce_watermark (topic_name, source, type, value)"
            + " VALUES ('invoices', 'billing', 'TIMESTAMP', '2025-06-01T00:00:00Z')");

    assertThat(advance("", 0, FIRST)).isZero();
    assertThat(value()).isEqualTo("2025-06-01T00:00:00Z");
  }

  @Test
  void operatorsSetInAnotherSpellingIsMovedByTheNextRun() {
    advance("", 0, FIRST);
    operatorSets("2026-01-01T12:00:00.000Z");

    // The run reads, parses and writes it anew, as java.time does.
    assertThat(advance("2026-01-01T12:00:00Z", 1, SECOND)).isEqualTo(1);
    assertThat(value()).isEqualTo(SECOND);
  }

  @Test
  void runThatReadFurtherThanAnotherRunMeanwhileMovesItOn() {
    advance("", 0, FIRST);
    assertThat(advance(FIRST, 0, SECOND)).isEqualTo(1);

    // It began at the first one too, so it has read everything up to the third.
    assertThat(advance(FIRST, 0, THIRD)).isEqualTo(1);
    assertThat(value()).isEqualTo(THIRD);
  }

  @Test
  void runThatReadLessFarThanAnotherRunMeanwhileDoesNotMoveItBack() {
    advance("", 0, FIRST);
    assertThat(advance(FIRST, 0, THIRD)).isEqualTo(1);

    assertThat(advance(FIRST, 0, SECOND)).isZero();
    assertThat(advance("", 0, THIRD)).isZero();
    assertThat(value()).isEqualTo(THIRD);
  }

  @Test
  void runThatBeganAboveTheStoredOneDoesNotSkipWhatLiesBetween() {
    advance("", 0, FIRST);

    assertThat(advance(SECOND, 0, THIRD)).isZero();
    assertThat(value()).isEqualTo(FIRST);
  }

  @ParameterizedTest
  @CsvSource({
    "INT64, 9, 10, 100",
    "INT64, -10, -9, 9223372036854775807",
    "DATE, 2026-01-09, 2026-01-10, 2026-02-01",
    "DATETIME, 2026-01-09T00:00:00, 2026-01-09T00:00:00.5, 2026-01-09T00:00:01",
    "TIMESTAMP, 2026-01-09T00:00:00Z, 2026-01-09T00:00:00.100Z, 2026-01-09T00:00:00.100001Z",
    "TIMESTAMP, 0001-01-01T00:00:00Z, 1969-12-31T23:59:59.999999Z, 9999-12-31T23:59:59.999999Z",
    "STRING, A, a, aa",
    "STRING, a-2, a1, aB",
    "STRING, ~, ü, 𝄞",
  })
  void valuesAreComparedByTheirType(String type, String low, String middle, String high) {
    advance(type, "", 0, low);
    assertThat(advance(type, low, 0, middle)).as("forward").isEqualTo(1);
    assertThat(advance(type, middle, 0, low)).as("backward").isZero();
    assertThat(advance(type, high, 0, high)).as("began above").isZero();
    assertThat(advance(type, low, 0, high)).as("began below").isEqualTo(1);
    assertThat(value()).isEqualTo(high);
  }

  @Test
  void emptyStringIsAPositionOfItsOwn() {
    advance("STRING", "", 0, "b");
    operatorSets("");

    assertThat(advance("STRING", "", 1, "c")).isEqualTo(1);
    assertThat(value()).isEqualTo("c");
  }

  @Test
  void anotherTypeThanTheStoredOneIsNotWritten() {
    advance("", 0, FIRST);

    assertThat(advance("INT64", "1", 0, "2")).isZero();
    assertThat(value()).isEqualTo(FIRST);
  }

  @Test
  void ofTwoFirstRunsAtTheSameTimeOneSetsIt() throws Exception {
    CountDownLatch finish = new CountDownLatch(1);
    CountDownLatch set = new CountDownLatch(1);
    Future<?> first =
        db.async(
            () ->
                db.transaction.execute(
                    status -> {
                      advance("", 0, SECOND);
                      set.countDown();
                      await(finish);
                      return null;
                    }));
    await(set);
    Future<Integer> second = db.async(() -> advance("", 0, FIRST));
    db.awaitBlockedSession();
    finish.countDown();
    first.get();

    assertThat(second.get()).isZero();
    assertThat(value()).isEqualTo(SECOND);
  }

  @Test
  void unknownTypeAndUnreadableValueAreRefused() {
    assertThatThrownBy(() -> advance("FLOAT64", "", 0, "1.5"))
        .hasMessageContaining("produce_watermark_type_known");
    for (List<String> pair :
        List.of(
            List.of("TIMESTAMP", "yesterday-ish"),
            List.of("INT64", "1.5"),
            List.of("DATE", "2026-13-01"))) {
      assertThatThrownBy(() -> advance(pair.get(0), "", 0, pair.get(1)))
          .hasMessageContaining(pair.get(1));
    }
    assertThat(db.count("produce_watermark")).isZero();
  }
}
