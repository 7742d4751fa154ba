package io.twinbox.command;

import ch.qos.logback.classic.Level;
import ch.qos.logback.classic.LoggerContext;
import ch.qos.logback.classic.encoder.PatternLayoutEncoder;
import ch.qos.logback.classic.spi.ILoggingEvent;
import ch.qos.logback.core.ConsoleAppender;
import io.twinbox.config.Causes;
import io.twinbox.config.StartupException;
import io.twinbox.config.StartupFailureAnalyzer;
import java.io.PrintWriter;
import java.util.ArrayList;
import java.util.List;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Pattern;
import org.slf4j.LoggerFactory;
import org.springframework.boot.diagnostics.FailureAnalysis;
import picocli.CommandLine;

/**
 * The command line of the jar: {@code java -jar twinbox.jar <command>}. A command starts no route,
 * opens no port and makes no Spring context; it reads the same settings as a process (environment,
 * {@code topic.properties}, and {@code --name.with.dots=value} anywhere on the line).
 */
public final class Commands {

  /** Done, and all is well. */
  public static final int GOOD = 0;

  /** Done, and there is something to look at; or the database refused the repair. */
  public static final int FINDINGS = 1;

  /** The command line or a setting is wrong; nothing was done. */
  public static final int USAGE = 2;

  /** A service that had to be looked at could not be; nothing is known. */
  public static final int COULD_NOT_LOOK = 3;

  private static final Pattern SETTING =
      Pattern.compile("--[A-Za-z][\\w-]*(?:\\.[\\w\\[\\]-]+)+(?:=.*)?", Pattern.DOTALL);

  private Commands() {}

  /**
   * Whether the arguments are a command's. Settings alone, or nothing, start the route sets;
   * anything else is a command, or a mistake that {@link #run} explains.
   */
  public static boolean isFor(String[] args) {
    for (String arg : args) {
      // The two switches of Spring Boot that have no dot.
      if (!SETTING.matcher(arg).matches() && !arg.equals("--debug") && !arg.equals("--trace")) {
        return true;
      }
    }
    return false;
  }

  /**
   * Runs one command.
   *
   * @return the exit code
   */
  public static int run(String... args) {
    return run(new PrintWriter(System.out, true), new PrintWriter(System.err, true), args);
  }

  static int run(PrintWriter out, PrintWriter err, String... args) {
    quieten();
    List<String> settings = new ArrayList<>();
    List<String> words = new ArrayList<>();
    for (String arg : args) {
      (SETTING.matcher(arg).matches() ? settings : words).add(arg);
    }
    if (!words.isEmpty() && words.get(0).equals("help")) {
      words.add("--help");
      words.remove(0);
    }
    Settings shared = new Settings(settings);
    CommandLine line =
        new CommandLine(new TwinboxCommand(shared))
            // What a person types; every usage and hint begins with it.
            .setCommandName("java -jar twinbox.jar")
            .setOut(out)
            .setErr(err)
            .setCaseInsensitiveEnumValuesAllowed(true)
            .setUsageHelpLongOptionsMaxWidth(28)
            .setUsageHelpWidth(120);
    line.setParameterExceptionHandler((mistake, typed) -> explain(mistake));
    line.setExecutionExceptionHandler(
        (failure, command, result) -> explain(failure, shared, command));
    return line.execute(words.toArray(String[]::new));
  }

  /** What cannot be on the line, and what can. */
  private static int explain(CommandLine.ParameterException mistake) {
    CommandLine command = mistake.getCommandLine();
    PrintWriter err = command.getErr();
    String name = command.getCommandSpec().qualifiedName();
    Set<String> commands = new TreeSet<>(command.getSubcommands().keySet());
    String word =
        mistake instanceof CommandLine.UnmatchedArgumentException unmatched
            ? unmatched.getUnmatched().get(0)
            : null;
    if (word != null && !word.startsWith("-") && !commands.isEmpty()) {
      err.println(
          "There is no command `%s`%s. There are: %s."
              .formatted(
                  word,
                  name.endsWith(".jar") ? "" : " of " + command.getCommandName(),
                  String.join(", ", commands)));
    } else {
      err.println(mistake.getMessage());
      CommandLine.UnmatchedArgumentException.printSuggestions(mistake, err);
      if (!commands.isEmpty()) {
        err.println("There are: %s.".formatted(String.join(", ", commands)));
      }
    }
    err.println("  What to do: `%s --help` says what can be given.".formatted(name));
    return USAGE;
  }

  /** What is wrong and what to do, as a process that does not start says it. */
  private static int explain(Exception failure, Settings settings, CommandLine command) {
    PrintWriter err = command.getErr();
    if (failure instanceof Refused refused) {
      err.println(refused.getMessage());
      return refused.exitCode();
    }
    FailureAnalysis analysis = new StartupFailureAnalyzer(settings.loadedOrNull()).analyze(failure);
    if (analysis == null) {
      err.println(command.getCommandSpec().qualifiedName() + ": " + Causes.describe(failure));
      return COULD_NOT_LOOK;
    }
    err.println(analysis.getDescription().strip());
    if (analysis.getAction() != null && !analysis.getAction().isBlank()) {
      err.println("  What to do: " + analysis.getAction().strip());
    }
    return Causes.any(failure, StartupException.class::isInstance)
            || failure instanceof org.springframework.boot.context.properties.bind.BindException
        ? USAGE
        : COULD_NOT_LOOK;
  }

  /**
   * Results go to the output; what libraries have to say goes to the error output, warnings only.
   */
  private static void quieten() {
    if (LoggerFactory.getILoggerFactory() instanceof LoggerContext context
        // Within a running Twinbox, as in a test, its own logging stands.
        && context.getObject("org.springframework.boot.logging.LoggingSystem") == null) {
      context.reset();
      PatternLayoutEncoder encoder = new PatternLayoutEncoder();
      encoder.setContext(context);
      encoder.setPattern("%msg%n");
      encoder.start();
      ConsoleAppender<ILoggingEvent> console = new ConsoleAppender<>();
      console.setContext(context);
      console.setTarget("System.err");
      console.setEncoder(encoder);
      console.start();
      context.getLogger(org.slf4j.Logger.ROOT_LOGGER_NAME).addAppender(console);
      context.getLogger(org.slf4j.Logger.ROOT_LOGGER_NAME).setLevel(Level.ERROR);
      context.getLogger("io.twinbox").setLevel(Level.WARN);
    }
  }
}
