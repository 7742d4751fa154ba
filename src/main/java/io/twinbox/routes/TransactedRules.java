package io.twinbox.routes;

import java.util.List;
import java.util.Optional;
import org.snakeyaml.engine.v2.nodes.Node;
import org.snakeyaml.engine.v2.nodes.NodeTuple;

/**
 * Where {@code transacted} may stand in a route of our own (trap 7), and what may not stand beside
 * it (traps 5 and 6).
 */
final class TransactedRules {
  private TransactedRules() {}

  static void check(RouteContext route) {
    List<Step> transacted =
        route.steps().stream().filter(step -> step.name().equals("transacted")).toList();
    if (transacted.isEmpty()) {
      return;
    }
    List<Step> top = route.steps().stream().filter(step -> step.parent() == null).toList();
    for (Step step : transacted) {
      place(route, step, top);
    }
    Yaml.get(route.body(), "errorHandler").ifPresent(handler -> errorHandler(route, handler));
  }

  private static void place(RouteContext route, Step step, List<Step> top) {
    Report report = route.report();
    if (step.parent() != null) {
      report.at(
          step.at(),
          step,
          "Camel does not start a transaction for a nested `transacted`",
          "Make it the first step of a route, and call that route by `direct`.");
    } else if (top.get(0) != step) {
      report.at(
          step.at(),
          step,
          "the steps before `transacted` run in the transaction too",
          "Make it the first step, or move what is to be outside into another route.");
    } else if (!Yaml.items(Yaml.get(step.body(), "steps").orElse(step.at())).isEmpty()
        && top.size() > 1) {
      report.at(
          step.at(),
          step,
          "Camel runs the steps beside `transacted` before the ones nested in it",
          "Nest all steps, or none.");
    }
  }

  private static void errorHandler(RouteContext route, Node handler) {
    for (NodeTuple entry : Yaml.entries(handler)) {
      if (Yaml.key(entry).equals("deadLetterChannel")) {
        route
            .report()
            .at(
                entry.getKeyNode(),
                "a deadLetterChannel in a transaction dead-letters the message and commits what was"
                    + " done before the error",
                "Let the error leave the route, and dead-letter in a transaction of its own.");
      }
      Optional<Node> policy =
          Yaml.get(entry.getValueNode(), "redeliveryPolicy")
              .or(() -> Yaml.get(entry.getValueNode(), "redeliveryPolicyRef"));
      policy.ifPresent(
          node ->
              route
                  .report()
                  .at(
                      node,
                      "redelivery inside a transaction that a statement has aborted fails each time,"
                          + " holding thread and connection",
                      "Take it out; the message or row is retried as a whole."));
    }
  }
}
