package io.twinbox.command;

import java.io.PrintWriter;
import java.sql.SQLException;
import java.util.Map;
import java.util.function.Function;

/** Runs a repair, or tries it and takes it back, so that it is seen before it is done. */
final class Changes {

  private Changes() {}

  /**
   * @param statement of {@code sql/operate}
   * @param told says what the statement's one row means
   */
  static int run(
      Settings settings,
      PrintWriter out,
      Options.Change change,
      String statement,
      Map<String, Object> parameters,
      Function<Map<String, Object>, String> told)
      throws SQLException {
    parameters.put("reason", change.reason);
    if (change.who.isBlank()) {
      throw Refused.usage("--who is blank: give your name, it goes into twinbox_audit.");
    }
    parameters.put("who", change.who);
    try (Database database = Database.of(settings, false)) {
      String answer = told.apply(database.operate(statement, parameters).get(0));
      if (change.yes) {
        database.commit();
        out.println(answer);
      } else {
        out.println("Tried and taken back: " + answer);
        out.println("Nothing was changed. Add --yes to do it.");
      }
      return Commands.GOOD;
    }
  }
}
