package io.twinbox.process;

import static org.awaitility.Awaitility.await;

import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;

/**
 * Twinbox as operators run it: a JVM of its own, told everything by environment variables. Its
 * output goes to a file under {@code target/processes}, for the tests and for whoever looks into a
 * failed one.
 */
public final class TwinboxProcess implements AutoCloseable {

  /** What a start may take on a machine that is busy with other things. */
  static final Duration START = Duration.ofSeconds(90);

  private static final Path JAR = Path.of("target/twinbox.jar").toAbsolutePath();
  private static final Path RUNTIME_CLASSPATH = Path.of("target/runtime-classpath.txt");
  private static final Path OUTPUT = Path.of("target/processes").toAbsolutePath();
  private static final AtomicInteger COUNT = new AtomicInteger();

  private final Process process;
  private final Path output;
  private final int managementPort;
  private final int webPort;
  private final long startedAt = System.nanoTime();

  private TwinboxProcess(Process process, Path output, int webPort, int managementPort) {
    this.process = process;
    this.output = output;
    this.webPort = webPort;
    this.managementPort = managementPort;
  }

  /** The executable jar, as it is deployed; {@code *IT} tests run after it is built. */
  static Launch jar(String name) {
    if (!Files.isRegularFile(JAR)) {
      throw new IllegalStateException("target/twinbox.jar is missing; mvn verify builds it.");
    }
    return new Launch(name, List.of("-jar", JAR.toString()));
  }

  /** The compiled classes and what they need at run time, and nothing of the tests. */
  static Launch classes(String name) {
    // These tests are not about speed: a JVM that compiles less leaves more to the others.
    return classes(name, "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC");
  }

  /** The same for what measures: nothing said to the JVM but its heap. */
  public static Launch atFullSpeed(String name) {
    return classes(name, "-Xmx512m");
  }

  private static Launch classes(String name, String... jvmOptions) {
    String libraries;
    try {
      libraries = Files.readString(RUNTIME_CLASSPATH).strip();
    } catch (IOException e) {
      throw new IllegalStateException(
          RUNTIME_CLASSPATH + " is missing; mvn process-test-classes writes it.", e);
    }
    String classPath = Path.of("target/classes").toAbsolutePath() + File.pathSeparator + libraries;
    List<String> program = new ArrayList<>(List.of(jvmOptions));
    program.addAll(List.of("-cp", classPath, "io.twinbox.TwinboxApplication"));
    return new Launch(name, program);
  }

  /** What a process is told before it starts. */
  public static final class Launch {
    private final String name;
    private final List<String> program;
    private final Map<String, String> environment = new LinkedHashMap<>();
    private final List<String> arguments = new ArrayList<>();
    private Path directory = Path.of("").toAbsolutePath();
    private String java = Path.of(System.getProperty("java.home"), "bin", "java").toString();

    private Launch(String name, List<String> program) {
      this.name = name;
      this.program = program;
    }

    /** Environment variables: name, value, name, value … */
    public Launch with(String... namesAndValues) {
      for (int i = 0; i < namesAndValues.length; i += 2) {
        environment.put(namesAndValues[i], namesAndValues[i + 1]);
      }
      return this;
    }

    /** What stands behind the program on its command line. */
    Launch arguments(String... more) {
      arguments.addAll(List.of(more));
      return this;
    }

    Launch with(Map<String, String> variables) {
      environment.putAll(variables);
      return this;
    }

    Launch without(String variable) {
      environment.remove(variable);
      return this;
    }

    public TwinboxProcess start() {
      int webPort = freePort();
      int managementPort = freePort();
      Map<String, String> all = new LinkedHashMap<>();
      all.put("PATH", System.getenv("PATH"));
      // Nobody's own Google credentials come in by chance.
      all.put("CLOUDSDK_CONFIG", OUTPUT.toString());
      all.put("SERVER_PORT", String.valueOf(webPort));
      all.put("MANAGEMENT_SERVER_PORT", String.valueOf(managementPort));
      all.putAll(environment);
      List<String> command = new ArrayList<>(List.of(java, "-Xmx256m"));
      command.addAll(program);
      command.addAll(arguments);
      try {
        Files.createDirectories(OUTPUT);
        Path output = OUTPUT.resolve("%03d-%s.log".formatted(COUNT.incrementAndGet(), name));
        ProcessBuilder builder =
            new ProcessBuilder(command)
                .directory(directory.toFile())
                .redirectErrorStream(true)
                .redirectOutput(output.toFile());
        builder.environment().clear();
        builder.environment().putAll(all);
        return new TwinboxProcess(
            builder.start(),
            output,
            Integer.parseInt(all.get("SERVER_PORT")),
            Integer.parseInt(all.get("MANAGEMENT_SERVER_PORT")));
      } catch (IOException e) {
        throw new UncheckedIOException(e);
      }
    }
  }

  public static int freePort() {
    try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
      return socket.getLocalPort();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** Waits until the management port says that it is ready; fails at once when it ends instead. */
  public TwinboxProcess ready() {
    await()
        .atMost(START)
        .pollInterval(Duration.ofMillis(50))
        .failFast(
            () -> {
              if (!process.isAlive()) {
                throw new AssertionError("It ended instead of being ready:\n" + output());
              }
            })
        .until(this::isReady);
    return this;
  }

  /** Whether the management port says now that it is ready. */
  boolean isReady() {
    return status(managementPort, "/actuator/health/readiness") == 200;
  }

  /** The HTTP status of a GET, or 0 when nobody answers. */
  static int status(int port, String path) {
    HttpRequest request =
        HttpRequest.newBuilder(URI.create("http://127.0.0.1:" + port + path))
            .timeout(Duration.ofSeconds(5))
            .build();
    try {
      return HttpClient.newHttpClient()
          .send(request, HttpResponse.BodyHandlers.discarding())
          .statusCode();
    } catch (IOException e) {
      return 0;
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      return 0;
    }
  }

  int managementPort() {
    return managementPort;
  }

  int webPort() {
    return webPort;
  }

  public long pid() {
    return process.pid();
  }

  public boolean isAlive() {
    return process.isAlive();
  }

  /** What it has written so far, both outputs in one. */
  public String output() {
    try {
      return Files.readString(output);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** {@code kill -9}: no hook runs, sockets close with the process. */
  void kill9() {
    process.destroyForcibly();
    waitFor(Duration.ofSeconds(10));
  }

  /** {@code kill}, as Kubernetes asks a pod to stop; does not wait. */
  void sigterm() {
    process.destroy();
  }

  /** Waits until it ends by itself, and returns its exit code. */
  int exitCode(Duration patience) {
    waitFor(patience);
    return process.exitValue();
  }

  private void waitFor(Duration patience) {
    try {
      if (!process.waitFor(patience.toMillis(), TimeUnit.MILLISECONDS)) {
        throw new AssertionError(
            "Still running after %d s:%n%s".formatted(patience.toSeconds(), output()));
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new IllegalStateException(e);
    }
  }

  Duration sinceStart() {
    return Duration.ofNanos(System.nanoTime() - startedAt);
  }

  /** Resident memory in bytes, where the system has {@code /proc}; else 0. */
  long residentBytes() {
    try {
      return Files.readAllLines(Path.of("/proc/%d/status".formatted(pid()))).stream()
          .filter(line -> line.startsWith("VmRSS:"))
          .mapToLong(line -> Long.parseLong(line.replaceAll("[^0-9]", "")) * 1024)
          .findFirst()
          .orElse(0);
    } catch (IOException e) {
      return 0;
    }
  }

  @Override
  public void close() {
    if (process.isAlive()) {
      process.destroyForcibly();
      waitFor(Duration.ofSeconds(10));
    }
  }
}
