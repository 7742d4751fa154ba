package io.twinbox.process;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import io.twinbox.local.LocalPostgres;
import io.twinbox.local.pubsub.LocalPubSub;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.junit.jupiter.api.AfterAll;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeAll;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.Test;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.jdbc.datasource.DriverManagerDataSource;

/**
 * The migration job and the pods that wait for it, as processes. Under least privilege: the job as
 * the tables' owner, the pods as users that may not migrate.
 */
class MigrationProcessTest {

  private static final Duration PATIENCE = Duration.ofSeconds(90);

  private static LocalPostgres postgres;
  private static LocalPubSub pubSub;

  private final List<TwinboxProcess> started = new ArrayList<>();
  private String url;
  private JdbcTemplate jdbc;

  @BeforeAll
  static void startServices() {
    postgres = LocalPostgres.start();
    pubSub = LocalPubSub.start();
    pubSub.createTopic("local", "invoices");
    pubSub.createSubscription("local", "invoices-ledger", "invoices");
  }

  @AfterAll
  static void stopServices() {
    pubSub.close();
    postgres.close();
  }

  @BeforeEach
  void createRoles() throws IOException {
    url = postgres.createDatabase();
    jdbc =
        new JdbcTemplate(
            new DriverManagerDataSource(url, LocalPostgres.USER, LocalPostgres.PASSWORD));
    jdbc.execute(Files.readString(Path.of("sql/roles/create-roles.sql")));
    jdbc.execute("DROP ROLE IF EXISTS pod_dispatch");
    jdbc.execute("CREATE ROLE pod_dispatch LOGIN PASSWORD 'pod' IN ROLE twinbox_dispatch");
  }

  @AfterEach
  void stopWhatWasStarted() {
    started.forEach(TwinboxProcess::close);
  }

  private TwinboxProcess keep(TwinboxProcess.Launch launch) {
    TwinboxProcess process = launch.start();
    started.add(process);
    return process;
  }

  private TwinboxProcess.Launch job() {
    return TwinboxProcess.classes("migrations")
        .with(
            "TWINBOX_MIGRATIONS",
            "only",
            "SPRING_DATASOURCE_URL",
            url,
            "SPRING_DATASOURCE_USERNAME",
            LocalPostgres.USER,
            "SPRING_DATASOURCE_PASSWORD",
            LocalPostgres.PASSWORD);
  }

  private TwinboxProcess.Launch pod() {
    return TwinboxProcess.classes("waiting-dispatch")
        .with(
            "TWINBOX_ROUTES", "dispatch",
            "TWINBOX_MIGRATIONS", "wait",
            "TWINBOX_TOPIC_DIR", "topics/invoices",
            "GOOGLE_CLOUD_PROJECT", "local",
            "PUBSUB_EMULATOR_HOST", pubSub.endpoint(),
            "SPRING_DATASOURCE_URL", url,
            "SPRING_DATASOURCE_USERNAME", "pod_dispatch",
            "SPRING_DATASOURCE_PASSWORD", "pod");
  }

  @Test
  void twoJobsAtOnceMigrateOnceWhileAPodThatMayNotWaitsForThem() throws IOException {
    TwinboxProcess pod = keep(pod());
    await().atMost(PATIENCE).until(() -> pod.output().contains("Waits for the migration job"));

    TwinboxProcess first = keep(job());
    TwinboxProcess second = keep(job());

    assertThat(first.exitCode(PATIENCE)).as(first.output()).isZero();
    assertThat(second.exitCode(PATIENCE)).as(second.output()).isZero();
    assertThat(
            jdbc.queryForList(
                "SELECT script FROM twinbox_schema_history WHERE success AND type = 'SQL' ORDER BY script",
                String.class))
        .containsExactlyElementsOf(migrations());
    pod.ready();
    jdbc.queryForList("SELECT outbox_put('invoices', 'after the migrations')");
    await()
        .atMost(PATIENCE)
        .until(
            () ->
                jdbc.queryForObject("SELECT count(*) FROM pubsub_outbox_published", Long.class)
                    == 1);
  }

  @Test
  void podWhoseUserHasNoRoleSaysSo() {
    assertThat(keep(job()).exitCode(PATIENCE)).isZero();
    jdbc.execute("REVOKE twinbox_dispatch FROM pod_dispatch");

    TwinboxProcess pod = keep(pod().with("TWINBOX_MIGRATIONS_WAIT", "1s"));

    assertThat(pod.exitCode(PATIENCE)).isEqualTo(1);
    assertThat(pod.output()).contains("R__roles.sql", "member of none of the roles");
  }

  @Test
  void podWhoseMigrationsDoNotComeSaysWhatIsMissingAndChangesNothing() {
    TwinboxProcess pod = keep(pod().with("TWINBOX_MIGRATIONS_WAIT", "2s"));

    assertThat(pod.exitCode(PATIENCE)).isEqualTo(1);
    assertThat(pod.output())
        .contains("V1__outbox.sql", "TWINBOX_MIGRATIONS_WAIT", "Run the migration job");
    assertThat(
            jdbc.queryForObject(
                "SELECT count(*) FROM pg_tables WHERE schemaname = 'public'", Long.class))
        .isZero();
  }

  @Test
  void oldPodsStartAndWorkWhileTheSchemaIsAlreadyTheNextReleases() {
    assertThat(keep(job()).exitCode(PATIENCE)).isZero();
    // What a later release's expanding migration leaves behind.
    jdbc.execute("ALTER TABLE pubsub_outbox_due ADD COLUMN later text");
    jdbc.execute(
        "INSERT INTO twinbox_schema_history (installed_rank, version, description, type, script, checksum, installed_by, execution_time, success)"
            + " SELECT max(installed_rank) + 1, '999', 'later', 'SQL', 'V999__later.sql', 1, 'job', 1, true FROM twinbox_schema_history");

    TwinboxProcess waits = keep(pod()).ready();
    assertThat(waits.output()).doesNotContain("Waits for the migration job");
    waits.close();
    TwinboxProcess migrates =
        keep(pod()
                .with(
                    "TWINBOX_MIGRATIONS", "run",
                    "SPRING_DATASOURCE_USERNAME", LocalPostgres.USER,
                    "SPRING_DATASOURCE_PASSWORD", LocalPostgres.PASSWORD))
            .ready();

    jdbc.queryForList("SELECT outbox_put('invoices', 'old program, new schema')");
    await()
        .atMost(PATIENCE)
        .until(
            () ->
                jdbc.queryForObject("SELECT count(*) FROM pubsub_outbox_published", Long.class)
                    == 1);
    assertThat(migrates.isAlive()).isTrue();
  }

  private static List<String> migrations() throws IOException {
    try (var files = Files.list(Path.of("sql/schema"))) {
      return files.map(file -> file.getFileName().toString()).sorted().toList();
    }
  }
}
