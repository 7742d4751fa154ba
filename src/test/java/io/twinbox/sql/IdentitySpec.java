package io.twinbox.sql;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.ByteArrayOutputStream;
import java.io.DataOutputStream;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.util.HashSet;
import java.util.List;
import java.util.UUID;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** The ids of events: computed ones and new ones. */
abstract class IdentitySpec extends DatabaseSpec {

  @ParameterizedTest
  @CsvSource({
    // Written down once: an id that changes makes every event of the past a new one.
    "invoices, billing, INV-1:issued, 7a8e8582-9423-87a3-8c23-02f95c9464b2",
  })
  void idOfAnEventNeverChanges(String topic, String source, String key, String expected) {
    assertThat(eventId(topic, source, key)).hasToString(expected);
  }

  @ParameterizedTest
  @CsvSource({
    "invoices, billing, INV-1:issued",
    "rechnungen, büro, Müller/€ 𝄞",
    "t.t, s, k",
    "'', '', ''",
  })
  void idIsTheHashOfTheLengthPrefixedParts(String topic, String source, String key)
      throws Exception {
    ByteArrayOutputStream bytes = new ByteArrayOutputStream();
    DataOutputStream out = new DataOutputStream(bytes);
    for (String part : List.of(topic, source, key)) {
      byte[] utf8 = part.getBytes(StandardCharsets.UTF_8);
      out.writeInt(utf8.length);
      out.write(utf8);
    }
    byte[] hash = MessageDigest.getInstance("SHA-256").digest(bytes.toByteArray());
    hash[6] = (byte) (hash[6] & 0x0f | 0x80);
    hash[8] = (byte) (hash[8] & 0x3f | 0x80);
    ByteBuffer first16 = ByteBuffer.wrap(hash);
    UUID expected = new UUID(first16.getLong(), first16.getLong());

    UUID id = eventId(topic, source, key);

    assertThat(id).isEqualTo(expected);
    assertThat(id.version()).isEqualTo(8);
    assertThat(id.variant()).isEqualTo(2);
  }

  @Test
  void charactersThatMoveBetweenThePartsMakeAnotherId() {
    assertThat(
            new HashSet<>(
                List.of(
                    eventId("a", "bc", "d"),
                    eventId("ab", "c", "d"),
                    eventId("a", "b", "cd"),
                    eventId("a", "", "bcd"))))
        .hasSize(4);
  }

  @Test
  void newIdIsATimeOrderedUuidOfVersion7() {
    long before = System.currentTimeMillis();
    UUID id = db.jdbc.queryForObject("SELECT outbox_new_id()", UUID.class);
    long after = System.currentTimeMillis();

    assertThat(id.version()).isEqualTo(7);
    assertThat(id.variant()).isEqualTo(2);
    assertThat(id.getMostSignificantBits() >>> 16).isBetween(before - 2, after + 2);
  }

  @Test
  void newIdsAreUniqueAndFollowTheClock() {
    List<String> ids =
        db.jdbc.queryForList("SELECT outbox_new_id() FROM generate_series(1, 10000)", String.class);

    assertThat(new HashSet<>(ids)).hasSize(10_000);
    assertThat(ids.stream().map(id -> id.substring(0, 13)).toList()).isSorted();
  }

  private UUID eventId(String topic, String source, String key) {
    return db.jdbc.queryForObject(
        "SELECT outbox_event_id(?, ?, ?)", UUID.class, topic, source, key);
  }
}
