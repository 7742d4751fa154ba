package io.twinbox.routes;

import java.util.HashMap;
import java.util.Map;
import java.util.Optional;

/**
 * The form of a route: ids, description, file name. Ids are JMX and metric names, so Camel must not
 * make them up; and Kaoto deletes YAML comments, so intent stands in the description.
 */
final class FormRules {
  private static final String SUFFIX = ".camel.yaml";

  private FormRules() {}

  static void check(RouteContext route, Optional<String> id) {
    Report report = route.report();
    if (id.isEmpty()) {
      report.at(
          route.key(),
          "the route has no id; Camel makes one up, another at each start, and metrics and alerts"
              + " lose it",
          "Write `id: <topic>-<verb>`.");
    }
    if (!route.handler()) {
      checkOwn(route, id);
    }
    Map<String, Step> seen = new HashMap<>();
    for (Step step : route.steps()) {
      if (step.shorthand()) {
        if (!step.clause() && !step.name().isEmpty()) {
          report.at(
              step.at(),
              step,
              "the short form of `%s` has no id, and Kaoto rewrites it".formatted(step.name()),
              "Write its options as indented lines, `id:` first.");
        }
        continue;
      }
      if (step.id().isEmpty() && !step.clause() && RouteSchema.instance().takesId(step.name())) {
        report.at(
            step.at(),
            step,
            "the step has no id; Camel makes one up, another at each start, and metrics lose it",
            "Write `id: <what-it-does>`.");
      }
      step.id()
          .ifPresent(
              name -> {
                Step first = seen.putIfAbsent(name, step);
                if (first != null) {
                  report.at(
                      step.at(),
                      step,
                      "the id stands at line %d already, so Camel would start no route at all"
                          .formatted(first.line()),
                      "Give each step an id of its own.");
                }
              });
    }
  }

  private static void checkOwn(RouteContext route, Optional<String> id) {
    Report report = route.report();
    if (Yaml.text(route.body(), "description").filter(text -> !text.isBlank()).isEmpty()) {
      report.at(
          route.key(),
          "the route has no description; Hawtio and Kaoto show only an id",
          "Write `description:` with what it does and why.");
    }
    String name = route.file().name().replace('\\', '/');
    String last = name.substring(name.lastIndexOf('/') + 1);
    if (id.isPresent() && !last.equals(id.get() + SUFFIX)) {
      report.at(
          route.key(),
          "the file %s is not called after its route, so nobody finds it from Hawtio or a log"
              .formatted(last),
          "Call it %s%s, or the route %s."
              .formatted(id.get(), SUFFIX, last.replaceFirst("(\\.camel)?\\.ya?ml$", "")));
    }
  }
}
