package io.twinbox.command;

import io.twinbox.bigquery.SourceEvents;
import io.twinbox.config.TwinboxProperties;
import io.twinbox.reconcile.Reconciliation;
import io.twinbox.reconcile.Report;
import java.io.IOException;
import java.io.PrintWriter;
import java.nio.file.Files;
import java.sql.SQLException;
import java.time.Instant;
import java.time.OffsetDateTime;
import java.time.temporal.ChronoUnit;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/** Proves that the events of a span are the same on all sides. */
@Command(
    name = "reconcile",
    description = {
      "Compares the events of a span of time in BigQuery, outbox, Pub/Sub and consumer, names every one that is not where it should be, and prints the repair.",
      "Reads only. BigQuery's price is said first and obeys the limits of produce."
    })
final class ReconcileCommand implements Callable<Integer> {

  private static final Set<String> TIMED = Set.of("TIMESTAMP", "DATETIME", "DATE");

  @Spec private CommandSpec spec;

  @Option(
      names = "--topic",
      paramLabel = "NAME",
      description = "The topic's short name; default TOPIC_NAME.")
  private String topic;

  @Option(
      names = "--source",
      paramLabel = "NAME",
      description = "The source of the events; default TWINBOX_SOURCE.")
  private String source;

  @Option(
      names = "--consumer",
      paramLabel = "NAME",
      description = "The consumer's name in the inbox; default TWINBOX_CONSUMER.")
  private String consumer;

  @Option(
      names = "--from",
      required = true,
      paramLabel = "TIME",
      description = "The span's first moment, for example 2026-01-01T00:00:00Z.")
  private String from;

  @Option(
      names = "--until",
      paramLabel = "TIME",
      description = "The first moment behind it; default now.")
  private String until;

  @Option(
      names = "--watermark-from",
      paramLabel = "VALUE",
      description = "The same span in BigQuery, where the watermark is an INT64 or a STRING.")
  private String watermarkFrom;

  @Option(names = "--watermark-until", paramLabel = "VALUE", description = "And its end.")
  private String watermarkUntil;

  @Option(
      names = "--payloads",
      description =
          "Compare the payloads, too, by their hashes. BigQuery then reads them, which costs more.")
  private boolean payloads;

  @Option(
      names = "--no-bigquery",
      description = "Do not look at BigQuery. Without a query.sql it is not looked at anyway.")
  private boolean noBigQuery;

  @Option(
      names = "--no-consumer",
      description = "Do not look at the consumer, which is not ours to read.")
  private boolean noConsumer;

  @Option(
      names = "--list",
      paramLabel = "N",
      defaultValue = "1000",
      description =
          "How many ids of each kind are listed; default ${DEFAULT-VALUE}. All are counted.")
  private int listed;

  @Mixin private Options.Format format;

  @Override
  public Integer call() throws SQLException, IOException {
    // Rows of the query that name no topic go to the folder's own, whatever --topic asks for.
    String ownTopic = TwinboxCommand.settings(spec).get("topic.name");
    Settings settings =
        TwinboxCommand.settings(spec)
            .with("topic.name", topic)
            .with("twinbox.source", source)
            .with("twinbox.consumer", consumer);
    String topicName = settings.require("topic.name", "--topic");
    TwinboxProperties properties = settings.properties();
    Instant begin = time("--from", from);
    Instant now = Instant.now();
    Instant end = until == null ? now : time("--until", until);
    boolean ahead = end.isAfter(now);
    end = ahead ? now : end;
    if (!begin.isBefore(end)) {
      throw Refused.usage("From %s until %s is no span of time.".formatted(begin, end));
    }
    if (listed < 1) {
      throw Refused.usage("--list takes 1 or more.");
    }
    boolean asksBigQuery =
        !noBigQuery && Files.isRegularFile(properties.topicDir().resolve("query.sql"));
    if (asksBigQuery) {
      settings.require("twinbox.source", "--source");
      settings.require("google.cloud.project", "--google.cloud.project=PROJECT");
    }
    String consumerName = settings.get("twinbox.consumer");
    String keyAttribute = settings.get("twinbox.consume.key-attribute");
    boolean asksConsumer =
        !noConsumer && !consumerName.isEmpty() && keyAttribute.equals("outbox_id");
    Reconciliation.Question question =
        new Reconciliation.Question(
            topicName,
            emptyToNull(settings.get("twinbox.source")),
            emptyToNull(consumerName),
            begin,
            end,
            properties.reconcile().grace(),
            listed,
            given("topic.name", ownTopic.isEmpty() ? topic : null)
                + given("twinbox.source", source));
    PrintWriter err = spec.commandLine().getErr();
    try (Database outbox = Database.of(settings, true);
        Database inbox = asksConsumer ? consumer(settings) : null) {
      Map<String, Object> read =
          outbox
              .rows(
                  io.twinbox.config.SqlFiles.read("sql/reconcile/watermark.sql"),
                  io.twinbox.operate.Repairs.parameters(
                      "topic",
                      ownTopic.isEmpty() ? topicName : ownTopic,
                      "source",
                      question.source()))
              .get(0);
      outbox.rollback();
      SourceEvents bigQuery =
          asksBigQuery
              ? source(
                  settings,
                  properties,
                  ownTopic.isEmpty() ? topicName : ownTopic,
                  begin,
                  end,
                  until == null || ahead,
                  (String) read.get("value"))
              : null;
      Reconciliation reconciliation =
          new Reconciliation(
              question,
              bigQuery,
              outbox.connection(),
              inbox == null ? null : inbox.connection(),
              err::println);
      Report report = reconciliation.run(allowed(properties, (Number) read.get("bytes_today")));
      notes(report, asksBigQuery, asksConsumer, consumerName, keyAttribute, ahead, inbox);
      if (format.json) {
        spec.commandLine().getOut().println(Table.json(report.json()));
      } else {
        report.print(spec.commandLine().getOut());
      }
      return report.reconciled() ? Commands.GOOD : Commands.FINDINGS;
    } catch (SourceEvents.Unreachable e) {
      throw Refused.couldNotLook(e.getMessage());
    } catch (IllegalStateException e) {
      throw Refused.couldNotLook(e.getMessage());
    } catch (IllegalArgumentException e) {
      throw Refused.usage(e.getMessage());
    }
  }

  private Database consumer(Settings settings) throws SQLException {
    String url = settings.get("twinbox.reconcile.consumer-url");
    return url.isEmpty()
        ? Database.of(settings, true)
        : Database.open(
            "TWINBOX_RECONCILE_CONSUMER_URL",
            url,
            settings.get("twinbox.reconcile.consumer-username"),
            settings.get("twinbox.reconcile.consumer-password"),
            true);
  }

  private SourceEvents source(
      Settings settings,
      TwinboxProperties properties,
      String ownTopic,
      Instant begin,
      Instant end,
      boolean endsNow,
      String stored)
      throws IOException {
    boolean timed = TIMED.contains(properties.produce().watermarkType());
    if (timed != (watermarkFrom == null && watermarkUntil == null)
        || !timed && (watermarkFrom == null || watermarkUntil == null)) {
      throw Refused.usage(
          timed
              ? "The watermark is a %s: --from and --until are the span in BigQuery, too. Leave --watermark-from and --watermark-until out."
                  .formatted(properties.produce().watermarkType())
              : "The watermark is %s and no time: give the span in BigQuery as --watermark-from and --watermark-until."
                  .formatted(properties.produce().watermarkType()));
    }
    return new SourceEvents(
        settings.get("google.cloud.project"),
        settings.get("bigquery.emulator.host"),
        properties,
        ownTopic,
        timed ? begin.toString() : watermarkFrom,
        timed ? (endsNow ? behind(properties, end) : end).toString() : watermarkUntil,
        stored,
        payloads);
  }

  /** A span that ends now ends with today, where the watermark says no more than the day. */
  private static Instant behind(TwinboxProperties properties, Instant now) {
    return properties.produce().watermarkType().equals("DATE")
        ? now.truncatedTo(ChronoUnit.DAYS).plus(1, ChronoUnit.DAYS)
        : now;
  }

  /** A setting of this question that the printed repair must be given, too. */
  private static String given(String setting, String value) {
    return value == null ? "" : " --%s=%s".formatted(setting, Report.word(value));
  }

  /** The limit of a run, or what the day has left. */
  private static long allowed(TwinboxProperties properties, Number today) {
    long perRun = properties.produce().maxBytesBilled();
    long perDay = properties.produce().maxBytesBilledPerDay();
    if (perDay <= 0) {
      return perRun;
    }
    long left = Math.max(1, perDay - (today == null ? 0 : today.longValue()));
    return perRun > 0 ? Math.min(perRun, left) : left;
  }

  private void notes(
      Report report,
      boolean asksBigQuery,
      boolean asksConsumer,
      String consumerName,
      String keyAttribute,
      boolean ahead,
      Database inbox) {
    if (ahead) {
      report.note("--until lies ahead; the span ends now.");
    }
    if (!asksBigQuery) {
      report.note(
          noBigQuery
              ? "BigQuery was not looked at (--no-bigquery)."
              : "BigQuery was not looked at: the topic's folder has no query.sql.");
    }
    if (!asksConsumer) {
      report.note(
          "What was applied was not looked at: "
              + (noConsumer
                  ? "--no-consumer."
                  : consumerName.isEmpty()
                      ? "no consumer is named (--consumer, TWINBOX_CONSUMER)."
                      : "its keys are the attribute %s, not outbox_id.".formatted(keyAttribute)));
    } else if (List.of(false)
        .equals(
            inbox
                .rows(
                    io.twinbox.config.SqlFiles.read("sql/reconcile/consumer-known.sql"),
                    Map.of("consumer", consumerName))
                .stream()
                .map(row -> row.get("known"))
                .toList())) {
      report.note(
          "The database that was looked at has nothing of consumer %s. If the consumer has another one, set TWINBOX_RECONCILE_CONSUMER_URL."
              .formatted(consumerName));
    }
  }

  private static String emptyToNull(String text) {
    return text.isEmpty() ? null : text;
  }

  private static Instant time(String option, String text) {
    return OffsetDateTime.parse(OutboxCommand.time(option, text)).toInstant();
  }
}
