package io.twinbox.routes;

import java.util.Optional;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Camel's <code>{{key}}</code> and <code>{{key:default}}</code>, resolved the way Camel will, so
 * that a guarded option cannot hide behind a property.
 */
final class Placeholders {
  private static final Pattern PLACEHOLDER = Pattern.compile("\\{\\{([^{}]+)}}");
  private static final int MAX_DEPTH = 10;

  private Placeholders() {}

  /** The text with every placeholder replaced; empty when one of them has no value. */
  static Optional<String> resolve(String text, Surroundings surroundings) {
    String current = text;
    for (int depth = 0; depth < MAX_DEPTH && current.contains("{{"); depth++) {
      Matcher matcher = PLACEHOLDER.matcher(current);
      StringBuilder out = new StringBuilder();
      boolean found = false;
      while (matcher.find()) {
        found = true;
        Optional<String> value = value(matcher.group(1).trim(), surroundings);
        if (value.isEmpty()) {
          return Optional.empty();
        }
        matcher.appendReplacement(out, Matcher.quoteReplacement(value.get()));
      }
      if (!found) {
        return Optional.empty();
      }
      current = matcher.appendTail(out).toString();
    }
    return current.contains("{{") ? Optional.empty() : Optional.of(current);
  }

  private static Optional<String> value(String expression, Surroundings surroundings) {
    String key = expression.startsWith("?") ? expression.substring(1) : expression;
    int from = key.startsWith("env:") || key.startsWith("sys:") ? 4 : 0;
    int colon = key.indexOf(':', from);
    Optional<String> set = surroundings.property(colon < 0 ? key : key.substring(0, colon));
    return set.isPresent() || colon < 0 ? set : Optional.of(key.substring(colon + 1));
  }
}
