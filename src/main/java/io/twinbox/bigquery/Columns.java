package io.twinbox.bigquery;

import com.google.cloud.bigquery.Field;
import com.google.cloud.bigquery.Schema;
import com.google.cloud.bigquery.StandardSQLTypeName;
import java.util.ArrayList;
import java.util.HashSet;
import java.util.List;
import java.util.Set;

/**
 * The columns of a topic's query, as far as they matter; checked before a row is written.
 *
 * @param watermark name of the watermark column, null when the query has none
 */
record Columns(
    String watermark, boolean hasAttributes, boolean hasOrderingKey, boolean hasTopicName) {

  private static final List<String> TEXTS =
      List.of("event_key", "payload", "attributes", "ordering_key", "topic_name");

  /**
   * @throws IllegalArgumentException naming every column that is missing, doubled or of a wrong
   *     type
   */
  static Columns of(Schema schema, StandardSQLTypeName watermarkType, String queryFile) {
    List<String> faults = new ArrayList<>();
    Set<String> names = new HashSet<>();
    for (Field field : schema.getFields()) {
      if (!names.add(field.getName())) {
        faults.add("column %s is there twice".formatted(field.getName()));
      }
      StandardSQLTypeName type = field.getType().getStandardType();
      boolean repeated = field.getMode() == Field.Mode.REPEATED;
      if (TEXTS.contains(field.getName()) && (type != StandardSQLTypeName.STRING || repeated)) {
        faults.add(
            "column %s is %s%s and must be STRING%s"
                .formatted(
                    field.getName(),
                    repeated ? "ARRAY of " : "",
                    type,
                    field.getName().equals("payload") ? "; wrap it in TO_JSON_STRING" : ""));
      }
      if (field.getName().equals("watermark") && (type != watermarkType || repeated)) {
        faults.add(
            "column watermark is %s%s; twinbox.produce.watermark-type says %s"
                .formatted(repeated ? "ARRAY of " : "", type, watermarkType));
      }
    }
    for (String required : List.of("event_key", "payload")) {
      if (!names.contains(required)) {
        faults.add("column %s is missing".formatted(required));
      }
    }
    if (!faults.isEmpty()) {
      throw new IllegalArgumentException(
          "%s: %s. Nothing was written.".formatted(queryFile, String.join("; ", faults)));
    }
    return new Columns(
        names.contains("watermark") ? "watermark" : null,
        names.contains("attributes"),
        names.contains("ordering_key"),
        names.contains("topic_name"));
  }
}
