package io.twinbox.routes;

import java.util.Optional;
import java.util.Set;
import java.util.regex.Pattern;
import org.snakeyaml.engine.v2.nodes.Node;

/** How endpoints are written, and where statements come from: files, never strings (trap 34). */
final class EndpointRules {
  private static final Set<String> SQL = Set.of("sql", "sql-stored", "elsql");
  private static final Pattern FILE = Pattern.compile("(?:classpath|file):.+", Pattern.DOTALL);
  private static final Set<String> ON_CONSUME =
      Set.of("onConsume", "onConsumeFailed", "onConsumeBatchComplete");

  /** Headers that make camel-sql run the header's text instead of the file's (SqlProducer:104). */
  private static final Pattern QUERY_HEADER =
      Pattern.compile("CamelSql(?:Stored)?(?:Query|Template)", Pattern.CASE_INSENSITIVE);

  private EndpointRules() {}

  static void check(RouteContext route, Set<String> statements) {
    Node uri = Yaml.get(route.from(), "uri").orElse(null);
    if (uri != null) {
      Endpoint.of(route.from(), route.surroundings())
          .ifPresent(
              endpoint -> {
                form(route, null, uri, endpoint);
                if (endpoint.scheme().equals("sql")) {
                  route
                      .report()
                      .at(
                          uri,
                          "a sql consumer starts no transaction, so two pods read the same rows, and"
                              + " swallows what its onConsume statements fail with",
                          "Start from `scheduler` and claim rows in a `sql` step.");
                }
              });
    }
    for (Step step : route.steps()) {
      headerNames(route, step);
      target(step, route.surroundings())
          .ifPresent(
              endpoint -> {
                form(route, step, endpoint.at(), endpoint);
                if (SQL.contains(endpoint.scheme())) {
                  statement(route, step, endpoint, statements);
                }
              });
    }
  }

  /** The endpoint that a step names: under {@code uri}, or as the constant of an enrich. */
  static Optional<Endpoint> target(Step step, Surroundings surroundings) {
    return switch (step.name()) {
      case "to", "toD", "wireTap", "poll" -> Endpoint.of(step.body(), surroundings);
      case "enrich", "pollEnrich" ->
          Expressions.of(step.body())
              .filter(expression -> !expression.dynamic())
              .flatMap(expression -> Endpoint.of(expression.at(), surroundings));
      default -> Optional.empty();
    };
  }

  private static void form(RouteContext route, Step step, Node at, Endpoint endpoint) {
    String written = Yaml.text(at).orElse("");
    if (step != null && (step.name().endsWith("nrich") || step.shorthand())) {
      return; // An expression, or refused as a short form already.
    }
    if (written.contains("?")) {
      report(
          route,
          step,
          at,
          "options stand in the URI, where they need encoding and Kaoto does not show them",
          "Write `uri: %s` and the options under `parameters:`."
              .formatted(written.split("[:?]")[0]));
    } else if (written.contains("{{") && written.indexOf("{{") < (written + ":").indexOf(':')) {
      report(
          route,
          step,
          at,
          "a property chooses the kind of endpoint, so nothing here can be checked",
          "Write the scheme itself, and properties under `parameters:`.");
    } else if (written.contains(":") && !written.startsWith("direct:")) {
      report(
          route,
          step,
          at,
          "the URI holds more than its scheme, which the canonical form keeps under `parameters:`",
          "Write `uri: %s` and the rest under `parameters:`.".formatted(written.split(":")[0]));
    }
  }

  private static void statement(
      RouteContext route, Step step, Endpoint endpoint, Set<String> statements) {
    Report report = route.report();
    for (String option : ON_CONSUME) {
      endpoint
          .parameter(option)
          .filter(parameter -> !FILE.matcher(parameter.written().trim()).matches())
          .ifPresent(parameter -> inline(report, parameter.at(), step, parameter.written()));
    }
    String name = endpoint.scheme().equals("sql") ? "query" : "template";
    Optional<Endpoint.Parameter> query = endpoint.parameter(name);
    Node at = query.map(Endpoint.Parameter::at).orElse(endpoint.at());
    String written = query.map(Endpoint.Parameter::written).orElse(endpoint.path()).trim();
    String reference = query.flatMap(Endpoint.Parameter::value).orElse(written);
    if (written.isEmpty()) {
      report.at(
          at,
          step,
          "the step names no statement",
          "Write `%s: classpath:sql/….sql`, or `file:`, under `parameters:`.".formatted(name));
    } else if (reference.contains("{{")) {
      report.at(
          at,
          step,
          "the statement file %s cannot be found: a property in its name is not set"
              .formatted(reference),
          "Set the property, or give it a default, `{{name:default}}`.");
    } else if (!FILE.matcher(reference).matches()) {
      inline(report, at, step, reference);
    } else {
      boolean first = statements.add(reference);
      String file = reference.replaceFirst("^(?:classpath|file):", "");
      Optional<String> text = route.surroundings().text(reference);
      if (text.isEmpty()) {
        report.at(
            at,
            step,
            "there is no statement file %s, so the route would not start".formatted(reference),
            "Create it, or correct the name.");
      } else if (first) {
        (route.handler()
                ? SqlRules.checkHandler(file, text.get())
                : SqlRules.check(file, text.get()))
            .forEach(finding -> report.elsewhere(finding, step));
      }
      text.ifPresent(sql -> parametersCount(report, step, endpoint, file, new SqlText(sql)));
    }
  }

  /** Camel compares the number only when a message comes, and then fails every one. */
  private static void parametersCount(
      Report report, Step step, Endpoint endpoint, String file, SqlText sql) {
    Optional<Endpoint.Parameter> parameter = endpoint.parameter("parametersCount");
    Optional<String> written = parameter.flatMap(Endpoint.Parameter::value);
    String count = String.valueOf(sql.parameters());
    if (written.isPresent() && !written.get().equals(count) && !written.get().equals("0")) {
      report.at(
          parameter.get().at(),
          step,
          "every message would fail: parametersCount is %s, but %s has %s"
              .formatted(written.get(), file, count),
          "Write `parametersCount: %s`.".formatted(count));
    }
  }

  private static void inline(Report report, Node at, Step step, String sql) {
    String start = sql.replaceAll("\\s+", " ");
    report.at(
        at,
        step,
        "SQL inside YAML is mangled: folded lines let a -- comment swallow the rest (a DELETE lost its"
            + " WHERE), # becomes ? (found `%s`)"
                .formatted(start.length() > 40 ? start.substring(0, 40) + "…" : start),
        "Put the statement into a file and write `query: classpath:sql/….sql`, or `file:`.");
  }

  private static void headerNames(RouteContext route, Step step) {
    if (Set.of("setHeader", "setHeaders").contains(step.name())) {
      Yaml.get(step.body(), "name").ifPresent(name -> headerName(route, step, name));
      Yaml.get(step.body(), "headers").map(Yaml::items).stream()
          .flatMap(items -> items.stream())
          .forEach(item -> Yaml.get(item, "name").ifPresent(name -> headerName(route, step, name)));
    }
  }

  private static void headerName(RouteContext route, Step step, Node at) {
    String name = Yaml.text(at).orElse("").trim();
    if (QUERY_HEADER.matcher(name).matches()) {
      route
          .report()
          .at(
              at,
              step,
              "camel-sql runs the text of the header %s in place of the statement file"
                  .formatted(name),
              "Name the file at the `sql` step; choose between statements by `choice`.");
    } else if (name.equalsIgnoreCase("CamelSqlDataSource")) {
      route
          .report()
          .at(
              at,
              step,
              "the header %s makes `sql` steps use another data source, outside the transaction"
                  .formatted(name),
              "Take it out; the transaction's own data source is used.");
    } else if (name.contains("${") || name.contains("$simple{")) {
      route
          .report()
          .at(
              at,
              step,
              "the message chooses the header's name, and could choose one that steers Camel",
              "Write the name out.");
    }
  }

  private static void report(
      RouteContext route, Step step, Node at, String problem, String remedy) {
    if (step == null) {
      route.report().at(at, problem, remedy);
    } else {
      route.report().at(at, step, problem, remedy);
    }
  }
}
