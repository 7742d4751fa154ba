package io.twinbox.routes;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Set;
import org.snakeyaml.engine.v2.nodes.MappingNode;
import org.snakeyaml.engine.v2.nodes.Node;
import org.snakeyaml.engine.v2.nodes.NodeTuple;
import org.snakeyaml.engine.v2.nodes.SequenceNode;

/**
 * Reads YAML route files before Camel loads them, and says what in them would break a promise.
 *
 * <p>Why before: Camel gives up at the first file that it cannot load, with a stack trace, and
 * gladly loads what loses messages (an error handled inside a transaction, a thread beside it). A
 * static check sees what is written, in any spelling that Camel takes; what happens inside beans,
 * scripts and SQL functions is left to the checks at run time (aborted transaction, commit on
 * another connection).
 */
public final class RouteRules {
  private RouteRules() {}

  /** One file by itself; empty when it keeps all rules of its kind. */
  public static List<Finding> check(RouteFile file, Surroundings surroundings) {
    return new Checked(file, surroundings).report.findings();
  }

  /**
   * Files that are loaded together: each by itself, and what may not occur twice among them (ids of
   * routes and steps, which are JMX and metric names; names of timers, which would share a thread).
   */
  public static List<Finding> check(List<RouteFile> files, Surroundings surroundings) {
    List<Finding> findings = new ArrayList<>();
    Map<String, String> owners = new HashMap<>();
    for (RouteFile file : files) {
      Checked checked = new Checked(file, surroundings);
      checked.names.forEach(
          (name, at) -> {
            String other = owners.putIfAbsent(name, file.name());
            if (other != null && !other.equals(file.name())) {
              checked.report.at(
                  at,
                  "%s stands in %s too".formatted(name, other),
                  name.startsWith("timer")
                      ? "Give it a name of its own: timers of one name share a thread."
                      : "Give it an id of its own: Camel starts no route when an id is used twice.");
            }
          });
      findings.addAll(checked.report.findings());
    }
    return findings;
  }

  /**
   * @throws InvalidRoutesException with all findings, when there are any
   */
  public static void require(List<RouteFile> files, Surroundings surroundings) {
    List<Finding> findings = check(files, surroundings);
    if (!findings.isEmpty()) {
      throw new InvalidRoutesException(findings);
    }
  }

  /** The names of the files' statements, as `sql` steps refer to them (placeholders resolved). */
  public static Set<String> statements(List<RouteFile> files, Surroundings surroundings) {
    Set<String> references = new HashSet<>();
    files.forEach(file -> references.addAll(new Checked(file, surroundings).statements));
    return references;
  }

  /** The check of one file, with the names that it brings into the Camel context. */
  private static final class Checked {
    final Report report;
    final Map<String, Node> names = new HashMap<>();
    final Set<String> statements = new HashSet<>();
    private final RouteFile file;
    private final Surroundings surroundings;

    Checked(RouteFile file, Surroundings surroundings) {
      this.file = file;
      this.surroundings = surroundings;
      this.report = new Report(file.name());
      try {
        Optional<Node> root = Yaml.parse(file.name(), file.text());
        if (root.isEmpty()) {
          report.add(1, "the file is empty", "Write `- route:` with `id:` and `from:`.");
        } else {
          checkRoot(root.get());
        }
      } catch (Yaml.Unreadable e) {
        report.add(
            e.line, "invalid YAML: " + e.getMessage(), "Correct the line, or the one above it.");
      }
    }

    private void checkRoot(Node root) {
      if (!(root instanceof SequenceNode)) {
        report.at(
            root,
            "the top level is no list, so Camel finds no route in it",
            "Begin with `- route:`.");
        return;
      }
      for (Node twice : Yaml.duplicateKeys(root)) {
        report.at(
            twice,
            "`%s` stands twice in one mapping; only one of them would count"
                .formatted(Yaml.text(twice).orElse("")),
            "Take one out.");
      }
      int routes = 0;
      for (Node item : Yaml.items(root)) {
        if (!(item instanceof MappingNode)) {
          report.at(item, "an entry is no mapping", "Write `- route:`.");
        }
        for (NodeTuple entry : Yaml.entries(item)) {
          if (!Yaml.key(entry).equals("route")) {
            topLevel(entry);
          } else if (++routes > 1) {
            report.at(
                entry.getKeyNode(),
                "a second route in one file: nobody finds it by its name, and Kaoto shows them as"
                    + " one",
                "Move it to a file of its own.");
          } else {
            checkRoute(entry.getKeyNode(), entry.getValueNode());
          }
        }
      }
      if (routes == 0) {
        report.at(root, "the file holds no route", "Begin with `- route:`.");
      }
    }

    private void topLevel(NodeTuple entry) {
      String key = Yaml.key(entry);
      FileTables.Reason reason =
          FileTables.TOP_LEVEL.getOrDefault(
              key,
              new FileTables.Reason(
                  "Camel takes no `%s` at the top level".formatted(key), "Begin with `- route:`."));
      report.route(null);
      report.at(
          entry.getKeyNode(),
          reason.problem().startsWith(key) || reason.problem().contains("`" + key + "`")
              ? reason.problem()
              : key + ": " + reason.problem(),
          reason.remedy());
    }

    private void checkRoute(Node key, Node body) {
      Optional<String> id = Yaml.text(body, "id").filter(text -> !text.isBlank());
      report.route(id.orElse(null));
      id.ifPresent(name -> names.put("route " + name, Yaml.get(body, "id").orElse(key)));
      Node from = Yaml.get(body, "from").orElse(body);
      RouteContext route =
          new RouteContext(file, surroundings, key, body, from, Step.of(from), report);
      for (RouteSchema.Fault fault : RouteSchema.instance().validateRoute(body)) {
        route.schemaFault(fault);
      }
      FormRules.check(route, id);
      EndpointRules.check(route, statements);
      StepRules.check(route);
      if (file.kind() == Kind.HANDLER) {
        HandlerRules.check(route);
      } else {
        TransactedRules.check(route);
      }
      route
          .steps()
          .forEach(step -> step.id().ifPresent(name -> names.put("step " + name, step.at())));
      Endpoint.of(from, surroundings)
          .filter(endpoint -> Set.of("timer", "scheduler").contains(endpoint.scheme()))
          .ifPresent(
              endpoint ->
                  names.put(
                      "timer "
                          + endpoint.scheme()
                          + ":"
                          + endpoint
                              .parameter("timerName")
                              .or(() -> endpoint.parameter("name"))
                              .flatMap(Endpoint.Parameter::value)
                              .orElse(endpoint.path()),
                      endpoint.at()));
    }
  }
}
