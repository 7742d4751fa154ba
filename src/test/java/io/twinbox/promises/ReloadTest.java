package io.twinbox.promises;

import static org.assertj.core.api.Assertions.assertThat;

import io.twinbox.local.bigquery.Faults.Call;
import java.io.BufferedWriter;
import java.nio.file.Files;
import java.nio.file.StandardCopyOption;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;
import java.util.Set;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.apache.camel.CamelContext;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.springframework.boot.test.system.CapturedOutput;
import org.springframework.boot.test.system.OutputCaptureExtension;
import org.springframework.context.ConfigurableApplicationContext;

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
  void editThatIsTakenBackIsSaidToBeWellAgain(CapturedOutput output) throws Exception {
    createTopicAndSubscription();
    topicFile("post.sql", post("first"));
    ConfigurableApplicationContext context =
        start(
            "produce,dispatch,consume",
            "bigquery.emulator.host=" + bigQuery.url(),
            "twinbox.produce.first-watermark=2020-01-01T00:00:00Z",
            "twinbox.produce.schedule=0 0 0 29 2 *",
            "twinbox.reload=true",
            "logging.level.io.twinbox.reload=INFO");
    awaitEffect("first");

    topicFile("post.sql", post("second").replace("effect", "efect"));
    awaitLine(output, "post.sql:2: PostgreSQL says: relation \"efect\"");
    // A route that is started again takes what was right, not what stands in the file.
    CamelContext camel = context.getBean(CamelContext.class);
    camel.getRouteController().stopRoute("orders-handle");
    camel.getRouteController().startRoute("orders-handle");
    assertThat(effectOfOne()).startsWith("first");
    topicFile("post.sql", post("first"));
    awaitLine(output, "Routes and statements are again what runs");

    topicFile("query.sql", "SELECT");
    awaitLine(output, "query.sql:1: Syntax error");
    bigQuery.faults().fail(Call.INSERT_JOB, 1, 403, "accessDenied");
    topicFile("query.sql", QUERY.formatted(table) + "-- Edited.");
    awaitLine(output, "query.sql:1: BigQuery could not be asked about it: ");
    topicFile("query.sql", QUERY.formatted(table));
    awaitLine(output, "query.sql is again what runs");
    assertThat(lines(output, "is taken over")).isZero();
    assertThat(lines(output, "again what runs")).isEqualTo(2);
    assertThat(lines(output, "query.sql")).as("named once a line").isEqualTo(occurrences(output));
    assertThat(effectOfOne()).startsWith("first");
  }

  private static void awaitLine(CapturedOutput output, String text) {
    eventually().until(() -> output.getOut().contains(text));
  }

  private static long lines(CapturedOutput output, String text) {
    return output.getOut().lines().filter(line -> line.contains(text)).count();
  }

  private static long occurrences(CapturedOutput output) {
    return Pattern.compile("query\\.sql").matcher(output.getOut()).results().count();
  }

  /** Files come and go as editors have it: by another name, deleted first, with files beside. */
  @Test
  void fileThatIsAwayOrComesByAnotherNameStopsNothing(CapturedOutput output) throws Exception {
    createTopicAndSubscription();
    topicFile("post.sql", post("first"));
    start("dispatch,consume", "twinbox.reload=true", "logging.level.io.twinbox.reload=INFO");
    awaitEffect("first");

    // Written beside, and moved into the place at once.
    Files.writeString(topicDir.resolve("post.sql~new"), post("second"));
    Files.move(
        topicDir.resolve("post.sql~new"),
        topicDir.resolve("post.sql"),
        StandardCopyOption.ATOMIC_MOVE);
    awaitEffect("second");

    // Half of it, in files that only an editor knows.
    topicFile(".#post.sql", "-- Half.\nINSERT");
    topicFile(".handle.camel.yaml", "- route:");
    topicFile("#handle.camel.yaml#", "- route:");
    Files.delete(topicDir.resolve(".#post.sql"));

    // Away for so long that it is noticed.
    Files.delete(topicDir.resolve("handle.camel.yaml"));
    awaitLine(output, "handle.camel.yaml:1: is missing");
    assertThat(effectOfOne()).startsWith("second");
    topicFile("handle.camel.yaml", POSTING_HANDLER);
    awaitLine(output, "are again what runs");
    Files.delete(topicDir.resolve("post.sql"));
    awaitLine(output, "there is no statement file");
    assertThat(effectOfOne()).startsWith("second");
    topicFile("post.sql", post("third"));
    awaitEffect("third");

    // Empty, as after a truncation that is never followed by the text.
    topicFile("handle.camel.yaml", "");
    awaitLine(output, "handle.camel.yaml:1: the file is empty");
    assertThat(effectOfOne()).startsWith("third");
    topicFile("handle.camel.yaml", POSTING_HANDLER);
    eventually().until(() -> lines(output, "are again what runs") == 2);
    assertThat(effectOfOne()).startsWith("third");
    assertThat(count("transactional_inbox_failure")).isZero();
  }

  /**
   * An editor that truncates and then writes piece by piece; the first pieces are a route and a
   * statement that would pass every check by themselves.
   */
  @Test
  void fileThatIsBeingWrittenIsTakenOverWholeOrNotAtAll() throws Exception {
    createTopicAndSubscription();
    topicFile("post.sql", post("first"));
    start("dispatch,consume", "twinbox.reload=true");
    awaitEffect("first");

    topicFile("too.sql", post("too"));
    String half =
        """
        -- Posts the payload's text.
        INSERT INTO effect (what) SELECT '%s ' || convert_from(:#${body}, 'UTF8')
        """;
    String step = POSTING_HANDLER.substring(POSTING_HANDLER.indexOf("        - to:"));
    for (int attempt = 0; ; attempt++) {
      String tag = "attempt " + attempt;
      topicFile("other.sql", post("route " + tag));
      boolean steady =
          piecemeal("post.sql", half.formatted(tag).strip(), " || ' whole'\n")
              & piecemeal(
                  "handle.camel.yaml",
                  POSTING_HANDLER.replace("post.sql", "other.sql"),
                  step.replace("orders-post", "orders-post-too").replace("post.sql", "too.sql"));
      awaitEffect("too");
      List<String> effects = effects();
      jdbc.update("DELETE FROM effect");
      topicFile("handle.camel.yaml", POSTING_HANDLER);
      awaitEffect(tag);
      effects.addAll(effects());
      if (steady) {
        assertThat(effects)
            .filteredOn(what -> what.startsWith(tag))
            .allMatch(w -> w.endsWith("whole"));
        assertThat(events(effects, "route " + tag + " ")).isEqualTo(events(effects, "too "));
        return;
      }
      // A machine that stops the writer for so long that the file rests has seen nothing.
      assertThat(attempt).isLessThan(20);
      jdbc.update("DELETE FROM effect");
    }
  }

  private static Set<String> events(List<String> effects, String prefix) {
    return effects.stream()
        .filter(what -> what.startsWith(prefix))
        .map(what -> what.substring(prefix.length()))
        .collect(Collectors.toSet());
  }

  /**
   * Truncates a file and writes it piece by piece, while events come.
   *
   * @return whether no pause was so long that the file could be taken for whole
   */
  private boolean piecemeal(String file, String half, String rest) throws Exception {
    List<String> pieces = new ArrayList<>(List.of(half));
    pieces.addAll(Collections.nCopies(12, "\n"));
    pieces.add(rest);
    List<Long> written = new ArrayList<>();
    ScheduledExecutorService clock = Executors.newSingleThreadScheduledExecutor();
    try (BufferedWriter writer = Files.newBufferedWriter(topicDir.resolve(file))) {
      List<Future<?>> writes = new ArrayList<>();
      for (String piece : pieces) {
        writes.add(
            clock.schedule(
                () -> {
                  writer.write(piece);
                  writer.flush();
                  return written.add(System.nanoTime());
                },
                40L * writes.size(),
                TimeUnit.MILLISECONDS));
      }
      for (Future<?> write : writes) {
        write.get(60, TimeUnit.SECONDS);
        put("event " + ++events);
      }
    } finally {
      clock.shutdownNow();
    }
    return IntStream.range(1, written.size())
        .allMatch(i -> written.get(i) - written.get(i - 1) < TimeUnit.MILLISECONDS.toNanos(125));
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
