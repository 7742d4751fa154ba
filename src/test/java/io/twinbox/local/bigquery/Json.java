package io.twinbox.local.bigquery;

import com.fasterxml.jackson.core.JsonFactory;
import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.StreamReadConstraints;
import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.json.JsonMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.DoubleNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.math.BigDecimal;

/** JSON whose numbers stay what they were written as: a double would round NUMERIC and INT64. */
final class Json {
  static final JsonMapper MAPPER =
      JsonMapper.builder(
              JsonFactory.builder()
                  .streamReadConstraints(
                      StreamReadConstraints.builder().maxStringLength(100_000_000).build())
                  .build())
          .enable(DeserializationFeature.USE_BIG_DECIMAL_FOR_FLOATS)
          .enable(DeserializationFeature.FAIL_ON_TRAILING_TOKENS)
          .nodeFactory(JsonNodeFactory.withExactBigDecimals(true))
          .build();

  private Json() {}

  static JsonNode parse(String text) {
    try {
      return MAPPER.readTree(text);
    } catch (JsonProcessingException e) {
      throw ApiError.invalid("Not JSON: " + e.getOriginalMessage());
    }
  }

  /**
   * What BigQuery's JSON type stores: compact, and a fraction as the shortest text of a FLOAT64.
   */
  static String normalise(JsonNode json) {
    return shortenFractions(json).toString();
  }

  private static JsonNode shortenFractions(JsonNode json) {
    if (json instanceof ObjectNode object) {
      object.properties().forEach(field -> field.setValue(shortenFractions(field.getValue())));
    } else if (json instanceof ArrayNode array) {
      for (int i = 0; i < array.size(); i++) {
        array.set(i, shortenFractions(array.get(i)));
      }
    } else if (json.isBigDecimal()) {
      double number = json.doubleValue();
      boolean exact =
          Double.isFinite(number) && BigDecimal.valueOf(number).compareTo(json.decimalValue()) == 0;
      return exact ? DoubleNode.valueOf(number) : json;
    }
    return json;
  }
}
