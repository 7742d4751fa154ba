package io.twinbox.bench;

import io.twinbox.config.SqlFiles;
import java.sql.Connection;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.Map;
import java.util.Properties;
import java.util.UUID;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.springframework.core.io.ClassPathResource;
import org.springframework.core.io.support.PropertiesLoaderUtils;

/**
 * A claim as dispatch sends it, executed and rolled back.
 *
 * @param buffers pages of 8 KB that it touched
 * @param millis how long it took in the server
 * @param plan as PostgreSQL shows it
 */
record ExplainedClaim(long buffers, double millis, String plan) {

  private static final Pattern PARAMETER =
      Pattern.compile(":#\\$\\{(properties|exchangeProperty)[:.]([^}]+)}");
  private static final Pattern BUFFERS =
      Pattern.compile("Buffers: shared(?: hit=(\\d+))?(?: read=(\\d+))?");
  private static final Pattern TIME = Pattern.compile("Execution Time: ([0-9.]+) ms");

  /** Without a floor: all that is there. */
  static ExplainedClaim of(
      BenchServer server, String database, String topic, String file, int limit)
      throws SQLException {
    return of(server, database, topic, file, limit, "-infinity");
  }

  static ExplainedClaim of(
      BenchServer server, String database, String topic, String file, int limit, String floor)
      throws SQLException {
    try (Connection connection = server.connect(database);
        Statement statement = connection.createStatement()) {
      connection.setAutoCommit(false);
      String sql = bound(SqlFiles.read("sql/dispatch/" + file), topic, limit, floor);
      StringBuilder plan = new StringBuilder();
      try (ResultSet rows = statement.executeQuery("EXPLAIN (ANALYZE, BUFFERS) " + sql)) {
        while (rows.next()) {
          plan.append(rows.getString(1)).append('\n');
        }
      }
      connection.rollback();
      // The first line with buffers is the whole statement's.
      Matcher buffers = BUFFERS.matcher(plan);
      buffers.find();
      Matcher time = TIME.matcher(plan);
      time.find();
      return new ExplainedClaim(
          number(buffers.group(1)) + number(buffers.group(2)),
          Double.parseDouble(time.group(1)),
          plan.toString());
    }
  }

  private static long number(String group) {
    return group == null ? 0 : Long.parseLong(group);
  }

  private static String bound(String sql, String topic, int limit, String floor) {
    Properties defaults;
    try {
      defaults =
          PropertiesLoaderUtils.loadProperties(new ClassPathResource("application.properties"));
    } catch (java.io.IOException e) {
      throw new java.io.UncheckedIOException(e);
    }
    Map<String, String> given =
        Map.of(
            "topic.name",
            topic,
            "twinbox.pod",
            "bench",
            "claimToken",
            UUID.randomUUID().toString(),
            "claimLimit",
            String.valueOf(limit),
            "floor",
            floor,
            "cursor",
            "",
            "held",
            "[]");
    return PARAMETER
        .matcher(sql)
        .replaceAll(
            m -> {
              String name = m.group(2);
              String value = given.getOrDefault(name, defaults.getProperty(name));
              return Matcher.quoteReplacement("'" + value + "'");
            });
  }
}
