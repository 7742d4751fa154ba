package io.twinbox.command;

import io.twinbox.check.CheckResult;
import io.twinbox.check.TopicCheck;
import java.io.PrintWriter;
import java.nio.file.Path;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Callable;
import picocli.CommandLine.Command;
import picocli.CommandLine.Mixin;
import picocli.CommandLine.Model.CommandSpec;
import picocli.CommandLine.Option;
import picocli.CommandLine.Parameters;
import picocli.CommandLine.Spec;

/** Checks a topic's folder before it is deployed. */
@Command(
    name = "check",
    description = {
      "Checks a topic's folder and its routes without starting anything; writes file:line: what, and how to fix it.",
      "Settings, YAML, the rules for routes and statements, endpoint options and properties are always looked at."
    })
final class CheckCommand implements Callable<Integer> {

  @Spec private CommandSpec spec;

  @Parameters(
      arity = "0..1",
      paramLabel = "FOLDER",
      description = "The topic's folder; default TWINBOX_TOPIC_DIR.")
  private Path folder;

  @Option(
      names = "--routes",
      paramLabel = "SETS",
      description =
          "The route sets that it is for, a comma list; default TWINBOX_ROUTES, else all that the folder has files for.")
  private String routes;

  @Option(
      names = "--database",
      description =
          "Have SPRING_DATASOURCE_URL prepare the statements, in a read-only transaction that is rolled back.")
  private boolean database;

  @Option(names = "--bigquery", description = "Have BigQuery try the query by a dry run.")
  private boolean bigQuery;

  @Option(names = "--pubsub", description = "Look at topic and subscription in Pub/Sub.")
  private boolean pubSub;

  @Mixin private Options.Format format;

  @Override
  public Integer call() {
    Settings settings = TwinboxCommand.settings(spec);
    settings.with("twinbox.topic-dir", folder).with("twinbox.routes", routes);
    TopicCheck check = TopicCheck.of(Path.of(settings.get("twinbox.topic-dir")));
    for (String argument : settings.arguments()) {
      String[] parts = argument.substring(2).split("=", 2);
      check.with(parts[0], parts.length > 1 ? parts[1] : "");
    }
    if (database) {
      check.database(
          settings.require("spring.datasource.url", "--spring.datasource.url=jdbc:postgresql:..."),
          settings.get("spring.datasource.username"),
          settings.get("spring.datasource.password"));
    }
    if (bigQuery) {
      // A pipeline waits half a minute, not ten.
      check.with("twinbox.produce.retry-timeout", "30s").bigQuery();
    }
    if (pubSub) {
      check.pubSub();
    }
    CheckResult result = check.run();
    PrintWriter out = spec.commandLine().getOut();
    if (format.json) {
      out.println(Table.json(json(result)));
    } else {
      print(result, out);
    }
    if (!result.unreachable().isEmpty() && result.findings().isEmpty()) {
      return Commands.COULD_NOT_LOOK;
    }
    return result.findings().isEmpty() ? Commands.GOOD : Commands.FINDINGS;
  }

  private static void print(CheckResult result, PrintWriter out) {
    result.findings().forEach(out::println);
    result.unreachable().forEach(what -> out.println("Could not be looked at: " + what));
    result.looked().forEach(what -> out.println("Looked at " + what + "."));
    result.notLooked().forEach(what -> out.println("Not looked at: " + what + "."));
    int findings = result.findings().size();
    out.println(
        findings == 0
            ? result.unreachable().isEmpty() ? "Good." : "Nothing found, but not all was seen."
            : findings == 1 ? "1 finding." : findings + " findings.");
  }

  private static Map<String, Object> json(CheckResult result) {
    List<Map<String, Object>> findings =
        result.findings().stream()
            .map(
                finding -> {
                  Map<String, Object> entry = new LinkedHashMap<>();
                  entry.put("file", finding.file());
                  entry.put("line", finding.line());
                  entry.put("route", finding.routeId());
                  entry.put("step", finding.stepId());
                  entry.put("problem", finding.problem());
                  entry.put("remedy", finding.remedy());
                  return entry;
                })
            .toList();
    Map<String, Object> all = new LinkedHashMap<>();
    all.put("good", result.good());
    all.put("findings", findings);
    all.put("unreachable", result.unreachable());
    all.put("looked", result.looked());
    all.put("not_looked", result.notLooked());
    return all;
  }
}
