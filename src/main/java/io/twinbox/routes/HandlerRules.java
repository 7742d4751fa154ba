package io.twinbox.routes;

import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.regex.Pattern;
import org.snakeyaml.engine.v2.nodes.MappingNode;
import org.snakeyaml.engine.v2.nodes.Node;
import org.snakeyaml.engine.v2.nodes.NodeTuple;
import org.snakeyaml.engine.v2.nodes.SequenceNode;

/**
 * What the tables cannot say about a handler: it runs inside the transaction that holds the inbox
 * key, so all of its effect must be in that transaction, and every error must leave the route.
 */
final class HandlerRules {
  private static final String START = "handle";
  private static final Pattern REACHES_CAMEL =
      Pattern.compile("(?:\\*|Camel).*|.*[\\[(|.].*", Pattern.CASE_INSENSITIVE);

  private HandlerRules() {}

  static void check(RouteContext route) {
    start(route);
    for (NodeTuple option : Yaml.entries(route.body())) {
      FileTables.Reason refused = FileTables.HANDLER_ROUTE_REFUSED.get(Yaml.key(option));
      if (refused != null) {
        route
            .report()
            .at(
                option.getKeyNode(),
                "`%s`: %s".formatted(Yaml.key(option), refused.problem()),
                refused.remedy());
      }
    }
    Set<String> known = RouteSchema.instance().stepNames();
    for (Step step : route.steps()) {
      if (!step.clause() && known.contains(step.name()) && !decided(step.name())) {
        route
            .report()
            .at(
                step.at(),
                step,
                "nobody has checked that `%s` stays in the transaction and lets errors through"
                    .formatted(step.name()),
                "Use another step, or have it added to Twinbox's rules with a test.");
      }
      endpoint(route, step);
      properties(route, step);
      if (step.name().equals("doTry")) {
        doTry(route, step);
      }
      aggregation(route, step);
    }
  }

  /** Whether a table allows or refuses the step by name. */
  static boolean decided(String step) {
    return RuleTables.HANDLER_STEPS.contains(step)
        || RuleTables.RULES.stream()
            .anyMatch(
                rule -> !rule.scheme() && rule.option() == null && rule.names().contains(step));
  }

  private static void start(RouteContext route) {
    Optional<Endpoint> from = Endpoint.of(route.from(), route.surroundings());
    if (from.isEmpty()) {
      return; // The schema has said so.
    }
    Endpoint endpoint = from.get();
    String name =
        endpoint.parameter("name").flatMap(Endpoint.Parameter::value).orElse(endpoint.path());
    if (!endpoint.scheme().equals("direct") || !name.equals(START)) {
      route
          .report()
          .at(
              endpoint.at(),
              "the handler does not start at direct:handle, so the consumer does not find it and every"
                  + " message fails",
              "Write `uri: direct` with `name: handle` under `parameters:`.");
    }
  }

  private static void endpoint(RouteContext route, Step step) {
    Report report = route.report();
    switch (step.name()) {
      case "toD" -> {
        Node uri = Yaml.get(step.body(), "uri").orElse(step.body());
        boolean dynamic =
            Yaml.text(uri)
                    .filter(text -> Expressions.dynamic(text) || text.contains("language:"))
                    .isPresent()
                || Yaml.get(step.body(), "parameters").filter(HandlerRules::anyDynamic).isPresent();
        if (dynamic) {
          chosen(report, uri, step);
        }
      }
      case "enrich" -> {
        Optional<Expressions> expression = Expressions.of(step.body());
        if (expression.isEmpty() || expression.get().dynamic()) {
          chosen(report, expression.map(Expressions::at).orElse(step.at()), step);
        }
      }
      default -> {}
    }
    EndpointRules.target(step, route.surroundings())
        .filter(target -> !Expressions.dynamic(target.uri()))
        .filter(target -> !RuleTables.HANDLER_SCHEMES.contains(target.scheme()))
        .filter(target -> !refusedByTable(target.scheme()))
        .ifPresent(
            target ->
                report.at(
                    target.at(),
                    step,
                    "nobody has checked that `%s` joins the transaction, so its effect may stay when"
                            .formatted(target.scheme())
                        + " the message is rolled back",
                    "Use %s; call other systems after the commit, by outbox_put."
                        .formatted(
                            String.join(
                                ", ", RuleTables.HANDLER_SCHEMES.stream().sorted().toList()))));
  }

  private static void chosen(Report report, Node at, Step step) {
    report.at(
        at,
        step,
        "the message's own headers or body choose the endpoint, so whoever publishes chooses what this"
            + " process calls",
        "Write `choice` with one `to` for each endpoint.");
  }

  private static boolean refusedByTable(String scheme) {
    return RuleTables.RULES.stream()
        .anyMatch(rule -> rule.scheme() && rule.option() == null && rule.names().contains(scheme));
  }

  private static boolean anyDynamic(Node node) {
    return Yaml.text(node).filter(Expressions::dynamic).isPresent()
        || (node instanceof SequenceNode
            && Yaml.items(node).stream().anyMatch(HandlerRules::anyDynamic))
        || (node instanceof MappingNode
            && Yaml.entries(node).stream().anyMatch(entry -> anyDynamic(entry.getValueNode())));
  }

  /**
   * Exchange properties named Camel… are how Camel routes, reports errors and keeps the
   * transaction's data.
   */
  private static void properties(RouteContext route, Step step) {
    String option =
        switch (step.name()) {
          case "setProperty", "removeProperty" -> "name";
          case "removeProperties" -> "pattern";
          default -> null;
        };
    if (option == null) {
      return;
    }
    Node at = Yaml.get(step.body(), option).orElse(step.body());
    String name = Yaml.text(at).orElse("").trim();
    if (Expressions.dynamic(name)
        || (option.equals("name")
            ? name.regionMatches(true, 0, "Camel", 0, 5)
            : REACHES_CAMEL.matcher(name).matches())) {
      route
          .report()
          .at(
              at,
              step,
              "the exchange property `%s` is Camel's own: by these it routes, reports errors and keeps"
                      .formatted(name)
                  + " the transaction's data",
              "Use a variable (`setVariable`), or a name that does not begin with Camel.");
    }
  }

  /**
   * A doTry may catch what only changes the message. Around anything that writes, each doCatch must
   * end by throwing: after a failed statement PostgreSQL turns the commit into a rollback without
   * an error, and the message would be acked (traps 2 and 3).
   */
  private static void doTry(RouteContext route, Step doTry) {
    List<Step> inside = route.steps().stream().filter(step -> step.isInside(doTry)).toList();
    boolean pure =
        inside.stream()
            .filter(step -> step.ancestors().noneMatch(s -> isCatchOf(s, doTry)))
            .filter(step -> !isCatchOf(step, doTry))
            .allMatch(step -> RuleTables.PURE_STEPS.contains(step.name()));
    if (pure) {
      return;
    }
    for (Step clause : inside) {
      if (!isCatchOf(clause, doTry)) {
        continue;
      }
      List<Step> steps =
          route.steps().stream().filter(step -> step.parent() == clause && !step.clause()).toList();
      Step last = steps.isEmpty() ? null : steps.get(steps.size() - 1);
      boolean throwsLast =
          last != null
              && last.name().equals("throwException")
              && Yaml.text(last.body(), "disabled").filter(v -> !v.equals("false")).isEmpty();
      Optional<Step> stops =
          inside.stream()
              .filter(step -> step.name().equals("stop") && step.isInside(clause))
              .findFirst();
      if (!throwsLast || stops.isPresent()) {
        route
            .report()
            .at(
                stops.filter(stop -> throwsLast).map(Step::at).orElse(clause.at()),
                doTry,
                "the doCatch ends the error: what was done before it is committed (after a failed"
                    + " statement: rolled back, silently) and the message is acked, so its effect is"
                    + " lost",
                "End each doCatch with `throwException`, without `stop`, or take the doTry out: a step"
                    + " that throws makes Twinbox roll back and redeliver.");
      }
    }
  }

  private static boolean isCatchOf(Step step, Step doTry) {
    return step.clause() && step.name().equals("doCatch") && step.parent() == doTry;
  }

  /** Camel's own strategies keep the exception of a part; any other may drop it. */
  private static void aggregation(RouteContext route, Step step) {
    if (!Set.of("split", "multicast").contains(step.name())) {
      return;
    }
    Optional<Node> strategy = Yaml.get(step.body(), "aggregationStrategy");
    Optional<String> stop =
        Yaml.text(step.body(), "stopOnException")
            .flatMap(text -> Placeholders.resolve(text, route.surroundings()));
    if (strategy.isPresent() && !stop.equals(Optional.of("true"))) {
      route
          .report()
          .at(
              strategy.get(),
              step,
              "an aggregation strategy may drop the exception of a part; the rest is committed and"
                  + " the message is acked",
              "Add `stopOnException: true`.");
    }
  }
}
