package io.twinbox.deploy;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import io.twinbox.local.LocalPostgres;
import io.twinbox.local.pubsub.LocalPubSub;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.jdbc.datasource.DriverManagerDataSource;

/**
 * The image in a Docker engine, as the manifests run it: read-only root file system, no
 * capabilities, an arbitrary uid, each route set under its own database role. Runs with {@code
 * -Plong}, on the image that {@code TWINBOX_IMAGE} names; {@code deploy/try-image.sh} builds one.
 */
class ContainersTest {

  private static final int ROWS = 10_000;
  private static final Duration PATIENCE = Duration.ofMinutes(5);
  private static final String IMAGE = System.getenv("TWINBOX_IMAGE");

  private final List<String> containers = new ArrayList<>();
  private LocalPostgres postgres;
  private LocalPubSub pubSub;
  private String url;
  private JdbcTemplate jdbc;

  @BeforeEach
  void startServices() throws Exception {
    boolean there = IMAGE != null && docker(false, "image", "inspect", IMAGE).exit() == 0;
    if (!there) {
      System.out.println(
          "SKIPPED on Docker: two dispatch and two consume containers (no engine, or TWINBOX_IMAGE names no image there)");
    }
    assumeTrue(there, "no Docker engine with the image that TWINBOX_IMAGE names");
    postgres = LocalPostgres.start();
    url = postgres.createDatabase();
    jdbc =
        new JdbcTemplate(
            new DriverManagerDataSource(url, LocalPostgres.USER, LocalPostgres.PASSWORD));
    jdbc.execute(Files.readString(Path.of("sql/roles/create-roles.sql")));
    jdbc.execute(Files.readString(Path.of("topics/invoices/business-tables.sql")));
    for (String role : List.of("dispatch", "consume")) {
      jdbc.execute(
          "CREATE ROLE pod_%1$s LOGIN PASSWORD 'pod' IN ROLE twinbox_%1$s".formatted(role));
    }
    jdbc.execute(
        Files.readString(Path.of("topics/invoices/business-grants.sql"))
            .replace(":\"consumer\"", "pod_consume"));
    pubSub = LocalPubSub.start();
    pubSub.createTopic("local", "invoices");
    pubSub.createSubscription("local", "invoices-ledger", "invoices");
  }

  @AfterEach
  void stopWhatWasStarted() throws Exception {
    for (String container : containers) {
      docker(false, "rm", "-f", container);
    }
    if (pubSub != null) {
      pubSub.close();
    }
    if (postgres != null) {
      postgres.close();
    }
  }

  @Test
  void tenThousandRowsArriveOnceThoughOneContainerOfEachIsKilled() throws Exception {
    String job =
        start(
            "migrate",
            Map.of(
                "TWINBOX_MIGRATIONS", "only",
                "SPRING_DATASOURCE_USERNAME", LocalPostgres.USER,
                "SPRING_DATASOURCE_PASSWORD", LocalPostgres.PASSWORD));
    assertThat(docker(true, "wait", job).output()).isEqualTo("0");
    assertThat(docker(true, "run", "--rm", "--entrypoint", "ls", IMAGE, "/opt/twinbox").output())
        .contains("twinbox.jsa", "lib");
    jdbc.queryForList(
        """
        SELECT count(outbox_put('invoices',
          CAST(json_build_object('event_id', 'INV-' || n || '/issued', 'invoice_id', 'INV-' || n, 'event_type', 'issued',
                                 'customer_id', 'C-' || n % 100, 'total', '1.00', 'updated_at', '2026-11-30T10:00:00Z') AS text),
          event_key => 'INV-' || n || '/issued'))
        FROM generate_series(1, ?) AS n
        """,
        ROWS);

    // Consume before dispatch, as it is deployed.
    start("consume", pod("consume"));
    String killedConsume = start("consume", pod("consume"));
    start("dispatch", pod("dispatch"));
    String killedDispatch = start("dispatch", pod("dispatch"));
    await().atMost(PATIENCE).until(() -> count("ledger_entry") > 500);
    docker(true, "kill", killedDispatch);
    docker(true, "kill", killedConsume);
    long atTheKill = count("ledger_entry");

    await()
        .atMost(PATIENCE)
        .pollInterval(Duration.ofMillis(200))
        .until(() -> count("ledger_entry") >= ROWS && count("pubsub_outbox_due") == 0);

    assertThat(atTheKill).as("the kill came in the midst of it").isLessThan(ROWS);
    assertThat(jdbc.queryForObject("SELECT count(DISTINCT event_id) FROM ledger_entry", Long.class))
        .isEqualTo(ROWS);
    assertThat(count("ledger_entry")).isEqualTo(ROWS);
    assertThat(jdbc.queryForObject("SELECT sum(balance) FROM customer_balance", Long.class))
        .isEqualTo(ROWS);
    assertThat(count("transactional_inbox_dead_letter")).isZero();
    System.out.printf(
        "%,d rows; %,d had taken effect when one of each was killed; %,d messages were published%n",
        ROWS, atTheKill, pubSub.stats().published());
  }

  private static Map<String, String> pod(String set) {
    return Map.of(
        "TWINBOX_ROUTES",
        set,
        "TWINBOX_MIGRATIONS",
        "wait",
        "SPRING_DATASOURCE_USERNAME",
        "pod_" + set,
        "SPRING_DATASOURCE_PASSWORD",
        "pod");
  }

  /**
   * As the manifests say, but for the network: it is this machine's, to reach the local services.
   */
  private String start(String name, Map<String, String> environment) throws Exception {
    List<String> command =
        new ArrayList<>(
            List.of(
                "run",
                "-d",
                "--network",
                "host",
                "--read-only",
                "--tmpfs",
                "/tmp:size=64m",
                "--user",
                "54321:0",
                "--cap-drop",
                "ALL",
                "--security-opt",
                "no-new-privileges",
                "--memory",
                "640m",
                "-v",
                Path.of("topics/invoices").toAbsolutePath() + ":/etc/twinbox/topic:ro"));
    Map<String, String> all = new java.util.TreeMap<>(environment);
    all.put("SPRING_DATASOURCE_URL", url);
    all.put("GOOGLE_CLOUD_PROJECT", "local");
    all.put("PUBSUB_EMULATOR_HOST", pubSub.endpoint());
    all.put("SERVER_PORT", "0");
    all.put("MANAGEMENT_SERVER_PORT", "0");
    all.put("TWINBOX_POD", name + "-" + containers.size());
    all.forEach((key, value) -> command.addAll(List.of("-e", key + "=" + value)));
    command.add(IMAGE);
    String id = docker(true, command.toArray(String[]::new)).output();
    containers.add(id);
    return id;
  }

  private long count(String table) {
    return jdbc.queryForObject("SELECT count(*) FROM " + table, Long.class);
  }

  private record Answer(int exit, String output) {}

  private static Answer docker(boolean must, String... arguments) throws Exception {
    List<String> command = new ArrayList<>(List.of("docker"));
    command.addAll(List.of(arguments));
    Process process;
    try {
      process = new ProcessBuilder(command).redirectErrorStream(true).start();
    } catch (java.io.IOException e) {
      return new Answer(127, e.getMessage());
    }
    String output = new String(process.getInputStream().readAllBytes()).strip();
    assertThat(process.waitFor(PATIENCE.toSeconds(), TimeUnit.SECONDS)).isTrue();
    if (must) {
      assertThat(process.exitValue()).as(output).isZero();
    }
    return new Answer(process.exitValue(), output);
  }
}
