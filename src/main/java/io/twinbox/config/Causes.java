package io.twinbox.config;

import java.sql.SQLException;
import java.util.function.Predicate;

/** Looks through an exception's causes. */
public final class Causes {

  private static final int DEEPEST = 30;

  private Causes() {}

  /**
   * The innermost cause's message, or its class where it has none; one line. A value that
   * PostgreSQL quotes because it could not read it (SQLSTATE class 22) is of somebody's payload,
   * and left out.
   */
  public static String describe(Throwable exception) {
    Throwable root = exception;
    for (int i = 0; i < DEEPEST && root.getCause() != null && root.getCause() != root; i++) {
      root = root.getCause();
    }
    String message = root.getMessage() == null ? root.getClass().getName() : root.getMessage();
    String line = message.replaceAll("\\s*[\\r\\n]+\\s*", " ");
    return root instanceof SQLException e
            && e.getSQLState() != null
            && e.getSQLState().startsWith("22")
        ? line.replaceAll("\"[^\"]*\"", "\"...\"")
        : line;
  }

  /** Whether the exception or one of its causes passes. */
  public static boolean any(Throwable exception, Predicate<Throwable> test) {
    Throwable current = exception;
    for (int i = 0; i < DEEPEST && current != null; i++) {
      if (test.test(current)) {
        return true;
      }
      current = current.getCause();
    }
    return false;
  }
}
