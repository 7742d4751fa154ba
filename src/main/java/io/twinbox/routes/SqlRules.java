package io.twinbox.routes;

import java.util.ArrayList;
import java.util.List;
import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * Rules for statement files, by what camel-sql 4.17.0 does to them before PostgreSQL sees them
 * ({@code SqlHelper.resolveQuery}): it replaces every {@code #} by {@code ?}, in literals and
 * operators too, and drops every line that is blank or begins with {@code --}, inside literals too;
 * what then reads {@code :?name} is a named parameter wherever it stands, and pgjdbc takes every
 * {@code ?} outside literals and comments for a parameter.
 */
public final class SqlRules {

  private static final Pattern NAMED = Pattern.compile("#(?:in:)?(?:\\w+|\\$\\{|\\$simple\\{)");

  private record Forbidden(Pattern code, String problem, String remedy) {
    static Forbidden statement(String words, String problem, String remedy) {
      return new Forbidden(
          Pattern.compile("(?:^|;)\\s*(" + words + ")\\b", Pattern.CASE_INSENSITIVE),
          problem,
          remedy);
    }

    static Forbidden anywhere(String regex, String problem, String remedy) {
      return new Forbidden(
          Pattern.compile("(" + regex + ")", Pattern.CASE_INSENSITIVE), problem, remedy);
    }
  }

  private static final String ENDS =
      "ends or splits the transaction that holds the inbox key: what follows commits by itself, so"
          + " a redelivery has a second effect or a failure is acked";

  private static final List<Forbidden> IN_HANDLERS =
      List.of(
          Forbidden.statement(
              "BEGIN|START\\s+TRANSACTION|COMMIT|END|ROLLBACK|ABORT|PREPARE\\s+TRANSACTION"
                  + "|SAVEPOINT|RELEASE",
              ENDS,
              "Take it out; Twinbox commits after the handler, or rolls back when a step throws."),
          Forbidden.statement(
              "SET|RESET|DISCARD",
              "changes settings of a pooled connection (with synchronous_commit, the commit before"
                  + " the ack is no longer durable), and other messages inherit them",
              "Take it out; set it with ALTER ROLE, or as a property of the connection pool."),
          Forbidden.statement(
              "DO",
              "hides statements from this check, and its EXCEPTION clause can swallow an error",
              "Put the code into a function in a migration and SELECT it."),
          Forbidden.anywhere(
              "(:#(?:in:[A-Za-z_]|(?!in:)[A-Za-z_])\\w*)",
              "is taken from the message's headers when the body has no such entry, and a publisher"
                  + " chooses the names of headers",
              "Say where the value comes from: `:#${body}` or `:#${body[name]}`, `:#${header.name}`,"
                  + " `:#${exchangeProperty.name}`."),
          Forbidden.anywhere(
              "\\bset_config\\s*\\(",
              "changes a setting of a pooled connection, as SET does",
              "Take it out; set it with ALTER ROLE, or as a property of the connection pool."),
          Forbidden.anywhere(
              "\\bpg_(?:try_)?advisory_lock(?:_shared)?\\s*\\(",
              "takes a lock that the commit does not release: the pooled connection keeps it, and"
                  + " other pods wait for it for ever",
              "Use pg_advisory_xact_lock."),
          Forbidden.anywhere(
              "\\bdblink\\w*\\s*\\(",
              "writes on another connection: its rows survive a rollback of the message",
              "Write to tables of this database, or call outbox_put to tell another one."),
          Forbidden.anywhere(
              "\\b(?:DELETE\\s+FROM|UPDATE|INSERT\\s+INTO|TRUNCATE(?:\\s+TABLE)?)\\s+"
                  + "(?:ONLY\\s+)?(?:\\w+\\.)?\"?transactional_inbox\\b",
              "changes the inbox keys themselves: a redelivered message then takes effect again, or"
                  + " a new one is taken for a duplicate",
              "Leave the inbox to Twinbox; replay and discard are operations of the runbook."));

  private SqlRules() {}

  /** What every statement file must keep, whoever runs it: the first line says what it is for. */
  public static List<Finding> checkHeader(String file, String text) {
    String first = text.lines().findFirst().orElse("").trim();
    return first.startsWith("--") && first.length() > 3
        ? List.of()
        : List.of(
            finding(
                file,
                1,
                "nobody can tell what the statement is for and when it runs",
                "Begin the file with a `-- ` comment that says so."));
  }

  /** A statement file that a {@code sql} step reads. */
  public static List<Finding> check(String file, String text) {
    List<Finding> findings = new ArrayList<>(checkHeader(file, text));
    SqlText sql = new SqlText(text);
    for (int i = 0; i < text.length(); i++) {
      checkCharacter(file, text, sql, i, findings);
    }
    for (SqlText.Line line : sql.droppedLiteralLines()) {
      findings.add(
          finding(
              file,
              line.number(),
              "camel-sql drops lines that are blank or begin with --, also inside a literal: the"
                  + " literal loses this line",
              "Write the line break as E'\\n', or pass the text as a parameter."));
    }
    findings.sort(Finding.ORDER);
    return findings;
  }

  /** A statement file that a handler runs, inside the transaction that holds the inbox key. */
  public static List<Finding> checkHandler(String file, String text) {
    List<Finding> findings = new ArrayList<>(check(file, text));
    SqlText sql = new SqlText(text);
    for (Forbidden rule : IN_HANDLERS) {
      Matcher matcher = rule.code().matcher(sql.code());
      while (matcher.find()) {
        String words = matcher.group(1).replaceAll("\\s*\\($", "").replaceAll("\\s+", " ");
        findings.add(
            finding(
                file,
                sql.line(matcher.start(1)),
                "`%s` %s".formatted(words, rule.problem()),
                rule.remedy()));
      }
    }
    findings.sort(Finding.ORDER);
    return findings;
  }

  private static void checkCharacter(
      String file, String text, SqlText sql, int i, List<Finding> findings) {
    char c = text.charAt(i);
    SqlText.Part part = sql.part(i);
    if (c == '-' && sql.trailingCommentStartsAt(i)) {
      findings.add(
          finding(
              file,
              sql.line(i),
              "a -- comment after code swallows what follows as soon as lines are joined, and"
                  + " camel-sql looks for parameters in it",
              "Move the comment to a line of its own, above."));
    } else if (c == '#' && part != SqlText.Part.DROPPED) {
      checkHash(file, text, sql, i, findings);
    } else if (c == '?' && part == SqlText.Part.CODE) {
      findings.add(
          finding(
              file,
              sql.line(i),
              "`?` is a parameter to JDBC, also where it is meant as a jsonb operator",
              "Name parameters, `:#name`; for jsonb use jsonb_exists, jsonb_exists_any or @>."));
    } else if (c == '?' && part != SqlText.Part.DROPPED && i > 0 && text.charAt(i - 1) == ':') {
      findings.add(
          finding(
              file,
              sql.line(i),
              "camel-sql takes `:?` for a parameter, also in a literal or comment",
              "Write chr(63) for the question mark."));
    }
  }

  private static void checkHash(
      String file, String text, SqlText sql, int i, List<Finding> findings) {
    boolean named =
        i > 0
            && text.charAt(i - 1) == ':'
            && !(i > 1 && text.charAt(i - 2) == ':')
            && NAMED.matcher(text).region(i, text.length()).lookingAt();
    if (named && sql.part(i) == SqlText.Part.CODE) {
      return;
    }
    findings.add(
        named
            ? finding(
                file,
                sql.line(i),
                "camel-sql counts the parameter in this %s, PostgreSQL does not: the step fails"
                    .formatted(sql.part(i) == SqlText.Part.LITERAL ? "literal" : "comment"),
                "Concatenate instead, `'…' || :#name`; in comments name parameters without `:#`.")
            : finding(
                file,
                sql.line(i),
                "camel-sql replaces every # by ?, in literals and operators too",
                "Write parameters as `:#name`, chr(35) for the character, and jsonb_extract_path"
                    + " for #> and #>>."));
  }

  private static Finding finding(String file, int line, String problem, String remedy) {
    return new Finding(file, line, null, null, problem, remedy);
  }
}
