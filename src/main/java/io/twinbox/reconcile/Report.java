package io.twinbox.reconcile;

import io.twinbox.bigquery.SourceEvents;
import java.io.PrintWriter;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.ArrayList;
import java.util.EnumMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;

/** What a reconciliation found. Counts are complete; of each kind only so many ids are kept. */
public final class Report {

  /**
   * One event of a kind.
   *
   * @param id null when it has none
   * @param key the event's key in BigQuery, null when it was not found there
   * @param detail reason, error or state; null when there is nothing to add
   * @param letter id of its dead letter, or null
   */
  record Line(String id, String key, String detail, String letter, String watermark) {}

  /** How far events came. */
  static final class Stages {
    long outbox;
    long published;
    long applied;
    long discarded;
  }

  /** How many ids one command takes; the command line of a shell has an end. */
  private static final int IDS_IN_A_COMMAND = 500;

  private final Reconciliation.Question question;
  private final boolean bigQueryLooked;
  private final boolean consumerLooked;
  private final Map<Kind, Long> counts = new EnumMap<>(Kind.class);
  private final Map<Kind, List<Line>> lines = new EnumMap<>(Kind.class);
  private final List<String> notes = new ArrayList<>();
  private final Map<Kind, List<String>> repairs = new EnumMap<>(Kind.class);
  private final Instant asked = Instant.now().truncatedTo(ChronoUnit.MILLIS);
  private String firstMissing;
  private String lastMissing;
  private final SourceEvents source;
  long sourceRows;
  long sourceEvents;
  long bytes;
  long elsewhere;
  long foreignKeys;
  long otherTopics;
  long undated;
  final Stages ofSource = new Stages();
  final Stages others = new Stages();

  Report(Reconciliation.Question question, SourceEvents source, boolean consumerLooked) {
    this.question = question;
    this.source = source;
    this.bigQueryLooked = source != null;
    this.consumerLooked = consumerLooked;
  }

  void add(Kind kind, Line line) {
    if (kind == Kind.MISSING && line.watermark() != null) {
      firstMissing = source.min(firstMissing, line.watermark());
      lastMissing = source.max(lastMissing, line.watermark());
    }
    counts.merge(kind, 1L, Long::sum);
    List<Line> kept = lines.computeIfAbsent(kind, k -> new ArrayList<>());
    if (kept.size() < question.listed()) {
      kept.add(line);
    }
  }

  /** Something that the reader must know to read the figures. */
  public void note(String note) {
    notes.add(note);
  }

  /** Whether every event of the span is where it should be, or was given up by an operator. */
  public boolean reconciled() {
    return counts.keySet().stream().noneMatch(Kind::fault);
  }

  /** How many events are of a kind. */
  public long count(Kind kind) {
    return counts.getOrDefault(kind, 0L);
  }

  void finish() {
    if (source != null && !source.timed()) {
      note(
          "The query has no watermark column, so all its events in BigQuery were compared, whatever their time.");
    }
    if (foreignKeys > 0) {
      note(
          "%,d keys of the consumer are no ids of an outbox; they were left out."
              .formatted(foreignKeys));
    }
    if (otherTopics > 0) {
      note("%,d rows of BigQuery go to other topics; they were left out.".formatted(otherTopics));
    }
    if (undated > 0) {
      note(
          "%,d rows of BigQuery have no watermark (NULL); they belong to every span and were compared."
              .formatted(undated));
    }
    if (elsewhere > 0) {
      note(
          "%,d events were put into the outbox within the span and have their time in BigQuery outside of it."
              .formatted(elsewhere));
    }
    for (Kind kind : counts.keySet()) {
      List<String> commands = commands(kind);
      if (!commands.isEmpty()) {
        repairs.put(kind, commands);
      }
    }
  }

  // Repair ----------------------------------------------------------------------------------------

  private List<String> commands(Kind kind) {
    List<Line> kept = lines.get(kind);
    return switch (kind) {
      case MISSING -> missing();
      case DEAD -> byIds(kept.stream().map(Line::id).toList(), "outbox_replay_ids", "uuid");
      case UNQUEUED, UNAPPLIED ->
          byIds(kept.stream().map(Line::id).toList(), "outbox_republish_ids", "uuid");
      case LETTER -> byIds(kept.stream().map(Line::letter).toList(), "inbox_replay_ids", "bigint");
      default -> List.of();
    };
  }

  private static List<String> byIds(List<String> ids, String function, String type) {
    List<String> commands = new ArrayList<>();
    for (int i = 0; i < ids.size(); i += IDS_IN_A_COMMAND) {
      commands.add(
          "SELECT * FROM %s(CAST('{%s}' AS %s[]), reason => 'reconcile');"
              .formatted(
                  function,
                  String.join(",", ids.subList(i, Math.min(ids.size(), i + IDS_IN_A_COMMAND))),
                  type));
    }
    return commands;
  }

  private List<String> missing() {
    if (firstMissing == null) {
      return List.of();
    }
    if (source.windowed()) {
      return List.of(
          // Named: a window that is done is not read again under its own name.
          "java -jar twinbox.jar backfill --from %s --until %s --name reconcile-%s%s"
              .formatted(
                  word(firstMissing), word(source.after(lastMissing)), asked, question.given()));
    }
    return List.of(
        "SELECT * FROM produce_watermark_set('%s', '%s', '%s', '%s', NULL, 'reconcile');"
            .formatted(
                // The watermark is that of the query's own topic, whatever topic was asked for.
                quoted(source.topic()),
                quoted(question.source()),
                source.type(),
                quoted(firstMissing)));
  }

  /** One word of a shell, whatever BigQuery has: somebody pastes it. */
  public static String word(String text) {
    if (text.matches("[^'\\p{Cntrl}]*")) {
      return "'" + text + "'";
    }
    StringBuilder word = new StringBuilder("$'");
    for (char c : text.toCharArray()) {
      if (c < ' ' || c == 0x7f) {
        word.append("\\x%02x".formatted((int) c));
      } else {
        word.append(c == '\\' || c == '\'' ? "\\" : "").append(c);
      }
    }
    return word.append("'").toString();
  }

  /** One line of a terminal: a key or an error may hold what moves its cursor. */
  static String plain(String text) {
    return text.replaceAll("\\s+", " ").replaceAll("[\\p{Cc}\\p{Cf}]", "\uFFFD");
  }

  private static String quoted(String text) {
    return text.replace("'", "''");
  }

  // Writing ---------------------------------------------------------------------------------------

  /** For a terminal. */
  public void print(PrintWriter out) {
    out.println(
        "Topic %s%s%s, from %s until %s"
            .formatted(
                question.topic(),
                question.source() == null ? "" : ", source " + question.source(),
                consumerLooked ? ", consumer " + question.consumer() : "",
                question.from(),
                question.until()));
    out.println();
    out.println("               events      beside them, not from this query");
    if (bigQueryLooked) {
      out.println(
          "  BigQuery  %,11d%s"
              .formatted(
                  sourceEvents,
                  sourceRows == sourceEvents ? "" : "      (%,d rows)".formatted(sourceRows)));
    }
    stage(out, "outbox", ofSource.outbox, others.outbox);
    stage(out, "published", ofSource.published, others.published);
    if (consumerLooked) {
      stage(out, "applied", ofSource.applied, others.applied);
    }
    if (ofSource.discarded + others.discarded > 0) {
      stage(out, "given up", ofSource.discarded, others.discarded);
    }
    out.println();
    for (Kind kind : counts.keySet()) {
      out.println("%s: %,d: %s.".formatted(kind.label(), count(kind), kind.meaning()));
      for (Line line : lines.get(kind)) {
        out.println("  " + text(line));
      }
      if (count(kind) > lines.get(kind).size()) {
        out.println("  ... and %,d more (--list)".formatted(count(kind) - lines.get(kind).size()));
      }
      repairs.getOrDefault(kind, List.of()).forEach(repair -> out.println("  Repair: " + repair));
    }
    notes.forEach(note -> out.println("Note: " + note));
    out.println(verdict());
  }

  private void stage(PrintWriter out, String name, long events, long beside) {
    out.println(
        bigQueryLooked
            ? "  %-9s %,11d %,11d".formatted(name, events, beside)
            : "  %-9s %,11d".formatted(name, events + beside));
  }

  private static String text(Line line) {
    return java.util.stream.Stream.of(
            line.id(),
            line.key() == null ? null : "key " + plain(line.key()),
            line.letter() == null ? null : "letter " + line.letter(),
            line.detail() == null ? null : plain(line.detail()))
        .filter(java.util.Objects::nonNull)
        .collect(Collectors.joining("  "));
  }

  private String verdict() {
    String sides =
        java.util.stream.Stream.of(
                bigQueryLooked ? "BigQuery" : null,
                "outbox",
                "published",
                consumerLooked ? "applied" : null)
            .filter(java.util.Objects::nonNull)
            .collect(Collectors.joining(" = "));
    String seen =
        (count(Kind.CHANGED) > 0
                ? " %,d changed later under their keys (see above).".formatted(count(Kind.CHANGED))
                : "")
            + (bigQueryLooked ? "" : " BigQuery was not looked at.")
            + (consumerLooked ? "" : " What was applied was not looked at.");
    return (reconciled()
            ? "Reconciled: %s%s."
                .formatted(sides, count(Kind.DISCARDED) > 0 ? ", but for what was given up" : "")
            : "DIFFERENT: see above.")
        + seen;
  }

  /** For a program. */
  public Map<String, Object> json() {
    Map<String, Object> all = new LinkedHashMap<>();
    all.put("reconciled", reconciled());
    all.put("topic", question.topic());
    all.put("source", question.source());
    all.put("consumer", consumerLooked ? question.consumer() : null);
    all.put("from", question.from().toString());
    all.put("until", question.until().toString());
    all.put("bigquery_looked_at", bigQueryLooked);
    all.put("consumer_looked_at", consumerLooked);
    all.put("bytes_processed", bytes);
    if (bigQueryLooked) {
      all.put("bigquery", Map.of("events", sourceEvents, "rows", sourceRows));
      all.put("from_bigquery", stages(ofSource));
    }
    all.put("others", stages(others));
    List<Map<String, Object>> findings = new ArrayList<>();
    for (Kind kind : counts.keySet()) {
      Map<String, Object> entry = new LinkedHashMap<>();
      entry.put("kind", kind.label());
      entry.put("fault", kind.fault());
      entry.put("meaning", kind.meaning());
      entry.put("count", count(kind));
      entry.put("events", lines.get(kind).stream().map(Report::entry).toList());
      entry.put("truncated", count(kind) > lines.get(kind).size());
      entry.put("repair", repairs.getOrDefault(kind, List.of()));
      findings.add(entry);
    }
    all.put("findings", findings);
    all.put("notes", notes);
    return all;
  }

  private Map<String, Object> stages(Stages stages) {
    Map<String, Object> entry = new LinkedHashMap<>();
    entry.put("outbox", stages.outbox);
    entry.put("published", stages.published);
    entry.put("applied", consumerLooked ? stages.applied : null);
    entry.put("given_up", stages.discarded);
    return entry;
  }

  private static Map<String, Object> entry(Line line) {
    Map<String, Object> entry = new LinkedHashMap<>();
    entry.put("id", line.id());
    entry.put("event_key", line.key());
    entry.put("letter", line.letter());
    entry.put("detail", line.detail());
    return entry;
  }
}
