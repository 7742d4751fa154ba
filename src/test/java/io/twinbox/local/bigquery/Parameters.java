package io.twinbox.local.bigquery;

import com.fasterxml.jackson.databind.JsonNode;
import com.google.zetasql.AnalyzerOptions;
import com.google.zetasql.LocalService.Parameter;
import com.google.zetasql.Type;
import com.google.zetasql.TypeFactory;
import com.google.zetasql.Value;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;

/** A query's parameters, decoded from the request: all named or all positional. */
final class Parameters {
  private final boolean positional;
  private final List<String> names = new ArrayList<>();
  private final List<Value> values = new ArrayList<>();

  /**
   * Reads them.
   *
   * @param json the request's {@code queryParameters}; may be absent
   */
  Parameters(JsonNode json, String parameterMode) {
    for (JsonNode parameter : json) {
      String name = parameter.path("name").asText("");
      Type type = type(parameter.path("parameterType"), name);
      names.add(name.toLowerCase(Locale.ROOT));
      values.add(value(type, parameter.path("parameterValue"), name));
    }
    positional =
        "POSITIONAL".equalsIgnoreCase(parameterMode)
            || (parameterMode == null && !names.isEmpty() && names.get(0).isEmpty());
    if (!positional && names.contains("")) {
      throw ApiError.invalid("Named and positional query parameters cannot be mixed");
    }
  }

  boolean positional() {
    return positional;
  }

  void declare(AnalyzerOptions options) {
    for (int i = 0; i < names.size(); i++) {
      options.addQueryParameter(name(i), values.get(i).getType());
    }
  }

  List<Parameter> serialise() {
    List<Parameter> parameters = new ArrayList<>();
    for (int i = 0; i < names.size(); i++) {
      parameters.add(
          Parameter.newBuilder().setName(name(i)).setValue(values.get(i).serialize()).build());
    }
    return parameters;
  }

  private String name(int index) {
    return positional ? QueryText.positionalName(index + 1) : names.get(index);
  }

  private static Type type(JsonNode json, String where) {
    String name = json.path("type").asText("").toUpperCase(Locale.ROOT);
    return switch (name) {
      case "ARRAY" -> TypeFactory.createArrayType(type(json.path("arrayType"), where));
      case "RANGE" -> TypeFactory.createRangeType(type(json.path("rangeElementType"), where));
      case "STRUCT" -> {
        List<Column> fields = new ArrayList<>();
        for (JsonNode field : json.path("structTypes")) {
          fields.add(
              new Column(field.path("name").asText(""), type(field.path("type"), where), false));
        }
        yield Column.struct(fields);
      }
      default -> Column.scalar("Query parameter '" + where + "'", name);
    };
  }

  private static Value value(Type type, JsonNode json, String where) {
    if (type.isArray()) {
      if (!json.hasNonNull("arrayValues")) {
        return Value.createNullValue(type);
      }
      List<Value> elements = new ArrayList<>();
      for (JsonNode element : json.get("arrayValues")) {
        elements.add(value(type.asArray().getElementType(), element, where));
      }
      return Value.createArrayValue(type.asArray(), elements);
    }
    if (type.isStruct()) {
      if (!json.hasNonNull("structValues")) {
        return Value.createNullValue(type);
      }
      List<Value> fields = new ArrayList<>();
      type.asStruct()
          .getFieldList()
          .forEach(
              f ->
                  fields.add(
                      value(f.getType(), json.get("structValues").path(f.getName()), where)));
      return Value.createStructValue(type.asStruct(), fields);
    }
    if (json.hasNonNull("rangeValue")) {
      JsonNode range = json.get("rangeValue");
      return ScalarText.range(
          type,
          range.path("start").path("value").asText(null),
          range.path("end").path("value").asText(null));
    }
    if (!json.hasNonNull("value")) {
      return Value.createNullValue(type);
    }
    try {
      return ScalarText.parse(type, json.get("value").asText());
    } catch (ApiError e) {
      String name = where.isEmpty() ? "" : " '" + where + "'";
      throw new ApiError(
          e.status(), e.reason(), null, "Query parameter" + name + ": " + e.getMessage());
    }
  }
}
