package io.twinbox.inbox;

import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.twinbox.config.StartupException;
import io.zonky.test.db.postgres.embedded.EmbeddedPostgres;
import java.io.IOException;
import org.junit.jupiter.api.Test;
import org.springframework.jdbc.core.JdbcTemplate;

class DurabilityCheckTest {

  /** A server's setting, which no session and no database can have of its own. */
  @Test
  void serverThatDoesNotWriteToDiskIsRefused() throws IOException {
    try (EmbeddedPostgres server =
        EmbeddedPostgres.builder()
            .setServerConfig("fsync", "off")
            .setServerConfig("synchronous_commit", "on")
            .start()) {
      JdbcTemplate jdbc = new JdbcTemplate(server.getPostgresDatabase());
      jdbc.execute("CREATE TABLE transactional_inbox ()");
      DurabilityCheck check = new DurabilityCheck(jdbc, "");

      assertThatThrownBy(check::check)
          .isInstanceOf(StartupException.class)
          .hasMessageContaining("fsync=off and synchronous_commit=on");
    }
  }
}
