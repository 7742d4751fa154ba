package io.twinbox.promises;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.util.Arrays;
import java.util.Map;
import java.util.stream.IntStream;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.springframework.context.ConfigurableApplicationContext;

/**
 * Every promise of consume once more, with up to twenty messages in a transaction; and what batches
 * alone can break.
 */
class ConsumeInBatchesPromisesTest extends ConsumePromisesTest {

  @Override
  protected ConfigurableApplicationContext start(
      Class<?> application, String routes, String... settings) {
    return super.start(
        application,
        routes,
        Stream.concat(Stream.of("twinbox.consume.batch-size=20"), Arrays.stream(settings))
            .toArray(String[]::new));
  }

  @Test
  void messagesOfABatchShareOneTransaction() throws IOException {
    createTopicAndSubscription();
    jdbc.execute("ALTER TABLE effect ADD COLUMN tx bigint DEFAULT txid_current()");
    for (int i = 0; i < 200; i++) {
      publish("event %03d".formatted(i), Map.of("outbox_id", "id-" + i));
    }
    start("consume", "twinbox.consume.concurrency=2");

    eventually().until(() -> count("effect") == 200 && backlog() == 0);
    assertThat(jdbc.queryForObject("SELECT count(DISTINCT tx) FROM effect", Integer.class))
        .isLessThan(100);
  }

  @Test
  void failedMessageOfABatchTakesNeitherItsMatesNorItsKeyWithIt() throws IOException {
    createTopicAndSubscription();
    topicFile(
        "post.sql",
        """
        -- Posts, and then fails for every tenth event.
        WITH posted AS (
          INSERT INTO effect (what) VALUES (convert_from(:#${body}, 'UTF8')) RETURNING what)
        SELECT 1 / CAST(right(what, 1) AS int) FROM posted
        """);
    for (int i = 0; i < 100; i++) {
      publish("event %03d".formatted(i), Map.of("outbox_id", "id-" + i));
    }
    start("consume", "twinbox.consume.max-attempts=3");

    eventually().until(() -> count("transactional_inbox_dead_letter") == 10 && backlog() == 0);
    assertThat(effects())
        .containsExactlyElementsOf(
            IntStream.range(0, 100)
                .filter(i -> i % 10 != 0)
                .mapToObj("event %03d"::formatted)
                .toList());
    assertThat(count("transactional_inbox")).isEqualTo(90);
    assertThat(
            jdbc.queryForList(
                "SELECT DISTINCT attempts FROM transactional_inbox_dead_letter", Integer.class))
        .containsExactly(3);
  }

  @Test
  void batchThatDoesNotCommitIsAppliedOneByOne() throws IOException {
    createTopicAndSubscription();
    // Fails at commit, when nobody can tell which message it was.
    jdbc.execute(
        """
        CREATE FUNCTION refuse_bad() RETURNS trigger LANGUAGE plpgsql AS $$
        BEGIN
          IF NEW.what = 'bad' THEN
            RAISE EXCEPTION 'refused at commit';
          END IF;
          RETURN NULL;
        END $$
        """);
    jdbc.execute(
        "CREATE CONSTRAINT TRIGGER refuse_bad AFTER INSERT ON effect DEFERRABLE INITIALLY DEFERRED FOR EACH ROW EXECUTE FUNCTION refuse_bad()");
    for (int i = 0; i < 40; i++) {
      publish(i == 20 ? "bad" : "event %03d".formatted(i), Map.of("outbox_id", "id-" + i));
    }
    start("consume", "twinbox.consume.max-attempts=2");

    eventually().until(() -> count("transactional_inbox_dead_letter") == 1 && backlog() == 0);
    assertThat(effects()).hasSize(39).doesNotContain("bad").doesNotHaveDuplicates();
    assertThat(count("transactional_inbox")).isEqualTo(39);
  }
}
