package io.twinbox.sql;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;
import java.sql.Statement;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.Stream;
import org.springframework.util.FileSystemUtils;

/**
 * A server of the PostgreSQL that is installed on this machine, with its data in a temporary
 * folder. The server refuses to run as root, so root starts it as the user {@code postgres}.
 */
final class InstalledServer implements PostgresServer {

  private static final AtomicInteger DATABASES = new AtomicInteger();
  private static InstalledServer running;

  private final Path bin;
  private final Path data;
  private final int port;

  private InstalledServer(Path bin) throws IOException {
    this.bin = bin;
    this.data = Files.createTempDirectory("twinbox-postgres-");
    this.port = freePort();
    if (isRoot()) {
      Files.setOwner(
          data, data.getFileSystem().getUserPrincipalLookupService().lookupPrincipalByName(USER));
    }
    Runtime.getRuntime().addShutdownHook(new Thread(this::stop));
    server("initdb", "-D", data("db"), "-U", USER, "-A", "trust", "-E", "UTF8", "--no-sync");
    server(
        "pg_ctl",
        "start",
        "-w",
        "-D",
        data("db"),
        "-l",
        data("log"),
        "-o",
        "-p "
            + port
            + " -c listen_addresses=127.0.0.1 -c unix_socket_directories='' -c fsync=off"
            + " -c max_connections=100");
  }

  static synchronized PostgresServer get() {
    try {
      if (running == null) {
        running = new InstalledServer(bin().orElseThrow());
      }
      return running;
    } catch (IOException e) {
      throw new UncheckedIOException("The installed PostgreSQL does not start", e);
    }
  }

  /** Why the installed PostgreSQL cannot be used, or null when it can. */
  static String missing() {
    if (bin().isEmpty()) {
      return "no initdb where pg_config or /usr/lib/postgresql say";
    }
    if (isRoot() && !Files.isExecutable(Path.of("/usr/sbin/runuser"))) {
      return "runs as root, which the server refuses, and runuser is not there";
    }
    return null;
  }

  private static Optional<Path> bin() {
    List<Path> candidates = new ArrayList<>();
    try {
      candidates.add(Path.of(run(List.of("pg_config", "--bindir")).strip()));
    } catch (IOException e) {
      // Not installed, or not on the path.
    }
    try (Stream<Path> versions = Files.list(Path.of("/usr/lib/postgresql"))) {
      versions.sorted().forEach(version -> candidates.add(version.resolve("bin")));
    } catch (IOException e) {
      // No Debian packages.
    }
    return candidates.stream().filter(b -> Files.isExecutable(b.resolve("initdb"))).findFirst();
  }

  private static boolean isRoot() {
    return "root".equals(System.getProperty("user.name"));
  }

  private static int freePort() throws IOException {
    try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
      return socket.getLocalPort();
    }
  }

  private String data(String name) {
    return data.resolve(name).toString();
  }

  private String server(String program, String... arguments) throws IOException {
    List<String> command = new ArrayList<>();
    if (isRoot()) {
      command.addAll(List.of("/usr/sbin/runuser", "-u", USER, "--"));
    }
    command.add(bin.resolve(program).toString());
    command.addAll(List.of(arguments));
    return run(command);
  }

  /** Output goes through a file: the server that pg_ctl leaves behind would keep a pipe open. */
  private static String run(List<String> command) throws IOException {
    Path output = Files.createTempFile("twinbox-", ".out");
    try {
      Process process =
          new ProcessBuilder(command)
              .directory(Path.of("/").toFile())
              .redirectErrorStream(true)
              .redirectOutput(output.toFile())
              .start();
      int exit = process.waitFor();
      String text = Files.readString(output, StandardCharsets.UTF_8);
      if (exit != 0) {
        throw new IOException(command + " ended with " + exit + ": " + text);
      }
      return text;
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new IOException(e);
    } finally {
      Files.delete(output);
    }
  }

  private void stop() {
    try {
      server("pg_ctl", "stop", "-m", "immediate", "-D", data("db"));
    } catch (IOException e) {
      // It never started.
    }
    FileSystemUtils.deleteRecursively(data.toFile());
  }

  @Override
  public String createDatabase() {
    String url = "jdbc:postgresql://127.0.0.1:" + port + "/";
    String name = "twinbox_" + DATABASES.incrementAndGet();
    try (Connection connection = DriverManager.getConnection(url + "postgres", USER, PASSWORD);
        Statement statement = connection.createStatement()) {
      statement.execute("CREATE DATABASE " + name);
      return url + name;
    } catch (SQLException e) {
      throw new IllegalStateException(e);
    }
  }
}
