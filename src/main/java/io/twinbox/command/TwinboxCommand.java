package io.twinbox.command;

import java.util.concurrent.Callable;
import picocli.CommandLine;
import picocli.CommandLine.Command;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Spec;

/** The root: every command is registered here. */
@Command(
    description = {
      "Moves events from BigQuery or a service's transaction to Pub/Sub and into a consumer's database, once.",
      ""
    },
    synopsisHeading = "Usage: ",
    customSynopsis = {
      "java -jar twinbox.jar                                  runs the route sets of TWINBOX_ROUTES",
      "       java -jar twinbox.jar <command> [options]              does one thing and ends"
    },
    commandListHeading = "%nCommands (help <command>, or <command> --help, says its options):%n",
    footerHeading = "%nExit codes:%n",
    footer = {
      "  0  done, and all is well",
      "  1  done, and there is something to look at; or the database refused the change",
      "  2  the command line or a setting is wrong; nothing was done",
      "  3  something that had to be looked at could not be reached; nothing is known",
      "",
      "Settings are those of a process: environment variables, topic.properties of TWINBOX_TOPIC_DIR, and",
      "--name.with.dots=value anywhere on the line, for example --twinbox.topic-dir=topics/orders."
    },
    subcommands = {
      CheckCommand.class,
      ReconcileCommand.class,
      OutboxCommand.class,
      InboxCommand.class,
      ProduceCommand.class,
      BackfillCommand.class
    },
    versionProvider = TwinboxCommand.Version.class)
final class TwinboxCommand implements Callable<Integer> {

  private final Settings settings;

  @Spec private CommandSpec spec;

  @Option(
      names = {"-h", "--help"},
      usageHelp = true,
      scope = CommandLine.ScopeType.INHERIT,
      description = "Says what there is.")
  private boolean help;

  @Option(
      names = {"-V", "--version"},
      versionHelp = true,
      description = "Says which version this is.")
  private boolean version;

  TwinboxCommand(Settings settings) {
    this.settings = settings;
  }

  /** The settings that all commands share; {@code spec} is the one of any of them. */
  static Settings settings(CommandSpec spec) {
    return ((TwinboxCommand) spec.root().userObject()).settings;
  }

  @Override
  public Integer call() {
    throw new CommandLine.ParameterException(spec.commandLine(), "A command is missing");
  }

  static final class Version implements CommandLine.IVersionProvider {
    @Override
    public String[] getVersion() {
      String version = TwinboxCommand.class.getPackage().getImplementationVersion();
      return new String[] {"twinbox " + (version == null ? "(unpackaged)" : version)};
    }
  }
}
