package io.twinbox.command;

import static io.twinbox.operate.Repairs.parameters;

import io.twinbox.operate.Repairs;
import java.sql.SQLException;
import java.util.Map;
import java.util.concurrent.Callable;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/** The outbox's repairs: the functions of {@code V4__repair.sql}, which JMX calls too. */
@Command(
    name = "outbox",
    description = {
      "Looks at a topic's events on their way to Pub/Sub and repairs them: dead, discarded, published ones.",
      "Same as the SQL functions outbox_... and the JMX bean Outbox (docs/repair.md)."
    })
final class OutboxCommand implements Callable<Integer> {

  @Spec private CommandSpec spec;

  @Option(
      names = "--topic",
      scope = CommandLine.ScopeType.INHERIT,
      paramLabel = "NAME",
      description = "The topic's short name; default TOPIC_NAME.")
  private String topic;

  @Override
  public Integer call() {
    throw new CommandLine.ParameterException(
        spec.commandLine(), "A command is missing: what shall be done with the outbox?");
  }

  private Settings settings() {
    return TwinboxCommand.settings(spec).with("topic.name", topic);
  }

  private String topicName() {
    return settings().require("topic.name", "--topic");
  }

  private java.io.PrintWriter out() {
    return spec.commandLine().getOut();
  }

  @Command(description = "Shows what is queued, over all topics of the database.")
  int backlog(@Mixin Options.Format format) throws SQLException {
    try (Database database = Database.of(settings(), true)) {
      Table.print(out(), database.operate("outbox-backlog.sql", Map.of()), format.json);
    }
    return Commands.GOOD;
  }

  @Command(description = "Lists the topic's dead events, those that died first first.")
  int dead(
      @Mixin Options.Filters filters, @Mixin Options.MaxRows rows, @Mixin Options.Format format)
      throws SQLException {
    String name = topicName();
    try (Database database = Database.of(settings(), true)) {
      Table.print(
          out(),
          database.operate(
              "outbox-dead.sql",
              parameters(
                  "topic",
                  name,
                  "errorLike",
                  filters.errorLike,
                  "olderThan",
                  filters.olderThan,
                  "maxRows",
                  rows.or(100))),
          format.json);
    }
    return Commands.GOOD;
  }

  @Command(
      description =
          "Sends dead events again: these ids, or all of the topic that match the filters.")
  int replay(
      @Mixin Options.Ids ids,
      @Mixin Options.Filters filters,
      @Mixin Options.MaxRows rows,
      @Option(
              names = "--per-second",
              paramLabel = "N",
              defaultValue = "500",
              description = "How many become due each second; default ${DEFAULT-VALUE}.")
          int perSecond,
      @Option(names = "--not-before", paramLabel = "TIME", description = "The first is due then.")
          String notBefore,
      @Mixin Options.Change change)
      throws SQLException {
    if (ids.given()) {
      notBoth(filters);
      return Changes.run(
          settings(),
          out(),
          change,
          "outbox-replay-ids.sql",
          parameters("ids", ids.joined()),
          row -> "Queued again: %s.".formatted(row.get("replayed")));
    }
    return Changes.run(
        settings(),
        out(),
        change,
        "outbox-replay.sql",
        parameters(
            "topic",
            topicName(),
            "errorLike",
            filters.errorLike,
            "olderThan",
            filters.olderThan,
            "maxRows",
            rows.or(100_000),
            "perSecond",
            perSecond,
            "notBefore",
            time("--not-before", notBefore)),
        row ->
            "Queued again: %s. The last one is due at %s.%s"
                .formatted(
                    row.get("replayed"), Repairs.instant(row.get("last_due_at")), more(row)));
  }

  @Command(
      description =
          "Gives events up: these ids (dead, due or waiting), or all dead ones of the topic that match the filters.")
  int discard(
      @Mixin Options.Ids ids,
      @Mixin Options.Filters filters,
      @Mixin Options.MaxRows rows,
      @Mixin Options.Change change)
      throws SQLException {
    if (ids.given()) {
      notBoth(filters);
      return Changes.run(
          settings(),
          out(),
          change,
          "outbox-discard-ids.sql",
          parameters("ids", ids.joined()),
          row -> "Discarded: %s.".formatted(row.get("discarded")));
    }
    return Changes.run(
        settings(),
        out(),
        change,
        "outbox-discard.sql",
        parameters(
            "topic",
            topicName(),
            "errorLike",
            filters.errorLike,
            "olderThan",
            filters.olderThan,
            "maxRows",
            rows.or(1_000)),
        row -> "Discarded: %s.%s".formatted(row.get("discarded"), more(row)));
  }

  @Command(
      description =
          "Sends published events again under their ids: these, or the topic's that were published from --from until --until. Discarded ones by id only.")
  int republish(
      @Mixin Options.Ids ids,
      @Option(
              names = "--from",
              paramLabel = "TIME",
              description = "Published at or after, for example 2026-01-31T09:00:00Z.")
          String from,
      @Option(names = "--until", paramLabel = "TIME", description = "Published before.")
          String until,
      @Mixin Options.MaxRows rows,
      @Option(
              names = "--per-second",
              paramLabel = "N",
              defaultValue = "500",
              description = "How many become due each second; default ${DEFAULT-VALUE}.")
          int perSecond,
      @Option(names = "--not-before", paramLabel = "TIME", description = "The first is due then.")
          String notBefore,
      @Mixin Options.Change change)
      throws SQLException {
    if (ids.given() == (from != null || until != null)) {
      throw new CommandLine.ParameterException(
          spec.commandLine(), "Give either ids, or --from and --until.");
    }
    if (ids.given()) {
      return Changes.run(
          settings(),
          out(),
          change,
          "outbox-republish-ids.sql",
          parameters("ids", ids.joined()),
          OutboxCommand::republished);
    }
    return Changes.run(
        settings(),
        out(),
        change,
        "outbox-republish.sql",
        parameters(
            "topic",
            topicName(),
            "from",
            time("--from", from),
            "until",
            time("--until", until),
            "maxRows",
            rows.or(100_000),
            "perSecond",
            perSecond,
            "notBefore",
            time("--not-before", notBefore)),
        row ->
            republished(row)
                + (row.get("next_from") == null
                    ? " The span is done."
                    : " Not done: run it again with --from %s --not-before %s."
                        .formatted(
                            Repairs.instant(row.get("next_from")),
                            Repairs.instant(row.get("last_due_at")))));
  }

  @Command(description = "Shows who repaired what and why, newest first.")
  int audit(@Mixin Options.MaxRows rows, @Mixin Options.Format format) throws SQLException {
    String name = topicName();
    try (Database database = Database.of(settings(), true)) {
      Table.print(
          out(),
          database.operate(
              "audit.sql", parameters("topic", name, "consumer", null, "maxRows", rows.or(100))),
          format.json);
    }
    return Commands.GOOD;
  }

  private void notBoth(Options.Filters filters) {
    if (filters.given()) {
      throw new CommandLine.ParameterException(spec.commandLine(), "Give either ids, or filters.");
    }
  }

  static String time(String option, String text) {
    try {
      return Repairs.time(option, text);
    } catch (IllegalArgumentException e) {
      throw Refused.usage(e.getMessage());
    }
  }

  private static String more(Map<String, Object> row) {
    return Boolean.TRUE.equals(row.get("more")) ? " More match: run it again." : "";
  }

  private static String republished(Map<String, Object> row) {
    return "Queued again: %s. Were queued already: %s. Had no payload any more: %s."
        .formatted(row.get("queued"), row.get("already_queued"), row.get("without_payload"));
  }
}
