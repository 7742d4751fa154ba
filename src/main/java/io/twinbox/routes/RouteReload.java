package io.twinbox.routes;

import io.twinbox.config.Causes;
import io.twinbox.config.StartupException;
import io.twinbox.config.TwinboxProperties;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.SQLException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Objects;
import java.util.Optional;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.Supplier;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import javax.sql.DataSource;
import org.apache.camel.CamelContext;
import org.apache.camel.spi.ResourceLoader;
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
 * changes nothing. A file that somebody is still writing is looked at once it rests. Deployments
 * replace their pods instead.
 */
@Component
@ConditionalOnProperty(name = "twinbox.reload", havingValue = "true")
public class RouteReload implements CamelContextConfiguration {

  private static final Logger log = LoggerFactory.getLogger("io.twinbox.reload");

  /** What nobody has written for so long is whole: editors write a file in one go. */
  private static final Duration REST = Duration.ofMillis(250);

  /** Whoever writes for longer is looked at again with the next change. */
  private static final int MOST_LOOKS = 240;

  private static final String ROUTES = "routes";

  /** A finding names its file by itself. */
  private static final Pattern FILE_AT_FAULT =
      Pattern.compile("(?s)(.+?\\.(?:yaml|sql)) ((?:is missing|cannot be read).*)");

  private final TwinboxProperties properties;
  private final Environment environment;
  private final DataSource dataSource;
  private final List<Check> checks;
  private CamelContext camelContext;
  private State running;
  private CheckedStatements statements;

  /** What was said last of the routes, and of each file with a check of its own. */
  private final Map<String, List<String>> said = new HashMap<>();

  /** A check of a file of the topic's folder that is neither a route nor a statement of one. */
  public interface Check {

    /** The file's name. */
    String file();

    /**
     * Judges an edit, and uses it when it is right.
     *
     * @param text the file's, null when there is none
     */
    Verdict check(String text);
  }

  /**
   * What became of an edit.
   *
   * @param findings what is wrong with it; empty when nothing is
   * @param taken whether it is another text than before, and used from now on
   */
  public record Verdict(List<Finding> findings, boolean taken) {}

  /** What stands on the disk; a fault when there is too little of it. */
  private record Look(State state, Finding fault) {}

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
    statements = new CheckedStatements(PluginHelper.getResourceLoader(camel), running.statements());
    camel.getCamelContextExtension().addContextPlugin(ResourceLoader.class, statements);
  }

  @Override
  public void afterApplicationStart(CamelContext camel) {
    camelContext = camel;
    for (Path folder : folders()) {
      FileWatcherResourceReloadStrategy watcher =
          new FileWatcherResourceReloadStrategy(folder.toString(), false);
      watcher.setFileFilter(
          // Not what an editor keeps beside the file that it edits.
          file -> file.getName().matches("[^.#].*\\.(?:yaml|sql)"));
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
        rested(() -> Optional.ofNullable(text(check.file())))
            .ifPresent(text -> judge(name, check.check(text.orElse(null))));
        return;
      }
    }
    rested(() -> look(name)).ifPresent(this::judge);
  }

  /** What is seen once it is the same twice; nothing when it never rests, or this ends. */
  private static <T> Optional<T> rested(Supplier<T> look) {
    T before = look.get();
    for (int looks = 0; looks < MOST_LOOKS; looks++) {
      try {
        Thread.sleep(REST.toMillis());
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
        return Optional.empty();
      }
      T now = look.get();
      if (now.equals(before)) {
        return Optional.of(now);
      }
      before = now;
    }
    return Optional.empty();
  }

  private String text(String file) {
    try {
      return Files.readString(properties.topicDir().resolve(file));
    } catch (IOException e) {
      return null;
    }
  }

  private Look look(String name) {
    try {
      return new Look(state(RouteFiles.read(properties).files()), null);
    } catch (StartupException e) {
      Matcher missing = FILE_AT_FAULT.matcher(e.getMessage());
      boolean found = missing.matches();
      return new Look(
          null,
          new Finding(
              found ? missing.group(1) : name,
              1,
              null,
              null,
              (found ? missing.group(2) : e.getMessage()).replaceFirst("\\.$", ""),
              e.remedy()));
    }
  }

  private void judge(String name, Verdict verdict) {
    boolean wrong = isWrong(name);
    if (!say(name, verdict.findings()) || !verdict.findings().isEmpty()) {
      return;
    }
    if (verdict.taken()) {
      log.info("{} is taken over: the next run uses it", name);
    } else if (wrong) {
      log.info("{} is again what runs", name);
    }
  }

  private void judge(Look look) {
    boolean wrong = isWrong(ROUTES);
    List<Finding> findings = look.fault() == null ? findings(look.state()) : List.of(look.fault());
    if (!say(ROUTES, findings) || !findings.isEmpty()) {
      return;
    }
    State edited = look.state();
    Set<String> changed = edited.changedSince(running, surroundings());
    statements.use(edited.statements());
    for (String route : changed) {
      if (!update(edited.routes().get(route))) {
        return;
      }
      log.info("{} is taken over", route);
    }
    running = edited;
    if (changed.isEmpty() && wrong) {
      log.info("Routes and statements are again what runs");
    }
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

  private boolean isWrong(String subject) {
    return !said.getOrDefault(subject, List.of()).isEmpty();
  }

  /**
   * Says what keeps an edit from being taken over, once; an editor saves more often than that.
   *
   * @return false when it was said before
   */
  private boolean say(String subject, List<Finding> findings) {
    List<String> lines = findings.stream().map(Finding::toString).distinct().toList();
    boolean news = !lines.equals(said.put(subject, lines)) || lines.isEmpty();
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
      statements.use(running.statements());
      say(
          ROUTES,
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
