package io.twinbox.sql;

import org.junit.jupiter.api.Assumptions;

/** A backend that is not there is skipped by name, never silently. */
final class Backend {

  private Backend() {}

  static void need(String name, String missing) {
    if (missing != null) {
      System.out.printf("Skipped: SQL tests on %s: %s%n", name, missing);
    }
    Assumptions.assumeTrue(missing == null, () -> name + ": " + missing);
  }
}
