package io.twinbox.operate;

import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The part of PromQL that our alerts use, over two scrapes: selectors with {@code =}, {@code
 * increase} (from the first scrape to the second), {@code max by} and {@code sum by}, a quotient,
 * and a comparison with a number. Anything else is an error, so an alert that this does not
 * understand is not taken for tested. Where {@code promtool} is found, {@code AlertsTest} asks
 * Prometheus' own engine as well.
 */
final class AlertExpression {

  private static final Pattern TOKEN =
      Pattern.compile("\\s*(\"[^\"]*\"|[a-zA-Z_:][a-zA-Z0-9_:]*|[0-9.]+[smhd]?|[(){}\\[\\],=/>])");

  private final List<String> tokens = new ArrayList<>();
  private final Scrape before;
  private final Scrape after;
  private int next;

  private AlertExpression(String expression, Scrape before, Scrape after) {
    this.before = before;
    this.after = after;
    Matcher token = TOKEN.matcher(expression.strip());
    int end = 0;
    while (token.find() && token.start() == end) {
      tokens.add(token.group(1));
      end = token.end();
    }
    if (end != expression.strip().length()) {
      throw new AssertionError(
          "not understood at '%s' in: %s".formatted(expression.strip().substring(end), expression));
    }
  }

  /**
   * The series for which the alert would fire, with their values.
   *
   * @param before an earlier scrape, against which {@code increase} counts
   */
  static Map<Map<String, String>, Double> firing(String expression, Scrape before, Scrape after) {
    AlertExpression reader = new AlertExpression(expression, before, after);
    Map<Map<String, String>, Double> left = reader.quotient();
    reader.expect(">");
    double limit = Double.parseDouble(reader.take());
    if (reader.next != reader.tokens.size()) {
      throw new AssertionError(
          "not understood at '%s' in: %s".formatted(reader.peek(), expression));
    }
    Map<Map<String, String>, Double> firing = new HashMap<>(left);
    firing.values().removeIf(value -> !(value > limit));
    return firing;
  }

  private Map<Map<String, String>, Double> quotient() {
    Map<Map<String, String>, Double> left = vector();
    if (!"/".equals(peek())) {
      return left;
    }
    take();
    Map<Map<String, String>, Double> right = vector();
    Map<Map<String, String>, Double> quotient = new HashMap<>();
    left.forEach(
        (labels, value) -> {
          if (right.containsKey(labels)) {
            quotient.put(labels, value / right.get(labels));
          }
        });
    return quotient;
  }

  private Map<Map<String, String>, Double> vector() {
    String word = take();
    if (word.equals("max") || word.equals("sum")) {
      expect("by");
      expect("(");
      List<String> by = new ArrayList<>();
      do {
        by.add(take());
      } while (take().equals(","));
      expect("(");
      Map<Map<String, String>, Double> inner = vector();
      expect(")");
      Map<Map<String, String>, Double> grouped = new HashMap<>();
      inner.forEach(
          (labels, value) -> {
            Map<String, String> kept = new TreeMap<>(labels);
            kept.keySet().retainAll(by);
            grouped.merge(kept, value, word.equals("max") ? Math::max : Double::sum);
          });
      return grouped;
    }
    if (word.equals("increase")) {
      expect("(");
      String name = take();
      Map<String, String> wanted = matchers();
      expect("[");
      take();
      expect("]");
      expect(")");
      Map<Map<String, String>, Double> increase = select(after, name, wanted);
      Map<Map<String, String>, Double> start = select(before, name, wanted);
      // Prometheus cannot tell what a series grew by that it sees for the first time.
      increase.keySet().retainAll(start.keySet());
      increase.replaceAll((labels, value) -> value - start.get(labels));
      return increase;
    }
    return select(after, word, matchers());
  }

  private Map<String, String> matchers() {
    Map<String, String> wanted = new TreeMap<>();
    if ("{".equals(peek())) {
      take();
      do {
        String label = take();
        expect("=");
        String value = take();
        wanted.put(label, value.substring(1, value.length() - 1));
      } while (take().equals(","));
    }
    return wanted;
  }

  private static Map<Map<String, String>, Double> select(
      Scrape scrape, String name, Map<String, String> wanted) {
    Map<Map<String, String>, Double> found = new HashMap<>();
    scrape
        .samples()
        .forEach(
            (series, value) -> {
              if (series.name().equals(name)
                  && series.labels().entrySet().containsAll(wanted.entrySet())) {
                found.put(series.labels(), value);
              }
            });
    return found;
  }

  private String peek() {
    return next < tokens.size() ? tokens.get(next) : null;
  }

  private String take() {
    if (next == tokens.size()) {
      throw new AssertionError("the expression ends too soon: " + tokens);
    }
    return tokens.get(next++);
  }

  private void expect(String token) {
    String found = take();
    if (!found.equals(token)) {
      throw new AssertionError("expected '%s', found '%s' in %s".formatted(token, found, tokens));
    }
  }
}
