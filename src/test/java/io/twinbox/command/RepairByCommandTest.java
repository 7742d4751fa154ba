package io.twinbox.command;

import static org.assertj.core.api.Assertions.assertThat;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.twinbox.local.LocalPostgres;
import io.twinbox.promises.PromiseTest;
import java.lang.management.ManagementFactory;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import javax.management.ObjectName;
import org.junit.jupiter.api.Test;

/** The repairs as a person types them, and each of the three ways to replay a dead letter. */
class RepairByCommandTest extends PromiseTest {

  private CommandRun command(String... words) {
    List<String> all = new ArrayList<>(List.of(words));
    all.add("--spring.datasource.url=" + databaseUrl);
    all.add("--spring.datasource.username=" + LocalPostgres.USER);
    all.add("--spring.datasource.password=" + LocalPostgres.PASSWORD);
    return CommandRun.of(all.toArray(String[]::new));
  }

  private String done(String... words) {
    CommandRun run = command(words);
    assertThat(run.exitCode()).as(run.err()).isZero();
    assertThat(run.err()).isEmpty();
    return run.out().strip();
  }

  private void die(UUID id, String error) {
    jdbc.update(
        """
        UPDATE pubsub_outbox_due
        SET dead_at = clock_timestamp(), attempts = 10, last_error = ?, claim_token = NULL, lock_id = NULL, locked_at = NULL
        WHERE seq = (SELECT seq FROM pubsub_outbox WHERE id = ?)
        """,
        error,
        id);
  }

  private String state(UUID id) {
    return jdbc.queryForObject(
        "SELECT state FROM pubsub_outbox_status WHERE id = ?", String.class, id);
  }

  private static final String WHY = "--reason=INC-7";
  private static final String WHO = "--who=mia";

  @Test
  void outboxIsRepaired() throws Exception {
    UUID one = put("one");
    UUID two = put("two");
    UUID three = put("three");
    die(one, "refused");
    die(two, "too large");
    die(three, "too large");
    JsonNode dead =
        new ObjectMapper()
            .readTree(done("outbox", "dead", "--topic=orders", "--error-like=REFUSED", "--json"));
    assertThat(dead).hasSize(1);
    assertThat(dead.get(0).get("id").asText()).isEqualTo(one.toString());
    assertThat(dead.get(0).get("dead_at").asText()).matches("\\d{4}-\\d\\d-\\d\\dT.*Z");
    assertThat(done("outbox", "dead", "--topic", "orders").lines()).hasSize(4);
    assertThat(done("outbox", "backlog")).contains("orders");

    // Without --yes nothing happens, and it is said what would.
    assertThat(done("outbox", "replay", "--topic=orders", WHY, WHO))
        .startsWith("Tried and taken back: Queued again: 3.")
        .endsWith("Add --yes to do it.");
    assertThat(done("outbox", "discard", one + "," + two, WHY, WHO)).contains("Discarded: 2.");
    assertThat(List.of(state(one), state(two), state(three))).containsOnly("dead");
    assertThat(count("twinbox_audit")).isZero();

    assertThat(done("outbox", "replay", one.toString(), WHY, WHO, "--yes"))
        .isEqualTo("Queued again: 1.");
    assertThat(
            done(
                "outbox",
                "replay",
                "--topic=orders",
                "--error-like=large",
                "--max-rows=1",
                WHY,
                WHO,
                "--yes"))
        .startsWith("Queued again: 1.")
        .endsWith("More match: run it again.");
    assertThat(state(two)).isEqualTo("due");
    assertThat(done("outbox", "discard", "--topic=orders", WHY, WHO, "--yes"))
        .isEqualTo("Discarded: 1.");
    assertThat(state(three)).isEqualTo("discarded");
    assertThat(done("outbox", "republish", three.toString(), WHY, WHO, "--yes"))
        .startsWith("Queued again: 1.");
    assertThat(state(three)).isEqualTo("due");
    assertThat(
            jdbc.queryForList(
                "SELECT action || ' ' || who || ' ' || reason FROM twinbox_audit ORDER BY id",
                String.class))
        .containsExactly(
            "outbox_replay_ids mia INC-7",
            "outbox_replay mia INC-7",
            "outbox_discard mia INC-7",
            "outbox_republish_ids mia INC-7");
    assertThat(done("outbox", "audit", "--topic=orders")).contains("outbox_discard", "mia");
  }

  @Test
  void databaseSaysWhyItRefuses() {
    UUID unknown = UUID.randomUUID();
    CommandRun run = command("outbox", "replay", unknown.toString(), WHY, WHO, "--yes");
    assertThat(run.exitCode()).isEqualTo(Commands.FINDINGS);
    assertThat(run.err()).contains(unknown + " is unknown. Only dead").doesNotContain("PL/pgSQL");
    run = command("outbox", "republish", "--topic=orders", "--from=yesterday", WHY, WHO);
    assertThat(run.exitCode()).isEqualTo(Commands.USAGE);
    assertThat(run.err()).contains("--from 'yesterday' is no time with a zone");
    run = command("outbox", "republish", WHY, WHO);
    assertThat(run.exitCode()).isEqualTo(Commands.USAGE);
    run = command("inbox", "replay", "17", WHY, "--who= ", "--yes");
    assertThat(run.exitCode()).isEqualTo(Commands.USAGE);
    assertThat(run.err()).contains("--who is blank");
    run = command("inbox", "discard", "17", WHY, WHO, "--yes");
    assertThat(run.exitCode()).isEqualTo(Commands.FINDINGS);
    assertThat(run.err()).contains("17 is unknown");
    // The functions' hints, in the words of the command line.
    assertThat(command("outbox", "discard", "--topic=orders", WHY, WHO).err())
        .contains("`outbox discard`: topic orders has no dead event")
        .contains("`outbox dead` lists the dead events.")
        .doesNotContain("outbox_", "JMX");
    assertThat(command("inbox", "replay", "--consumer=ledger", WHY, WHO).err())
        .contains("`inbox dead` lists them. Letters without a key need `inbox assign-key` first")
        .doesNotContain("inbox_", "JMX");
    assertThat(command("outbox", "replay", "--topic=orders", "--per-second=0", WHY, WHO).err())
        .contains("--per-second is 0; give 1 or more");
    assertThat(count("twinbox_audit")).isZero();
  }

  /** One letter by each way, side by side: each takes effect once, each is in the audit trail. */
  @Test
  void deadLettersAreReplayedBySqlByJmxAndByCommand() throws Exception {
    createTopicAndSubscription();
    jdbc.execute("ALTER TABLE effect RENAME TO hidden");
    start(
        "consume",
        "spring.jmx.enabled=true",
        "twinbox.consume.max-attempts=1",
        "twinbox.consume.replay-interval=20ms");
    for (String name : List.of("sql", "jmx", "command", "given up")) {
      publish(name, Map.of("outbox_id", "key of " + name));
    }
    eventually().until(() -> count("transactional_inbox_dead_letter") == 4 && backlog() == 0);
    jdbc.execute("ALTER TABLE hidden RENAME TO effect");
    assertThat(done("inbox", "dead", "--consumer=ledger")).contains("key of sql", "key of jmx");

    jdbc.queryForObject(
        "SELECT inbox_replay_ids(ARRAY[CAST(? AS bigint)], 'INC-7', 'mia by sql')",
        Long.class,
        letter("key of sql"));
    ManagementFactory.getPlatformMBeanServer()
        .invoke(
            new ObjectName("io.twinbox:type=Inbox,consumer=ledger"),
            "replayIds",
            new Object[] {letter("key of jmx"), "INC-7", "mia by jmx"},
            new String[] {String.class.getName(), String.class.getName(), String.class.getName()});
    String id = letter("key of command");
    assertThat(done("inbox", "replay", id, WHY, "--who=mia by command"))
        .contains("Replays asked for: 1.", "Nothing was changed");
    assertThat(done("inbox", "replay", id, WHY, "--who=mia by command", "--yes"))
        .isEqualTo("Replays asked for: 1.");
    assertThat(done("inbox", "discard", letter("key of given up"), WHY, WHO, "--yes"))
        .isEqualTo("Discarded: 1.");

    eventually().until(() -> count("effect") == 3);
    assertThat(effects()).containsExactly("command", "jmx", "sql");
    eventually()
        .until(
            () ->
                jdbc.queryForList(
                        "SELECT closed_by FROM transactional_inbox_dead_letter WHERE closed_as = 'replayed' ORDER BY 1",
                        String.class)
                    .equals(List.of("mia by command", "mia by jmx", "mia by sql")));
    assertThat(
            jdbc.queryForList(
                "SELECT who FROM twinbox_audit WHERE action = 'inbox_replay_ids' ORDER BY 1",
                String.class))
        .containsExactly("mia by command", "mia by jmx", "mia by sql");
    assertThat(done("inbox", "dead", "--consumer=ledger")).isEqualTo("None.");
  }

  private String letter(String key) {
    return jdbc.queryForObject(
        "SELECT CAST(id AS text) FROM transactional_inbox_dead_letter WHERE idempotency_key = ?",
        String.class,
        key);
  }
}
