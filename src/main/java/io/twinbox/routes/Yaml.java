package io.twinbox.routes;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.snakeyaml.engine.v2.api.LoadSettings;
import org.snakeyaml.engine.v2.api.lowlevel.Compose;
import org.snakeyaml.engine.v2.api.lowlevel.Parse;
import org.snakeyaml.engine.v2.events.AliasEvent;
import org.snakeyaml.engine.v2.events.Event;
import org.snakeyaml.engine.v2.exceptions.Mark;
import org.snakeyaml.engine.v2.exceptions.MarkedYamlEngineException;
import org.snakeyaml.engine.v2.exceptions.YamlEngineException;
import org.snakeyaml.engine.v2.nodes.MappingNode;
import org.snakeyaml.engine.v2.nodes.Node;
import org.snakeyaml.engine.v2.nodes.NodeTuple;
import org.snakeyaml.engine.v2.nodes.ScalarNode;
import org.snakeyaml.engine.v2.nodes.SequenceNode;

/** YAML nodes with their lines, read by the parser that Camel itself uses (snakeyaml-engine). */
final class Yaml {
  private Yaml() {}

  /** A text that has no node tree: what the parser said, and where. */
  static final class Unreadable extends Exception {
    private static final long serialVersionUID = 1L;
    final int line;

    Unreadable(String message, int line) {
      super(message);
      this.line = line;
    }
  }

  /**
   * @return the root node; empty for a file without content
   * @throws Unreadable for a syntax error, a second document, or an alias ({@code *name}): Kaoto
   *     and the schema know none, and a tree that shares nodes cannot be walked line by line
   */
  static Optional<Node> parse(String name, String text) throws Unreadable {
    LoadSettings settings = LoadSettings.builder().setLabel(name).build();
    try {
      for (Event event : new Parse(settings).parseString(text)) {
        if (event instanceof AliasEvent alias) {
          throw new Unreadable(
              "the alias *" + alias.getAlias() + " is not canonical YAML",
              line(alias.getStartMark()));
        }
      }
      return new Compose(settings).composeString(text);
    } catch (MarkedYamlEngineException e) {
      String problem = oneLine(e.getProblem());
      throw new Unreadable(
          problem.equals("but found another document") ? "--- begins a second document" : problem,
          line(e.getProblemMark()));
    } catch (YamlEngineException e) {
      throw new Unreadable(oneLine(e.getMessage()), 1);
    }
  }

  static int line(Node node) {
    return line(node.getStartMark());
  }

  private static int line(Optional<Mark> mark) {
    return mark.map(m -> m.getLine() + 1).orElse(1);
  }

  private static String oneLine(String message) {
    return message == null ? "unreadable" : message.replaceAll("\\s+", " ").trim();
  }

  static List<NodeTuple> entries(Node node) {
    return node instanceof MappingNode mapping ? mapping.getValue() : List.of();
  }

  static List<Node> items(Node node) {
    return node instanceof SequenceNode sequence ? sequence.getValue() : List.of();
  }

  static String key(NodeTuple entry) {
    return entry.getKeyNode() instanceof ScalarNode scalar ? scalar.getValue() : "";
  }

  static Optional<Node> get(Node node, String key) {
    return entries(node).stream()
        .filter(entry -> key(entry).equals(key))
        .map(NodeTuple::getValueNode)
        .findFirst();
  }

  static Optional<String> text(Node node) {
    return node instanceof ScalarNode scalar ? Optional.of(scalar.getValue()) : Optional.empty();
  }

  static Optional<String> text(Node node, String key) {
    return get(node, key).flatMap(Yaml::text);
  }

  /**
   * Keys that stand twice in one mapping, anywhere below the node: only one of them would count.
   */
  static List<Node> duplicateKeys(Node node) {
    List<Node> duplicates = new ArrayList<>();
    Map<String, Node> seen = new LinkedHashMap<>();
    for (NodeTuple entry : entries(node)) {
      if (seen.put(key(entry), entry.getKeyNode()) != null) {
        duplicates.add(entry.getKeyNode());
      }
      duplicates.addAll(duplicateKeys(entry.getValueNode()));
    }
    items(node).forEach(item -> duplicates.addAll(duplicateKeys(item)));
    return duplicates;
  }
}
