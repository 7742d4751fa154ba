package io.twinbox.routes;

import java.util.List;
import java.util.Optional;
import java.util.Set;
import java.util.stream.Stream;
import org.snakeyaml.engine.v2.nodes.Node;
import org.snakeyaml.engine.v2.nodes.NodeTuple;

/**
 * The expression of a step, in each of the forms that Camel takes: {@code expression: {simple:
 * {expression: …}}}, {@code simple: {expression: …}} or {@code simple: …}.
 *
 * @param language null when there is none
 * @param at where its text stands
 */
record Expressions(String language, Node at) {
  private static final Set<String> FIXED = Set.of("constant", "simple", "csimple");

  static Optional<Expressions> of(Node body) {
    Node holder = Yaml.get(body, "expression").orElse(body);
    return Yaml.entries(holder).stream()
        .filter(entry -> FIXED.contains(Yaml.key(entry)))
        .findFirst()
        .map(Expressions::of);
  }

  /** Also those of the headers or variables that one step sets. */
  static List<Expressions> allOf(Node body) {
    return Stream.concat(
            Stream.of(body),
            Stream.of("headers", "variables")
                .flatMap(list -> Yaml.get(body, list).stream())
                .flatMap(list -> Yaml.items(list).stream()))
        .flatMap(holder -> of(holder).stream())
        .toList();
  }

  private static Expressions of(NodeTuple entry) {
    Node value = entry.getValueNode();
    return new Expressions(Yaml.key(entry), Yaml.get(value, "expression").orElse(value));
  }

  /** Whether the message has a say in its value. */
  boolean dynamic() {
    String text = Yaml.text(at).orElse("${");
    return !language.equals("constant") && dynamic(text);
  }

  static boolean dynamic(String text) {
    return text.contains("${") || text.contains("$simple{");
  }
}
