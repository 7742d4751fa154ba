package io.twinbox.routes;

import io.twinbox.config.Causes;
import java.util.ArrayList;
import java.util.Collection;
import java.util.Comparator;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Locale;
import java.util.Optional;
import java.util.Set;
import java.util.function.BiFunction;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.camel.CamelContext;
import org.apache.camel.NoSuchBeanException;
import org.apache.camel.impl.DefaultCamelContext;
import org.apache.camel.language.simple.types.SimpleIllegalSyntaxException;
import org.apache.camel.spi.EndpointUriFactory;
import org.apache.camel.spi.Language;
import org.snakeyaml.engine.v2.nodes.Node;
import org.snakeyaml.engine.v2.nodes.NodeTuple;
import org.snakeyaml.engine.v2.nodes.ScalarNode;

/**
 * What Camel would find out only when it builds the routes: properties without a value, endpoints
 * and options that there are not. A process learns it a moment later anyway; a check before the
 * deployment wants it with file and line.
 */
public final class LoadRules {

  private static final Pattern PLACEHOLDER = Pattern.compile("\\{\\{([^{}]+)}}");
  private static final Pattern SQL_PROPERTY =
      Pattern.compile(":#\\$(?:simple)?\\{properties:([^:}]+)}");

  private static final Pattern SQL_EXPRESSION =
      Pattern.compile(":#(?:in:)?(\\$(?:simple)?\\{[^{}]*})");
  private static final Pattern FUNCTION = Pattern.compile("\\$(?:simple)?\\{[^${}]*}");
  private static final String SIMPLE =
      "Write a function of Camel's simple language, such as ${body}, ${body[name]}, ${header.name} or ${exchangeProperty.name}.";

  /** Resolved by Camel from what a component is, not by us. */
  private static final Set<String> WITHOUT_OPTIONS = Set.of("kamelet");

  private LoadRules() {}

  /** The findings of all files; empty when Camel could build them. */
  public static List<Finding> check(List<RouteFile> files, Surroundings surroundings) {
    List<Finding> findings = new ArrayList<>();
    // Never started: only asked which endpoints there are.
    CamelContext camel = new DefaultCamelContext(false);
    for (RouteFile file : files) {
      Optional<Node> root;
      try {
        root = Yaml.parse(file.name(), file.text());
      } catch (Yaml.Unreadable e) {
        continue; // RouteRules says it.
      }
      Report report = new Report(file.name());
      root.ifPresent(node -> check(node, surroundings, camel, report));
      findings.addAll(report.findings());
    }
    for (String reference : RouteRules.statements(files, surroundings)) {
      surroundings
          .text(reference)
          .ifPresent(
              text -> {
                findings.addAll(properties(reference, text, surroundings));
                findings.addAll(expressions(reference, text, camel));
              });
    }
    return findings.stream().distinct().sorted(Finding.ORDER).toList();
  }

  private static void check(
      Node root, Surroundings surroundings, CamelContext camel, Report report) {
    for (Node item : Yaml.items(root)) {
      for (NodeTuple entry : Yaml.entries(item)) {
        if (!Yaml.key(entry).equals("route")) {
          continue;
        }
        Node body = entry.getValueNode();
        report.route(Yaml.text(body, "id").orElse(null));
        Node from = Yaml.get(body, "from").orElse(body);
        Endpoint.of(from, surroundings).ifPresent(e -> options(e, null, camel, report));
        List<Step> steps = Step.of(from);
        for (Step step : steps) {
          EndpointRules.target(step, surroundings)
              .ifPresent(endpoint -> options(endpoint, step, camel, report));
        }
        for (Step step : steps) {
          types(step, camel, report);
          Expressions.allOf(step.body()).stream()
              .filter(e -> !e.language().equals("constant"))
              .forEach(
                  e ->
                      Yaml.text(e.at())
                          .map(text -> fault(text, camel))
                          .ifPresent(
                              fault ->
                                  report.at(
                                      e.at(),
                                      step,
                                      "Camel cannot read the expression: " + fault,
                                      SIMPLE)));
        }
        placeholders(body, surroundings, steps, report);
      }
    }
  }

  private static void placeholders(
      Node node, Surroundings surroundings, List<Step> steps, Report report) {
    if (node instanceof ScalarNode scalar) {
      Matcher matcher = PLACEHOLDER.matcher(scalar.getValue());
      while (matcher.find()) {
        if (Placeholders.resolve(matcher.group(), surroundings).isEmpty()) {
          String name = matcher.group(1).trim();
          BiFunction<String, String, Void> say =
              (problem, remedy) -> {
                steps.stream()
                    .filter(step -> step.line() <= Yaml.line(node))
                    .max(Comparator.comparingInt(Step::line))
                    .ifPresentOrElse(
                        step -> report.at(node, step, problem, remedy),
                        () -> report.at(node, problem, remedy));
                return null;
              };
          say.apply(
              "the property %s has no value, so Camel would not start".formatted(name),
              "Set it in topic.properties, or give it a default, `{{%s:...}}`.".formatted(name));
        }
      }
    }
    Yaml.items(node).forEach(item -> placeholders(item, surroundings, steps, report));
    Yaml.entries(node)
        .forEach(entry -> placeholders(entry.getValueNode(), surroundings, steps, report));
  }

  private static List<Finding> properties(
      String reference, String text, Surroundings surroundings) {
    List<Finding> findings = new ArrayList<>();
    SqlText sql = new SqlText(text);
    Matcher matcher = SQL_PROPERTY.matcher(text);
    while (matcher.find()) {
      if (sql.part(matcher.start()) == SqlText.Part.CODE
          && surroundings.property(matcher.group(1)).isEmpty()) {
        findings.add(
            new Finding(
                reference.replaceFirst("^(?:classpath|file):", ""),
                sql.line(matcher.start()),
                null,
                null,
                "the property %s has no value, so the statement would fail"
                    .formatted(matcher.group(1)),
                "Set it in topic.properties."));
      }
    }
    return findings;
  }

  /** What a statement's parameters read, by Camel's simple language. */
  private static List<Finding> expressions(String reference, String text, CamelContext camel) {
    List<Finding> findings = new ArrayList<>();
    SqlText sql = new SqlText(text);
    Matcher matcher = SQL_EXPRESSION.matcher(text);
    while (matcher.find()) {
      String fault =
          sql.part(matcher.start()) == SqlText.Part.CODE ? fault(matcher.group(1), camel) : null;
      if (fault != null) {
        findings.add(
            new Finding(
                reference.replaceFirst("^(?:classpath|file):", ""),
                sql.line(matcher.start()),
                null,
                null,
                "every message would fail at the parameter `%s`: %s"
                    .formatted(matcher.group(), fault),
                SIMPLE));
      }
    }
    return findings;
  }

  /**
   * What Camel's simple language has against the functions of a text, or null. Only its grammar: a
   * bean that an expression names may well be there in a process.
   */
  private static String fault(String text, CamelContext camel) {
    Language simple = camel.resolveLanguage("simple");
    Matcher function = FUNCTION.matcher(text);
    while (function.find()) {
      try {
        simple.createExpression(function.group());
      } catch (SimpleIllegalSyntaxException e) {
        if (Causes.any(e, NoSuchBeanException.class::isInstance)) {
          continue;
        }
        return Causes.describe(e).replaceFirst(" at location \\d+.*", "").replaceFirst("\\.$", "");
      }
    }
    return null;
  }

  /** Steps that name a class by `type`. */
  private static void types(Step step, CamelContext camel, Report report) {
    if (!step.name().startsWith("convert")) {
      return;
    }
    Yaml.get(step.body(), "type")
        .ifPresent(
            at -> {
              String type = Yaml.text(at).orElse("");
              if (!type.contains("{{") && camel.getClassResolver().resolveClass(type) == null) {
                report.at(
                    at,
                    step,
                    "there is no class `%s`, so Camel would not start".formatted(type),
                    "Write its full name, java.lang.String for a text.");
              }
            });
  }

  private static void options(Endpoint endpoint, Step step, CamelContext camel, Report report) {
    String scheme = endpoint.scheme();
    if (scheme.contains("{{") || WITHOUT_OPTIONS.contains(scheme)) {
      return;
    }
    EndpointUriFactory factory = camel.getCamelContextExtension().getEndpointUriFactory(scheme);
    if (factory == null) {
      say(
          report,
          step,
          endpoint.at(),
          "there is no endpoint `%s` in this program".formatted(scheme),
          "Use one that is there, `sql` for example.");
      return;
    }
    Set<String> names = new LinkedHashSet<>(factory.propertyNames());
    for (Endpoint.Parameter parameter : endpoint.parameters().values()) {
      // An option that is a map is written name.key.
      String written = parameter.name().replaceFirst("\\..*$", "");
      boolean known =
          names.stream().anyMatch(name -> Endpoint.normal(name).equals(Endpoint.normal(written)))
              || factory.multiValuePrefixes().values().stream()
                  .anyMatch(parameter.name()::startsWith);
      if (!known) {
        say(
            report,
            step,
            parameter.at(),
            "`%s` is no option of the endpoint `%s`".formatted(parameter.name(), scheme),
            nearest(parameter.name(), names));
      }
    }
  }

  private static void say(Report report, Step step, Node at, String problem, String remedy) {
    if (step == null) {
      report.at(at, problem, remedy);
    } else {
      report.at(at, step, problem, remedy);
    }
  }

  private static String nearest(String written, Collection<String> names) {
    String lower = written.toLowerCase(Locale.ROOT);
    return names.stream()
        .min(
            Comparator.<String>comparingInt(
                    name ->
                        org.springframework.util.StringUtils.hasText(name)
                            ? distance(lower, name.toLowerCase(Locale.ROOT))
                            : Integer.MAX_VALUE)
                .thenComparing(Comparator.naturalOrder()))
        .map(name -> "Did you mean `%s`?".formatted(name))
        .orElse("Take it out.");
  }

  private static int distance(String a, String b) {
    return io.twinbox.config.SettingsCheck.distance(a, b);
  }
}
