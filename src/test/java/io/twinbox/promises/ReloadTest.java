package io.twinbox.promises;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.List;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.springframework.boot.test.system.CapturedOutput;
import org.springframework.boot.test.system.OutputCaptureExtension;

/** Edits while it runs: right ones take effect, wrong ones change nothing and are explained. */
@ExtendWith(OutputCaptureExtension.class)
class ReloadTest extends ProduceTest {

  private int events;

  private String post(String prefix) {
    return """
    -- Posts the payload's text.
    INSERT INTO effect (what) VALUES ('%s ' || convert_from(:#${body}, 'UTF8'))
    """
        .formatted(prefix);
  }

  /** Emits events until one of them is applied with this prefix. */
  private void awaitEffect(String prefix) {
    eventually()
        .until(
            () -> {
              put("event " + ++events);
              return effects().stream().anyMatch(effect -> effect.startsWith(prefix));
            });
  }

  /** Emits one event and returns what it did. */
  private String effectOfOne() {
    String event = "event " + ++events;
    put(event);
    eventually().until(() -> effects().stream().anyMatch(effect -> effect.endsWith(event)));
    return effects().stream().filter(effect -> effect.endsWith(event)).findFirst().orElseThrow();
  }

  @Test
  void rightEditsAreTakenOverAndWrongOnesLeaveTheLastGoodOneRunning(CapturedOutput output)
      throws Exception {
    createTopicAndSubscription();
    topicFile("post.sql", post("first"));
    start("dispatch,consume", "twinbox.reload=true", "logging.level.io.twinbox.reload=INFO");
    awaitEffect("first");

    topicFile("post.sql", post("second"));
    awaitEffect("second");

    // A table that is not there: what PostgreSQL says about a statement that nobody has run.
    topicFile("post.sql", post("third").replace("effect", "efect"));
    eventually()
        .until(() -> output.getOut().contains("post.sql:2: PostgreSQL says: relation \"efect\""));
    assertThat(output.getOut()).contains("is not taken over; what ran before it runs on");
    assertThat(effectOfOne()).startsWith("second");

    // No YAML; Camel alone would have taken the route away by now.
    topicFile("handle.camel.yaml", POSTING_HANDLER.replace("uri: direct", "uri: direct: x: y"));
    topicFile("post.sql", post("fourth"));
    eventually().until(() -> output.getOut().contains("handle.camel.yaml:5: invalid YAML"));
    assertThat(effectOfOne()).startsWith("second");

    // A rule: outside of the transaction.
    topicFile("handle.camel.yaml", POSTING_HANDLER.replace("uri: sql", "uri: jdbc"));
    eventually().until(() -> output.getOut().contains("handle.camel.yaml:11: route orders-handle"));
    assertThat(effectOfOne()).startsWith("second");

    // Both mended.
    topicFile("handle.camel.yaml", POSTING_HANDLER);
    awaitEffect("fourth");
    topicFile(
        "post.sql",
        post("fifth").replace("convert_from(:#${body}, 'UTF8')", "CAST(:#${body} AS text)"));
    topicFile(
        "handle.camel.yaml",
        POSTING_HANDLER.replace(
            "        - to:\n",
            "        - setBody:\n            id: orders-fifth\n            expression:\n              simple:\n                expression: \"by route ${bodyAs(String)}\"\n        - to:\n"));
    awaitEffect("fifth by route");
    assertThat(count("transactional_inbox_failure")).isZero();
  }

  @Test
  void rightEditOfTheQueryIsTakenOverAndAWrongOneLeavesTheLastGoodOne(CapturedOutput output)
      throws Exception {
    row("a", "payload a", "2026-03-01T10:00:00Z");
    startProduce("twinbox.reload=true", "logging.level.io.twinbox.reload=INFO");
    run();
    assertThat(queued()).containsExactly("payload a");

    topicFile("query.sql", QUERY.formatted(table).replace("payload,", "paylod,"));
    eventually().until(() -> output.getOut().contains("query.sql:2: Unrecognized name: paylod"));
    row("b", "payload b", "2026-03-01T10:00:01Z");
    run();
    assertThat(queued()).containsExactlyInAnyOrder("payload a", "payload b");

    topicFile(
        "query.sql",
        QUERY.formatted(table).replace("payload,", "CONCAT('edited ', payload) AS payload,"));
    eventually().until(() -> output.getOut().contains("query.sql is taken over"));
    row("c", "payload c", "2026-03-01T10:00:02Z");
    run();
    assertThat(queued()).contains("edited payload c");
  }

  @Test
  void deploymentsTakeNothingOver(CapturedOutput output) throws Exception {
    createTopicAndSubscription();
    topicFile("post.sql", post("first"));
    start("dispatch,consume");
    awaitEffect("first");
    topicFile("post.sql", post("second"));
    for (int i = 0; i < 5; i++) {
      assertThat(effectOfOne()).startsWith("first");
    }
    assertThat(List.of(output.getOut().split("\n"))).noneMatch(line -> line.contains("reload"));
  }
}
