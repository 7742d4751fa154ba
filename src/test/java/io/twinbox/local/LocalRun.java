package io.twinbox.local;

import io.twinbox.TwinboxApplication;
import io.twinbox.local.Progress.Stages;
import io.twinbox.local.pubsub.LocalPubSub;
import java.io.IOException;
import java.math.BigDecimal;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.locks.LockSupport;
import javax.sql.DataSource;
import org.springframework.boot.SpringApplication;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.core.env.Environment;
import org.springframework.core.io.FileSystemResource;
import org.springframework.core.io.support.PropertiesLoaderUtils;

/**
 * The whole of Twinbox on one machine: {@code mvn spring-boot:test-run}. Starts a real PostgreSQL,
 * an in-process Pub/Sub and an in-process BigQuery with the sample invoices, runs all route sets
 * over them with the defaults that are deployed, shows how the events pass, and reconciles.
 * Anything whose address is in the environment is used instead of the local one.
 */
public final class LocalRun {

  private static final Path TOPIC_DIR = Path.of("topics/invoices");
  private static final double REDELIVER_SHARE = 0.05;
  private static final long SECOND = 1_000_000_000L;
  private static final long GIVE_UP_SECONDS = 300;

  private static final String USAGE =
      """
      Usage: mvn spring-boot:test-run [-Dspring-boot.run.arguments="--once --rows=10000"]
        --once     end when all is applied: exit code 0, or 1 with the reason when something is not
        --rows=N   how many sample invoices BigQuery starts with, 1 to 1000000; default 10000
        --a.b=c    any setting of Twinbox or Spring Boot
      """;

  private static volatile boolean stopping;

  private boolean once;
  private Path topicDir = TOPIC_DIR;
  private int rows = InvoicesSample.DEFAULT_ROWS;
  private final List<String> passedOn = new ArrayList<>();

  public static void main(String[] args) {
    System.exit(new LocalRun().run(args));
  }

  private int run(String[] args) {
    String mistake = parse(args);
    if (mistake != null) {
      System.err.println(mistake + System.lineSeparator() + USAGE);
      return 2;
    }
    Backends backends = new Backends(System.getenv());
    topicDir = Path.of(setting("twinbox.topic-dir", backends, TOPIC_DIR.toString()));
    if (!Files.isDirectory(TOPIC_DIR)) {
      System.err.println(
          "There is no folder " + TOPIC_DIR + " here. Run it from the project's root.");
      return 2;
    }
    ConfigurableApplicationContext context;
    try {
      say("Starting PostgreSQL, Pub/Sub and BigQuery on this machine ...");
      backends.start(
          rows,
          REDELIVER_SHARE,
          name("topic.name", backends, "invoices"),
          name("subscription.name", backends, "invoices-ledger"));
      createBusinessTables(backends);
    } catch (Exception e) {
      System.err.println("The local run does not start: " + e.getMessage());
      return 1;
    }
    try {
      context = start(backends);
    } catch (Exception e) {
      // Twinbox has said why.
      return 1;
    }
    Runtime.getRuntime().addShutdownHook(new Thread(() -> stop(context, backends)));
    try {
      return follow(context, backends);
    } catch (RuntimeException e) {
      if (stopping) {
        // Ctrl-C: the database went while its rows were counted.
        return 0;
      }
      System.err.println("The local run ends: " + e.getMessage());
      return 1;
    }
  }

  private String parse(String[] args) {
    for (String arg : args) {
      if (arg.equals("--once")) {
        once = true;
      } else if (arg.startsWith("--rows=")) {
        try {
          rows = Integer.parseInt(arg.substring("--rows=".length()));
        } catch (NumberFormatException e) {
          return "'%s' is no number.".formatted(arg);
        }
        if (rows < 1 || rows > 1_000_000) {
          return "--rows takes 1 to 1000000.";
        }
      } else if (arg.startsWith("--") && arg.contains("=") && arg.contains(".")) {
        passedOn.add(arg);
      } else {
        return "Unknown argument '%s'.".formatted(arg);
      }
    }
    return null;
  }

  private ConfigurableApplicationContext start(Backends backends) throws IOException {
    SpringApplication application = new SpringApplication(TwinboxApplication.class);
    // Stopped before the services that it uses, by this program's own hook.
    application.setRegisterShutdownHook(false);
    Map<String, Object> defaults = new LinkedHashMap<>();
    defaults.put("twinbox.routes", "produce,dispatch,consume,maintain");
    defaults.put("twinbox.topic-dir", TOPIC_DIR);
    defaults.put("twinbox.produce.schedule", "*/2 * * * * *");
    defaults.put("twinbox.pod", "local");
    defaults.put("twinbox.reload", "true");
    defaults.put("server.address", "127.0.0.1");
    defaults.put("management.server.address", "127.0.0.1");
    // On loopback only, Hawtio opens without a login.
    defaults.put("twinbox.operate.login-required", "false");
    defaults.put("management.endpoint.health.show-details", "always");
    defaults.put("server.port", freePort(8080));
    defaults.put("management.server.port", freePort(8081));
    defaults.put("logging.level.root", "WARN");
    defaults.put("logging.level.io.twinbox", "INFO");
    // ZetaSQL's shaded gRPC looks for a resolver that it does not need.
    defaults.put("logging.level.com.google.zetasql", "ERROR");
    List<String> arguments = new ArrayList<>();
    defaults.forEach((name, value) -> addUnlessGiven(arguments, backends, name, value));
    backends.settings().forEach((name, value) -> arguments.add("--" + name + "=" + value));
    arguments.addAll(passedOn);
    return application.run(arguments.toArray(String[]::new));
  }

  private String setting(String name, Backends backends, String otherwise) {
    String given = backends.given(variable(name));
    return passedOn.stream()
        .filter(arg -> arg.startsWith("--" + name + "="))
        .map(arg -> arg.substring(name.length() + 3))
        .findFirst()
        .orElse(given == null ? otherwise : given);
  }

  /** A name of the topic's folder, unless the command line or the environment has another. */
  private String name(String setting, Backends backends, String otherwise) throws IOException {
    Properties folder = new Properties();
    Path file = topicDir.resolve("topic.properties");
    if (Files.exists(file)) {
      folder = PropertiesLoaderUtils.loadProperties(new FileSystemResource(file));
    }
    return setting(setting, backends, folder.getProperty(setting, otherwise));
  }

  private static String variable(String name) {
    return name.toUpperCase(Locale.ROOT).replace('.', '_').replace('-', '_');
  }

  /** What the environment or the command line says is theirs to say. */
  private void addUnlessGiven(
      List<String> arguments, Backends backends, String name, Object value) {
    String variable = variable(name);
    boolean onCommandLine = passedOn.stream().anyMatch(a -> a.startsWith("--" + name + "="));
    if (backends.given(variable) == null && !onCommandLine) {
      arguments.add("--" + name + "=" + value);
    }
  }

  private static int freePort(int preferred) throws IOException {
    for (int port : new int[] {preferred, 0}) {
      try (ServerSocket socket = new ServerSocket(port, 1, InetAddress.getLoopbackAddress())) {
        return socket.getLocalPort();
      } catch (IOException e) {
        if (port == 0) {
          throw e;
        }
      }
    }
    throw new IllegalStateException();
  }

  /**
   * The topic's own tables, which its handler writes; a topic without such a file has them already.
   */
  private void createBusinessTables(Backends backends) throws SQLException, IOException {
    Path tables = topicDir.resolve("business-tables.sql");
    List<Path> files = new ArrayList<>(List.of(TOPIC_DIR.resolve("business-tables.sql")));
    if (!topicDir.equals(TOPIC_DIR) && Files.exists(tables)) {
      files.add(tables);
    }
    String url =
        backends
            .settings()
            .getOrDefault("spring.datasource.url", backends.given("SPRING_DATASOURCE_URL"));
    String user =
        backends
            .settings()
            .getOrDefault(
                "spring.datasource.username", backends.given("SPRING_DATASOURCE_USERNAME"));
    String password =
        backends
            .settings()
            .getOrDefault(
                "spring.datasource.password", backends.given("SPRING_DATASOURCE_PASSWORD"));
    try (Connection connection = DriverManager.getConnection(url, user, password);
        Statement statement = connection.createStatement()) {
      for (Path file : files) {
        statement.execute(Files.readString(file));
      }
    }
  }

  private int follow(ConfigurableApplicationContext context, Backends backends) {
    Environment environment = context.getEnvironment();
    String project = environment.getProperty("google.cloud.project");
    Progress progress =
        new Progress(
            context.getBean(DataSource.class),
            backends,
            project,
            environment.getProperty("subscription.name"));
    introduce(environment);
    long begun = System.nanoTime();
    Stages last = null;
    while (true) {
      Stages now = progress.look();
      long seconds = (System.nanoTime() - begun) / SECOND;
      if (!now.equals(last)) {
        say("%4d s  %s".formatted(seconds, now.line()));
        last = now;
      }
      if (now.through()) {
        break;
      }
      if (once && seconds > GIVE_UP_SECONDS) {
        say("Not all is applied after %d s.".formatted(GIVE_UP_SECONDS));
        break;
      }
      LockSupport.parkNanos(SECOND);
    }
    boolean agreed = reconcile(progress, backends, (System.nanoTime() - begun) / SECOND);
    if (once) {
      stop(context, backends);
      return agreed ? 0 : 1;
    }
    say(
        "Twinbox keeps running. Append an invoice (README, \"The local run\") and watch it arrive; stop with Ctrl-C.");
    while (true) {
      LockSupport.parkNanos(SECOND);
      Stages now = progress.look();
      if (!now.equals(last)
          && (last == null || now.ledger() != last.ledger() || now.source() != last.source())) {
        say("%4d s  %s".formatted((System.nanoTime() - begun) / SECOND, now.line()));
      }
      last = now;
    }
  }

  private static void introduce(Environment environment) {
    say("");
    say(
        "PostgreSQL   "
            + environment.getProperty("spring.datasource.url")
            + "   user "
            + environment.getProperty("spring.datasource.username"));
    say(
        "Pub/Sub      "
            + environment.getProperty("pubsub.emulator.host")
            + "   topic "
            + environment.getProperty("topic.name")
            + ", subscription "
            + environment.getProperty("subscription.name"));
    say(
        "BigQuery     "
            + environment.getProperty("bigquery.emulator.host")
            + "   table billing.invoices");
    say(
        "Management   http://127.0.0.1:"
            + environment.getProperty("local.management.port")
            + "/actuator/hawtio   (no login: this machine only)");
    say(
        "Route sets   "
            + environment.getProperty("twinbox.routes")
            + "   topic folder "
            + environment.getProperty("twinbox.topic-dir"));
    say("");
  }

  private static boolean reconcile(Progress progress, Backends backends, long seconds) {
    Stages now = progress.look();
    BigDecimal outboxSum = progress.sumOfOutbox();
    BigDecimal ledgerSum = progress.sumOfLedger();
    boolean rowsAgree = now.through() && (now.distinct() < 0 || now.distinct() == now.outbox());
    boolean sumsAgree =
        outboxSum != null && ledgerSum != null && outboxSum.compareTo(ledgerSum) == 0;
    boolean balancesAgree =
        progress.sumOfPostings() != null
            && progress.sumOfPostings().compareTo(progress.sumOfBalances()) == 0;
    say("");
    say("Reconciliation after %d s".formatted(seconds));
    say(
        "  rows      %s: BigQuery %s = outbox %,d = distinct ids published %s = inbox %,d = ledger %,d"
            .formatted(
                verdict(rowsAgree),
                now.source() < 0 ? "?" : "%,d".formatted(now.source()),
                now.outbox(),
                now.distinct() < 0
                    ? "%,d".formatted(now.published())
                    : "%,d".formatted(now.distinct()),
                now.inbox(),
                now.ledger()));
    say(
        "  amounts   %s: source %s = ledger %s"
            .formatted(verdict(sumsAgree), plain(outboxSum), plain(ledgerSum)));
    say(
        "  balances  %s: postings %s = customer balances %s"
            .formatted(
                verdict(balancesAgree),
                plain(progress.sumOfPostings()),
                plain(progress.sumOfBalances())));
    LocalPubSub pubSub = backends.pubSub();
    if (pubSub != null) {
      say(
          "  inbox     absorbed %,d repeated deliveries of %,d (the local Pub/Sub redelivers %d %% on purpose)"
              .formatted(
                  pubSub.stats().deliveries() - now.inbox(),
                  pubSub.stats().deliveries(),
                  Math.round(REDELIVER_SHARE * 100)));
    }
    say("");
    return rowsAgree && sumsAgree && balancesAgree;
  }

  private static String verdict(boolean agreed) {
    return agreed ? "equal" : "DIFFERENT";
  }

  private static String plain(BigDecimal number) {
    return number == null ? "none" : number.stripTrailingZeros().toPlainString();
  }

  private static void stop(ConfigurableApplicationContext context, Backends backends) {
    stopping = true;
    try {
      context.close();
      backends.close();
    } catch (Exception e) {
      System.err.println("Stopping: " + e.getMessage());
    }
  }

  private static void say(String line) {
    System.out.println(line);
  }
}
