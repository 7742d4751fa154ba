package io.twinbox.check;

import io.twinbox.routes.Finding;
import java.util.List;

/**
 * What a check found.
 *
 * @param findings what is wrong, each with file and line, in reading order
 * @param looked what was looked at, in words
 * @param notLooked what was not, and why
 * @param unreachable what was asked for and could not be reached; then nothing is known of it
 */
public record CheckResult(
    List<Finding> findings, List<String> looked, List<String> notLooked, List<String> unreachable) {

  /** Nothing is wrong, and everything that was asked for could be looked at. */
  public boolean good() {
    return findings.isEmpty() && unreachable.isEmpty();
  }
}
