package io.twinbox.command;

import static org.assertj.core.api.Assertions.assertThat;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import java.nio.file.Files;
import java.nio.file.Path;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;

/** What a pipeline sees of {@code check}; what it finds is shown by TopicCheckTest. */
class CheckCommandTest {

  @TempDir Path folder;

  @Test
  void goodFolderIsGoodWithoutAnyService() {
    CommandRun run = CommandRun.of("check", "topics/invoices");
    assertThat(run.exitCode()).as(run.out() + run.err()).isZero();
    assertThat(run.out())
        .contains("route sets produce, dispatch, consume, maintain")
        .contains(
            "Not looked at: the database", "Not looked at: BigQuery", "Not looked at: Pub/Sub")
        .endsWith("Good.\n");
    assertThat(run.err()).isEmpty();
    // A setting says where the folder is as well.
    assertThat(CommandRun.of("check", "--twinbox.topic-dir=topics/invoices").exitCode()).isZero();
  }

  @Test
  void findingsAreLinesOrJson() throws Exception {
    Files.writeString(folder.resolve("topic.properties"), "topic.name=orders\ntwinbox.sauce=x\n");
    CommandRun run = CommandRun.of("check", folder.toString());
    assertThat(run.exitCode()).isEqualTo(Commands.FINDINGS);
    assertThat(run.out().lines().findFirst().orElseThrow())
        .startsWith(folder + "/topic.properties:2: ")
        .contains("twinbox.sauce", "Nearest to twinbox.sauce is twinbox.source");
    run = CommandRun.of("check", folder.toString(), "--json");
    assertThat(run.exitCode()).isEqualTo(Commands.FINDINGS);
    JsonNode json = new ObjectMapper().readTree(run.out());
    assertThat(json.get("good").asBoolean()).isFalse();
    assertThat(json.at("/findings/0/line").asInt()).isEqualTo(2);
    assertThat(json.at("/findings/0/remedy").asText()).isNotEmpty();
  }

  @Test
  void serviceThatIsAwayIsNoFinding() {
    CommandRun run =
        CommandRun.of(
            "check",
            "topics/invoices",
            "--database",
            "--spring.datasource.url=jdbc:postgresql://127.0.0.1:1/none");
    assertThat(run.exitCode()).isEqualTo(Commands.COULD_NOT_LOOK);
    assertThat(run.out()).contains("Could not be looked at: The database at", "not all was seen");
    run = CommandRun.of("check", "topics/invoices", "--database");
    assertThat(run.exitCode()).isEqualTo(Commands.USAGE);
    assertThat(run.err()).contains("SPRING_DATASOURCE_URL");
  }
}
