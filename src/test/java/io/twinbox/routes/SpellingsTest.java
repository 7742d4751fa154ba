package io.twinbox.routes;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.List;
import java.util.Map;
import java.util.Optional;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

/** The same fault in every spelling that YAML and Camel take. */
class SpellingsTest {
  private static final Surroundings SURROUNDINGS =
      Surroundings.of(
          key -> Optional.ofNullable(Map.of("q", "seda", "on", "true").get(key)),
          reference -> Optional.of("-- Fine.\nSELECT 1\n"));

  @ParameterizedTest
  @ValueSource(
      strings = {
        "- to: seda:x",
        "- to: \"seda:x?size=1\"",
        "- to: {id: a, uri: seda, parameters: {name: x}}",
        "- {\"to\": {\"id\": \"a\", \"uri\": \"seda:x\"}}",
        "- to:\n    id: a\n    uri: >-\n      seda:x",
        "- to:\n    id: a\n    uri: \"\\x73eda:x\"",
        "- to:\n    id: a\n    uri: ' seda:x'",
        "- to:\n    id: a\n    uri: '{{q}}:x'",
        "- to:\n    id: a\n    uri: '{{nothing:seda}}:x'",
        "- toD: seda:x",
        "- enrich: {id: a, constant: 'seda:x'}",
        "- enrich: {id: a, expression: {simple: 'seda:x'}}",
        "- enrich: {id: a, expression: {constant: {expression: 'seda:x'}}}",
        "- step: {id: a, steps: [{pipeline: {id: b, steps: [{to: {id: c, uri: seda}}]}}]}",
        "- choice: {id: a, otherwise: {steps: [{to: {id: c, uri: seda}}]}}",
        "- choice: {id: a, when: [{simple: '1 == 1', steps: [{to: {id: c, uri: seda}}]}]}",
        "- doTry: {id: a, doFinally: {steps: [{to: {id: c, uri: seda}}]}}",
        "- loop: {id: a, constant: '1', steps: [{to: {id: c, uri: seda}}]}"
      })
  void sedaIsFound(String steps) {
    assertThat(problems(steps)).anyMatch(text -> text.contains("is a queue in memory"));
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "parallelProcessing: true",
        "parallelProcessing: 'true'",
        "parallelProcessing: TRUE",
        "parallelProcessing: '{{on}}'",
        "parallelProcessing: '{{unknown}}'",
        "parallelProcessing: '{{unknown:true}}'",
        "parallelProcessing: '#bean:yes'",
        "parallelProcessing: yes"
      })
  void parallelSplitIsFound(String option) {
    assertThat(problems("- split: {id: a, constant: x, " + option + ", steps: []}"))
        .anyMatch(text -> text.contains("the parallel part runs on a thread"));
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "outputType: StreamList",
        "outputType: streamlist",
        "outputType: STREAM_LIST",
        "output-type: stream-list",
        "OUTPUTTYPE: StreamList",
        "outputType: RAW(StreamList)",
        "outputType: '{{unknown}}'",
        "outputType: '#property:x'"
      })
  void streamIsFound(String option) {
    assertThat(
            problems(
                "- to: {id: a, uri: sql, parameters: {query: 'classpath:x.sql', " + option + "}}"))
        .anyMatch(text -> text.contains("a stream reads on a second connection"));
  }

  private static List<String> problems(String steps) {
    String yaml =
        """
        - route:
            id: x-handle
            from:
              uri: direct:handle
              steps:
        """
            + steps.indent(6);
    return RouteRules.check(new RouteFile("handle.camel.yaml", yaml, Kind.HANDLER), SURROUNDINGS)
        .stream()
        .map(Finding::problem)
        .toList();
  }
}
