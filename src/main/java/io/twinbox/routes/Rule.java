package io.twinbox.routes;

import java.util.Set;

/**
 * One entry of the rule tables: a step or an endpoint scheme that is refused, or an option of it
 * that may only have certain values. What is allowed is listed, not what is forbidden, so a
 * spelling that nobody thought of is refused.
 *
 * @param names steps or, if {@code scheme}, endpoint schemes
 * @param option null when the step itself is refused
 * @param allowed values of the option, lower case
 * @param optional whether the option may be left out, that is whether its default is harmless
 */
record Rule(
    Scope scope,
    boolean scheme,
    Set<String> names,
    String option,
    Set<String> allowed,
    boolean optional,
    String problem,
    String remedy) {

  enum Scope {
    /** Every route file. */
    ALWAYS,
    /** Handlers, and routes that hold a {@code transacted} step. */
    TRANSACTION,
    HANDLER
  }

  static Rule step(Scope scope, String names, String problem, String remedy) {
    return new Rule(scope, false, words(names), null, Set.of(), true, problem, remedy);
  }

  static Rule scheme(Scope scope, String names, String problem, String remedy) {
    return new Rule(scope, true, words(names), null, Set.of(), true, problem, remedy);
  }

  /** The option, if present, must have one of the values. */
  Rule only(String option, String values) {
    return new Rule(scope, scheme, names, option, words(values), true, problem, remedy);
  }

  /** The option must be present and have one of the values. */
  Rule needs(String option, String values) {
    return new Rule(scope, scheme, names, option, words(values), false, problem, remedy);
  }

  static Set<String> words(String text) {
    return text.isEmpty() ? Set.of() : Set.of(text.split(" "));
  }
}
