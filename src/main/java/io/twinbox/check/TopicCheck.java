package io.twinbox.check;

import io.twinbox.bigquery.QueryCheck;
import io.twinbox.config.DatabaseUrl;
import io.twinbox.config.GoogleCredentialsCheck;
import io.twinbox.config.LoadedSettings;
import io.twinbox.config.SettingsCheck;
import io.twinbox.config.StartupException;
import io.twinbox.config.StartupFailureAnalyzer;
import io.twinbox.config.TwinboxProperties;
import io.twinbox.pubsub.PubSubCheck;
import io.twinbox.routes.Finding;
import io.twinbox.routes.Kind;
import io.twinbox.routes.LoadRules;
import io.twinbox.routes.Preparation;
import io.twinbox.routes.RouteFile;
import io.twinbox.routes.RouteFiles;
import io.twinbox.routes.RouteRules;
import io.twinbox.routes.Surroundings;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;
import java.util.function.Predicate;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import org.springframework.boot.diagnostics.FailureAnalysis;
import org.springframework.core.env.ConfigurableEnvironment;

/**
 * Checks a topic's folder and its routes without starting anything: no route runs, no port is
 * opened, nothing is written anywhere. For the command {@code check}, and for a test in the
 * repository that the folder lives in:
 *
 * <pre>{@code
 * @Test
 * void ordersAreSound() {
 *   TopicCheck.of(Path.of("topics/orders")).requireGood();
 * }
 * }</pre>
 *
 * <p>Always looked at: settings, YAML against Camel's schema, the rules for routes and statements
 * (docs/adding-a-topic.md), endpoint options, and that every property has a value. A database, when
 * given, prepares every statement, in a read-only transaction that is rolled back. BigQuery and
 * Pub/Sub are asked only when told to.
 */
public final class TopicCheck {

  private static final String TOPIC_PROPERTIES = "topic.properties";
  private static final Pattern HEADER = Pattern.compile("\\$\\{header[.\\[]'?([\\w.-]+?)'?]?}");

  private final Map<String, String> settings = new LinkedHashMap<>();
  private String url;
  private String user;
  private String password;
  private boolean bigQuery;
  private boolean pubSub;

  private TopicCheck() {}

  /** A check of this folder. */
  public static TopicCheck of(Path topicDir) {
    return new TopicCheck().with("twinbox.topic-dir", topicDir.toString());
  }

  /** A setting that the deployment will have, beside those of the folder and the environment. */
  public TopicCheck with(String property, String value) {
    settings.put(property, value);
    return this;
  }

  /**
   * The route sets that the folder is for. Not called: {@code twinbox.routes} where it is set, else
   * all that the folder has files for.
   */
  public TopicCheck routeSets(String... sets) {
    return with("twinbox.routes", String.join(",", sets));
  }

  /** Also has this PostgreSQL prepare the statements. */
  public TopicCheck database(String jdbcUrl, String username, String secret) {
    url = jdbcUrl;
    user = username;
    password = secret;
    return this;
  }

  /** Also asks BigQuery about the query: a dry run. Needs {@code google.cloud.project}. */
  public TopicCheck bigQuery() {
    bigQuery = true;
    return this;
  }

  /** Also looks at topic and subscription. Needs {@code google.cloud.project}. */
  public TopicCheck pubSub() {
    pubSub = true;
    return this;
  }

  /**
   * @throws AssertionError with every finding, one a line, when something is wrong
   */
  public void requireGood() {
    CheckResult result = run();
    if (!result.good()) {
      List<String> lines =
          new ArrayList<>(result.findings().stream().map(Finding::toString).toList());
      lines.addAll(result.unreachable());
      throw new AssertionError(
          "%d findings:%n  %s".formatted(lines.size(), String.join("\n  ", lines)));
    }
  }

  /** Looks at all that was asked for. */
  public CheckResult run() {
    Run run = new Run(LoadedSettings.of(arguments()));
    run.all();
    return run.result();
  }

  private List<String> arguments() {
    return settings.entrySet().stream().map(s -> "--" + s.getKey() + "=" + s.getValue()).toList();
  }

  /** One run, which collects. */
  private final class Run {
    private ConfigurableEnvironment environment;
    private final Path folder;
    private final Set<Finding> findings = new LinkedHashSet<>();
    private final List<String> looked = new ArrayList<>();
    private final List<String> notLooked = new ArrayList<>();
    private final List<String> unreachable = new ArrayList<>();

    Run(ConfigurableEnvironment environment) {
      this.environment = environment;
      this.folder = Path.of(environment.getProperty("twinbox.topic-dir", "."));
    }

    CheckResult result() {
      return new CheckResult(
          findings.stream()
              .sorted(
                  Comparator.comparing(Finding::file)
                      .thenComparingInt(Finding::line)
                      .thenComparing(Finding::toString))
              .toList(),
          looked,
          notLooked,
          unreachable);
    }

    void all() {
      if (!Files.isDirectory(folder)) {
        add(folder.toString(), 1, "there is no such folder", "Give the topic's folder.");
        return;
      }
      Set<String> sets = routeSets();
      if (sets.isEmpty()) {
        return;
      }
      TwinboxProperties properties = settings(sets);
      if (properties == null) {
        return;
      }
      List<RouteFile> files = files(sets, properties);
      Surroundings surroundings =
          Surroundings.here(name -> Optional.ofNullable(environment.getProperty(name)));
      findings.addAll(RouteRules.check(files, surroundings));
      findings.addAll(LoadRules.check(files, surroundings));
      Set<String> statements = new TreeSet<>(RouteRules.statements(files, surroundings));
      looked.add(
          "%d routes and %d statements of the route sets %s"
              .formatted(files.size(), statements.size(), String.join(", ", sets)));
      prepare(files, statements, surroundings);
      if (sets.contains("produce")) {
        query(properties);
      }
      pubSub(sets, properties);
    }

    private Set<String> routeSets() {
      Set<String> sets =
          java.util.Arrays.stream(environment.getProperty("twinbox.routes", "").split(","))
              .map(String::strip)
              .filter(set -> !set.isEmpty())
              .collect(Collectors.toCollection(LinkedHashSet::new));
      if (sets.isEmpty()) {
        if (Files.exists(folder.resolve("query.sql"))) {
          sets.add("produce");
        }
        sets.add("dispatch");
        if (Files.exists(folder.resolve(RouteFiles.HANDLER))) {
          sets.add("consume");
        }
        sets.add("maintain");
        Map<String, String> with = new LinkedHashMap<>(settings);
        with.put("twinbox.routes", String.join(",", sets));
        environment =
            LoadedSettings.of(
                with.entrySet().stream().map(s -> "--" + s.getKey() + "=" + s.getValue()).toList());
      }
      for (String set : sets) {
        if (!SettingsCheck.ROUTE_SETS.contains(set)) {
          add(
              folder.toString(),
              1,
              "there is no route set '%s'".formatted(set),
              "Use " + String.join(", ", SettingsCheck.ROUTE_SETS) + ".");
          return Set.of();
        }
      }
      return sets;
    }

    /** Null when they cannot be read at all. */
    private TwinboxProperties settings(Set<String> sets) {
      try {
        SettingsCheck check = new SettingsCheck(environment);
        List<StartupException> faults = check.checkFolder(sets);
        faults.forEach(fault -> setting(fault.getMessage(), fault.remedy()));
        return check.bound();
      } catch (RuntimeException e) {
        FailureAnalysis analysis = new StartupFailureAnalyzer(environment).analyze(e);
        if (analysis == null) {
          throw e;
        }
        setting(analysis.getDescription(), analysis.getAction());
        return null;
      }
    }

    /** A message that reads "what. What to do."; behind its first part comes what it names. */
    private void said(String message, String named) {
      int stop = message.lastIndexOf(". ", message.length() - 2);
      setting(
          (stop < 0 ? message : message.substring(0, stop)) + named,
          stop < 0 ? "Correct it." : message.substring(stop + 2));
    }

    /** Finds the line that a message about settings is about. */
    private void setting(String problem, String remedy) {
      Path file = folder.resolve(TOPIC_PROPERTIES);
      int line = 1;
      if (Files.isRegularFile(file)) {
        try {
          List<String> lines = Files.readAllLines(file);
          for (int i = lines.size() - 1; i >= 0; i--) {
            String key = lines.get(i).strip().split("[=:\\s]", 2)[0];
            if (!key.isEmpty()
                && !key.startsWith("#")
                && (names(problem, key) || names(problem, SettingsCheck.variable(key)))) {
              line = i + 1;
            }
          }
        } catch (IOException e) {
          add(file.toString(), 1, "it cannot be read", "Save it as UTF-8 text.");
          return;
        }
      }
      add(file.toString(), line, problem.strip().replaceFirst("\\.$", ""), remedy.strip());
    }

    private static boolean names(String text, String name) {
      return Pattern.compile("(?<![\\w.-])" + Pattern.quote(name) + "(?![\\w-])")
          .matcher(text)
          .find();
    }

    /** Of each set by itself: one that cannot be read leaves the others to be looked at. */
    private List<RouteFile> files(Set<String> sets, TwinboxProperties properties) {
      List<RouteFile> files = new ArrayList<>();
      for (String set : sets) {
        try {
          files.addAll(RouteFiles.read(set, properties).files());
        } catch (StartupException e) {
          String file = set.equals("consume") ? RouteFiles.HANDLER : "query.sql";
          add(
              folder.resolve(file).toString(),
              1,
              e.getMessage().replaceFirst("\\.$", ""),
              e.remedy());
        }
      }
      return files;
    }

    // Database ------------------------------------------------------------------------------------

    private void prepare(List<RouteFile> files, Set<String> statements, Surroundings surroundings) {
      if (url == null || url.isBlank()) {
        notLooked.add("the database, which is not given: statements were not prepared");
        return;
      }
      try {
        DatabaseUrl.check("SPRING_DATASOURCE_URL", url);
      } catch (StartupException e) {
        setting(e.getMessage(), e.remedy());
        return;
      }
      Properties login = new Properties();
      if (user != null && !user.isEmpty()) {
        login.setProperty("user", user);
      }
      if (password != null && !password.isEmpty()) {
        login.setProperty("password", password);
      }
      login.setProperty("connectTimeout", "5");
      login.setProperty("socketTimeout", "60");
      login.setProperty("logServerErrorDetail", "false");
      login.setProperty("ApplicationName", "twinbox-check");
      try (Connection connection = DriverManager.getConnection(url, login)) {
        connection.setReadOnly(true);
        connection.setAutoCommit(false);
        boolean migrated = migrated(connection);
        if (!migrated) {
          notLooked.add(
              "Twinbox's own statements: the database has no Twinbox tables yet (a process makes them when it starts)");
        }
        Predicate<String> textual = textual(files);
        int prepared = 0;
        for (String reference : statements) {
          boolean ours = reference.startsWith("classpath:sql/");
          Optional<String> text = surroundings.text(reference);
          if (text.isEmpty() || ours && !migrated) {
            continue;
          }
          prepared++;
          findings.addAll(
              new Preparation(connection)
                  .check(
                      reference.replaceFirst("^(?:classpath|file):", ""),
                      text.get(),
                      ours ? expression -> false : textual));
        }
        connection.rollback();
        looked.add("%d statements, prepared by the database".formatted(prepared));
      } catch (SQLException e) {
        FailureAnalysis analysis = new StartupFailureAnalyzer(environment).analyze(e);
        unreachable.add(analysis == null ? e.getMessage() : analysis.getDescription().strip());
      }
    }

    private static boolean migrated(Connection connection) throws SQLException {
      try (Statement statement = connection.createStatement();
          var rows = statement.executeQuery("SELECT to_regclass('pubsub_outbox') IS NOT NULL")) {
        rows.next();
        return rows.getBoolean(1);
      }
    }

    /** Attributes are texts; a header that the handler sets itself may be anything. */
    private static Predicate<String> textual(List<RouteFile> files) {
      String handler =
          files.stream()
              .filter(file -> file.kind() == Kind.HANDLER)
              .map(RouteFile::text)
              .collect(Collectors.joining("\n"));
      return expression -> {
        Matcher header = HEADER.matcher(expression);
        return header.matches()
            && !header.group(1).startsWith("Camel")
            && !Pattern.compile("name:\\s*[\"']?" + Pattern.quote(header.group(1)) + "\\b")
                .matcher(handler)
                .find();
      };
    }

    // Google --------------------------------------------------------------------------------------

    private void query(TwinboxProperties properties) {
      Path file = folder.resolve("query.sql");
      try {
        List<Finding> faults = QueryCheck.read(properties);
        findings.addAll(faults);
        String unplanned =
            faults.isEmpty() && Files.isRegularFile(file) ? QueryCheck.unplanned(properties) : null;
        if (unplanned != null && unplanned.contains("twinbox.")) {
          said(unplanned, "");
        } else if (unplanned != null) {
          findings.add(QueryCheck.finding(file, unplanned));
        }
        if (!bigQuery) {
          notLooked.add("BigQuery, which was not asked for: the query was not tried");
          return;
        }
        String project = project();
        if (project == null || unplanned != null || !Files.isRegularFile(file)) {
          return;
        }
        GoogleCredentialsCheck.check(Set.of("produce"), environment);
        Finding fault =
            QueryCheck.fault(
                project,
                environment.getProperty("bigquery.emulator.host", ""),
                properties,
                environment.getProperty("topic.name", ""));
        looked.add("the query, by a dry run of BigQuery");
        if (fault != null && faults.isEmpty()) {
          findings.add(fault);
        }
      } catch (QueryCheck.Unreachable | StartupException e) {
        unreachable.add("BigQuery: " + e.getMessage());
      } catch (IOException e) {
        add(file.toString(), 1, "it cannot be read", "Save it as UTF-8 text.");
      }
    }

    private void pubSub(Set<String> sets, TwinboxProperties properties) {
      boolean topic = sets.contains("dispatch");
      boolean subscription = sets.contains("consume");
      if (!topic && !subscription) {
        return;
      }
      if (!pubSub) {
        notLooked.add(
            "Pub/Sub, which was not asked for: topic and subscription were not looked at");
        return;
      }
      String project = project();
      if (project == null) {
        return;
      }
      try {
        PubSubCheck.faults(
                environment.getProperty("pubsub.emulator.host", ""),
                properties,
                topic
                    ? "projects/%s/topics/%s"
                        .formatted(project, environment.getProperty("topic.name"))
                    : null,
                subscription
                    ? "projects/%s/subscriptions/%s"
                        .formatted(project, environment.getProperty("subscription.name"))
                    : null)
            .forEach(
                fault ->
                    said(
                        fault,
                        fault.startsWith("Topic") ? " (topic.name)" : " (subscription.name)"));
        looked.add("topic and subscription in Pub/Sub");
      } catch (PubSubCheck.Unreachable e) {
        unreachable.add("Pub/Sub: " + e.getMessage());
      }
    }

    private String project() {
      String project = environment.getProperty("google.cloud.project", "");
      if (project.isBlank()) {
        unreachable.add(
            "GOOGLE_CLOUD_PROJECT is not set, so neither BigQuery nor Pub/Sub can be asked.");
        return null;
      }
      return project;
    }

    private void add(String file, int line, String problem, String remedy) {
      findings.add(new Finding(file, line, null, null, problem, remedy));
    }
  }
}
