package io.twinbox.routes;

import java.util.Comparator;

/**
 * One reason to refuse a route file. {@link #toString()} is the line that operators read, in the
 * {@code file:line:} form that editors and CI turn into links.
 *
 * @param line counted from 1
 * @param routeId null when the file has no route, or the route no id
 * @param stepId the step's id, or its name when it has none; null when the route as a whole is
 *     meant
 * @param problem what would go wrong, without a full stop
 * @param remedy what to write instead, as sentences
 */
public record Finding(
    String file, int line, String routeId, String stepId, String problem, String remedy) {

  /** Reading order: file, line, then text, so that a report never changes between two runs. */
  static final Comparator<Finding> ORDER =
      Comparator.comparing(Finding::file)
          .thenComparingInt(Finding::line)
          .thenComparing(Finding::toString);

  @Override
  public String toString() {
    StringBuilder out = new StringBuilder().append(file).append(':').append(line).append(": ");
    if (routeId != null) {
      out.append("route ").append(routeId);
    }
    if (stepId != null) {
      out.append(routeId == null ? "" : ", ").append("step ").append(stepId);
    }
    if (routeId != null || stepId != null) {
      out.append(": ");
    }
    return out.append(problem).append(". ").append(remedy).toString();
  }
}
