package io.twinbox.local.bigquery;

import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * A query's text in the form that ZetaSQL reads as BigQuery does: BigQuery takes {@code
 * `project.dataset.table`} for a path of three names, ZetaSQL for one name with dots in it, so the
 * dots are moved out of the backquotes. ZetaSQL's local service evaluates named parameters only, so
 * a positional one becomes {@code @position_1}. Positions in messages are mapped back to what the
 * user wrote.
 */
final class QueryText {
  private static final Pattern POSITION = Pattern.compile(" \\[at (\\d+):(\\d+)\\]");

  private final String text;
  private final List<Inserted> insertions = new ArrayList<>();

  /** Characters that the user did not write, by line and column (from 1) in the new text. */
  private record Inserted(int line, int column, int characters) {}

  QueryText(String sql, boolean positionalParameters) {
    StringBuilder out = new StringBuilder(sql.length() + 16);
    int line = 1;
    int lineStart = 0;
    int position = 0;
    int i = 0;
    while (i < sql.length()) {
      int end = tokenEnd(sql, i);
      boolean quoted = sql.charAt(i) == '`';
      boolean parameter = positionalParameters && sql.charAt(i) == '?';
      for (; i < end; i++) {
        char c = sql.charAt(i);
        if (quoted && c == '.') {
          insertions.add(new Inserted(line, out.length() - lineStart + 1, 2));
          out.append("`.`");
          continue;
        }
        if (parameter) {
          String name = positionalName(++position);
          insertions.add(new Inserted(line, out.length() - lineStart + 1, name.length()));
          out.append('@').append(name);
          continue;
        }
        out.append(c);
        if (c == '\n') {
          line++;
          lineStart = out.length();
        }
      }
    }
    text = out.toString();
  }

  /** The name that stands in for a positional parameter, counted from 1. */
  static String positionalName(int position) {
    return "position_" + position;
  }

  String text() {
    return text;
  }

  /** ZetaSQL's message with BigQuery's form of the position: {@code ... at [line:column]}. */
  String message(String zetaSqlMessage) {
    Matcher matcher = POSITION.matcher(zetaSqlMessage);
    return matcher.replaceAll(
        m -> {
          int line = Integer.parseInt(m.group(1));
          int column = Integer.parseInt(m.group(2));
          int before =
              insertions.stream()
                  .filter(i -> i.line() == line && i.column() < column)
                  .mapToInt(Inserted::characters)
                  .sum();
          return " at [" + line + ":" + (column - before) + "]";
        });
  }

  /** Where the string literal, comment, quoted name or single character that starts here ends. */
  private static int tokenEnd(String sql, int start) {
    char c = sql.charAt(start);
    if (c == '#' || sql.startsWith("--", start)) {
      return endAfter(sql, "\n", start + 1);
    }
    if (sql.startsWith("/*", start)) {
      return endAfter(sql, "*/", start + 2);
    }
    if (c == '`') {
      return endAfter(sql, "`", start + 1);
    }
    if (c == '\'' || c == '"') {
      String quote = String.valueOf(c);
      String quotes = sql.startsWith(quote.repeat(3), start) ? quote.repeat(3) : quote;
      int i = start + quotes.length();
      while (i < sql.length() && !sql.startsWith(quotes, i)) {
        // In a raw literal too, a backslash keeps the quote after it from ending the literal.
        i += sql.charAt(i) == '\\' ? 2 : 1;
      }
      return Math.min(sql.length(), i + quotes.length());
    }
    return start + 1;
  }

  private static int endAfter(String sql, String mark, int from) {
    int found = sql.indexOf(mark, from);
    return found < 0 ? sql.length() : found + mark.length();
  }
}
