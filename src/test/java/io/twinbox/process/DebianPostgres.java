package io.twinbox.process;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Stream;

/**
 * The PostgreSQL of Debian's package, with passwords asked for: a cluster of its own in a temporary
 * folder, on a free port.
 */
public final class DebianPostgres implements AutoCloseable {
  public static final String USER = "postgres";
  public static final String PASSWORD = "Debian-Passw0rd";

  private static final Path VERSIONS = Path.of("/usr/lib/postgresql");
  private static final AtomicInteger DATABASES = new AtomicInteger();

  private final Path bin;
  private final Path folder;
  private final int port;
  private final Map<String, String> environment;

  private DebianPostgres(Path bin, Path folder, int port, Map<String, String> environment) {
    this.bin = bin;
    this.folder = folder;
    this.port = port;
    this.environment = environment;
  }

  /** Starts the newest version; empty when there is none, or no user to run it as. */
  public static Optional<DebianPostgres> start() {
    return start(Map.of());
  }

  /**
   * @param environment variables of the server's own
   */
  public static Optional<DebianPostgres> start(Map<String, String> environment) {
    try {
      Optional<Path> bin = newest();
      if (bin.isEmpty() || root() && !Files.isExecutable(Path.of("/usr/sbin/runuser"))) {
        return Optional.empty();
      }
      Path folder = Files.createTempDirectory("twinbox-postgres");
      Path password = Files.writeString(folder.resolve("password"), PASSWORD);
      if (root()) {
        run(List.of("chown", "-R", USER, folder.toString()), Map.of());
      }
      DebianPostgres server =
          new DebianPostgres(bin.get(), folder, TwinboxProcess.freePort(), environment);
      Path data = folder.resolve("data");
      server.tool(
          "initdb",
          "-D",
          data.toString(),
          "-U",
          USER,
          "-E",
          "UTF8",
          "--locale=C.UTF-8",
          "-A",
          "scram-sha-256",
          "--pwfile=" + password);
      server.startServer();
      return Optional.of(server);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  private void startServer() throws IOException {
    tool(
        "pg_ctl",
        "-D",
        folder.resolve("data").toString(),
        "-w",
        "-l",
        folder.resolve("log").toString(),
        "-o",
        "-p %d -k %s -c listen_addresses=127.0.0.1".formatted(port, folder),
        "start");
  }

  /** Ends the server without a checkpoint, as a power cut would, and starts it again. */
  void crashAndStart() throws IOException {
    tool("pg_ctl", "-D", folder.resolve("data").toString(), "-m", "immediate", "-w", "stop");
    startServer();
  }

  private static Optional<Path> newest() throws IOException {
    if (!Files.isDirectory(VERSIONS)) {
      return Optional.empty();
    }
    try (Stream<Path> versions = Files.list(VERSIONS)) {
      return versions
          .filter(v -> v.getFileName().toString().matches("[0-9]+"))
          .filter(v -> Integer.parseInt(v.getFileName().toString()) >= 14)
          .map(v -> v.resolve("bin"))
          .filter(bin -> Files.isExecutable(bin.resolve("initdb")))
          .max(
              Comparator.comparingInt(
                  b -> Integer.parseInt(b.getParent().getFileName().toString())));
    }
  }

  /** PostgreSQL refuses to run as root. */
  private static boolean root() {
    return "root".equals(System.getProperty("user.name"));
  }

  private void tool(String name, String... arguments) throws IOException {
    List<String> command = new ArrayList<>();
    if (root()) {
      command.addAll(List.of("runuser", "-u", USER, "--"));
    }
    command.add(bin.resolve(name).toString());
    command.addAll(List.of(arguments));
    run(command, environment);
  }

  private static void run(List<String> command, Map<String, String> environment)
      throws IOException {
    Path output = Files.createTempFile("twinbox-postgres", ".log");
    try {
      ProcessBuilder builder =
          new ProcessBuilder(command)
              .directory(Path.of("/").toFile())
              .redirectErrorStream(true)
              .redirectOutput(output.toFile());
      builder.environment().putAll(environment);
      Process process = builder.start();
      if (!process.waitFor(60, TimeUnit.SECONDS) || process.exitValue() != 0) {
        throw new IOException(command + ": " + Files.readString(output));
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new IOException(e);
    } finally {
      Files.delete(output);
    }
  }

  public String name() {
    return "Debian's PostgreSQL " + bin.getParent().getFileName();
  }

  public String url() {
    return "jdbc:postgresql://127.0.0.1:%d/postgres".formatted(port);
  }

  /** A new, empty database beside the one of the URL; returns its URL. */
  public static String createDatabase(String url, String user, String password) {
    String name = "jar_" + DATABASES.incrementAndGet();
    try (Connection connection = DriverManager.getConnection(url, user, password);
        Statement statement = connection.createStatement()) {
      statement.execute("CREATE DATABASE " + name);
      return url.replaceFirst("/[^/]*$", "/" + name);
    } catch (SQLException e) {
      throw new IllegalStateException(e);
    }
  }

  @Override
  public void close() {
    try {
      tool("pg_ctl", "-D", folder.resolve("data").toString(), "-m", "immediate", "-w", "stop");
      try (Stream<Path> files = Files.walk(folder)) {
        for (Path file : files.sorted(Comparator.reverseOrder()).toList()) {
          Files.delete(file);
        }
      }
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
