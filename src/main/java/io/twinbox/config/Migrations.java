package io.twinbox.config;

import java.sql.SQLException;
import java.time.Duration;
import java.util.Arrays;
import java.util.stream.Collectors;
import org.flywaydb.core.Flyway;
import org.flywaydb.core.api.FlywayException;
import org.flywaydb.core.api.MigrationInfo;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.boot.ExitCodeGenerator;
import org.springframework.boot.autoconfigure.condition.ConditionalOnProperty;
import org.springframework.boot.autoconfigure.flyway.FlywayMigrationStrategy;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;

/**
 * Who brings the tables up to date ({@code twinbox.migrations}). In production a job does, under
 * the user that owns them, and the route sets wait for it under users that may not
 * (docs/migrations.md).
 */
@Configuration(proxyBeanMethods = false)
class Migrations {

  private static final Logger log = LoggerFactory.getLogger("io.twinbox.startup");
  private static final Duration BETWEEN_LOOKS = Duration.ofSeconds(1);

  /**
   * Flyway takes a lock of the database: of several processes one migrates, the others find it
   * done.
   */
  @Bean
  @ConditionalOnProperty(
      name = "twinbox.produce.check",
      havingValue = "false",
      matchIfMissing = true)
  FlywayMigrationStrategy migrationStrategy(TwinboxProperties properties) {
    return "wait".equals(properties.migrations())
        ? flyway -> await(flyway, properties.migrationsWait())
        : Flyway::migrate;
  }

  /** Ends the process after its start, which has migrated. */
  @Bean
  @ConditionalOnProperty(name = "twinbox.migrations", havingValue = "only")
  ExitCodeGenerator migrationsDone(Flyway flyway) {
    log.info("The tables are up to date: version {}", flyway.info().current().getVersion());
    return () -> 0;
  }

  /**
   * A newer version than this program's is no reason to wait: its release replaces us one by one.
   */
  private static void await(Flyway flyway, Duration patience) {
    long deadline = System.nanoTime() + patience.toNanos();
    boolean said = false;
    while (true) {
      String pending = pending(flyway);
      if (pending.isEmpty()) {
        return;
      }
      if (System.nanoTime() - deadline >= 0) {
        throw new StartupException(
            "The database's tables are older than this program: %s %s not run within %d s (TWINBOX_MIGRATIONS_WAIT)."
                .formatted(pending, pending.contains(",") ? "have" : "has", patience.toSeconds()),
            "Run the migration job of this version (TWINBOX_MIGRATIONS=only) and look at how it ended; docs/migrations.md. If only R__roles.sql is named, this process's user may be a member of none of the roles; docs/roles.md.");
      }
      if (!said) {
        log.info("Waits for the migration job, which has yet to run {}", pending);
        said = true;
      }
      try {
        Thread.sleep(BETWEEN_LOOKS.toMillis());
      } catch (InterruptedException e) {
        Thread.currentThread().interrupt();
        throw new IllegalStateException("Interrupted while waiting for the migrations", e);
      }
    }
  }

  /**
   * Migrations that have yet to run. The last of them lets this process's user read the history.
   */
  private static String pending(Flyway flyway) {
    try {
      return Arrays.stream(flyway.info().pending())
          .map(MigrationInfo::getScript)
          .collect(Collectors.joining(", "));
    } catch (FlywayException e) {
      if (Causes.any(e, c -> c instanceof SQLException sql && "42501".equals(sql.getSQLState()))) {
        return "R__roles.sql";
      }
      throw e;
    }
  }
}
