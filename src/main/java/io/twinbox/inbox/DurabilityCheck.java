package io.twinbox.inbox;

import io.twinbox.config.SqlFiles;
import io.twinbox.config.StartupCheck;
import io.twinbox.config.StartupException;
import java.util.Map;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.stereotype.Component;

/**
 * Whether "acknowledge after commit" is true on this database: a commit must be on disk when it
 * returns, the inbox must have its primary key, and the server must be the one that took the
 * earlier commits.
 */
@Component("durabilityCheck")
public class DurabilityCheck implements StartupCheck {

  private static final Logger log = LoggerFactory.getLogger("io.twinbox.consume");

  private final JdbcTemplate jdbc;
  private volatile boolean serverChanged;
  private final String url;
  private final String durability = SqlFiles.read("sql/consume/read-durability.sql");
  private final String rememberServer = SqlFiles.read("sql/consume/remember-server.sql");

  DurabilityCheck(JdbcTemplate jdbc, @Value("${spring.datasource.url:}") String url) {
    this.jdbc = jdbc;
    this.url = url;
  }

  @Override
  public String routeSet() {
    return "consume";
  }

  @Override
  public void check() {
    Map<String, Object> seen = jdbc.queryForMap(durability);
    // The effect of autosave is a savepoint around each statement: an error would no longer abort
    // the transaction.
    if (url.matches("(?i).*[?&]autosave=(always|conservative).*")) {
      throw new StartupException(
          "SPRING_DATASOURCE_URL sets autosave: a handler's failed statement would be undone alone and the rest committed.",
          "Remove autosave from the URL.");
    }
    if (seen.get("fsync").equals("off") || seen.get("synchronous_commit").equals("off")) {
      throw new StartupException(
          "The database runs with fsync=%s and synchronous_commit=%s: a message would be acknowledged before its effect is on disk, and lost in a crash."
              .formatted(seen.get("fsync"), seen.get("synchronous_commit")),
          "Turn both on for this database and this user.");
    }
    if (!Boolean.TRUE.equals(seen.get("inbox_key"))) {
      throw new StartupException(
          "The table transactional_inbox has no primary key (consumer, idempotency_key): duplicates would take effect twice.",
          "Restore the key; sql/schema/V2__inbox.sql has it. Look for doubled keys first.");
    }
    watchServer();
  }

  /**
   * Says when the database is another server, or another history of it, than last time. Called by
   * consume-watch, too.
   */
  public void watchServer() {
    Map<String, Object> server = jdbc.queryForMap(rememberServer);
    if (Boolean.TRUE.equals(server.get("changed"))) {
      serverChanged = true;
      log.error(
          "The database is not the one of last time: system identifier {} timeline {}, before {} timeline {}. A failover to an asynchronous standby or a restore may have lost commits whose messages were acknowledged. Compare, and republish what is missing: docs/runbook.md, \"The database is another one\".",
          server.get("system_identifier"),
          server.get("timeline_id"),
          server.get("before_identifier"),
          server.get("before_timeline"));
    }
  }

  /** Whether this process has seen the database become another server or history. */
  public boolean serverChanged() {
    return serverChanged;
  }
}
