package io.twinbox.config;

import java.util.function.Predicate;

/** Looks through an exception's causes. */
public final class Causes {

  private static final int DEEPEST = 30;

  private Causes() {}

  /** The innermost cause's message, or its class where it has none; one line. */
  public static String describe(Throwable exception) {
    Throwable root = exception;
    for (int i = 0; i < DEEPEST && root.getCause() != null && root.getCause() != root; i++) {
      root = root.getCause();
    }
    String message = root.getMessage() == null ? root.getClass().getName() : root.getMessage();
    return message.replaceAll("\\s*[\\r\\n]+\\s*", " ");
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
