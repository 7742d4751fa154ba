package io.twinbox.config;

import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.boot.diagnostics.FailureAnalysis;
import org.springframework.boot.diagnostics.FailureAnalysisReporter;

/**
 * Says why the process does not start as one log record: what, where, what to do. It takes the
 * place of Spring Boot's banner, whose lines a log collector tears apart. The stack trace is there
 * with {@code LOGGING_LEVEL_IO_TWINBOX=DEBUG}.
 */
class OneMessageReporter implements FailureAnalysisReporter {

  private static final Logger log = LoggerFactory.getLogger("io.twinbox.startup");

  @Override
  public void report(FailureAnalysis analysis) {
    String action = analysis.getAction();
    log.error(
        "Twinbox does not start. {}{}",
        analysis.getDescription().strip(),
        action == null || action.isBlank() ? "" : "\n  What to do: " + action.strip());
    log.debug("The failure in full", analysis.getCause());
  }
}
