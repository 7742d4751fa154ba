package io.twinbox.routes;

import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Stream;
import org.snakeyaml.engine.v2.nodes.MappingNode;
import org.snakeyaml.engine.v2.nodes.Node;
import org.snakeyaml.engine.v2.nodes.NodeTuple;

/**
 * A step of a route, however deep it is nested, or a clause of one ({@code when}, {@code doCatch}).
 *
 * @param name the step's name in YAML, such as {@code to}
 * @param at where the name stands
 * @param body what follows the name: a mapping, or a scalar in Camel's short form
 * @param parent the step it is nested in; null directly under {@code from}
 * @param clause true for the parts of a choice or a doTry, which are not steps of their own
 */
record Step(String name, Node at, Node body, Step parent, boolean clause) {

  private static final Set<String> CLAUSES =
      Set.of("when", "otherwise", "doCatch", "doFinally", "onFallback", "onWhen");

  /**
   * Every step under {@code from}, in reading order, nested ones after the step that holds them.
   */
  static List<Step> of(Node from) {
    List<Step> found = new ArrayList<>();
    collect(from, null, found);
    return found;
  }

  private static void collect(Node node, Step parent, List<Step> found) {
    for (NodeTuple entry : Yaml.entries(node)) {
      String key = Yaml.key(entry);
      Node value = entry.getValueNode();
      if (key.equals("steps")) {
        for (Node item : Yaml.items(value)) {
          if (item instanceof MappingNode mapping) {
            for (NodeTuple step : mapping.getValue()) {
              add(Yaml.key(step), step.getKeyNode(), step.getValueNode(), parent, false, found);
            }
          } else {
            add(Yaml.text(item).orElse(""), item, item, parent, false, found);
          }
        }
      } else if (CLAUSES.contains(key)) {
        if (value instanceof MappingNode) {
          add(key, entry.getKeyNode(), value, parent, true, found);
        }
        for (Node item : Yaml.items(value)) {
          add(key, item, item, parent, true, found);
        }
      } else if (!key.equals("parameters")) {
        collect(value, parent, found);
      }
    }
    Yaml.items(node).forEach(item -> collect(item, parent, found));
  }

  private static void add(
      String name, Node at, Node body, Step parent, boolean clause, List<Step> found) {
    Step step = new Step(name, at, body, parent, clause);
    found.add(step);
    collect(body, step, found);
  }

  int line() {
    return Yaml.line(at);
  }

  Optional<String> id() {
    return Yaml.text(body, "id").filter(id -> !id.isBlank());
  }

  /** What a message calls it. */
  String label() {
    return id().orElse(name);
  }

  boolean shorthand() {
    return !(body instanceof MappingNode);
  }

  /** The steps that it is nested in, from the inside out. */
  Stream<Step> ancestors() {
    return Stream.iterate(parent, step -> step != null, Step::parent);
  }

  boolean isInside(Step other) {
    return ancestors().anyMatch(step -> step == other);
  }
}
