package io.twinbox.command;

import io.twinbox.TwinboxApplication;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/** One run of {@code produce}, or its check, whatever the folder says of a schedule. */
@Command(
    name = "produce",
    description = {
      "Reads the topic's query from the last watermark into the outbox, once.",
      "Same as a process of produce without a schedule: it migrates, and ends with 0 when all rows and the watermark are committed, else with 1. Several at once do no harm. With --check nothing is run and nothing is written: a dry run, the columns and the price."
    })
final class ProduceCommand implements Callable<Integer> {

  @Spec private CommandSpec spec;

  @Option(
      names = "--check",
      description =
          "Only a dry run: is the query right, are its columns, what does it cost. Nothing is written.")
  private boolean check;

  @Override
  public Integer call() {
    Settings settings =
        TwinboxCommand.settings(spec)
            .with("twinbox.routes", "produce")
            .with("twinbox.produce.schedule", "-")
            // A command, beside whatever runs on this machine: nobody asks it for its health.
            .with("server.port", "0")
            .with("management.server.port", "0")
            .with("twinbox.produce.check", check ? "true" : null);
    TwinboxApplication.run(settings.arguments().toArray(String[]::new));
    return Commands.GOOD;
  }
}
