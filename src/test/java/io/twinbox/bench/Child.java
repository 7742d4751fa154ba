package io.twinbox.bench;

import static org.awaitility.Awaitility.await;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;

/** A JVM beside the benchmark, with the JVM's own defaults but a bounded heap. */
final class Child implements AutoCloseable {

  private static final Path OUTPUT = Path.of("target/processes").toAbsolutePath();
  private static final Duration START = Duration.ofSeconds(60);

  private final Process process;
  private final Path output;

  private Child(Process process, Path output) {
    this.process = process;
    this.output = output;
  }

  static Child main(String name, String heap, Class<?> main, String... arguments) {
    List<String> all =
        new ArrayList<>(List.of("-cp", System.getProperty("java.class.path"), main.getName()));
    all.addAll(List.of(arguments));
    return start(name, heap, all);
  }

  static Child jar(String name, String heap, Path jar, String... arguments) {
    List<String> all = new ArrayList<>(List.of("-jar", jar.toString()));
    all.addAll(List.of(arguments));
    return start(name, heap, all);
  }

  private static Child start(String name, String heap, List<String> arguments) {
    List<String> command =
        new ArrayList<>(
            List.of(Path.of(System.getProperty("java.home"), "bin", "java").toString(), heap));
    command.addAll(arguments);
    try {
      Files.createDirectories(OUTPUT);
      Path output = OUTPUT.resolve("bench-" + name + ".log");
      return new Child(
          new ProcessBuilder(command)
              .redirectErrorStream(true)
              .redirectOutput(output.toFile())
              .start(),
          output);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** Waits for a line with the text and returns it. */
  String awaitLine(String text) {
    return await()
        .atMost(START)
        .pollInterval(Duration.ofMillis(50))
        .failFast("ended: " + output, () -> !process.isAlive())
        .until(
            () ->
                Files.readAllLines(output).stream()
                    .filter(line -> line.contains(text))
                    .findFirst()
                    .orElse(null),
            line -> line != null);
  }

  long pid() {
    return process.pid();
  }

  @Override
  public void close() {
    process.destroyForcibly();
    try {
      process.waitFor(10, TimeUnit.SECONDS);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }
}
