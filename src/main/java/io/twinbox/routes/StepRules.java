package io.twinbox.routes;

import java.util.Locale;
import java.util.Optional;
import org.snakeyaml.engine.v2.nodes.Node;

/**
 * Applies the {@linkplain RuleTables#RULES rule table} to every step, however deep it is nested.
 */
final class StepRules {
  private StepRules() {}

  static void check(RouteContext route) {
    for (Step step : route.steps()) {
      Optional<Endpoint> endpoint = EndpointRules.target(step, route.surroundings());
      for (Rule rule : RuleTables.RULES) {
        if (!applies(rule, route)) {
          continue;
        }
        if (rule.scheme()) {
          endpoint
              .filter(target -> rule.names().contains(target.scheme()))
              .ifPresent(target -> scheme(rule, route, step, target));
        } else if (rule.names().contains(step.name()) && !step.clause()) {
          step(rule, route, step);
        }
      }
    }
    Endpoint.of(route.from(), route.surroundings())
        .ifPresent(
            from ->
                RuleTables.RULES.stream()
                    .filter(rule -> rule.scheme() && rule.scope() == Rule.Scope.ALWAYS)
                    .filter(rule -> rule.names().contains(from.scheme()))
                    .forEach(rule -> scheme(rule, route, null, from)));
  }

  private static boolean applies(Rule rule, RouteContext route) {
    return switch (rule.scope()) {
      case ALWAYS -> true;
      case TRANSACTION -> route.inTransaction();
      case HANDLER -> route.handler();
    };
  }

  private static void step(Rule rule, RouteContext route, Step step) {
    if (rule.option() == null) {
      report(rule, route, step, step.at(), rule.problem());
      return;
    }
    Optional<Node> option = Yaml.get(step.body(), rule.option());
    if (option.isEmpty()) {
      if (!rule.optional()) {
        report(rule, route, step, step.at(), rule.problem());
      }
      return;
    }
    judge(
        rule,
        route,
        step,
        option.get(),
        rule.option(),
        Yaml.text(option.get()).orElse(null),
        Yaml.text(option.get()).flatMap(text -> Placeholders.resolve(text, route.surroundings())));
  }

  private static void scheme(Rule rule, RouteContext route, Step step, Endpoint endpoint) {
    if (rule.option() == null) {
      String subject = rule.problem().startsWith(endpoint.scheme()) ? "" : endpoint.scheme() + ": ";
      report(rule, route, step, endpoint.at(), subject + rule.problem());
      return;
    }
    Optional<Endpoint.Parameter> parameter = endpoint.parameter(rule.option());
    if (parameter.isEmpty()) {
      if (!rule.optional()) {
        report(rule, route, step, endpoint.at(), rule.problem());
      }
      return;
    }
    Endpoint.Parameter found = parameter.get();
    judge(rule, route, step, found.at(), found.name(), found.written(), found.value());
  }

  /** Refuses a value that is not allowed, and one that cannot be known here. */
  private static void judge(
      Rule rule,
      RouteContext route,
      Step step,
      Node at,
      String name,
      String written,
      Optional<String> value) {
    if (value.isPresent() && rule.allowed().contains(normal(value.get()))) {
      return;
    }
    if (value.isPresent() && value.get().isEmpty() && rule.optional()) {
      return;
    }
    String shown = written == null || written.isEmpty() ? name : name + ": " + written;
    boolean unknown = value.isEmpty() && written != null && written.contains("{{");
    report(
        rule,
        route,
        step,
        at,
        unknown
            ? "`%s` depends on a property that is not set here, so it may be that %s"
                .formatted(shown, rule.problem())
            : "`%s`: %s".formatted(shown, rule.problem()));
  }

  /** Camel reads enum values ignoring case, dashes and underscores; {@code #} is a placeholder. */
  private static String normal(String value) {
    return value.replaceAll("[-_]", "").toLowerCase(Locale.ROOT);
  }

  private static void report(Rule rule, RouteContext route, Step step, Node at, String problem) {
    if (step == null) {
      route.report().at(at, problem, rule.remedy());
    } else {
      route.report().at(at, step, problem, rule.remedy());
    }
  }
}
