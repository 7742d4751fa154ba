package io.twinbox.bigquery;

import java.util.HashSet;
import java.util.Locale;
import java.util.Set;
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
    Set<String> names = new HashSet<>();
    Matcher token = TOKEN.matcher(sql);
    while (token.find()) {
      if (token.group("name") != null) {
        names.add(token.group("name").toLowerCase(Locale.ROOT));
      }
    }
    return names;
  }
}
