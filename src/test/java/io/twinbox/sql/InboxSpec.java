package io.twinbox.sql;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.time.Instant;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.util.Map;
import java.util.concurrent.CountDownLatch;
import java.util.concurrent.Future;
import org.junit.jupiter.api.Test;

/** Keys of messages that took effect, failures, and messages that cannot take effect. */
abstract class InboxSpec extends DatabaseSpec {

  @Test
  void keyIsTakenOnce() {
    assertThat(db.takeInboxKey("k")).isTrue();
    assertThat(db.takeInboxKey("k")).isFalse();
    assertThat(db.count("transactional_inbox")).isEqualTo(1);
  }

  @Test
  void keysDifferByEveryByte() {
    assertThat(db.takeInboxKey("k")).isTrue();
    assertThat(db.takeInboxKey("K")).isTrue();
    assertThat(db.takeInboxKey("k ")).isTrue();
    // One letter, composed and decomposed.
    assertThat(db.takeInboxKey("\u00fc")).isTrue();
    assertThat(db.takeInboxKey("u\u0308")).isTrue();
  }

  @Test
  void keyOf512BytesIsTakenAndOneMoreIsRefused() {
    assertThat(db.takeInboxKey("ü".repeat(256))).isTrue();
    assertThatThrownBy(() -> db.takeInboxKey("k".repeat(513)))
        .hasMessageContaining("transactional_inbox_key_valid");
    assertThatThrownBy(() -> db.takeInboxKey(""))
        .hasMessageContaining("transactional_inbox_key_valid");
  }

  @Test
  void duplicateWaitsForItsTwinAndThenFindsTheKey() throws Exception {
    assertThat(duplicateAfterTwin(false)).isFalse();
    assertThat(db.count("transactional_inbox")).isEqualTo(1);
  }

  @Test
  void duplicateWaitsForItsTwinAndTakesTheKeyThatTheTwinRolledBack() throws Exception {
    assertThat(duplicateAfterTwin(true)).isTrue();
    assertThat(db.count("transactional_inbox")).isEqualTo(1);
  }

  private boolean duplicateAfterTwin(boolean rollback) throws Exception {
    CountDownLatch finish = new CountDownLatch(1);
    CountDownLatch taken = new CountDownLatch(1);
    Future<?> twin =
        db.async(
            () ->
                db.transaction.execute(
                    status -> {
                      assertThat(db.takeInboxKey("k")).isTrue();
                      taken.countDown();
                      await(finish);
                      if (rollback) {
                        status.setRollbackOnly();
                      }
                      return null;
                    }));
    await(taken);
    Future<Boolean> duplicate = db.async(() -> db.takeInboxKey("k"));
    db.awaitBlockedSession();
    // Another message is not held up.
    assertThat(db.takeInboxKey("other")).isTrue();
    db.jdbc.update("DELETE FROM transactional_inbox WHERE idempotency_key = 'other'");
    assertThat(duplicate.isDone()).isFalse();
    finish.countDown();
    twin.get();
    return duplicate.get();
  }

  @Test
  void failuresAreCountedOverAllPods() {
    assertThat(fail("k", "first")).isEqualTo(1);
    assertThat(fail("k", "second")).isEqualTo(2);
    assertThat(fail("other", "x")).isEqualTo(1);

    assertThat(db.row("SELECT * FROM transactional_inbox_failure WHERE idempotency_key = 'k'"))
        .containsEntry("attempts", 2)
        .containsEntry("last_error", "second");
  }

  @Test
  void failuresAreForgottenWhenTheMessageTakesEffect() {
    fail("k", "x");
    fail("other", "x");

    db.takeInboxKey("k");

    assertThat(db.string("SELECT idempotency_key FROM transactional_inbox_failure"))
        .isEqualTo("other");
  }

  @Test
  void failuresAreRememberedWhenTheEffectIsRolledBack() {
    fail("k", "x");

    db.transaction.executeWithoutResult(
        status -> {
          db.takeInboxKey("k");
          status.setRollbackOnly();
        });

    assertThat(fail("k", "x")).isEqualTo(2);
  }

  @Test
  void longFailureIsCut() {
    fail("k", "€".repeat(5000));

    assertThat(db.string("SELECT char_length(last_error) FROM transactional_inbox_failure"))
        .isEqualTo("2000");
  }

  private int fail(String key, String failure) {
    return ((Number)
            db.query("consume/count-failure.sql", Map.of("idempotencyKey", key, "failure", failure))
                .get(0)
                .get("attempts"))
        .intValue();
  }

  private int bury(String key, String messageId, byte[] payload, String attributes, int attempts) {
    return db.update(
        "consume/bury.sql",
        Map.of(),
        TestDatabase.parameters(
            "idempotencyKey", key,
            "messageId", messageId,
            "payload", payload,
            "attributes", attributes,
            "reason", "the handler failed",
            "attempts", attempts,
            "publishedAt", Instant.parse("2026-01-01T00:00:00.123456Z").atOffset(ZoneOffset.UTC)));
  }

  @Test
  void deadLetterIsStoredWhole() {
    byte[] payload = new byte[256];
    for (int i = 0; i < payload.length; i++) {
      payload[i] = (byte) i;
    }
    fail("k", "x");

    assertThat(bury("k", "1", payload, "{\"a\": \"x\\u0000\", \"outbox_id\": \"k\"}", 10))
        .isEqualTo(1);

    Map<String, Object> letter = db.row("SELECT * FROM transactional_inbox_dead_letter");
    assertThat(letter)
        .containsEntry("consumer", TestDatabase.CONSUMER)
        .containsEntry("idempotency_key", "k")
        .containsEntry("message_id", "1")
        .containsEntry("payload", payload)
        .containsEntry("reason", "the handler failed")
        .containsEntry("attempts", 10);
    assertThat(letter.get("attributes")).hasToString("{\"a\": \"x\\u0000\", \"outbox_id\": \"k\"}");
    assertThat(
            db.jdbc.queryForObject(
                "SELECT published_at FROM transactional_inbox_dead_letter", OffsetDateTime.class))
        .isEqualTo("2026-01-01T00:00:00.123456Z");
    assertThat(db.count("transactional_inbox")).as("it holds no key").isZero();
    assertThat(db.count("transactional_inbox_failure")).isZero();
  }

  @Test
  void redeliveredDeadLetterIsTheSameOne() {
    bury("k", "1", new byte[] {1}, "{}", 10);
    bury("k", "2", new byte[] {1}, "{}", 10);

    assertThat(db.row("SELECT * FROM transactional_inbox_dead_letter"))
        .containsEntry("attempts", 20)
        .containsEntry("message_id", "2");
  }

  @Test
  void messagesWithoutAKeyAreToldApartByTheirMessageIds() {
    bury(null, "1", new byte[0], "{}", 1);
    bury(null, "1", new byte[0], "{}", 1);
    bury(null, "2", new byte[0], "{}", 1);
    bury("1", "3", new byte[0], "{}", 1);

    assertThat(
            db.jdbc.queryForList(
                "SELECT letter_key FROM transactional_inbox_dead_letter ORDER BY id", String.class))
        .containsExactly("message:1", "message:2", "key:1");
  }

  @Test
  void publishTimeMayBeUnknown() {
    db.update(
        "consume/bury.sql",
        Map.of(),
        TestDatabase.parameters(
            "idempotencyKey",
            null,
            "messageId",
            "1",
            "payload",
            new byte[0],
            "attributes",
            "{}",
            "reason",
            "r",
            "attempts",
            1,
            "publishedAt",
            null));

    assertThat(db.count("transactional_inbox_dead_letter WHERE published_at IS NULL")).isEqualTo(1);
  }

  @Test
  void messageWhoseTwinTookEffectIsNotBuried() {
    db.takeInboxKey("k");

    assertThat(bury("k", "1", new byte[0], "{}", 10)).isZero();
    assertThat(db.count("transactional_inbox_dead_letter")).isZero();
  }

  @Test
  void messageWhoseTwinIsBeingProcessedIsNotBuriedUntilThatEnds() throws Exception {
    assertThat(buriedBesideATwin(false)).as("the twin commits").isZero();
    assertThat(db.count("transactional_inbox_dead_letter")).isZero();
    db.jdbc.update("DELETE FROM transactional_inbox");

    assertThat(buriedBesideATwin(true)).as("the twin rolls back").isEqualTo(1);
    assertThat(db.count("transactional_inbox_dead_letter")).isEqualTo(1);
    assertThat(db.count("transactional_inbox")).as("it holds no key").isZero();
    assertThat(db.takeInboxKey("k")).as("a replay can take the key").isTrue();
  }

  private int buriedBesideATwin(boolean rollback) throws Exception {
    CountDownLatch finish = new CountDownLatch(1);
    CountDownLatch taken = new CountDownLatch(1);
    Future<?> twin =
        db.async(
            () ->
                db.transaction.execute(
                    status -> {
                      assertThat(db.takeInboxKey("k")).isTrue();
                      taken.countDown();
                      await(finish);
                      if (rollback) {
                        status.setRollbackOnly();
                      }
                      return null;
                    }));
    await(taken);
    Future<Integer> buried = db.async(() -> bury("k", "1", new byte[0], "{}", 10));
    db.awaitBlockedSession();
    finish.countDown();
    twin.get();
    return buried.get();
  }

  @Test
  void messageWhoseTwinTakesTooLongIsNeitherBuriedNorForgotten() throws Exception {
    fail("k", "x");
    CountDownLatch finish = new CountDownLatch(1);
    CountDownLatch taken = new CountDownLatch(1);
    Future<?> twin =
        db.async(
            () ->
                db.transaction.execute(
                    status -> {
                      assertThat(db.takeInboxKey("k")).isTrue();
                      taken.countDown();
                      await(finish);
                      status.setRollbackOnly();
                      return null;
                    }));
    await(taken);

    assertThatThrownBy(
            () ->
                db.transaction.execute(
                    status -> {
                      db.jdbc.execute("SET LOCAL lock_timeout = '50ms'");
                      return bury("k", "1", new byte[0], "{}", 10);
                    }))
        .rootCause()
        .hasMessageContaining("lock timeout");
    finish.countDown();
    twin.get();
    assertThat(db.count("transactional_inbox_dead_letter")).isZero();
    assertThat(db.count("transactional_inbox_failure")).isEqualTo(1);
  }

  @Test
  void whoGivesAMessageUpKeepsItsTwinsFromBeginning() throws Exception {
    CountDownLatch finish = new CountDownLatch(1);
    CountDownLatch buried = new CountDownLatch(1);
    Future<?> giver =
        db.async(
            () ->
                db.transaction.execute(
                    status -> {
                      assertThat(bury("k", "1", new byte[0], "{}", 10)).isEqualTo(1);
                      buried.countDown();
                      await(finish);
                      return null;
                    }));
    await(buried);
    Future<Boolean> twin = db.async(() -> db.takeInboxKey("k"));
    db.awaitBlockedSession();
    assertThat(twin.isDone()).isFalse();
    finish.countDown();
    giver.get();

    assertThat(twin.get()).isTrue();
  }

  @Test
  void sameKeyOfAnotherConsumerIsAnotherMessage() {
    db.takeInboxKey("k");
    db.set("twinbox.consumer", "other");

    assertThat(bury("k", "1", new byte[0], "{}", 10)).isEqualTo(1);
  }
}
