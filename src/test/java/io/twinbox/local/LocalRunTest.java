package io.twinbox.local;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What README tells a newcomer to do first, as the process that it starts. */
class LocalRunTest {

  @TempDir Path folder;

  /** The sample, copied and renamed, as docs/adding-a-topic.md says to begin. */
  @Test
  void copyOfTheSampleUnderItsOwnNamesMovesEveryInvoice() throws Exception {
    Path orders = folder.resolve("orders");
    Files.createDirectory(orders);
    try (Stream<Path> files = Files.list(Path.of("topics/invoices"))) {
      for (Path file : files.filter(Files::isRegularFile).toList()) {
        String text = Files.readString(file);
        if (file.endsWith("topic.properties")) {
          text = text.replace("invoices-ledger", "orders-stock").replace("=invoices", "=orders");
        }
        Files.writeString(orders.resolve(file.getFileName()), text);
      }
    }
    Path output = folder.resolve("output");
    Process run = start(output, "--once", "--rows=150", "--twinbox.topic-dir=" + orders);
    try {
      assertThat(run.waitFor(360, TimeUnit.SECONDS)).as(Files.readString(output)).isTrue();
    } finally {
      run.destroyForcibly();
    }

    String said = Files.readString(output);
    assertThat(run.exitValue()).as(said).isZero();
    assertThat(said)
        .contains("topic orders, subscription orders-stock")
        .contains("equal: BigQuery 150 = outbox 150 = distinct ids published 150 = inbox 150")
        .doesNotContain("DIFFERENT")
        // The subscription is as production's should be.
        .doesNotContain("WARN")
        .doesNotContain("ERROR");
  }

  @Test
  void argumentThatThereIsNotIsAnsweredWithThoseThatThereAre() throws Exception {
    Path output = folder.resolve("output");
    Process run = start(output, "--row=5");
    assertThat(run.waitFor(120, TimeUnit.SECONDS)).isTrue();
    assertThat(run.exitValue()).isEqualTo(2);
    assertThat(output).content().contains("Unknown argument '--row=5'.", "--rows=N");
  }

  private static Process start(Path output, String... arguments) throws IOException {
    List<String> command =
        new ArrayList<>(
            List.of(
                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "-XX:TieredStopAtLevel=1",
                "-Xmx512m",
                "-cp",
                System.getProperty(
                    "surefire.test.class.path", System.getProperty("java.class.path")),
                LocalRun.class.getName()));
    command.addAll(List.of(arguments));
    ProcessBuilder builder =
        new ProcessBuilder(command).redirectErrorStream(true).redirectOutput(output.toFile());
    builder
        .environment()
        .keySet()
        .removeIf(
            name ->
                name.matches(
                    "(TWINBOX|SPRING|GOOGLE|PUBSUB|BIGQUERY)_.*|(TOPIC|SUBSCRIPTION)_NAME"));
    return builder.start();
  }
}
