package io.twinbox.reconcile;

import io.twinbox.bigquery.SourceEvents;
import java.io.IOException;
import java.sql.SQLException;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.UUID;

/** Gathers the events of a reconciliation's span from every side, by their ids. */
final class Listing {

  /** BigQuery has it, by the span. */
  static final int IN_SOURCE = 1;

  /** Its position is one that the next run of produce reads again. */
  static final int IN_LOOKBACK = 1 << 1;

  /** Its position is one that no run of produce has come to. */
  static final int AHEAD = 1 << 2;

  /** Every run of produce reads it: it has no position. */
  static final int ALWAYS = 1 << 3;

  /** Put into the outbox, or published, within the span, under the source that is asked for. */
  static final int OURS = 1 << 4;

  /** The same, under another source. */
  static final int SERVICES = 1 << 5;

  /** Taken by the consumer within the span. */
  static final int IN_INBOX = 1 << 6;

  /** BigQuery has it, outside of the span. */
  static final int FOUND_ELSEWHERE = 1 << 7;

  private static final int KEYS_AT_ONCE = 2_000;
  private static final int ROWS_AT_ONCE = 5_000;
  private static final int MOST_SLICES = 1_000;

  private final Reconciliation.Question question;
  private final SourceEvents bigQuery;
  private final Side outbox;
  private final Side inbox;
  private final Report report;

  Listing(
      Reconciliation.Question question,
      SourceEvents bigQuery,
      Side outbox,
      Side inbox,
      Report report) {
    this.question = question;
    this.bigQuery = bigQuery;
    this.outbox = outbox;
    this.inbox = inbox;
    this.report = report;
  }

  private record Key(
      String key, String topic, String watermark, SourceEvents.Position position, String hash) {}

  /**
   * @param elsewhere the events outside of the span instead
   */
  void source(boolean elsewhere, long bytesAllowed, Spool spool)
      throws SQLException, IOException, SourceEvents.Unreachable {
    List<Key> keys = new ArrayList<>(KEYS_AT_ONCE);
    bigQuery.read(
        elsewhere,
        bytesAllowed,
        (key, topic, watermark, position, hash) -> {
          keys.add(new Key(key, topic, watermark, position, hash));
          if (keys.size() == KEYS_AT_ONCE) {
            spoolKeys(elsewhere, keys, spool);
            keys.clear();
          }
        });
    spoolKeys(elsewhere, keys, spool);
  }

  private void spoolKeys(boolean elsewhere, List<Key> keys, Spool spool) throws IOException {
    List<Key> usable = new ArrayList<>(keys.size());
    for (Key key : keys) {
      if (!key.topic().equals(question.topic())) {
        report.otherTopics += elsewhere ? 0 : 1;
        continue;
      }
      if (!elsewhere) {
        report.sourceRows++;
        report.undated += key.watermark() == null && bigQuery.timed() ? 1 : 0;
      }
      // PostgreSQL takes no NUL; produce refuses such a row, too.
      if (key.key() != null && !key.key().isBlank() && key.key().indexOf('\0') < 0) {
        usable.add(key);
      } else if (!elsewhere) {
        report.add(Kind.NO_KEY, new Report.Line(null, key.key(), null, null, key.watermark()));
      }
    }
    if (usable.isEmpty()) {
      return;
    }
    List<Map<String, Object>> ids;
    try {
      ids =
          outbox.rows(
              "event-ids.sql",
              Map.of(
                  "topic",
                  question.topic(),
                  "source",
                  question.source(),
                  "eventKeys",
                  usable.stream().map(Key::key).toArray(String[]::new),
                  "topics",
                  usable.stream().map(Key::topic).toArray(String[]::new)));
    } catch (SQLException e) {
      throw new IOException(e);
    }
    for (int i = 0; i < usable.size(); i++) {
      Key key = usable.get(i);
      UUID id = UUID.fromString((String) ids.get(i).get("id"));
      if (elsewhere) {
        spool.add(id, FOUND_ELSEWHERE);
      } else {
        int flags =
            switch (key.position()) {
              case AHEAD -> IN_SOURCE | AHEAD;
              case LOOKBACK -> IN_SOURCE | IN_LOOKBACK;
              case ALWAYS -> IN_SOURCE | ALWAYS;
              case BEHIND -> IN_SOURCE;
            };
        spool.add(id, flags, 1, key.key(), key.topic(), key.watermark(), key.hash());
      }
    }
  }

  void outbox(Spool spool) throws SQLException, IOException {
    Map<String, Object> parameters = new HashMap<>();
    parameters.put("from", question.from().toString());
    parameters.put("until", question.until().toString());
    parameters.put("afterTime", question.from().toString());
    parameters.put("afterSeq", -1L);
    parameters.put("rows", ROWS_AT_ONCE);
    List<Map<String, Object>> page;
    do {
      page = outbox.rows("outbox-created.sql", parameters);
      for (Map<String, Object> row : page) {
        if (question.topic().equals(row.get("topic_name"))) {
          spool.add(UUID.fromString((String) row.get("id")), origin((String) row.get("source")));
        }
        parameters.put("afterTime", row.get("created_at"));
        parameters.put("afterSeq", row.get("seq"));
      }
    } while (page.size() == ROWS_AT_ONCE);
    for (Instant[] slice : slices()) {
      outbox.each(
          "published-without-payload.sql",
          Map.of(
              "topic", question.topic(), "from", slice[0].toString(), "until", slice[1].toString()),
          row -> spool.add(UUID.fromString(row.getString(1)), origin(row.getString(2))));
    }
  }

  private int origin(String source) {
    return source.equals(question.source()) ? OURS : SERVICES;
  }

  void inbox(Spool spool) throws SQLException {
    if (inbox == null) {
      return;
    }
    for (Instant[] slice : slices()) {
      inbox.each(
          "inbox-created.sql",
          Map.of(
              "consumer",
              question.consumer(),
              "from",
              slice[0].toString(),
              "until",
              slice[1].toString()),
          row -> {
            UUID id = id(row.getString(1));
            if (id == null) {
              report.foreignKeys++;
            } else {
              spool.add(id, IN_INBOX);
            }
          });
    }
  }

  /** Letters that nobody can find by the id of an event. */
  void lettersWithoutKey() throws SQLException {
    if (inbox == null) {
      return;
    }
    inbox.each(
        "letters-without-key.sql",
        Map.of(
            "consumer",
            question.consumer(),
            "from",
            question.from().toString(),
            "until",
            question.until().toString()),
        row ->
            report.add(
                Kind.LETTER_WITHOUT_KEY,
                new Report.Line(null, null, row.getString(2), row.getString(1), null)));
  }

  /** Null for a key that is no id of an outbox. */
  private static UUID id(String key) {
    try {
      UUID id = UUID.fromString(key);
      return id.toString().equals(key) ? id : null;
    } catch (IllegalArgumentException e) {
      return null;
    }
  }

  /** The span in hours, or in more where it is very long: so no statement runs for long. */
  private List<Instant[]> slices() {
    Duration whole = Duration.between(question.from(), question.until());
    Duration step = whole.dividedBy(MOST_SLICES);
    step = step.compareTo(Duration.ofHours(1)) < 0 ? Duration.ofHours(1) : step;
    List<Instant[]> slices = new ArrayList<>();
    Instant begin = question.from();
    while (begin.isBefore(question.until())) {
      Instant end = begin.plus(step);
      end = end.isAfter(question.until()) ? question.until() : end;
      slices.add(new Instant[] {begin, end});
      begin = end;
    }
    return slices;
  }
}
