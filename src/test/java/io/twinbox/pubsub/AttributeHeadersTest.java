package io.twinbox.pubsub;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class AttributeHeadersTest {

  private final AttributeHeaders headers = new AttributeHeaders();

  @ParameterizedTest
  @ValueSource(
      strings = {"outbox_id", "type", "traceparent", "Content-Type", "_x", "a.b", "camera"})
  void attributeReachesTheHandlerUnderItsOwnName(String name) {
    assertThat(headers.applyFilterToExternalHeaders(name, "value", null)).isFalse();
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "CamelSqlQuery",
        "CAMELSqlQuery",
        "camelsqlquery",
        "Camel",
        "org.apache.camel.x",
        "Org.Apache.Camel.x",
        "googclient_deliveryattempt",
        "GOOG-x",
        "x-goog-y",
        "breadcrumbId",
        "BREADCRUMBID"
      })
  void nameThatSteersCamelOrIsPubSubsOwnDoesNot(String name) {
    assertThat(headers.applyFilterToExternalHeaders(name, "value", null)).isTrue();
  }

  @ParameterizedTest
  @ValueSource(strings = {"", " ", "a b", "${body}", "a]b", "1st", "a\nb", "größe"})
  void nameOfAnotherFormDoesNot(String name) {
    assertThat(headers.applyFilterToExternalHeaders(name, "value", null)).isTrue();
  }

  @Test
  void nameIsAtMostAsLongAsAnAttributesMayBe() {
    assertThat(headers.applyFilterToExternalHeaders("a".repeat(256), "value", null)).isFalse();
    assertThat(headers.applyFilterToExternalHeaders("a".repeat(257), "value", null)).isTrue();
  }
}
