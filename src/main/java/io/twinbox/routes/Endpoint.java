package io.twinbox.routes;

import java.util.LinkedHashMap;
import java.util.Locale;
import java.util.Map;
import java.util.Optional;
import org.snakeyaml.engine.v2.nodes.Node;
import org.snakeyaml.engine.v2.nodes.NodeTuple;

/**
 * What a step sends to or reads from.
 *
 * @param uri as written, placeholders resolved where they have a value
 * @param parameters by {@link #normal(String) normalised} name, because Camel binds endpoint
 *     options ignoring case and dashes: {@code output-type} sets {@code outputType}
 */
record Endpoint(Node at, String uri, Map<String, Parameter> parameters) {

  /**
   * @param value with placeholders resolved and Camel's RAW() taken off; empty when a placeholder
   *     has no value or the value is no scalar
   */
  record Parameter(String name, String written, Optional<String> value, Node at) {}

  /** An endpoint written as {@code uri} and {@code parameters}, or as Camel's short form. */
  static Optional<Endpoint> of(Node body, Surroundings surroundings) {
    Node at = Yaml.get(body, "uri").orElse(body);
    return Yaml.text(at)
        .map(
            uri -> {
              String resolved = Placeholders.resolve(uri, surroundings).orElse(uri).trim();
              Map<String, Parameter> parameters = new LinkedHashMap<>();
              int query = resolved.indexOf('?');
              if (query >= 0) {
                // Refused by the canonical form, but read all the same: no rule is to depend on
                // another.
                for (String pair : resolved.substring(query + 1).split("&")) {
                  String[] parts = pair.split("=", 2);
                  put(parameters, parts[0], parts.length > 1 ? parts[1] : "", at, surroundings);
                }
              }
              Yaml.get(body, "parameters").map(Yaml::entries).stream()
                  .flatMap(entries -> entries.stream())
                  .forEach(entry -> put(parameters, entry, surroundings));
              return new Endpoint(at, resolved, parameters);
            });
  }

  private static void put(
      Map<String, Parameter> parameters, NodeTuple entry, Surroundings surroundings) {
    put(
        parameters,
        Yaml.key(entry),
        Yaml.text(entry.getValueNode()).orElse(null),
        entry.getKeyNode(),
        surroundings);
  }

  private static void put(
      Map<String, Parameter> parameters,
      String name,
      String written,
      Node at,
      Surroundings surroundings) {
    Optional<String> value =
        Optional.ofNullable(written)
            .flatMap(text -> Placeholders.resolve(text, surroundings))
            .map(text -> text.replaceFirst("(?s)^RAW(?:\\((.*)\\)|\\{(.*)})$", "$1$2").trim());
    parameters.put(normal(name), new Parameter(name, written == null ? "" : written, value, at));
  }

  static String normal(String name) {
    return name.replace("-", "").replace("_", "").toLowerCase(Locale.ROOT);
  }

  /** Lower case, without what follows the colon; as written when a placeholder stands in it. */
  String scheme() {
    return uri.split("[:?]", 2)[0].toLowerCase(Locale.ROOT);
  }

  /** What follows the scheme, without the query: {@code handle} of {@code direct:handle}. */
  String path() {
    String rest = uri.split("\\?", 2)[0];
    int colon = rest.indexOf(':');
    return colon < 0 ? "" : rest.substring(colon + 1).replaceFirst("^//", "");
  }

  Optional<Parameter> parameter(String name) {
    return Optional.ofNullable(parameters.get(normal(name)));
  }
}
