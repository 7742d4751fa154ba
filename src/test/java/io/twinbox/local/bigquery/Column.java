package io.twinbox.local.bigquery;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.google.zetasql.StructType;
import com.google.zetasql.StructType.StructField;
import com.google.zetasql.Type;
import com.google.zetasql.TypeFactory;
import com.google.zetasql.ZetaSQLType.TypeKind;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;

/**
 * One column, or one field of a STRUCT, with its name, ZetaSQL type and mode; read from and written
 * as BigQuery's JSON schema ({@code [{name, type, mode, fields}]}).
 */
record Column(String name, Type type, boolean required) {

  /** Reads the JSON schema format, with the legacy and the GoogleSQL type names. */
  static List<Column> parseSchema(JsonNode fields) {
    if (fields == null || !fields.isArray() || fields.isEmpty()) {
      throw ApiError.invalid("A schema is a non-empty JSON array of {name, type, mode, fields}");
    }
    List<Column> columns = new ArrayList<>();
    for (JsonNode field : fields) {
      String name = field.path("name").asText("");
      if (name.isEmpty()) {
        throw ApiError.invalid("Schema field without a name: " + field);
      }
      String mode = field.path("mode").asText("NULLABLE").toUpperCase(Locale.ROOT);
      Type type = parseType(name, field);
      switch (mode) {
        case "REPEATED" -> columns.add(new Column(name, TypeFactory.createArrayType(type), false));
        case "REQUIRED" -> columns.add(new Column(name, type, true));
        case "NULLABLE" -> columns.add(new Column(name, type, false));
        default -> throw ApiError.invalid("Field " + name + ": unknown mode " + mode);
      }
    }
    return List.copyOf(columns);
  }

  private static Type parseType(String name, JsonNode field) {
    String type = field.path("type").asText("").toUpperCase(Locale.ROOT);
    if (type.equals("RECORD") || type.equals("STRUCT")) {
      return struct(parseSchema(field.get("fields")));
    }
    if (type.equals("RANGE")) {
      String element = field.path("rangeElementType").path("type").asText("");
      return TypeFactory.createRangeType(scalar(name, element.toUpperCase(Locale.ROOT)));
    }
    return scalar(name, type);
  }

  /** A scalar type by its legacy or GoogleSQL name. */
  static Type scalar(String where, String type) {
    TypeKind kind =
        switch (type) {
          case "STRING" -> TypeKind.TYPE_STRING;
          case "BYTES" -> TypeKind.TYPE_BYTES;
          case "INTEGER", "INT64" -> TypeKind.TYPE_INT64;
          case "FLOAT", "FLOAT64" -> TypeKind.TYPE_DOUBLE;
          case "NUMERIC", "DECIMAL" -> TypeKind.TYPE_NUMERIC;
          case "BIGNUMERIC", "BIGDECIMAL" -> TypeKind.TYPE_BIGNUMERIC;
          case "BOOLEAN", "BOOL" -> TypeKind.TYPE_BOOL;
          case "TIMESTAMP" -> TypeKind.TYPE_TIMESTAMP;
          case "DATE" -> TypeKind.TYPE_DATE;
          case "TIME" -> TypeKind.TYPE_TIME;
          case "DATETIME" -> TypeKind.TYPE_DATETIME;
          case "JSON" -> TypeKind.TYPE_JSON;
          case "INTERVAL" -> TypeKind.TYPE_INTERVAL;
          case "GEOGRAPHY" -> throw Unsupported.GEOGRAPHY.error();
          default -> throw ApiError.invalid(where + ": unknown type \"" + type + "\"");
        };
    return TypeFactory.createSimpleType(kind);
  }

  static StructType struct(List<Column> fields) {
    return TypeFactory.createStructType(
        fields.stream().map(f -> new StructField(f.name(), f.type())).toList());
  }

  /** The {@code schema} of an answer: legacy type names, as BigQuery's REST API gives them. */
  static ObjectNode toSchema(List<Column> columns) {
    ObjectNode schema = JsonNodeFactory.instance.objectNode();
    schema.set("fields", toFields(columns));
    return schema;
  }

  private static ArrayNode toFields(List<Column> columns) {
    ArrayNode fields = JsonNodeFactory.instance.arrayNode();
    for (Column column : columns) {
      ObjectNode field = fields.addObject();
      field.put("name", column.name());
      Type type =
          column.type().isArray() ? column.type().asArray().getElementType() : column.type();
      field.put("type", typeName(type));
      field.put(
          "mode",
          column.type().isArray() ? "REPEATED" : column.required() ? "REQUIRED" : "NULLABLE");
      if (type.isStruct()) {
        field.set("fields", toFields(fieldsOf(type.asStruct())));
      }
      if (type.getKind() == TypeKind.TYPE_RANGE) {
        field.putObject("rangeElementType").put("type", typeName(type.asRange().getElementType()));
      }
    }
    return fields;
  }

  private static List<Column> fieldsOf(StructType struct) {
    List<Column> fields = new ArrayList<>();
    for (StructField field : struct.getFieldList()) {
      // BigQuery names an unnamed field by its position.
      String name = field.getName().isEmpty() ? "_field_" + (fields.size() + 1) : field.getName();
      fields.add(new Column(name, field.getType(), false));
    }
    return fields;
  }

  private static String typeName(Type type) {
    return switch (type.getKind()) {
      case TYPE_STRING -> "STRING";
      case TYPE_BYTES -> "BYTES";
      case TYPE_INT64 -> "INTEGER";
      case TYPE_DOUBLE -> "FLOAT";
      case TYPE_NUMERIC -> "NUMERIC";
      case TYPE_BIGNUMERIC -> "BIGNUMERIC";
      case TYPE_BOOL -> "BOOLEAN";
      case TYPE_TIMESTAMP -> "TIMESTAMP";
      case TYPE_DATE -> "DATE";
      case TYPE_TIME -> "TIME";
      case TYPE_DATETIME -> "DATETIME";
      case TYPE_JSON -> "JSON";
      case TYPE_INTERVAL -> "INTERVAL";
      case TYPE_RANGE -> "RANGE";
      case TYPE_STRUCT -> "RECORD";
      default -> throw Unsupported.TYPE.error(type.getKind().name());
    };
  }
}
