package io.twinbox.routes;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.List;
import java.util.Optional;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;

/** What Camel can read is let pass, what it cannot is named; both as it stands in a handler. */
class LoadRulesTest {

  private static List<Finding> check(String step, String statement) {
    return LoadRules.check(
        List.of(
            new RouteFile(
                "orders-handle.camel.yaml",
                """
                - route:
                    id: orders-handle
                    from:
                      uri: direct
                      parameters:
                        name: handle
                      steps:
                        %s
                        - to:
                            id: orders-post
                            uri: sql
                            parameters:
                              query: file:post.sql
                """
                    .formatted(step.indent(8).strip()),
                Kind.HANDLER)),
        Surroundings.of(
            name -> Optional.ofNullable(name.equals("topic.name") ? "orders" : null),
            reference -> Optional.of(statement)));
  }

  private static List<Finding> expression(String text) {
    return check(
        """
        - setProperty:
            id: orders-set
            name: x
            simple:
              expression: >-
                %s
        """
            .formatted(text),
        "-- Nothing.\nSELECT 1\n");
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "plain text",
        "${body}",
        "${body[total]}",
        "${body[customer][id]}",
        "${body['customer']['id']}",
        "${body.customer.name}",
        "${body?.customer?.name}",
        "${body.get(0)}",
        "${bodyAs(java.lang.String)}",
        "${mandatoryBodyAs(String)}",
        "${bodyOneLine}",
        "${header.event_type}",
        "${header[event-type]}",
        "${header['event.type']}",
        "${headers.event_type}",
        "${headerAs(quantity, java.lang.Integer)}",
        "${header.CamelGooglePubsubAttributes[traceparent]}",
        "${exchangeProperty.idempotencyKey}",
        "${exchangeProperty[rows]}",
        "${variable.total}",
        "${exception.message}",
        "${exchangeId} of ${routeId} ${camelId} ${threadName}",
        "${properties:topic.name}",
        "${properties:absent:given}",
        "${sys.user.home} ${env.HOME} ${env:HOME}",
        "${date:now:yyyy-MM-dd}",
        "${date:exchangeCreated:HH}",
        "${date-with-timezone:now:UTC:yyyy-MM-dd}",
        "${bean:handlers?method=name}",
        "${bean:handlers.name}",
        "${type:io.twinbox.check.TopicCheck}",
        "${ref:handlers}",
        "${random(1,10)} ${uuid} ${hash(body)}",
        "${header.a} == 1 && ${body} contains 'x'",
        "${header.a} ?: 'none'",
        "{ 'a': '${header.a}' }",
        "${header.{{topic.name}}}",
        "${body.get(${header.i})}",
        "$simple{header.a}",
        "costs $5, {not} one",
      })
  void whatCamelReadsIsLetPass(String text) {
    assertThat(expression(text)).isEmpty();
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "${body}",
        "${body[total]}",
        "${header.a}",
        "${exchangeProperty.a}",
        "${properties:topic.name}",
        "$simple{body}",
        "${body?.total}",
        "${bodyAs(String)}",
      })
  void whatCamelReadsInAStatementIsLetPass(String parameter) {
    assertThat(check("", "-- Adds.\nSELECT CAST(:#%s AS text)\n".formatted(parameter))).isEmpty();
    assertThat(check("", "-- Adds.\nSELECT 1 WHERE 'a' IN (:#in:%s)\n".formatted(parameter)))
        .isEmpty();
  }

  @ParameterizedTest
  @CsvSource({
    "${bdy}, Unknown function: bdy",
    "${header}x, Unknown function: header",
    "${boddy[total]}, Unknown function: boddy[total]",
    "a ${hedder.x} b, Unknown function: hedder.x",
  })
  void whatCamelCannotReadIsNamed(String text, String said) {
    assertThat(expression(text))
        .singleElement()
        .satisfies(
            finding -> {
              assertThat(finding.stepId()).isEqualTo("orders-set");
              assertThat(finding.problem()).contains(said);
              assertThat(finding.remedy()).contains("${header.name}");
            });
  }

  @ParameterizedTest
  @ValueSource(strings = {"headers", "variables"})
  void whatCamelCannotReadIsNamedInAListToo(String list) {
    List<Finding> findings =
        check(
            """
            - set%s:
                id: orders-set
                %s:
                  - name: fine
                    simple: "${header.a}"
                  - name: fixed
                    constant: "${bdy}"
                  - name: short
                    simple: "${bdy}"
                  - name: long
                    expression:
                      simple:
                        expression: "${bdy}"
            """
                .formatted(list.substring(0, 1).toUpperCase() + list.substring(1), list),
            "-- Nothing.\nSELECT 1\n");

    assertThat(findings)
        .hasSize(2)
        .allSatisfy(
            finding -> {
              assertThat(finding.stepId()).isEqualTo("orders-set");
              assertThat(finding.problem()).contains("Camel cannot read the expression");
            });
  }

  /** In a comment or a text it is none. */
  @ParameterizedTest
  @ValueSource(
      strings = {
        "-- As :#${bdy} would be.\nSELECT 1\n",
        "-- Adds.\nSELECT ':#${bdy}'\n",
        "-- Adds.\nSELECT $$:#${bdy}$$\n",
      })
  void whatIsNoParameterIsNotRead(String statement) {
    assertThat(check("", statement)).isEmpty();
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "java.lang.String",
        "String",
        "byte[]",
        "java.util.Map",
        "int",
        "java.io.InputStream",
        "com.fasterxml.jackson.databind.JsonNode",
        "java.math.BigDecimal",
      })
  void classThatThereIsIsLetPass(String type) {
    assertThat(conversion(type)).isEmpty();
  }

  @ParameterizedTest
  @ValueSource(strings = {"java.lang.Strng", "BigDecimal", "io.twinbox.Nowhere"})
  void classThatThereIsNotIsNamed(String type) {
    assertThat(conversion(type))
        .singleElement()
        .satisfies(f -> assertThat(f.problem()).contains("there is no class `" + type + "`"));
  }

  private static List<Finding> conversion(String type) {
    return check(
        """
        - convertBodyTo:
            id: orders-convert
            type: "%s"
        """
            .formatted(type),
        "-- Nothing.\nSELECT 1\n");
  }
}
