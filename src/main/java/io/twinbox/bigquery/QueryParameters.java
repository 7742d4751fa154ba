package io.twinbox.bigquery;

import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The named parameters that a query uses. A name in a comment, a string or a quoted identifier is
 * none, nor is a system variable ({@code @@x}). By GoogleSQL's lexical rules
 * (cloud.google.com/bigquery/docs/reference/standard-sql/lexical).
 */
final class QueryParameters {

  private static final String ESCAPED = "(?:[^\\\\]|\\\\.)*?";

  private static final Pattern TOKEN =
      Pattern.compile(
          // Comments.
          "--[^\\n]*|#[^\\n]*|/\\*.*?(?:\\*/|\\z)"
              // Texts of three quotes before those of one.
              + "|\"\"\"%s(?:\"\"\"|\\z)|'''%s(?:'''|\\z)".formatted(ESCAPED, ESCAPED)
              + "|\"%s(?:\"|\\z)|'%s(?:'|\\z)|`%s(?:`|\\z)".formatted(ESCAPED, ESCAPED, ESCAPED)
              + "|@@[\\w.]+|@\\s*(?<name>[A-Za-z_]\\w*)",
          Pattern.DOTALL);

  private QueryParameters() {}

  /** Their names in lower case, because BigQuery makes no difference. */
  static Set<String> of(String sql) {
    return lines(sql).keySet();
  }

  /** As {@link #of}, each with the line, from 1, on which it stands first. */
  static Map<String, Integer> lines(String sql) {
    Map<String, Integer> lines = new TreeMap<>();
    Matcher token = TOKEN.matcher(sql);
    while (token.find()) {
      if (token.group("name") != null) {
        lines.putIfAbsent(
            token.group("name").toLowerCase(Locale.ROOT),
            1 + (int) sql.substring(0, token.start()).chars().filter(c -> c == '\n').count());
      }
    }
    return lines;
  }

  /** Whether the text says nothing at all: blank, or comments only. */
  static boolean empty(String sql) {
    return TOKEN
        .matcher(sql)
        .replaceAll(token -> token.group().matches("(?s)(--|#|/\\*).*") ? "" : "x")
        .isBlank();
  }
}
