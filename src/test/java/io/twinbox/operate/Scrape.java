package io.twinbox.operate;

import java.util.LinkedHashMap;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * One scrape in Prometheus' text format.
 *
 * @param samples value by series
 * @param families names as the {@code # TYPE} lines give them
 */
record Scrape(Map<Series, Double> samples, Set<String> families) {

  /** A metric's name and its labels. */
  record Series(String name, Map<String, String> labels) {

    /** As PromQL writes it. */
    String text() {
      StringBuilder text = new StringBuilder(name).append('{');
      labels.forEach(
          (label, value) ->
              text.append(text.charAt(text.length() - 1) == '{' ? "" : ",")
                  .append(label)
                  .append("=\"")
                  .append(value.replace("\\", "\\\\").replace("\"", "\\\""))
                  .append('"'));
      return text.append('}').toString();
    }
  }

  private static final Pattern LINE =
      Pattern.compile("([a-zA-Z_:][a-zA-Z0-9_:]*)(?:\\{(.*)})? (\\S+)");
  private static final Pattern LABEL =
      Pattern.compile("([a-zA-Z_][a-zA-Z0-9_]*)=\"((?:[^\"\\\\]|\\\\.)*)\",?");

  static Scrape parse(String text) {
    Map<Series, Double> samples = new LinkedHashMap<>();
    Set<String> families = new TreeSet<>();
    for (String line : text.split("\n")) {
      if (line.startsWith("# TYPE ")) {
        families.add(line.split(" ")[2]);
      }
      if (line.isBlank() || line.startsWith("#")) {
        continue;
      }
      Matcher parts = LINE.matcher(line);
      if (!parts.matches()) {
        throw new AssertionError("no sample: " + line);
      }
      Map<String, String> labels = new TreeMap<>();
      if (parts.group(2) != null) {
        Matcher label = LABEL.matcher(parts.group(2));
        while (label.find()) {
          labels.put(label.group(1), label.group(2).replaceAll("\\\\(.)", "$1"));
        }
      }
      samples.put(
          new Series(parts.group(1), labels),
          switch (parts.group(3)) {
            case "+Inf" -> Double.POSITIVE_INFINITY;
            case "-Inf" -> Double.NEGATIVE_INFINITY;
            default -> Double.parseDouble(parts.group(3));
          });
    }
    return new Scrape(samples, families);
  }

  /** The sum of all series of a name whose labels include these: name, value, name, value … */
  double sum(String name, String... labels) {
    return samples.entrySet().stream()
        .filter(sample -> sample.getKey().name().equals(name))
        .filter(
            sample -> {
              for (int i = 0; i < labels.length; i += 2) {
                if (!labels[i + 1].equals(sample.getKey().labels().get(labels[i]))) {
                  return false;
                }
              }
              return true;
            })
        .mapToDouble(Map.Entry::getValue)
        .sum();
  }

  boolean has(String name) {
    return samples.keySet().stream().anyMatch(series -> series.name().equals(name));
  }
}
