package io.twinbox.routes;

import java.sql.Connection;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Locale;
import java.util.function.Predicate;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.postgresql.util.PSQLException;

/**
 * Has PostgreSQL prepare a statement file, which runs nothing of it: names of tables, columns and
 * functions, types and syntax are then right for this database.
 */
public final class Preparation {

  private static final Pattern PARAMETER =
      Pattern.compile(":#(?:in:)?(\\w+|\\$(?:simple)?\\{[^}]*})");

  /** What {@code PREPARE} takes; others are only parsed. */
  private static final Pattern PREPARABLE =
      Pattern.compile(
          "\\s*\\(*\\s*(?:SELECT|INSERT|UPDATE|DELETE|MERGE|VALUES|WITH)\\b.*",
          Pattern.CASE_INSENSITIVE | Pattern.DOTALL);

  private static final String INDETERMINATE = "42P18";
  private static final String NAME = "twinbox_check";
  private static final String REMEDY = "Correct the statement, or migrate the database.";

  private final Connection connection;

  /**
   * @param connection in a transaction that the caller rolls back; best a read-only one
   */
  public Preparation(Connection connection) {
    this.connection = connection;
  }

  /**
   * Prepares one file.
   *
   * @param textual whether the parameter of this expression ({@code ${header.x}}) is always a text
   * @return what PostgreSQL has against it; empty when nothing
   * @throws SQLException when the database cannot be asked
   */
  public List<Finding> check(String file, String text, Predicate<String> textual)
      throws SQLException {
    SqlText sql = new SqlText(text);
    if (!PREPARABLE.matcher(sql.code()).matches()) {
      return List.of();
    }
    List<String> expressions = new ArrayList<>();
    String numbered = numbered(text, sql, expressions);
    List<String> types = new ArrayList<>(Collections.nCopies(expressions.size(), "unknown"));
    PSQLException fault = prepare(numbered, types);
    for (int tries = 0; fault != null && tries < expressions.size(); tries++) {
      // Only its use tells a type, and here none does: then the driver's own, text.
      Matcher undecided = Pattern.compile("\\$(\\d+)").matcher(message(fault));
      if (!INDETERMINATE.equals(fault.getSQLState()) || !undecided.find()) {
        break;
      }
      types.set(Integer.parseInt(undecided.group(1)) - 1, "text");
      fault = prepare(numbered, types);
    }
    if (fault != null) {
      return List.of(finding(file, sql, fault, null));
    }
    for (int i = 0; i < expressions.size(); i++) {
      if (textual.test(expressions.get(i)) && types.get(i).equals("unknown")) {
        types.set(i, "varchar");
        fault = prepare(numbered, types);
        types.set(i, "unknown");
        if (fault != null) {
          return List.of(finding(file, sql, fault, expressions.get(i)));
        }
      }
    }
    return List.of();
  }

  /** {@code :#x} as {@code $1}, at the same place: PostgreSQL names faults by their position. */
  private static String numbered(String text, SqlText sql, List<String> expressions) {
    StringBuilder numbered = new StringBuilder();
    Matcher matcher = PARAMETER.matcher(text);
    int end = 0;
    while (matcher.find()) {
      if (sql.part(matcher.start()) != SqlText.Part.CODE) {
        continue;
      }
      expressions.add(matcher.group(1));
      String number = "$" + expressions.size();
      numbered.append(text, end, matcher.start()).append(number);
      numbered.append(" ".repeat(Math.max(0, matcher.group().length() - number.length())));
      end = matcher.end();
    }
    return numbered.append(text.substring(end)).toString();
  }

  /** What PostgreSQL has against it, or null. */
  private PSQLException prepare(String numbered, List<String> types) throws SQLException {
    var before = connection.setSavepoint();
    try (Statement statement = connection.createStatement()) {
      // Braces in it are PostgreSQL's, not JDBC's.
      statement.setEscapeProcessing(false);
      statement.execute(head(types) + numbered);
      return null;
    } catch (PSQLException e) {
      if (e.getServerErrorMessage() == null || e.getSQLState().matches("(08|57|53|58).*")) {
        throw e;
      }
      headLength = head(types).length();
      return e;
    } finally {
      // A prepared statement outlives a rollback.
      connection.rollback(before);
      try (Statement statement = connection.createStatement()) {
        statement.execute(
            "DO $$ BEGIN IF EXISTS (SELECT FROM pg_prepared_statements WHERE name = '%s') THEN DEALLOCATE %s; END IF; END $$"
                .formatted(NAME, NAME));
      }
    }
  }

  private int headLength;

  private static String head(List<String> types) {
    return "PREPARE "
        + NAME
        + (types.isEmpty() ? "" : types.toString().replace('[', '(').replace(']', ')'))
        + " AS ";
  }

  private static String message(PSQLException fault) {
    return fault.getServerErrorMessage().getMessage();
  }

  private Finding finding(String file, SqlText sql, PSQLException fault, String textual) {
    int position = fault.getServerErrorMessage().getPosition() - 1 - headLength;
    int line = position < 0 ? 1 : sql.line(position);
    String hint = fault.getServerErrorMessage().getHint();
    String said =
        "PostgreSQL says: %s (SQLSTATE %s)".formatted(message(fault), fault.getSQLState());
    return textual == null
        ? new Finding(
            file,
            line,
            null,
            null,
            said,
            hint == null ? REMEDY : hint.replaceFirst("[^.?]$", "$0.") + " " + REMEDY)
        : new Finding(
            file,
            line,
            null,
            null,
            "the parameter `:#%s` is a text, and with one %s"
                .formatted(
                    textual, said.substring(0, 1).toUpperCase(Locale.ROOT) + said.substring(1)),
            "Say what it is to be: `CAST(:#%s AS ...)`.".formatted(textual));
  }
}
