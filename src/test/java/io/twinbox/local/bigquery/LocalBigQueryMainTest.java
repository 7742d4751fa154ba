package io.twinbox.local.bigquery;

import static io.twinbox.local.bigquery.Clients.row;
import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import com.google.cloud.bigquery.BigQuery;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.concurrent.TimeUnit;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;

/** The local BigQuery as a real process. */
class LocalBigQueryMainTest {
  private static final String LISTENING = "Local BigQuery listening on ";

  @TempDir private Path folder;
  private Process process;

  @AfterEach
  void end() {
    if (process != null) {
      process.destroyForcibly();
    }
  }

  private void start(String... arguments) throws IOException {
    String path =
        System.getProperty("surefire.test.class.path", System.getProperty("java.class.path"));
    List<String> command =
        new ArrayList<>(
            List.of(
                Path.of(System.getProperty("java.home"), "bin", "java").toString(),
                "-Xmx256m",
                "-cp",
                path,
                LocalBigQueryMain.class.getName()));
    command.addAll(List.of(arguments));
    process =
        new ProcessBuilder(command)
            .redirectOutput(folder.resolve("out").toFile())
            .redirectError(folder.resolve("err").toFile())
            .start();
  }

  private String output(String name) {
    try {
      return Files.readString(folder.resolve(name));
    } catch (IOException e) {
      throw new IllegalStateException(e);
    }
  }

  @Test
  void theProcessPrintsItsAddressAndServesTheTablesItWasGiven() throws Exception {
    Path schema = folder.resolve("schema.json");
    Path rows = folder.resolve("rows.ndjson");
    Files.writeString(schema, "[{\"name\":\"a\",\"type\":\"STRING\"}]");
    Files.writeString(rows, "{\"a\":\"ä\"}\n{\"a\":\"b\"}\n", StandardCharsets.UTF_8);
    start(
        "--port",
        "0",
        "--project",
        "child",
        "--table",
        "d.letters=" + schema + "," + rows,
        "--table",
        "d.none=" + schema,
        "--invoices",
        "40");
    await()
        .atMost(Duration.ofSeconds(60))
        .until(() -> output("out").contains("\n") || !process.isAlive());
    assertThat(output("out")).as(output("err")).startsWith(LISTENING + "http://127.0.0.1:");
    String url = output("out").lines().findFirst().orElseThrow().substring(LISTENING.length());
    BigQuery client = Clients.at(url, "child").build().getService();
    assertThat(row(client, "SELECT MAX(a) FROM d.letters").get(0).getStringValue()).isEqualTo("ä");
    assertThat(row(client, "SELECT COUNT(*) FROM d.none").get(0).getLongValue()).isZero();
    assertThat(row(client, "SELECT COUNT(*) FROM billing.invoices").get(0).getLongValue())
        .isEqualTo(40);
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      textBlock =
          """
          --port x      | --port needs a whole number from 0 to 65535, not x
          --port        | --port needs a value
          --prot 1      | Unknown option: --prot
          --table x=y   | --table needs dataset.table=schema.json[,rows.ndjson], not x=y
          --table a.b=no/such.json | --table: cannot read the file no/such.json
          """)
  void aWrongArgumentIsNamedAndEndsTheProcessWithTwo(String arguments, String message)
      throws Exception {
    start(arguments.strip().split(" "));
    assertThat(process.waitFor(20, TimeUnit.SECONDS)).isTrue();
    assertThat(process.exitValue()).isEqualTo(2);
    assertThat(output("err")).startsWith(message + "\n").contains("Usage:");
    assertThat(output("out")).isEmpty();
  }

  @Test
  void aWrongSchemaEndsTheProcessWithOneAndItsReason() throws Exception {
    Path schema = folder.resolve("schema.json");
    Files.writeString(schema, "[{\"name\":\"a\",\"type\":\"TEXT\"}]");
    start("--table", "d.t=" + schema);
    assertThat(process.waitFor(20, TimeUnit.SECONDS)).isTrue();
    assertThat(process.exitValue()).isEqualTo(1);
    assertThat(output("err")).contains("a: unknown type \"TEXT\"");
  }
}
