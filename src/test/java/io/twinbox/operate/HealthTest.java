package io.twinbox.operate;

import static org.assertj.core.api.Assertions.assertThat;

import io.twinbox.inbox.DatabaseTrouble;
import io.twinbox.local.LocalPostgres;
import io.twinbox.pubsub.PublishGate;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;
import java.sql.Statement;
import java.time.Duration;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicLong;
import org.apache.camel.CamelContext;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.springframework.boot.test.system.CapturedOutput;
import org.springframework.boot.test.system.OutputCaptureExtension;
import org.springframework.context.ConfigurableApplicationContext;

/**
 * Readiness says whether the database and the routes are there; liveness fails only for what a
 * restart cures, and nothing here is that. What is: {@link AlertsTest}.
 */
@ExtendWith(OutputCaptureExtension.class)
class HealthTest extends ServingTest {

  private int liveness() {
    return get("/actuator/health/liveness").statusCode();
  }

  private int readiness() {
    return get("/actuator/health/readiness").statusCode();
  }

  /** Hours pass between any two looks at the clock, so every poll was hours ago. */
  private static Progress slow(ConfigurableApplicationContext context) {
    Progress progress = context.getBean(Progress.class);
    AtomicLong looks = new AtomicLong();
    progress.clock(
        () -> System.nanoTime() + looks.incrementAndGet() * Duration.ofHours(3).toNanos());
    return progress;
  }

  @Test
  void aRouteThatAnOperatorStoppedIsNotReadyAndAlive(CapturedOutput output) throws Exception {
    createTopicAndSubscription();
    ConfigurableApplicationContext context = serve("dispatch,consume");
    CamelContext camel = context.getBean(CamelContext.class);
    Progress progress = slow(context);
    eventually().until(() -> readiness() == 200);
    assertThat(liveness()).isEqualTo(200);

    for (String route :
        new String[] {"dispatch", "dispatch-ordered", "dispatch-suspects", "consume"}) {
      camel.getRouteController().stopRoute(route, 30, TimeUnit.SECONDS);
    }
    assertThat(readiness()).isEqualTo(503);
    assertThat(output).doesNotContain("Probe in group");
    // Nobody takes it, as the operator wanted.
    jdbc.update(
        "INSERT INTO pubsub_outbox_due (seq, topic_name, payload_bytes, next_retry_at) VALUES (-1, ?, 0, now() - interval '1 hour')",
        TOPIC);
    awaitLook(context);
    assertThat(progress.stuck()).isEmpty();
    assertThat(liveness()).isEqualTo(200);

    jdbc.update("DELETE FROM pubsub_outbox_due");
    for (String route :
        new String[] {"dispatch", "dispatch-ordered", "dispatch-suspects", "consume"}) {
      camel.getRouteController().startRoute(route);
    }
    assertThat(readiness()).isEqualTo(200);
  }

  @Test
  void aTopicThatTakesNothingIsNoReasonForARestart() {
    ConfigurableApplicationContext context = serve("dispatch");
    for (int i = 0; i < 3; i++) {
      put("event " + i);
    }
    PublishGate gate = context.getBean(PublishGate.class);
    eventually().until(() -> gate.trouble() != null);
    Progress progress = slow(context);
    DatabaseSampler sampler = context.getBean(DatabaseSampler.class);
    // A probe takes one of them at a time; the others have waited for an hour.
    eventually()
        .until(
            () -> {
              jdbc.update(
                  "UPDATE pubsub_outbox_due SET next_retry_at = now() - interval '1 hour' WHERE claim_token IS NULL");
              return sampler.sample() != null
                  && sampler.sample().topic(TOPIC, "oldest_due_seconds") > 3000;
            });
    assertThat(gate.trouble()).isNotNull();
    assertThat(progress.stuck()).isEmpty();
    assertThat(liveness()).isEqualTo(200);
    assertThat(readiness()).isEqualTo(200);
  }

  @Test
  void aDatabaseThatIsAwayIsNotReadyAndNoReasonForARestart(CapturedOutput output)
      throws SQLException {
    createTopicAndSubscription();
    ConfigurableApplicationContext context =
        serve(
            "consume",
            "twinbox.consume.concurrency=4",
            "spring.datasource.hikari.connection-timeout=1000");
    DatabaseTrouble trouble = context.getBean(DatabaseTrouble.class);
    awaitLook(context);
    eventually().until(() -> readiness() == 200);
    String database = jdbc.queryForObject("SELECT current_database()", String.class);
    try (Connection admin =
            DriverManager.getConnection(
                databaseUrl.replace(database, "postgres"),
                LocalPostgres.USER,
                LocalPostgres.PASSWORD);
        Statement statement = admin.createStatement()) {
      statement.execute("ALTER DATABASE " + database + " WITH ALLOW_CONNECTIONS false");
      statement.execute(
          "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = '"
              + database
              + "'");
      for (int i = 0; i < 4; i++) {
        publish("event " + i, Map.of("outbox_id", "id-" + i));
      }
      eventually().until(() -> trouble.waiting() == 4);
      Progress progress = slow(context);
      assertThat(context.getBean(ConsumeMeters.class).inHand()).isEqualTo(4);
      assertThat(progress.stuck()).isEmpty();
      assertThat(liveness()).isEqualTo(200);
      eventually().until(() -> readiness() == 503);
      assertThat(output)
          .contains("The database does not answer; messages wait for it.")
          .doesNotContain("health check failed");
      statement.execute("ALTER DATABASE " + database + " WITH ALLOW_CONNECTIONS true");
    }
    eventually().until(() -> count("effect") == 4);
    eventually().until(() -> readiness() == 200);
    assertThat(liveness()).isEqualTo(200);
  }
}
