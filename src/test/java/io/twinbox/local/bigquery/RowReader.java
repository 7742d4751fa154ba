package io.twinbox.local.bigquery;

import com.fasterxml.jackson.databind.JsonNode;
import com.google.zetasql.ArrayType;
import com.google.zetasql.LocalService.TableData;
import com.google.zetasql.StructType;
import com.google.zetasql.StructType.StructField;
import com.google.zetasql.Type;
import com.google.zetasql.Value;
import com.google.zetasql.ZetaSQLType.TypeKind;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;

/**
 * Newline-delimited JSON into rows, as BigQuery's load jobs and insertAll read it: unknown fields
 * and missing REQUIRED ones are errors, a missing REPEATED one is an empty array.
 */
final class RowReader {
  private final List<Column> columns;
  private final StructType rowType;

  RowReader(List<Column> columns) {
    this.columns = columns;
    this.rowType = Column.struct(columns);
  }

  /**
   * Reads one row.
   *
   * @param logicalBytes adds to each column's BigQuery size, in bytes; what a dry run prices
   */
  TableData.Row read(JsonNode json, long[] logicalBytes) {
    if (!json.isObject()) {
      throw ApiError.invalid("A row is a JSON object, not " + json.getNodeType());
    }
    refuseUnknownFields(rowType, json, "");
    TableData.Row.Builder row = TableData.Row.newBuilder();
    for (int i = 0; i < columns.size(); i++) {
      Column column = columns.get(i);
      JsonNode cell = find(json, column.name());
      if (column.required() && (cell == null || cell.isNull())) {
        throw ApiError.invalid("Missing required field: " + column.name() + ".");
      }
      Value value = read(column.type(), cell, column.name());
      logicalBytes[i] += LogicalSize.of(value);
      row.addCell(value.serialize());
    }
    return row.build();
  }

  private static Value read(Type type, JsonNode json, String path) {
    if (type.isArray()) {
      return readArray(type.asArray(), json, path);
    }
    if (json == null || json.isNull()) {
      return Value.createNullValue(type);
    }
    if (type.isStruct()) {
      return readStruct(type.asStruct(), json, path);
    }
    if (type.getKind() == TypeKind.TYPE_JSON) {
      return Value.createJsonValue(Json.normalise(json));
    }
    if (type.getKind() == TypeKind.TYPE_RANGE && json.isObject()) {
      return ScalarText.range(type, json.path("start").asText(null), json.path("end").asText(null));
    }
    if (json.isContainerNode()) {
      throw ApiError.invalid(path + ": expected " + type + ", found " + json.getNodeType());
    }
    try {
      if (type.getKind() == TypeKind.TYPE_TIMESTAMP && json.isNumber()) {
        return ScalarText.timestampOfSeconds(json.decimalValue());
      }
      return ScalarText.parse(type, json.asText());
    } catch (ApiError e) {
      throw new ApiError(e.status(), e.reason(), path, path + ": " + e.getMessage());
    }
  }

  private static Value readArray(ArrayType type, JsonNode json, String path) {
    if (json == null || json.isNull()) {
      return Value.createEmptyArrayValue(type);
    }
    if (!json.isArray()) {
      throw ApiError.invalid("Array specified for non-repeated field or value missing: " + path);
    }
    List<Value> elements = new ArrayList<>(json.size());
    for (JsonNode element : json) {
      if (element.isNull()) {
        throw ApiError.invalid("Only optional fields can be set to NULL. Field: " + path);
      }
      elements.add(read(type.getElementType(), element, path));
    }
    return Value.createArrayValue(type, elements);
  }

  private static Value readStruct(StructType type, JsonNode json, String path) {
    if (!json.isObject()) {
      throw ApiError.invalid("This field: " + path + " is not a record.");
    }
    refuseUnknownFields(type, json, path + ".");
    List<Value> fields = new ArrayList<>(type.getFieldCount());
    for (StructField field : type.getFieldList()) {
      fields.add(read(field.getType(), find(json, field.getName()), path + "." + field.getName()));
    }
    return Value.createStructValue(type, fields);
  }

  private static void refuseUnknownFields(StructType type, JsonNode json, String prefix) {
    for (Iterator<String> names = json.fieldNames(); names.hasNext(); ) {
      String name = names.next();
      if (type.getFieldList().stream().noneMatch(f -> f.getName().equalsIgnoreCase(name))) {
        throw ApiError.invalid("No such field: " + prefix + name + ".");
      }
    }
  }

  /** Column names are case-insensitive. */
  private static JsonNode find(JsonNode json, String name) {
    JsonNode exact = json.get(name);
    if (exact != null) {
      return exact;
    }
    for (Iterator<String> names = json.fieldNames(); names.hasNext(); ) {
      String candidate = names.next();
      if (candidate.equalsIgnoreCase(name)) {
        return json.get(candidate);
      }
    }
    return null;
  }
}
