package io.twinbox.routes;

import io.twinbox.config.StartupException;
import java.util.List;
import java.util.stream.Collectors;

/**
 * Route files that were refused before Camel saw them. The message is written for operators: a
 * summary, then one line per finding; no stack trace is needed to act on it.
 */
public class InvalidRoutesException extends StartupException {
  private static final long serialVersionUID = 1L;

  private final transient List<Finding> findings;

  public InvalidRoutesException(List<Finding> findings) {
    super(
        message(findings),
        "Correct what each line names; a line says file, line, route, step, what is wrong and what to write instead.");
    this.findings = List.copyOf(findings);
  }

  public List<Finding> findings() {
    return findings;
  }

  private static String message(List<Finding> findings) {
    long files = findings.stream().map(Finding::file).distinct().count();
    return findings.stream()
        .map(Finding::toString)
        .collect(
            Collectors.joining(
                "\n  ",
                "%s in %s. Nothing was started; correct these and start again:%n  "
                    .formatted(count(findings.size(), "fault"), count(files, "file"))
                    .replace("\r\n", "\n"),
                ""));
  }

  private static String count(long n, String noun) {
    return n + " " + noun + (n == 1 ? "" : "s");
  }
}
