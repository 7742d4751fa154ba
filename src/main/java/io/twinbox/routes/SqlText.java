package io.twinbox.routes;

import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/** PostgreSQL text, each character known as code, literal or comment. */
final class SqlText {
  enum Part {
    CODE,
    /** String, quoted name or dollar-quoted body. */
    LITERAL,
    COMMENT,
    /** A line that camel-sql leaves out: a comment with nothing before it. */
    DROPPED
  }

  record Line(int number, int start, String text) {}

  private static final Pattern DOLLAR = Pattern.compile("\\$(?:[A-Za-z_]\\w*)?\\$");

  private final String text;
  private final Part[] parts;
  private final List<Line> lines = new ArrayList<>();

  SqlText(String text) {
    this.text = text;
    this.parts = new Part[text.length()];
    int start = 0;
    for (String line : text.split("\n", -1)) {
      lines.add(new Line(lines.size() + 1, start, line));
      start += line.length() + 1;
    }
    Arrays.fill(parts, Part.CODE);
    int i = 0;
    while (i < text.length()) {
      i = scan(i);
    }
  }

  private int scan(int i) {
    char c = text.charAt(i);
    if (text.startsWith("--", i)) {
      boolean dropped = text.substring(line(i, lines).start(), i).isBlank();
      return mark(i, indexOrEnd("\n", i), dropped ? Part.DROPPED : Part.COMMENT);
    }
    if (text.startsWith("/*", i)) {
      return mark(i, endOfBlockComment(i), Part.COMMENT);
    }
    if (c == '\'') {
      boolean escapes =
          i > 0
              && "eE".indexOf(text.charAt(i - 1)) >= 0
              && (i == 1 || !Character.isJavaIdentifierPart(text.charAt(i - 2)));
      return mark(i, endOfQuoted(i, '\'', escapes), Part.LITERAL);
    }
    if (c == '"') {
      return mark(i, endOfQuoted(i, '"', false), Part.LITERAL);
    }
    if (c == '$' && (i == 0 || !Character.isJavaIdentifierPart(text.charAt(i - 1)))) {
      Matcher tag = DOLLAR.matcher(text).region(i, text.length());
      if (tag.lookingAt()) {
        int end = text.indexOf(tag.group(), tag.end());
        return mark(i, end < 0 ? text.length() : end + tag.group().length(), Part.LITERAL);
      }
    }
    return i + 1;
  }

  private int mark(int from, int to, Part part) {
    Arrays.fill(parts, from, to, part);
    return to;
  }

  private int indexOrEnd(String what, int from) {
    int found = text.indexOf(what, from);
    return found < 0 ? text.length() : found;
  }

  private int endOfBlockComment(int from) {
    int depth = 0;
    int i = from;
    while (i < text.length()) {
      if (text.startsWith("/*", i)) {
        depth++;
        i += 2;
      } else if (text.startsWith("*/", i)) {
        depth--;
        i += 2;
        if (depth == 0) {
          return i;
        }
      } else {
        i++;
      }
    }
    return i;
  }

  private int endOfQuoted(int from, char quote, boolean escapes) {
    int i = from + 1;
    while (i < text.length()) {
      char c = text.charAt(i);
      if (escapes && c == '\\') {
        i += 2;
      } else if (c != quote) {
        i++;
      } else if (i + 1 < text.length() && text.charAt(i + 1) == quote) {
        i += 2;
      } else {
        return i + 1;
      }
    }
    return text.length();
  }

  /** How many parameters Camel makes of it. */
  int parameters() {
    int count = 0;
    for (int i = text.indexOf(":#"); i >= 0; i = text.indexOf(":#", i + 1)) {
      if (parts[i] == Part.CODE) {
        count++;
      }
    }
    return count;
  }

  Part part(int index) {
    return parts[index];
  }

  /** The text with everything but code blanked out, at the same positions. */
  String code() {
    StringBuilder code = new StringBuilder(text);
    for (int i = 0; i < parts.length; i++) {
      // Quotes of names stay: "transactional_inbox" is the same table.
      boolean keep =
          parts[i] == Part.CODE
              || text.charAt(i) == '\n'
              || (inQuotedName(i) && text.charAt(i) != ';');
      if (!keep) {
        code.setCharAt(i, ' ');
      }
    }
    return code.toString();
  }

  private boolean inQuotedName(int i) {
    if (parts[i] != Part.LITERAL) {
      return false;
    }
    int start = i;
    while (start > 0 && parts[start - 1] == Part.LITERAL) {
      start--;
    }
    return text.charAt(start) == '"';
  }

  int line(int index) {
    return line(index, lines).number();
  }

  private static Line line(int index, List<Line> lines) {
    Line found = lines.get(0);
    for (Line line : lines) {
      if (line.start() > index) {
        break;
      }
      found = line;
    }
    return found;
  }

  boolean trailingCommentStartsAt(int index) {
    return parts[index] == Part.COMMENT
        && text.startsWith("--", index)
        && (index == 0 || parts[index - 1] != Part.COMMENT);
  }

  /** Lines within a literal that camel-sql would take for blank lines or comments. */
  List<Line> droppedLiteralLines() {
    return lines.stream()
        .filter(line -> line.start() < text.length() && line.start() > 0)
        .filter(line -> line.text().isBlank() || line.text().trim().startsWith("--"))
        .filter(line -> parts[line.start()] == Part.LITERAL)
        .filter(line -> parts[line.start() - 1] == Part.LITERAL)
        .toList();
  }
}
