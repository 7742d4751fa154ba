package io.twinbox.local.pubsub;

import java.io.BufferedReader;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.TimeUnit;

/** A JVM that a test starts, listens to, and ends or kills. */
final class ChildProcess implements AutoCloseable {
  private static final int UNSAFE_WARNINGS_SINCE = 24;
  private static final Duration POLL = Duration.ofMillis(20);

  private final Process process;
  private final List<String> lines = new CopyOnWriteArrayList<>();
  private final Thread reader;

  private ChildProcess(Process process) {
    this.process = process;
    reader = new Thread(this::read, "child-output");
    reader.setDaemon(true);
    reader.start();
  }

  /** Runs a class of this class path in the running JVM's java. */
  static ChildProcess java(Class<?> main, String... arguments) {
    List<String> command = new ArrayList<>();
    command.add("-cp");
    command.add(System.getProperty("java.class.path"));
    command.add(main.getName());
    command.addAll(List.of(arguments));
    return java(command);
  }

  /** Both outputs are read as one. */
  static ChildProcess java(List<String> arguments) {
    List<String> command = new ArrayList<>();
    command.add(Path.of(System.getProperty("java.home"), "bin", "java").toString());
    // Small and quick to start: several may run beside the tests.
    command.addAll(List.of("-Xmx256m", "-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"));
    if (Runtime.version().feature() >= UNSAFE_WARNINGS_SINCE) {
      // Netty's doing; without these, the JVM's warnings come before the program's own first line.
      command.add("--sun-misc-unsafe-memory-access=allow");
      command.add("--enable-native-access=ALL-UNNAMED");
    }
    command.addAll(arguments);
    try {
      return new ChildProcess(new ProcessBuilder(command).redirectErrorStream(true).start());
    } catch (IOException notStarted) {
      throw new UncheckedIOException(notStarted);
    }
  }

  /**
   * Waits for a line that holds the text.
   *
   * @throws IllegalStateException when the process ends, or the time passes, without it
   */
  String awaitLine(String text, Duration patience) {
    long deadline = System.nanoTime() + patience.toNanos();
    while (true) {
      boolean ended = !process.isAlive() && !reader.isAlive();
      for (String line : lines) {
        if (line.contains(text)) {
          return line;
        }
      }
      if (ended || System.nanoTime() > deadline) {
        throw new IllegalStateException(
            (ended ? "Ended" : "Not seen in " + patience.toSeconds() + " s")
                + " without \""
                + text
                + "\": "
                + String.join("\n", lines));
      }
      try {
        reader.join(POLL.toMillis());
      } catch (InterruptedException interrupted) {
        Thread.currentThread().interrupt();
        throw new IllegalStateException(interrupted);
      }
    }
  }

  List<String> lines() {
    return lines;
  }

  boolean isAlive() {
    return process.isAlive();
  }

  /** Waits until it ends by itself, and returns its exit code. */
  int exitCode(Duration patience) throws InterruptedException {
    if (!process.waitFor(patience.toMillis(), TimeUnit.MILLISECONDS)) {
      throw new IllegalStateException("Still running: " + String.join("\n", lines));
    }
    reader.join();
    return process.exitValue();
  }

  /** {@code kill -9}. */
  void kill() {
    process.destroyForcibly();
    try {
      process.waitFor();
    } catch (InterruptedException interrupted) {
      Thread.currentThread().interrupt();
    }
  }

  @Override
  public void close() {
    kill();
  }

  private void read() {
    try (BufferedReader output = process.inputReader(StandardCharsets.UTF_8)) {
      output.lines().forEach(lines::add);
    } catch (IOException | UncheckedIOException closed) {
      // Killed: there is no more to read.
    }
  }
}
