package io.twinbox.routes;

import io.twinbox.config.Causes;
import io.twinbox.config.StartupException;
import io.twinbox.config.TwinboxProperties;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.SQLException;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import javax.sql.DataSource;
import org.apache.camel.CamelContext;
import org.apache.camel.spring.boot.CamelContextConfiguration;
import org.apache.camel.support.FileWatcherResourceReloadStrategy;
import org.apache.camel.support.PluginHelper;
import org.apache.camel.support.ResourceHelper;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.boot.autoconfigure.condition.ConditionalOnProperty;
import org.springframework.core.env.Environment;
import org.springframework.stereotype.Component;

/**
 * Takes over what somebody edits while Twinbox runs: routes and their statements, for the local
 * run. Camel's own reload takes the routes away before it reads the file, so a slip of the pen
 * leaves none (trap 37); here everything is checked first, as at a start, and what does not pass
 * changes nothing. Deployments replace their pods instead.
 */
@Component
@ConditionalOnProperty(name = "twinbox.reload", havingValue = "true")
public class RouteReload implements CamelContextConfiguration {

  private static final Logger log = LoggerFactory.getLogger("io.twinbox.reload");

  private final TwinboxProperties properties;
  private final Environment environment;
  private final DataSource dataSource;
  private final List<Check> checks;
  private CamelContext camelContext;
  private State running;
  private List<String> said = List.of();

  /** A check of a file of the topic's folder that is neither a route nor a statement of one. */
  public interface Check {

    /** The file's name. */
    String file();

    /** What is wrong with the file as it stands now; empty when it may be used. It then is. */
    List<Finding> check();
  }

  /** Everything that the routes are made of, by name. */
  private record State(Map<String, RouteFile> routes, Map<String, String> statements) {

    /** Routes that are not what they were, themselves or by a statement. */
    Set<String> changedSince(State before, Surroundings surroundings) {
      Set<String> changed = new TreeSet<>();
      routes.forEach(
          (name, file) -> {
            if (!file.equals(before.routes.get(name))
                || RouteRules.statements(List.of(file), surroundings).stream()
                    .anyMatch(s -> !Objects.equals(statements.get(s), before.statements.get(s)))) {
              changed.add(name);
            }
          });
      return changed;
    }
  }

  RouteReload(
      TwinboxProperties properties,
      Environment environment,
      DataSource dataSource,
      RouteFiles routeFiles,
      List<Check> checks) {
    this.properties = properties;
    this.environment = environment;
    this.dataSource = dataSource;
    this.checks = checks;
    this.running = state(routeFiles.files());
  }

  @Override
  public void beforeApplicationStart(CamelContext camel) {
    // When all runs.
  }

  @Override
  public void afterApplicationStart(CamelContext camel) {
    camelContext = camel;
    for (Path folder : folders()) {
      FileWatcherResourceReloadStrategy watcher =
          new FileWatcherResourceReloadStrategy(folder.toString(), false);
      watcher.setFileFilter(
          file -> file.getName().endsWith(".yaml") || file.getName().endsWith(".sql"));
      watcher.setPollTimeout(200);
      watcher.setResourceReload((name, resource) -> reload(name));
      watcher.setCamelContext(camel);
      try {
        camel.addService(watcher);
      } catch (Exception e) {
        throw new StartupException(
            "%s cannot be watched for changes: %s".formatted(folder, Causes.describe(e)),
            "Set TWINBOX_RELOAD=false.");
      }
    }
    log.info(
        "Edits in {} are taken over when they are right",
        folders().stream().map(Path::toString).collect(Collectors.joining(", ")));
  }

  private List<Path> folders() {
    List<Path> folders = new ArrayList<>(List.of(properties.topicDir()));
    if (properties.routesLocation().startsWith("file:")) {
      Path root = Path.of(properties.routesLocation().substring("file:".length()));
      properties.routeSets().stream()
          .map(root::resolve)
          .filter(Files::isDirectory)
          .forEach(folders::add);
    }
    return folders;
  }

  private Surroundings surroundings() {
    return Surroundings.here(name -> Optional.ofNullable(environment.getProperty(name)));
  }

  private State state(List<RouteFile> files) {
    Surroundings surroundings = surroundings();
    Map<String, RouteFile> routes = new LinkedHashMap<>();
    files.forEach(file -> routes.put(file.name(), file));
    Map<String, String> statements = new HashMap<>();
    RouteRules.statements(files, surroundings)
        .forEach(name -> statements.put(name, surroundings.text(name).orElse(null)));
    return new State(routes, statements);
  }

  /** Looks at everything: one edit can be right only together with another. */
  private synchronized void reload(String name) {
    for (Check check : checks) {
      if (Path.of(name).getFileName().toString().equals(check.file())) {
        List<Finding> findings = check.check();
        if (say(findings) && findings.isEmpty()) {
          log.info("{} is taken over: the next run uses it", name);
        }
        return;
      }
    }
    State edited;
    List<Finding> findings;
    try {
      edited = state(RouteFiles.read(properties).files());
      findings = findings(edited);
    } catch (StartupException e) {
      say(
          List.of(
              new Finding(
                  name, 1, null, null, e.getMessage().replaceFirst("\\.$", ""), e.remedy())));
      return;
    }
    if (!say(findings) || !findings.isEmpty()) {
      return;
    }
    for (String route : edited.changedSince(running, surroundings())) {
      if (!update(edited.routes().get(route))) {
        return;
      }
      log.info("{} is taken over", route);
    }
    running = edited;
  }

  private List<Finding> findings(State edited) {
    List<RouteFile> files = List.copyOf(edited.routes().values());
    Surroundings surroundings = surroundings();
    List<Finding> findings = new ArrayList<>(RouteRules.check(files, surroundings));
    findings.addAll(LoadRules.check(files, surroundings));
    if (!findings.isEmpty()) {
      return findings;
    }
    try (Connection connection = dataSource.getConnection()) {
      connection.setReadOnly(true);
      connection.setAutoCommit(false);
      for (Map.Entry<String, String> statement : edited.statements().entrySet()) {
        if (statement.getValue() != null
            && !statement.getValue().equals(running.statements().get(statement.getKey()))) {
          findings.addAll(
              new Preparation(connection)
                  .check(
                      statement.getKey().replaceFirst("^(?:classpath|file):", ""),
                      statement.getValue(),
                      expression -> false));
        }
      }
      connection.rollback();
    } catch (SQLException e) {
      // No verdict on the edit: as at a start without the database's help.
      log.debug("Statements were not prepared", e);
    }
    return findings;
  }

  /**
   * Says what keeps an edit from being taken over, once; an editor saves more often than that.
   *
   * @return false when it was said before
   */
  private boolean say(List<Finding> findings) {
    List<String> lines = findings.stream().map(Finding::toString).distinct().toList();
    boolean news = !lines.equals(said) || lines.isEmpty();
    said = lines;
    if (news && !lines.isEmpty()) {
      log.error(
          "The edit is not taken over; what ran before it runs on. Correct it and save again:\n  {}",
          String.join("\n  ", lines));
    }
    return news;
  }

  /** Puts the new route in the place of the old one; the old one back when that fails. */
  private boolean update(RouteFile file) {
    try {
      load(file);
      return true;
    } catch (Exception e) {
      say(
          List.of(
              new Finding(
                  file.name(),
                  1,
                  null,
                  null,
                  "Camel cannot build it: " + Causes.describe(e).replaceFirst("\\.$", ""),
                  "Correct it.")));
      RouteFile before = running.routes().get(file.name());
      if (before != null) {
        try {
          load(before);
        } catch (Exception again) {
          log.error(
              "What ran before cannot be built again either: {}. Correct the files, or start the process again.",
              Causes.describe(again));
        }
      }
      return false;
    }
  }

  private void load(RouteFile file) throws Exception {
    PluginHelper.getRoutesLoader(camelContext)
        .updateRoutes(Stream.of(ResourceHelper.fromString(file.name(), file.text())).toList());
  }
}
