package io.twinbox.command;

import static io.twinbox.operate.Repairs.parameters;

import java.sql.SQLException;
import java.util.concurrent.Callable;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;

/** The inbox's repairs: the functions of {@code V4__repair.sql}, which JMX calls too. */
@Command(
    name = "inbox",
    description = {
      "Looks at a consumer's messages that could not take effect (dead letters) and repairs them.",
      "Same as the SQL functions inbox_... and the JMX bean Inbox (docs/repair.md). SPRING_DATASOURCE_URL is the consumer's database."
    })
final class InboxCommand implements Callable<Integer> {

  @Spec private CommandSpec spec;

  @Option(
      names = "--consumer",
      scope = CommandLine.ScopeType.INHERIT,
      paramLabel = "NAME",
      description = "The consumer's name in the inbox; default TWINBOX_CONSUMER.")
  private String consumer;

  @Override
  public Integer call() {
    throw new CommandLine.ParameterException(
        spec.commandLine(), "A command is missing: what shall be done with the inbox?");
  }

  private Settings settings() {
    return TwinboxCommand.settings(spec).with("twinbox.consumer", consumer);
  }

  private String consumerName() {
    return settings().require("twinbox.consumer", "--consumer");
  }

  private java.io.PrintWriter out() {
    return spec.commandLine().getOut();
  }

  @Command(description = "Lists the consumer's open dead letters, oldest failure first.")
  int dead(
      @Mixin Options.Filters filters, @Mixin Options.MaxRows rows, @Mixin Options.Format format)
      throws SQLException {
    String name = consumerName();
    try (Database database = Database.of(settings(), true)) {
      Table.print(
          out(),
          database.operate(
              "inbox-dead.sql",
              parameters(
                  "consumer",
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
          "Applies dead letters again: these ids, or all of the consumer that match the filters. A process with consume does it, in the background.")
  int replay(
      @Mixin Options.Ids ids,
      @Mixin Options.Filters filters,
      @Mixin Options.MaxRows rows,
      @Mixin Options.Change change)
      throws SQLException {
    if (ids.given() && filters.given()) {
      throw new CommandLine.ParameterException(spec.commandLine(), "Give either ids, or filters.");
    }
    if (ids.given()) {
      return Changes.run(
          settings(),
          out(),
          change,
          "inbox-replay-ids.sql",
          parameters("ids", ids.joined()),
          row -> "Replays asked for: %s.".formatted(row.get("requested")));
    }
    return Changes.run(
        settings(),
        out(),
        change,
        "inbox-replay.sql",
        parameters(
            "consumer",
            consumerName(),
            "errorLike",
            filters.errorLike,
            "olderThan",
            filters.olderThan,
            "maxRows",
            rows.or(10_000)),
        row ->
            "Replays asked for: %s.%s"
                .formatted(
                    row.get("requested"),
                    Boolean.TRUE.equals(row.get("more")) ? " More match: run it again." : ""));
  }

  @Command(description = "Gives these dead letters up: their messages never take effect.")
  int discard(@Mixin Options.Ids ids, @Mixin Options.Change change) throws SQLException {
    if (!ids.given()) {
      throw new CommandLine.ParameterException(
          spec.commandLine(), "Ids are missing; `inbox dead` lists them.");
    }
    return Changes.run(
        settings(),
        out(),
        change,
        "inbox-discard-ids.sql",
        parameters("ids", ids.joined()),
        row -> "Discarded: %s.".formatted(row.get("discarded")));
  }

  @Command(
      name = "assign-key",
      description =
          "Gives a dead letter that came without a usable key the key of its event, so that it can be replayed.")
  int assignKey(
      @Parameters(index = "0", paramLabel = "ID", description = "The letter's id.") long id,
      @Parameters(index = "1", paramLabel = "KEY", description = "The key that the event has.")
          String key,
      @Mixin Options.Change change)
      throws SQLException {
    return Changes.run(
        settings(),
        out(),
        change,
        "inbox-assign-key.sql",
        parameters("id", id, "key", key),
        row -> "Letter %d has its key; it is not replayed by this alone.".formatted(id));
  }

  @Command(description = "Shows who repaired what and why, newest first.")
  int audit(@Mixin Options.MaxRows rows, @Mixin Options.Format format) throws SQLException {
    String name = consumerName();
    try (Database database = Database.of(settings(), true)) {
      Table.print(
          out(),
          database.operate(
              "audit.sql", parameters("topic", null, "consumer", name, "maxRows", rows.or(100))),
          format.json);
    }
    return Commands.GOOD;
  }
}
