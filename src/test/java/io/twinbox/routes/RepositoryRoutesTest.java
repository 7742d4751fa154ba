package io.twinbox.routes;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;

/** Every route and statement of this repository keeps the rules that users' files must keep. */
class RepositoryRoutesTest {
  private static final Path ROUTES = Path.of("src/main/resources/routes");
  private static final Path TOPICS = Path.of("topics");
  private static final Path SQL = Path.of("sql");

  @Test
  void ownRoutesKeepTheRules() throws IOException {
    List<RouteFile> files = new ArrayList<>();
    for (Path path : files(ROUTES, ".yaml")) {
      files.add(new RouteFile(slashed(path), Files.readString(path), Kind.ROUTE));
    }
    System.out.printf("checked %d own routes under %s%n", files.size(), ROUTES);
    assertThat(RouteRulesTest.lines(RouteRules.check(files, surroundings(ROUTES)))).isEmpty();
    assertSchemaValid(files);
  }

  /**
   * Hawtio 4.3.0 draws nothing from the first route with an error handler's element on, and counts
   * nothing when a route has a group. Handlers may not have the element; a group is theirs.
   */
  @Test
  void ownRoutesHaveNothingThatHawtioCannotDraw() throws IOException {
    for (Path path : files(ROUTES, ".yaml")) {
      assertThat(Files.readAllLines(path))
          .as(slashed(path))
          .noneMatch(line -> line.matches("    (errorHandler|group):.*"));
    }
  }

  @Test
  void handlersOfTheTopicsKeepTheRules() throws IOException {
    List<Path> paths = files(TOPICS, ".camel.yaml");
    System.out.printf("checked %d handlers under %s%n", paths.size(), TOPICS);
    for (Path path : paths) {
      RouteFile file = new RouteFile(slashed(path), Files.readString(path), Kind.HANDLER);
      assertThat(RouteRulesTest.lines(RouteRules.check(file, surroundings(path.getParent()))))
          .isEmpty();
      assertSchemaValid(List.of(file));
    }
  }

  /**
   * Statements that a route names were checked with it; those that Java runs have no {@code
   * :#name}. Migrations are Flyway's, not camel-sql's.
   */
  @Test
  void statementsKeepTheRules() throws IOException {
    List<Path> paths = files(SQL, ".sql");
    System.out.printf("checked %d statements under %s%n", paths.size(), SQL);
    List<Finding> findings = new ArrayList<>();
    for (Path path : paths) {
      String text = Files.readString(path);
      boolean camel = text.contains(":#") && !path.startsWith(SQL.resolve("schema"));
      findings.addAll(
          camel ? SqlRules.check(slashed(path), text) : SqlRules.checkHeader(slashed(path), text));
    }
    assertThat(RouteRulesTest.lines(findings)).isEmpty();
  }

  private static void assertSchemaValid(List<RouteFile> files) {
    FullSchema schema = new FullSchema();
    for (RouteFile file : files) {
      assertThat(schema.faults(file.text())).as(file.name()).isEmpty();
    }
  }

  /**
   * Statement files from the source tree: the class path of a test run may be stale. A property
   * with `dir` in its name is taken for the topic's folder; others are not set, so routes that need
   * them for what is guarded are refused.
   */
  private static Surroundings surroundings(Path folder) {
    Surroundings here = Surroundings.here(key -> Optional.empty());
    return Surroundings.of(
        key ->
            key.toLowerCase().matches(".*(dir|folder).*")
                ? Optional.of(slashed(folder))
                : Optional.empty(),
        reference ->
            reference.startsWith("classpath:sql/")
                ? here.text(reference.replaceFirst("^classpath:", "file:"))
                : here.text(reference));
  }

  private static List<Path> files(Path root, String suffix) throws IOException {
    if (!Files.isDirectory(root)) {
      return List.of();
    }
    try (Stream<Path> paths = Files.walk(root)) {
      return paths
          .filter(path -> path.toString().endsWith(suffix))
          .sorted()
          .collect(Collectors.toCollection(ArrayList::new));
    }
  }

  private static String slashed(Path path) {
    return path.toString().replace('\\', '/');
  }
}
