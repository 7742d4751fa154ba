package io.twinbox.command;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The command line itself: what is a command, and what a mistake answers. */
class CommandsTest {

  @Test
  void settingsAloneStartTheRouteSets() {
    assertThat(Commands.isFor(new String[] {})).isFalse();
    assertThat(
            Commands.isFor(
                new String[] {
                  "--twinbox.routes=dispatch", "--server.port=0", "--debug", "--a.b[0].c=d e"
                }))
        .isFalse();
  }

  @ParameterizedTest
  @ValueSource(strings = {"outbox", "help", "--help", "-h", "--version", "--routes=dispatch", "x"})
  void anythingElseIsACommandOrAMistake(String arg) {
    assertThat(Commands.isFor(new String[] {"--twinbox.routes=dispatch", arg})).isTrue();
  }

  @ParameterizedTest
  @ValueSource(strings = {"help", "--help", "-h"})
  void helpSaysWhatThereIs(String arg) {
    CommandRun run = CommandRun.of(arg);
    assertThat(run.exitCode()).isZero();
    assertThat(run.out()).contains("outbox", "inbox", "Exit codes:", "3  something");
    assertThat(run.err()).isEmpty();
  }

  @Test
  void helpOfACommandSaysItsOptions() {
    assertThat(CommandRun.of("help", "outbox").out())
        .startsWith("Usage: java -jar twinbox.jar outbox [-h]")
        .contains("republish", "--topic");
    CommandRun run = CommandRun.of("outbox", "replay", "--help");
    assertThat(run.exitCode()).isZero();
    assertThat(run.out()).contains("--reason", "--who", "--yes", "--error-like");
  }

  @Test
  void mistakesAreNamedWithWhatThereIs() {
    CommandRun run = CommandRun.of("outbux");
    assertThat(run.exitCode()).isEqualTo(Commands.USAGE);
    assertThat(run.err())
        .contains(
            "There is no command `outbux`. There are: backfill, check, inbox, outbox, produce, reconcile.")
        .contains("`java -jar twinbox.jar --help`");
    run = CommandRun.of("inbox", "dad", "--consumer=ledger");
    assertThat(run.exitCode()).isEqualTo(Commands.USAGE);
    assertThat(run.err())
        .contains(
            "There is no command `dad` of inbox. There are: assign-key, audit, dead, discard,")
        .contains("`java -jar twinbox.jar inbox --help`");
    run = CommandRun.of("outbox", "dead", "--eror-like=x");
    assertThat(run.exitCode()).isEqualTo(Commands.USAGE);
    assertThat(run.err()).contains("--eror-like").contains("--error-like");
    run = CommandRun.of("outbox");
    assertThat(run.exitCode()).isEqualTo(Commands.USAGE);
    assertThat(run.err()).contains("A command is missing").contains("replay");
    run = CommandRun.of("backfill", "--from=2026-01-01");
    assertThat(run.exitCode()).isEqualTo(Commands.USAGE);
    assertThat(run.err()).contains("--until").contains("`java -jar twinbox.jar backfill --help`");
    run = CommandRun.of("outbox", "replay", "--who=mia", "--topic=orders");
    assertThat(run.exitCode()).isEqualTo(Commands.USAGE);
    assertThat(run.err()).contains("--reason");
  }

  @Test
  void missingSettingIsNamedWithOptionAndVariable() {
    CommandRun run = CommandRun.of("outbox", "dead", "--spring.datasource.url=jdbc:postgresql:x");
    assertThat(run.exitCode()).isEqualTo(Commands.USAGE);
    assertThat(run.err()).contains("TOPIC_NAME").contains("--topic");
    run = CommandRun.of("outbox", "backlog");
    assertThat(run.exitCode()).isEqualTo(Commands.USAGE);
    assertThat(run.err()).contains("SPRING_DATASOURCE_URL");
  }

  @Test
  void databaseThatIsAwayIsNoFinding() {
    CommandRun run =
        CommandRun.of(
            "outbox", "backlog", "--spring.datasource.url=jdbc:postgresql://127.0.0.1:1/billing");
    assertThat(run.exitCode()).isEqualTo(Commands.COULD_NOT_LOOK);
    assertThat(run.err()).contains("127.0.0.1:1/billing cannot be reached").contains("What to do");
  }

  /** A URL of another form often carries a password. */
  @Test
  void urlOfAnotherFormIsNotShown() {
    CommandRun run =
        CommandRun.of("outbox", "backlog", "--spring.datasource.url=postgres://u:secret@h/d");
    assertThat(run.exitCode()).isEqualTo(Commands.USAGE);
    assertThat(run.out() + run.err()).contains("no JDBC URL").doesNotContain("secret");
  }

  /** The driver's own refusal shows the URL whole. */
  @Test
  void urlThatTheDriverCannotReadIsNotShown() {
    String url = "--spring.datasource.url=jdbc:postgresql://u:s3cret@127.0.0.1/orders";
    CommandRun run = CommandRun.of("outbox", "backlog", url);
    assertThat(run.exitCode()).isEqualTo(Commands.USAGE);
    assertThat(run.out() + run.err())
        .contains("SPRING_DATASOURCE_URL", "before the host")
        .doesNotContain("s3cret");
    run = CommandRun.of("check", "topics/invoices", "--database", "--json", url);
    assertThat(run.exitCode()).isEqualTo(Commands.FINDINGS);
    assertThat(run.out() + run.err()).contains("before the host").doesNotContain("s3cret");
  }
}
