package io.twinbox.routes;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.List;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.MethodSource;

class RouteSchemaTest {
  private static final FullSchema FULL = new FullSchema();

  /** All test routes that have a node tree at all. */
  static Stream<String> routes() {
    return Stream.of("good", "bad")
        .flatMap(RouteRulesTest::routeFiles)
        .filter(
            name ->
                Stream.of("syntax", "alias", "empty", "duplicate-key", "two-documents")
                    .noneMatch(unreadable -> name.endsWith("/" + unreadable + ".camel.yaml")));
  }

  @ParameterizedTest
  @MethodSource("routes")
  void verdictIsThatOfACompleteValidator(String name) throws Exception {
    RouteFile file = RouteRulesTest.read(name);
    List<RouteSchema.Fault> ours =
        RouteSchema.instance().validate(Yaml.parse(file.name(), file.text()).orElseThrow());
    List<String> full = FULL.faults(file.text());
    assertThat(ours.isEmpty()).as("ours: %s%nfull: %s", ours, full).isEqualTo(full.isEmpty());
  }

  @Test
  void misspeltStepIsCorrected() throws Exception {
    List<RouteSchema.Fault> faults =
        RouteSchema.instance()
            .validate(
                Yaml.parse(
                        "x", "- route:\n    from:\n      uri: a\n      steps:\n      - spilt: {}\n")
                    .orElseThrow());
    assertThat(faults)
        .singleElement()
        .satisfies(
            fault -> {
              assertThat(Yaml.line(fault.at())).isEqualTo(5);
              assertThat(fault.remedy()).isEqualTo("Write `split`.");
            });
  }
}
