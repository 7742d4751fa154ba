package io.twinbox.bench;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.sql.Statement;

/**
 * Processor time that a drain takes, and who takes it. Unlike rows per second it hardly depends on
 * what else the machine does. Linux only; zero elsewhere.
 */
final class Usage {

  private final BenchServer server;
  private final String database;
  private final long dispatcher;
  private final long pubSub;
  private long[] begin = new long[3];

  Usage(BenchServer server, String databaseUrl, long dispatcher, long pubSub) {
    this.server = server;
    this.database = databaseUrl.substring(databaseUrl.lastIndexOf('/') + 1);
    this.dispatcher = dispatcher;
    this.pubSub = pubSub;
  }

  void begin() {
    begin = now();
  }

  private long[] now() {
    try {
      return new long[] {ticks(dispatcher), backendTicks(server, database), ticks(pubSub)};
    } catch (SQLException e) {
      throw new IllegalStateException(e);
    }
  }

  void print(String who, int rows) {
    long[] end = now();
    double[] micros = new double[3];
    for (int i = 0; i < 3; i++) {
      micros[i] = (end[i] - begin[i]) * 10_000.0 / rows;
    }
    System.out.printf(
        "    %s: processor time per row %.0f us (its own %.0f, PostgreSQL %.0f) and Pub/Sub %.0f%n",
        who, micros[0] + micros[1], micros[0], micros[1], micros[2]);
  }

  /** Of the backends of a database but the caller's, in hundredths of a second. */
  static long backendTicks(BenchServer server, String database) throws SQLException {
    long sum = 0;
    try (Connection connection = server.connect(server.adminUrl());
        Statement statement = connection.createStatement();
        ResultSet rows =
            statement.executeQuery(
                "SELECT pid FROM pg_stat_activity WHERE backend_type = 'client backend' AND datname = '"
                    + database
                    + "'")) {
      while (rows.next()) {
        sum += ticks(rows.getLong(1));
      }
    }
    return sum;
  }

  /** Of a process, in hundredths of a second. */
  static long ticks(long pid) {
    try {
      String stat = Files.readString(Path.of("/proc/%d/stat".formatted(pid)));
      String[] fields = stat.substring(stat.lastIndexOf(')') + 2).split(" ");
      return Long.parseLong(fields[11]) + Long.parseLong(fields[12]);
    } catch (IOException e) {
      return 0;
    }
  }
}
