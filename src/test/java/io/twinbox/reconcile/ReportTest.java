package io.twinbox.reconcile;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.charset.StandardCharsets;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/**
 * What a report says is pasted into a shell and shown on a terminal, and BigQuery's rows are in it.
 */
class ReportTest {

  @ParameterizedTest
  @ValueSource(
      strings = {
        "2026-01-01T00:00:00Z",
        "a b $(id) `id` \\ \"",
        "'; echo pwned; '",
        "it's\\'; echo \\x41",
        "a\u0001",
        "a\n\tb\u001b[2Jc",
        "\u00e4\u20ac \ud83d\ude00'"
      })
  void aPastedWordIsOneWordOfTheShell(String text) throws IOException {
    Process shell =
        new ProcessBuilder("bash", "-c", "printf '%s|' " + Report.word(text))
            .redirectErrorStream(true)
            .start();
    assertThat(new String(shell.getInputStream().readAllBytes(), StandardCharsets.UTF_8))
        .isEqualTo(text + "|");
  }

  @Test
  void aKeyCannotWriteLinesOfItsOwn() {
    assertThat(Report.plain("k\r\nReconciled: all.\u001b[2K\u202e"))
        .isEqualTo("k Reconciled: all.\uFFFD[2K\uFFFD");
  }
}
