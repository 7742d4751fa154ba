package io.twinbox.routes;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.apache.camel.impl.DefaultCamelContext;
import org.apache.camel.support.PluginHelper;
import org.apache.camel.support.ResourceHelper;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

/**
 * One small file per fault under {@code routes/bad}, with the expected lines beside it in {@code
 * <name>.expected}; files under {@code routes/good} have no finding.
 */
class RouteRulesTest {
  static final Path RESOURCES = Path.of("src/test/resources/routes");
  private static final Surroundings SURROUNDINGS =
      Surroundings.here(
          key ->
              Optional.ofNullable(
                  Map.of("topic.dir", RESOURCES.resolve("sql").toString(), "queue", "seda:x")
                      .get(key)));

  static Stream<String> bad() {
    return routeFiles("bad");
  }

  static Stream<String> good() {
    return routeFiles("good");
  }

  @ParameterizedTest
  @MethodSource("bad")
  void faultIsNamedWithItsPlaceAndRemedy(String name) throws IOException {
    String found = lines(RouteRules.check(read(name), SURROUNDINGS));
    assertThat(found).isEqualTo(Files.readString(expected(name)).strip());
  }

  @ParameterizedTest
  @MethodSource("bad")
  void faultIsFoundInFilesThatAreLoadedTogether(String name) {
    assertThat(RouteRules.check(List.of(read(name)), SURROUNDINGS)).isNotEmpty();
  }

  @ParameterizedTest
  @MethodSource("good")
  void goodRouteHasNoFinding(String name) {
    assertThat(RouteRules.check(read(name), SURROUNDINGS)).isEmpty();
  }

  /** Read, not started: the endpoints of test routes need not exist. */
  @ParameterizedTest
  @MethodSource("good")
  void goodRouteIsReadByCamel(String name) throws Exception {
    try (DefaultCamelContext camel = new DefaultCamelContext()) {
      RouteFile file = read(name);
      PluginHelper.getRoutesLoader(camel)
          .loadRoutes(ResourceHelper.fromString(file.name(), file.text()));
      assertThat(camel.getRouteDefinitions()).hasSize(1);
    }
  }

  @Test
  void everyStepOfThisCamelIsAllowedOrRefusedInHandlers() {
    assertThat(RouteSchema.instance().stepNames())
        .as("steps that RuleTables says nothing about")
        .allMatch(HandlerRules::decided);
  }

  @Test
  void tablesNameOnlyStepsThatThisCamelKnows() {
    assertThat(RouteSchema.instance().stepNames()).containsAll(RuleTables.HANDLER_STEPS);
    assertThat(RuleTables.RULES)
        .filteredOn(rule -> !rule.scheme())
        .allSatisfy(
            rule -> assertThat(RouteSchema.instance().stepNames()).containsAll(rule.names()));
  }

  @Test
  void everyRuleOfTheTableHasAFileThatBreaksIt() {
    List<String> problems =
        bad()
            .flatMap(name -> RouteRules.check(read(name), SURROUNDINGS).stream())
            .map(Finding::problem)
            .toList();
    assertThat(RuleTables.RULES)
        .filteredOn(rule -> problems.stream().noneMatch(text -> text.endsWith(rule.problem())))
        .extracting(Rule::names, Rule::option, Rule::problem)
        .isEmpty();
    assertThat(FileTables.TOP_LEVEL.values())
        .filteredOn(reason -> problems.stream().noneMatch(text -> text.endsWith(reason.problem())))
        .isEmpty();
    assertThat(FileTables.HANDLER_ROUTE_REFUSED.values())
        .filteredOn(reason -> problems.stream().noneMatch(text -> text.endsWith(reason.problem())))
        .isEmpty();
  }

  @Test
  void sameIdsAndTimersInTwoFilesAreRefused() {
    String text =
        """
        - route:
            id: %s
            description: Ticks
            group: test
            from:
              uri: timer
              parameters:
                timerName: tick
              steps:
                - log:
                    id: say
                    message: hi
        """;
    List<Finding> findings =
        RouteRules.check(
            List.of(
                new RouteFile("a.camel.yaml", text.formatted("a"), Kind.ROUTE),
                new RouteFile("b.camel.yaml", text.formatted("b"), Kind.ROUTE)),
            SURROUNDINGS);
    assertThat(lines(findings))
        .isEqualTo(
            """
            b.camel.yaml:6: route b: timer timer:tick stands in a.camel.yaml too. Give it a name of its own: timers of one name share a thread.
            b.camel.yaml:10: route b: step say stands in a.camel.yaml too. Give it an id of its own: Camel starts no route when an id is used twice."""
                .strip());
  }

  @Test
  void exceptionTellsOperatorsHowMuchIsWrongAndThenWhat() {
    RouteFile file = new RouteFile("x/empty.camel.yaml", "", Kind.ROUTE);
    assertThatThrownBy(() -> RouteRules.require(List.of(file), SURROUNDINGS))
        .isInstanceOf(InvalidRoutesException.class)
        .hasMessage(
            """
            1 fault in 1 file. Nothing was started; correct these and start again:
              x/empty.camel.yaml:1: the file is empty. Write `- route:` with `id:` and `from:`.""");
  }

  static RouteFile read(String name) {
    try {
      Path path = RESOURCES.resolve(name);
      Kind kind = name.contains("/handler/") ? Kind.HANDLER : Kind.ROUTE;
      return new RouteFile(path.getFileName().toString(), Files.readString(path), kind);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private static Path expected(String name) {
    return RESOURCES.resolve(name.replace(".camel.yaml", ".expected"));
  }

  static String lines(List<Finding> findings) {
    return findings.stream().map(Finding::toString).collect(Collectors.joining("\n"));
  }

  static Stream<String> routeFiles(String folder) {
    try (Stream<Path> paths = Files.walk(RESOURCES.resolve(folder))) {
      return paths
          .filter(path -> path.toString().endsWith(".camel.yaml"))
          .map(path -> RESOURCES.relativize(path).toString().replace('\\', '/'))
          .sorted()
          .toList()
          .stream();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
