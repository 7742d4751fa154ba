package io.twinbox.local.bigquery;

import com.google.zetasql.Value;
import java.nio.charset.StandardCharsets;

/**
 * The size of a value as BigQuery bills it, in bytes
 * (cloud.google.com/bigquery/pricing#data-size-calculation).
 */
final class LogicalSize {
  private LogicalSize() {}

  static long of(Value value) {
    if (value.isNull()) {
      return 0;
    }
    return switch (value.getType().getKind()) {
      case TYPE_BOOL -> 1;
      case TYPE_STRING -> 2 + utf8(value.getStringValue());
      case TYPE_BYTES -> 2 + value.getBytesValue().size();
      case TYPE_JSON -> 2 + utf8(value.getJsonValue());
      case TYPE_NUMERIC, TYPE_INTERVAL, TYPE_RANGE -> 16;
      case TYPE_BIGNUMERIC -> 32;
      case TYPE_ARRAY -> value.getElementList().stream().mapToLong(LogicalSize::of).sum();
      case TYPE_STRUCT -> value.getFieldList().stream().mapToLong(LogicalSize::of).sum();
      default -> 8;
    };
  }

  private static int utf8(String text) {
    return text.getBytes(StandardCharsets.UTF_8).length;
  }
}
