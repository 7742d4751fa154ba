package io.twinbox.reconcile;

import io.twinbox.bigquery.SourceEvents;
import io.twinbox.reconcile.Spool.Event;
import java.io.IOException;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Collection;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.function.Consumer;

/**
 * Compares the events of a topic on all sides: BigQuery, outbox, Pub/Sub (what the outbox knows of
 * it) and consumer.
 *
 * <p>The span selects events three times, each by an index: in BigQuery by the watermark, in the
 * outbox by when they were put there (or, where the payload is deleted, published), in the inbox by
 * when they were applied. Every event so found, once, is then looked up on all sides by its id,
 * whenever it came there; so an event that crosses the span's border on its way is no difference.
 * The sides are asked in the order of the flow: what moves meanwhile is ahead of the question, not
 * behind it.
 */
public final class Reconciliation {

  /** A query is billed as this at least (cloud.google.com/bigquery/pricing: 10 MB per table). */
  private static final long LEAST_BILLED = 10 * 1024 * 1024;

  private static final int IDS_AT_ONCE = 500;

  /**
   * What is compared.
   *
   * @param from first moment of the span
   * @param until first moment behind it
   * @param grace how long a published event may take to be applied
   * @param listed how many ids of one kind are kept; all are counted
   * @param given settings that were given for this question alone and that a repair needs as well,
   *     as words of a command line, each after a space; empty for none
   */
  public record Question(
      String topic,
      String source,
      String consumer,
      Instant from,
      Instant until,
      Duration grace,
      int listed,
      String given) {}

  private final Question question;
  private final SourceEvents bigQuery;
  private final Side outbox;
  private final Side inbox;
  private final Consumer<String> says;
  private final Report report;
  private final Listing listing;

  /**
   * @param bigQuery null when BigQuery is not looked at
   * @param inbox null when the consumer is not ours to read
   * @param says what the user is told while it runs, the price first
   */
  public Reconciliation(
      Question question,
      SourceEvents bigQuery,
      Connection outbox,
      Connection inbox,
      Consumer<String> says) {
    this.question = question;
    this.bigQuery = bigQuery;
    this.outbox = new Side(outbox);
    this.inbox = inbox == null ? null : new Side(inbox);
    this.says = says;
    this.report = new Report(question, bigQuery, inbox != null);
    this.listing = new Listing(question, bigQuery, this.outbox, this.inbox, report);
  }

  /**
   * Compares.
   *
   * @param bytesAllowed bytes that BigQuery may process in all; 0 for no limit
   * @throws IllegalStateException when the span alone is dearer
   */
  public Report run(long bytesAllowed) throws SQLException, IOException, SourceEvents.Unreachable {
    try (Spool events = new Spool();
        Spool suspects = new Spool()) {
      if (bigQuery != null) {
        long price = bigQuery.price(false);
        says.accept(
            "BigQuery will process %,d bytes%s."
                .formatted(
                    price, bytesAllowed > 0 ? " (%,d are allowed)".formatted(bytesAllowed) : ""));
        if (bytesAllowed > 0 && billed(price) > bytesAllowed) {
          throw new IllegalStateException(
              "BigQuery would process %,d bytes (and bills 10 MB at least), and %,d are allowed (twinbox.produce.max-bytes-billed, and what the day has left). It was not asked. Choose a shorter span, or raise the limit."
                  .formatted(price, bytesAllowed));
        }
        report.bytes = price;
        listing.source(false, bytesAllowed, events);
      }
      listing.outbox(events);
      listing.inbox(events);
      events.seal();
      long suspected = 0;
      for (int part = 0; part < Spool.PARTS; part++) {
        List<Event> batch = new ArrayList<>(IDS_AT_ONCE);
        for (Event event : events.read(part)) {
          batch.add(event);
          if (batch.size() == IDS_AT_ONCE) {
            suspected += judge(batch, suspects);
            batch.clear();
          }
        }
        suspected += judge(batch, suspects);
      }
      if (suspected > 0) {
        lookElsewhere(suspected, bytesAllowed, suspects);
      }
      listing.lettersWithoutKey();
      report.finish();
      return report;
    }
  }

  // Judging ---------------------------------------------------------------------------------------

  /** Returns how many of them BigQuery must be asked about once more. */
  private int judge(List<Event> batch, Spool suspects) throws SQLException, IOException {
    if (batch.isEmpty()) {
      return 0;
    }
    String[] ids = batch.stream().map(event -> event.id.toString()).toArray(String[]::new);
    // The outbox first: what is applied was in the outbox before.
    Map<String, Map<String, Object>> sent =
        byId(
            outbox.rows(
                "outbox-states.sql",
                Map.of("ids", ids, "grace", question.grace().toSeconds() + " seconds")));
    Map<String, Map<String, Object>> applied =
        inbox == null
            ? Map.of()
            : byId(
                inbox.rows(
                    "inbox-states.sql", Map.of("ids", ids, "consumer", question.consumer())));
    List<Event> absent = new ArrayList<>();
    int suspected = 0;
    for (Event event : batch) {
      Map<String, Object> state = sent.get(event.id.toString());
      boolean known = state.get("topic_name") != null;
      if (event.has(Listing.IN_SOURCE)) {
        report.sourceEvents++;
        if (event.rows > 1) {
          report.add(Kind.DOUBLED, line(event, event.rows + " rows", null));
        }
        if (!known) {
          absent.add(event);
          continue;
        }
      } else if (!known) {
        if (event.has(Listing.IN_INBOX)) {
          report.add(Kind.UNKNOWN, line(event, null, null));
        }
        continue;
      } else if (!event.has(Listing.OURS | Listing.SERVICES)) {
        // Applied within the span, and put or published before it, or of another topic.
        continue;
      } else if (bigQuery != null && event.has(Listing.OURS)) {
        suspects.add(event.id, event.flags);
        suspected++;
      }
      Report.Stages stages = event.has(Listing.IN_SOURCE) ? report.ofSource : report.others;
      judge(event, state, applied.get(event.id.toString()), stages);
    }
    judgeAbsent(absent);
    return suspected;
  }

  private void judge(
      Event event, Map<String, Object> sent, Map<String, Object> consumed, Report.Stages stages) {
    stages.outbox++;
    boolean published = is(sent, "published");
    boolean queued = is(sent, "queued");
    if (published) {
      stages.published++;
    }
    boolean applied = consumed != null && is(consumed, "applied");
    if (applied) {
      stages.applied++;
    }
    comparePayload(event, sent);
    if (!published) {
      // Pub/Sub took it and the answer was lost, or the outbox was restored.
      String before = applied ? "applied all the same; " : "";
      if (is(sent, "dead")) {
        report.add(Kind.DEAD, line(event, before + text(sent.get("last_error")), null));
      } else if (queued) {
        report.add(
            Kind.COMING,
            line(event, before + "queued" + failed(sent, "attempts", "last_error"), null));
      } else if (is(sent, "discarded")) {
        stages.discarded++;
        report.add(Kind.DISCARDED, line(event, before + "in the outbox", null));
      } else {
        report.add(Kind.UNQUEUED, line(event, applied ? "applied all the same" : null, null));
      }
      return;
    }
    if (applied) {
      return;
    }
    if (consumed == null) {
      return;
    }
    if ("discarded".equals(consumed.get("closed_as"))) {
      stages.discarded++;
      report.add(Kind.DISCARDED, line(event, "a dead letter of the consumer", letter(consumed)));
    } else if (consumed.get("letter") != null && consumed.get("closed_as") == null) {
      if (is(consumed, "replay_requested")) {
        report.add(Kind.COMING, line(event, "its replay was asked for", letter(consumed)));
      } else {
        report.add(Kind.LETTER, line(event, (String) consumed.get("reason"), letter(consumed)));
      }
    } else if (((Number) consumed.get("failures")).intValue() > 0) {
      report.add(
          Kind.COMING, line(event, "published" + failed(consumed, "failures", "last_error"), null));
    } else if (is(sent, "dead")) {
      report.add(Kind.DEAD, line(event, (String) sent.get("last_error"), null));
    } else if (queued) {
      report.add(Kind.COMING, line(event, "queued again", null));
    } else if (is(sent, "discarded")) {
      stages.discarded++;
      report.add(Kind.DISCARDED, line(event, "in the outbox", null));
    } else if (is(sent, "published_lately")) {
      report.add(Kind.COMING, line(event, "published", null));
    } else {
      report.add(
          is(sent, "payload_kept") ? Kind.UNAPPLIED : Kind.PAYLOAD_GONE, line(event, null, null));
    }
  }

  private void comparePayload(Event event, Map<String, Object> sent) {
    // Of several rows under one key nobody can say which one is the event; that is said already.
    if (event.hash == null || event.rows > 1) {
      if (is(sent, "changed")) {
        report.add(Kind.CHANGED, line(event, null, null));
      }
    } else if (!event.hash.equals(sent.get("payload_hash"))) {
      report.add(Kind.PAYLOAD_DIFFERS, line(event, null, null));
    }
  }

  private static String letter(Map<String, Object> consumed) {
    return String.valueOf(consumed.get("letter"));
  }

  private static String failed(Map<String, Object> state, String count, String error) {
    int times = ((Number) state.get(count)).intValue();
    return times == 0 ? "" : ", failed %d times so far: %s".formatted(times, state.get(error));
  }

  /** Events of BigQuery that the outbox does not know. */
  private void judgeAbsent(List<Event> absent) throws SQLException {
    if (absent.isEmpty()) {
      return;
    }
    List<Map<String, Object>> rejects =
        outbox.rows(
            "rejects.sql",
            Map.of(
                "topic",
                question.topic(),
                "source",
                question.source(),
                "eventKeys",
                absent.stream().map(event -> event.key).toArray(String[]::new),
                "topics",
                absent.stream().map(event -> event.topic).toArray(String[]::new)));
    for (int i = 0; i < absent.size(); i++) {
      Event event = absent.get(i);
      String refused = (String) rejects.get(i).get("reason");
      if (event.has(Listing.AHEAD)) {
        report.add(Kind.COMING, line(event, "no run of produce has come so far", null));
      } else if (refused != null) {
        report.add(Kind.REJECTED, line(event, refused, null));
      } else if (event.has(Listing.ALWAYS)) {
        report.add(
            Kind.COMING, line(event, "without a position: the next run of produce reads it", null));
      } else if (event.has(Listing.IN_LOOKBACK)) {
        report.add(Kind.COMING, line(event, "within the lookback: the next run reads it", null));
      } else {
        report.add(Kind.MISSING, line(event, null, null));
      }
    }
  }

  /** What was put into the outbox within the span may have another position in BigQuery. */
  private void lookElsewhere(long suspected, long bytesAllowed, Spool suspects)
      throws SQLException, IOException, SourceEvents.Unreachable {
    boolean proven = true;
    if (bigQuery.timed()) {
      long price = bigQuery.price(true);
      says.accept(
          "%,d events of the outbox have no row in BigQuery's span; to look for them in the rest, BigQuery %s %,d bytes."
              .formatted(
                  suspected,
                  bytesAllowed > 0 && billed(report.bytes) + billed(price) > bytesAllowed
                      ? "would process"
                      : "will process",
                  price));
      proven = bytesAllowed <= 0 || billed(report.bytes) + billed(price) <= bytesAllowed;
      if (proven) {
        listing.source(true, bytesAllowed <= 0 ? 0 : bytesAllowed - billed(report.bytes), suspects);
        report.bytes += price;
      }
    }
    suspects.seal();
    for (int part = 0; part < Spool.PARTS; part++) {
      for (Event event : suspects.read(part)) {
        if (event.has(Listing.OURS) && !event.has(Listing.FOUND_ELSEWHERE)) {
          report.add(proven ? Kind.NOT_IN_BIGQUERY : Kind.UNPROVEN, line(event, null, null));
        } else if (event.has(Listing.OURS)) {
          report.elsewhere++;
        }
      }
    }
  }

  private static long billed(long bytes) {
    return Math.max(bytes, LEAST_BILLED);
  }

  private static Report.Line line(Event event, String detail, String letter) {
    return new Report.Line(event.id.toString(), event.key, detail, letter, event.watermark);
  }

  private static String text(Object value) {
    return value == null ? "" : value.toString();
  }

  private static boolean is(Map<String, Object> row, String column) {
    return Boolean.TRUE.equals(row.get(column));
  }

  private static Map<String, Map<String, Object>> byId(Collection<Map<String, Object>> rows) {
    Map<String, Map<String, Object>> byId = new HashMap<>();
    rows.forEach(row -> byId.put((String) row.get("id"), row));
    return byId;
  }
}
