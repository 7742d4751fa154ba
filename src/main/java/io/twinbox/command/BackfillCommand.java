package io.twinbox.command;

import io.twinbox.TwinboxApplication;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/** A process of {@code produce} that is told its window on the command line. */
@Command(
    name = "backfill",
    description = {
      "Reads a window of the topic's query again, step by step, into the outbox; the regular watermark does not move.",
      "Same as a process of produce with the settings twinbox.produce.backfill.* (docs/adding-a-topic.md). It is a process like that one: it migrates, opens its ports, and ends with 0 when every step is done, else with 1. Started again with the same options it goes on; several may run at once."
    })
final class BackfillCommand implements Callable<Integer> {

  @Spec private CommandSpec spec;

  @Option(
      names = "--from",
      required = true,
      paramLabel = "WATERMARK",
      description = "First position in the window, as the watermark's type: 2026-01-31T09:00:00Z.")
  private String from;

  @Option(
      names = "--until",
      required = true,
      paramLabel = "WATERMARK",
      description = "First position behind the window.")
  private String until;

  @Option(
      names = "--step",
      paramLabel = "STEP",
      description =
          "Size of one query: 1h, 7d; whole days for DATE, a number for INT64. Default: all in one.")
  private String step;

  @Option(
      names = "--name",
      paramLabel = "NAME",
      description =
          "Under which its progress is stored; another name reads a finished window again.")
  private String name;

  @Option(
      names = "--check",
      description = "Only check the query, and price the first step. Nothing is written.")
  private boolean check;

  @Override
  public Integer call() {
    Settings settings =
        TwinboxCommand.settings(spec)
            .with("twinbox.routes", "produce")
            // A command, beside whatever runs on this machine: nobody asks it for its health.
            .with("server.port", "0")
            .with("management.server.port", "0")
            .with("twinbox.produce.backfill.from", from)
            .with("twinbox.produce.backfill.until", until)
            .with("twinbox.produce.backfill.step", step)
            .with("twinbox.produce.backfill.name", name)
            .with("twinbox.produce.check", check ? "true" : null);
    TwinboxApplication.run(settings.arguments().toArray(String[]::new));
    return Commands.GOOD;
  }
}
