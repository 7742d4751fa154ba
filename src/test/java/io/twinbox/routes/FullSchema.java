package io.twinbox.routes;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.BooleanNode;
import com.fasterxml.jackson.databind.node.IntNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.networknt.schema.JsonSchema;
import com.networknt.schema.JsonSchemaFactory;
import com.networknt.schema.SpecVersion;
import com.networknt.schema.ValidationMessage;
import java.io.IOException;
import java.io.InputStream;
import java.util.HashMap;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import org.snakeyaml.engine.v2.api.Load;
import org.snakeyaml.engine.v2.api.LoadSettings;

/**
 * Camel's YAML schema applied by a complete validator, to compare with {@link RouteSchema}.
 *
 * <p>The schema knows no placeholders, so <code>{{x}}</code> under a boolean or number option is
 * replaced by a value of its type first.
 */
final class FullSchema {
  private static final ObjectMapper JSON = new ObjectMapper();
  private final JsonSchema schema;
  private final Map<String, Set<String>> types = new HashMap<>();

  FullSchema() {
    try (InputStream in =
        FullSchema.class.getClassLoader().getResourceAsStream("schema/camelYamlDsl.json")) {
      JsonNode root = JSON.readTree(in);
      collectTypes(root);
      schema = JsonSchemaFactory.getInstance(SpecVersion.VersionFlag.V4).getSchema(root);
    } catch (IOException e) {
      throw new IllegalStateException(e);
    }
  }

  List<String> faults(String yaml) {
    Object tree =
        new Load(LoadSettings.builder().build()).loadFromString(yaml.replace("${", "$\u200b{"));
    JsonNode node = JSON.valueToTree(tree);
    fillPlaceholders(node);
    return schema.validate(node).stream().map(ValidationMessage::getMessage).sorted().toList();
  }

  private void collectTypes(JsonNode node) {
    node.path("properties")
        .fields()
        .forEachRemaining(
            property -> {
              if (property.getValue().has("type")) {
                types
                    .computeIfAbsent(property.getKey(), key -> new HashSet<>())
                    .add(property.getValue().get("type").asText());
              }
            });
    node.forEach(this::collectTypes);
  }

  private void fillPlaceholders(JsonNode node) {
    if (node instanceof ArrayNode) {
      node.forEach(this::fillPlaceholders);
    } else if (node instanceof ObjectNode object) {
      for (Map.Entry<String, JsonNode> field : object.properties()) {
        Set<String> type = types.getOrDefault(field.getKey(), Set.of());
        if (!field.getValue().isTextual() || !field.getValue().asText().contains("{{")) {
          fillPlaceholders(field.getValue());
        } else if (type.equals(Set.of("boolean"))) {
          field.setValue(BooleanNode.TRUE);
        } else if (type.equals(Set.of("number"))) {
          field.setValue(IntNode.valueOf(1));
        }
      }
    }
  }
}
