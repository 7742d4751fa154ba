package io.twinbox.routes;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class SqlRulesTest {

  @ParameterizedTest
  @ValueSource(
      strings = {
        "SELECT 1",
        "UPDATE t\nSET a = :#${body}",
        "UPDATE t\nSET a = :#${body[a]}, b = :#$simple{body}, c = CAST(:#${header.c} AS bigint)",
        "SELECT 1 WHERE id IN (:#in:${body[ids]})",
        "SELECT 'COMMIT; SET x' AS \"; BEGIN\"",
        "SELECT '--' || 'it''s; COMMIT'",
        "SELECT E'it\\'s; COMMIT'",
        "SELECT 1 /* ; COMMIT */",
        "-- # and ? and COMMIT in a line of comment\nSELECT 1",
        "SELECT CASE WHEN true THEN 1 END",
        "INSERT INTO t (commit) VALUES (1) ON CONFLICT DO NOTHING",
        "INSERT INTO t (a) VALUES (1) ON CONFLICT (a) DO UPDATE\nSET a = 2",
        "SELECT outbox_put('t', :#${body})",
        "SELECT 'is this it?'",
        "SELECT $$ ; COMMIT $$",
        "SELECT pg_advisory_xact_lock(1)"
      })
  void handlerMayRun(String sql) {
    assertThat(SqlRules.checkHandler("x.sql", "-- What for.\n" + sql + "\n")).isEmpty();
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "COMMIT",
        "INSERT INTO t VALUES (1);\ncommit work",
        "/* hidden */ COMMIT",
        "SELECT 1; END",
        "ROLLBACK TO s",
        "SAVEPOINT s",
        "START\n TRANSACTION",
        "PREPARE TRANSACTION 'x'",
        "SET LOCAL synchronous_commit = off",
        "RESET ALL",
        "DISCARD ALL",
        "SELECT set_config ('a', 'b', true)",
        "SELECT pg_try_advisory_lock(1)",
        "DO $$ BEGIN NULL; END $$",
        "DELETE FROM \"transactional_inbox\"",
        "UPDATE only twinbox.transactional_inbox SET consumer = 'x'",
        "SELECT a ? 'b'",
        "SELECT a ?| array['b']",
        "SELECT a #> '{b}'",
        "SELECT a::#${b}",
        "SELECT '#'",
        "SELECT ':#a'",
        "SELECT 1 -- what",
        "SELECT '\n\n'"
      })
  void handlerMayNotRun(String sql) {
    assertThat(SqlRules.checkHandler("x.sql", "-- What for.\n" + sql + "\n")).hasSize(1);
  }

  @Test
  void lineIsCountedFromOne() {
    List<Finding> findings =
        SqlRules.checkHandler("sql/x.sql", "-- What for.\n\nSELECT 1;\n  COMMIT;\n");
    assertThat(findings).singleElement().extracting(Finding::line).isEqualTo(4);
    assertThat(findings.get(0).toString()).startsWith("sql/x.sql:4: `COMMIT` ends or splits");
  }

  @Test
  void windowsLineEndsAreLineEnds() {
    assertThat(SqlRules.check("x.sql", "-- What for.\r\nSELECT 1\r\nWHERE a = :#a\r\n")).isEmpty();
  }
}
