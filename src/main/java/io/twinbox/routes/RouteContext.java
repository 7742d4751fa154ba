package io.twinbox.routes;

import java.util.Comparator;
import java.util.List;
import org.snakeyaml.engine.v2.nodes.Node;

/**
 * One route under check.
 *
 * @param key where {@code route:} stands
 * @param from the {@code from} mapping, or the route's body when it has none
 * @param steps all steps, nested ones too, in reading order
 */
record RouteContext(
    RouteFile file,
    Surroundings surroundings,
    Node key,
    Node body,
    Node from,
    List<Step> steps,
    Report report) {

  boolean handler() {
    return file.kind() == Kind.HANDLER;
  }

  /** Whether its steps run in a transaction: a handler's always do. */
  boolean inTransaction() {
    return handler() || steps.stream().anyMatch(step -> step.name().equals("transacted"));
  }

  /** Reports what the schema says, with the step that it is about. */
  void schemaFault(RouteSchema.Fault fault) {
    steps.stream()
        .filter(step -> holds(step.body(), fault.at()) || step.at() == fault.at())
        // The innermost step: the one that begins last.
        .max(Comparator.comparingInt(Step::line))
        .ifPresentOrElse(
            step -> report.at(fault.at(), step, fault.problem(), fault.remedy()),
            () -> report.at(fault.at(), fault.problem(), fault.remedy()));
  }

  private static boolean holds(Node outer, Node inner) {
    return outer == inner
        || Yaml.items(outer).stream().anyMatch(item -> holds(item, inner))
        || Yaml.entries(outer).stream()
            .anyMatch(entry -> entry.getKeyNode() == inner || holds(entry.getValueNode(), inner));
  }
}
