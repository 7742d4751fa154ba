package io.twinbox.routes;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.io.IOException;
import java.io.InputStream;
import java.io.UncheckedIOException;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import org.snakeyaml.engine.v2.nodes.MappingNode;
import org.snakeyaml.engine.v2.nodes.Node;
import org.snakeyaml.engine.v2.nodes.NodeTuple;
import org.snakeyaml.engine.v2.nodes.ScalarNode;
import org.snakeyaml.engine.v2.nodes.SequenceNode;
import org.snakeyaml.engine.v2.nodes.Tag;

/**
 * Camel's own schema of its YAML DSL, {@code schema/camelYamlDsl.json} in camel-yaml-dsl, applied
 * to nodes that know their line.
 *
 * <p>Only the keywords that this schema uses are here (draft 04: type, enum, properties, required,
 * additionalProperties, maxProperties, items, anyOf, oneOf, not, $ref); a test compares the
 * verdicts with those of a complete validator. A scalar with a <code>{{placeholder}}</code> passes
 * for any scalar type, as Camel resolves it before it converts.
 */
final class RouteSchema {
  private static final String RESOURCE = "schema/camelYamlDsl.json";
  static final String STEP = "org.apache.camel.model.ProcessorDefinition";
  static final String DEFINITIONS = "#/items/definitions/";

  record Fault(Node at, String problem, String remedy) {}

  private static final class Holder {
    static final RouteSchema INSTANCE = new RouteSchema(load());
  }

  private final JsonNode root;
  private final JsonNode definitions;

  private RouteSchema(JsonNode root) {
    this.root = root;
    this.definitions = root.at("/items/definitions");
  }

  static RouteSchema instance() {
    return Holder.INSTANCE;
  }

  private static JsonNode load() {
    try (InputStream in = RouteSchema.class.getClassLoader().getResourceAsStream(RESOURCE)) {
      if (in == null) {
        throw new IllegalStateException(
            RESOURCE + " is not on the class path: camel-yaml-dsl is missing");
      }
      return new ObjectMapper().readTree(in);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** The names of all steps that this version of Camel knows. */
  Set<String> stepNames() {
    return names(definitions.get(STEP));
  }

  /** Whether the schema lets the step have an id; it does not for kamelet. */
  boolean takesId(String step) {
    JsonNode schema = definitions.get(STEP).get("properties").path(step);
    return !schema.has("$ref")
        || !definitions
            .get(schema.get("$ref").asText().substring(DEFINITIONS.length()))
            .findParents("id")
            .isEmpty();
  }

  private static Set<String> names(JsonNode schema) {
    Set<String> names = new LinkedHashSet<>();
    schema.path("properties").fieldNames().forEachRemaining(names::add);
    return names;
  }

  List<Fault> validate(Node file) {
    List<Fault> faults = new ArrayList<>();
    check(file, root, "file", faults);
    return faults;
  }

  /** As {@link #validate}, for the body of one {@code route:} entry. */
  List<Fault> validateRoute(Node route) {
    List<Fault> faults = new ArrayList<>();
    check(route, definitions.get("org.apache.camel.model.RouteDefinition"), "route", faults);
    return faults;
  }

  private List<Fault> faults(Node node, JsonNode schema, String owner) {
    List<Fault> faults = new ArrayList<>();
    check(node, schema, owner, faults);
    return faults;
  }

  private void check(Node node, JsonNode schema, String owner, List<Fault> faults) {
    if (schema.has("$ref")) {
      String ref = schema.get("$ref").asText();
      check(node, definitions.get(ref.substring(DEFINITIONS.length())), owner, faults);
      return;
    }
    String type = schema.path("type").asText(null);
    if (type != null && !hasType(node, type)) {
      faults.add(
          new Fault(
              node,
              "`%s` is %s where Camel wants %s".formatted(owner, describe(node), wanted(type)),
              typeRemedy(node, type, owner)));
      return;
    }
    checkEnum(node, schema, owner, faults);
    if (node instanceof MappingNode mapping) {
      checkMapping(mapping, schema, owner, faults);
    }
    if (schema.has("items")) {
      Yaml.items(node).forEach(item -> check(item, schema.get("items"), owner, faults));
    }
    checkCombined(node, schema, owner, faults);
  }

  private static void checkEnum(Node node, JsonNode schema, String owner, List<Fault> faults) {
    if (!schema.has("enum") || !(node instanceof ScalarNode scalar) || placeholder(scalar)) {
      return;
    }
    List<String> values = new ArrayList<>();
    schema.get("enum").forEach(value -> values.add(value.asText()));
    if (!values.contains(scalar.getValue())) {
      faults.add(
          new Fault(
              node,
              "`%s` cannot be `%s`".formatted(owner, scalar.getValue()),
              "Write one of %s.".formatted(String.join(", ", values))));
    }
  }

  private void checkMapping(MappingNode node, JsonNode schema, String owner, List<Fault> faults) {
    JsonNode properties = schema.path("properties");
    Set<String> meant = new LinkedHashSet<>();
    for (NodeTuple entry : node.getValue()) {
      String key = Yaml.key(entry);
      if (properties.has(key)) {
        check(entry.getValueNode(), properties.get(key), key, faults);
      } else if (schema.path("additionalProperties").isBoolean()
          && !schema.get("additionalProperties").asBoolean()) {
        faults.add(unknown(entry.getKeyNode(), key, schema, owner));
        closest(key, names(schema)).ifPresent(meant::add);
      }
    }
    for (JsonNode required : schema.path("required")) {
      // One fault for a misspelt option, not a second one for the option that is missing.
      if (Yaml.get(node, required.asText()).isEmpty() && !meant.contains(required.asText())) {
        faults.add(
            new Fault(
                node,
                "`%s` has no `%s`, without which Camel does not load it"
                    .formatted(owner, required.asText()),
                "Add `%s:`.".formatted(required.asText())));
      }
    }
    if (schema.has("maxProperties")
        && node.getValue().size() > schema.get("maxProperties").asInt()) {
      faults.add(
          new Fault(
              node,
              "one list entry holds %d steps, of which Camel takes one"
                  .formatted(node.getValue().size()),
              "Begin each step with its own `-`, and indent what belongs to it."));
    }
  }

  private Fault unknown(Node at, String key, JsonNode schema, String owner) {
    boolean step = schema == definitions.get(STEP);
    String problem =
        step
            ? "Camel knows no step `%s` and would refuse the file".formatted(key)
            : "`%s` is no option of `%s`, so Camel would refuse the file".formatted(key, owner);
    return new Fault(
        at,
        problem,
        closest(key, names(schema))
            .map("Write `%s`."::formatted)
            .orElse(
                step
                    ? "Write one of Camel's steps, in camelCase."
                    : "Take it out; options of an endpoint belong under `parameters:`."));
  }

  private void checkCombined(Node node, JsonNode schema, String owner, List<Fault> faults) {
    if (schema.has("not") && faults(node, schema.get("not"), owner).isEmpty()) {
      faults.add(generic(node, owner));
    }
    for (String keyword : List.of("anyOf", "oneOf")) {
      if (!schema.has(keyword)) {
        continue;
      }
      List<List<Fault>> failed = new ArrayList<>();
      int matches = 0;
      for (JsonNode branch : schema.get(keyword)) {
        List<Fault> result = faults(node, branch, owner);
        if (result.isEmpty()) {
          matches++;
        } else if (!branch.has("type") || hasType(node, branch.get("type").asText())) {
          failed.add(result);
        }
      }
      if (matches == 0) {
        // The branch that fails deepest in the file is the one that was meant.
        faults.addAll(
            failed.stream()
                .filter(result -> result.stream().anyMatch(fault -> fault.at() != node))
                .findFirst()
                .orElseGet(
                    () -> failed.size() == 1 ? failed.get(0) : List.of(generic(node, owner))));
      } else if (keyword.equals("oneOf") && matches > 1) {
        faults.add(generic(node, owner));
      }
    }
  }

  private static Fault generic(Node node, String owner) {
    return new Fault(
        node,
        "`%s` has none, or more than one, of the alternatives that Camel takes here"
            .formatted(owner),
        "Write exactly one, such as `expression:` with one language below it.");
  }

  private static boolean placeholder(ScalarNode scalar) {
    return scalar.getValue().contains("{{");
  }

  private static boolean hasType(Node node, String type) {
    return switch (type) {
      case "object" -> node instanceof MappingNode;
      case "array" -> node instanceof SequenceNode;
      default -> node instanceof ScalarNode scalar && hasScalarType(scalar, type);
    };
  }

  private static boolean hasScalarType(ScalarNode scalar, String type) {
    if (placeholder(scalar)) {
      return true;
    }
    Tag tag = scalar.getTag();
    return switch (type) {
      // Everything else is text to Camel, also ${body}, which this parser tags as a variable.
      case "string" -> !Set.of(Tag.BOOL, Tag.INT, Tag.FLOAT, Tag.NULL).contains(tag);
      case "boolean" -> tag.equals(Tag.BOOL);
      case "number" -> tag.equals(Tag.INT) || tag.equals(Tag.FLOAT);
      default -> throw new IllegalStateException("schema type " + type);
    };
  }

  private static String describe(Node node) {
    if (node instanceof MappingNode) {
      return "a mapping";
    }
    if (node instanceof SequenceNode) {
      return "a list";
    }
    String value = Yaml.text(node).orElse("");
    return value.isEmpty() ? "empty" : "`" + value + "`";
  }

  private static String wanted(String type) {
    return switch (type) {
      case "object" -> "a mapping";
      case "array" -> "a list";
      case "string" -> "a text";
      case "boolean" -> "true or false";
      default -> "a " + type;
    };
  }

  private static String typeRemedy(Node node, String type, String owner) {
    if (type.equals("string")
        && node instanceof ScalarNode scalar
        && !scalar.getValue().isEmpty()) {
      return "Put it in quotes: `%s: \"%s\"`.".formatted(owner, scalar.getValue());
    }
    if (type.equals("object")) {
      return "Write its options as indented `name: value` lines, or `{}` for none.";
    }
    return "Write %s.".formatted(wanted(type));
  }

  private static Optional<String> closest(String key, Set<String> names) {
    String normal = Endpoint.normal(key);
    int near = Math.min(2, normal.length() / 2);
    return names.stream()
        .filter(name -> distance(normal, Endpoint.normal(name)) <= near)
        .min(Comparator.comparingInt(name -> distance(normal, Endpoint.normal(name))));
  }

  /** Levenshtein distance. */
  private static int distance(String a, String b) {
    int[] previous = new int[b.length() + 1];
    for (int j = 0; j <= b.length(); j++) {
      previous[j] = j;
    }
    for (int i = 1; i <= a.length(); i++) {
      int[] current = new int[b.length() + 1];
      current[0] = i;
      for (int j = 1; j <= b.length(); j++) {
        int cost = a.charAt(i - 1) == b.charAt(j - 1) ? 0 : 1;
        current[j] = Math.min(Math.min(current[j - 1], previous[j]) + 1, previous[j - 1] + cost);
      }
      previous = current;
    }
    return previous[b.length()];
  }
}
