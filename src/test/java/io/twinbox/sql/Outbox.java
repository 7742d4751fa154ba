package io.twinbox.sql;

import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;

/** The outbox as a pod of dispatch uses it, for tests. */
final class Outbox {

  private final TestDatabase db;

  Outbox(TestDatabase db) {
    this.db = db;
  }

  /** Emits events without an ordering key; returns their seqs. */
  List<Long> emit(int count) {
    return emit(count, null);
  }

  /** Emits events in the order of their seqs. */
  List<Long> emit(int count, String orderingKey) {
    return db.jdbc.queryForList(
        "INSERT INTO pubsub_outbox (topic_name, payload, ordering_key)"
            + " SELECT ?, convert_to('event ' || i, 'UTF8'), ? FROM generate_series(1, ?) i"
            + " RETURNING seq",
        Long.class,
        TestDatabase.TOPIC,
        orderingKey,
        count);
  }

  long emitBytes(int bytes, String orderingKey) {
    return db.jdbc.queryForObject(
        "INSERT INTO pubsub_outbox (topic_name, payload, ordering_key) VALUES (?, ?, ?)"
            + " RETURNING seq",
        Long.class,
        TestDatabase.TOPIC,
        new byte[bytes],
        orderingKey);
  }

  Claim claim(int limit) {
    return claim(limit, "-infinity");
  }

  /** Claims what is due at or after a floor. */
  Claim claim(int limit, String floor) {
    String token = UUID.randomUUID().toString();
    return new Claim(
        token,
        db.query(
            "dispatch/claim.sql",
            Map.of("claimToken", token, "claimLimit", limit, "floor", floor)));
  }

  /** Looks at the keys behind the cursor. */
  Claim claimOrdered(int limit, String cursor) {
    return claimOrdered(limit, cursor, "-infinity", "[]");
  }

  /** Looks at the keys with a row that came due since the floor. */
  Claim claimOrderedFrom(int limit, String floor) {
    return claimOrdered(limit, "", floor, "[]");
  }

  /**
   * @param held the keys that another claim found held, as it names them
   */
  Claim claimOrdered(int limit, String cursor, String floor, String held) {
    return claimOrderedRows(limit, cursor, floor, held).claim();
  }

  /** A claim, and the rows of the statement, of which the first says what the claim looked at. */
  record OrderedClaim(Claim claim, Map<String, Object> said) {}

  OrderedClaim claimOrderedRows(int limit, String cursor, String floor, String held) {
    String token = UUID.randomUUID().toString();
    List<Map<String, Object>> rows =
        db.query(
            "dispatch/claim-ordered.sql",
            Map.of(
                "claimToken", token,
                "claimLimit", limit,
                "cursor", cursor,
                "floor", floor,
                "held", held));
    Map<String, Object> said = rows.get(0);
    return new OrderedClaim(
        new Claim(
            token,
            rows.stream().filter(row -> row.get("seq") != null).toList(),
            (String) said.get("cursor"),
            (Boolean) said.get("too_many"),
            (String) said.get("held")),
        said);
  }

  /** Claims a row whose claim ended without an outcome; a row that is given up is none. */
  Claim claimSuspect() {
    String token = UUID.randomUUID().toString();
    return new Claim(
        token,
        db.query("dispatch/claim-suspect.sql", Map.of("claimToken", token)).stream()
            .filter(row -> !(Boolean) row.get("dead_now"))
            .toList());
  }

  /**
   * A claim's rows and, of an ordered claim, where the next one goes on, whether it left nothing of
   * the keys that it looked at but what is held, whether more came due than it looks at, and the
   * keys that are held.
   */
  record Claim(
      String token, List<Map<String, Object>> rows, String cursor, boolean tooMany, String held) {

    Claim(String token, List<Map<String, Object>> rows) {
      this(token, rows, null, false, "[]");
    }

    List<Long> seqs() {
      return rows.stream().map(row -> (Long) row.get("seq")).toList();
    }

    List<String> keys() {
      return rows.stream().map(row -> (String) row.get("ordering_key")).distinct().toList();
    }
  }

  /** What became of a row: published with an id, or refused or released with an error. */
  record Outcome(long seq, String kind, String text) {

    static Outcome published(long seq) {
      return new Outcome(seq, "published", "message-" + seq);
    }

    static Outcome refused(long seq) {
      return new Outcome(seq, "refused", "INVALID_ARGUMENT: refused " + seq);
    }

    static Outcome released(long seq) {
      return new Outcome(seq, "released", "UNAVAILABLE");
    }
  }

  /** Settles as dispatch does; returns the counts. */
  Map<String, Object> settle(String token, List<Outcome> outcomes) {
    return db.queryOne("dispatch/settle.sql", Map.of("claimToken", token), settlement(outcomes));
  }

  static Map<String, Object> settlement(List<Outcome> outcomes) {
    Map<String, Object> parameters = new HashMap<>();
    for (String kind : List.of("published", "refused", "released")) {
      List<Outcome> of = outcomes.stream().filter(outcome -> outcome.kind().equals(kind)).toList();
      parameters.put(kind + "Seqs", of.stream().map(Outcome::seq).toArray(Long[]::new));
      parameters.put(
          kind.equals("published") ? "messageIds" : kind + "Errors",
          of.stream().map(Outcome::text).toArray(String[]::new));
    }
    return parameters;
  }

  Map<String, Object> publishAll(Claim claim) {
    return settle(claim.token(), claim.seqs().stream().map(Outcome::published).toList());
  }

  /** The due row of an event. */
  Map<String, Object> due(long seq) {
    return db.row("SELECT * FROM pubsub_outbox_due WHERE seq = ?", seq);
  }

  String state(long seq) {
    return db.string(
        "SELECT state FROM pubsub_outbox_status JOIN pubsub_outbox USING (id) WHERE seq = ?", seq);
  }

  void makeWaiting(long seq) {
    db.jdbc.update(
        "UPDATE pubsub_outbox_due SET next_retry_at = now() + interval '1 hour' WHERE seq = ?",
        seq);
  }

  void makeDue(long seq) {
    db.jdbc.update(
        "UPDATE pubsub_outbox_due SET next_retry_at = now(), dead_at = NULL WHERE seq = ?", seq);
  }

  void makeDead(long seq) {
    db.jdbc.update(
        "UPDATE pubsub_outbox_due SET dead_at = now(), lock_id = NULL, claim_token = NULL,"
            + " locked_at = NULL WHERE seq = ?",
        seq);
  }

  void endLeases() {
    db.jdbc.update(
        "UPDATE pubsub_outbox_due SET next_retry_at = now() WHERE claim_token IS NOT NULL");
  }
}
