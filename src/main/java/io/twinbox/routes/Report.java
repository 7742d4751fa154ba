package io.twinbox.routes;

import java.util.ArrayList;
import java.util.List;
import org.snakeyaml.engine.v2.nodes.Node;

/** Collects the findings of one file, each with its route. */
final class Report {
  private final String file;
  private final List<Finding> findings = new ArrayList<>();
  private String routeId;

  Report(String file) {
    this.file = file;
  }

  void route(String id) {
    this.routeId = id;
  }

  void at(Node node, String problem, String remedy) {
    findings.add(new Finding(file, Yaml.line(node), routeId, null, problem, remedy));
  }

  void at(Node node, Step step, String problem, String remedy) {
    findings.add(new Finding(file, Yaml.line(node), routeId, step.label(), problem, remedy));
  }

  /** A finding in a file that the route refers to. */
  void elsewhere(Finding finding, Step step) {
    findings.add(
        new Finding(
            finding.file(),
            finding.line(),
            routeId,
            step == null ? null : step.label(),
            finding.problem(),
            finding.remedy()));
  }

  void add(int line, String problem, String remedy) {
    findings.add(new Finding(file, line, routeId, null, problem, remedy));
  }

  List<Finding> findings() {
    return findings.stream().distinct().sorted(Finding.ORDER).toList();
  }
}
