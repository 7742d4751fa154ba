package io.twinbox.local.bigquery;

import com.google.protobuf.ByteString;
import com.google.zetasql.LocalService.TableData;
import com.google.zetasql.ResolvedOrderByItemProto;
import com.google.zetasql.ResolvedOrderByScanProto;
import com.google.zetasql.ResolvedOutputColumnProto;
import com.google.zetasql.Type;
import com.google.zetasql.Value;
import com.google.zetasql.ZetaSQLValue.ValueProto;
import com.google.zetasql.resolvedast.ResolvedOrderByItemEnums.NullOrderMode;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;

/**
 * GoogleSQL's ORDER BY over result rows: a query that is evaluated in parts gets each part sorted
 * by ZetaSQL, and all of them by this. Only for orders by columns of the result, of types whose
 * order is plain.
 */
final class RowOrder {
  private RowOrder() {}

  /** The order, or null when only ZetaSQL can tell it. */
  static Comparator<TableData.Row> of(
      ResolvedOrderByScanProto scan,
      List<ResolvedOutputColumnProto> outputs,
      List<Column> columns) {
    Comparator<TableData.Row> order = (a, b) -> 0;
    for (ResolvedOrderByItemProto item : scan.getOrderByItemListList()) {
      int index = indexOf(item, outputs);
      Comparator<ValueProto> values = index < 0 ? null : valueOrder(columns.get(index).type());
      if (values == null || item.hasCollationName()) {
        return null;
      }
      boolean descending = item.getIsDescending();
      boolean nullsFirst =
          item.getNullOrder() == NullOrderMode.ORDER_UNSPECIFIED
              ? !descending
              : item.getNullOrder() == NullOrderMode.NULLS_FIRST;
      Comparator<ValueProto> directed = descending ? values.reversed() : values;
      order =
          order.thenComparing(
              (a, b) -> compare(a.getCell(index), b.getCell(index), directed, nullsFirst));
    }
    return order;
  }

  private static int indexOf(
      ResolvedOrderByItemProto item, List<ResolvedOutputColumnProto> outputs) {
    List<Long> ids = new ArrayList<>();
    outputs.forEach(output -> ids.add((long) output.getColumn().getColumnId()));
    return ids.indexOf((long) item.getColumnRef().getColumn().getColumnId());
  }

  private static int compare(
      ValueProto a, ValueProto b, Comparator<ValueProto> values, boolean nullsFirst) {
    boolean noA = a.getValueCase() == ValueProto.ValueCase.VALUE_NOT_SET;
    boolean noB = b.getValueCase() == ValueProto.ValueCase.VALUE_NOT_SET;
    if (noA || noB) {
      return noA == noB ? 0 : noA == nullsFirst ? -1 : 1;
    }
    return values.compare(a, b);
  }

  private static Comparator<ValueProto> valueOrder(Type type) {
    return switch (type.getKind()) {
      case TYPE_BOOL -> Comparator.comparing(ValueProto::getBoolValue);
      case TYPE_INT64 -> Comparator.comparingLong(ValueProto::getInt64Value);
      case TYPE_DATE -> Comparator.comparingInt(ValueProto::getDateValue);
      case TYPE_TIME -> Comparator.comparingLong(ValueProto::getTimeValue);
      case TYPE_TIMESTAMP ->
          Comparator.<ValueProto>comparingLong(v -> v.getTimestampValue().getSeconds())
              .thenComparingInt(v -> v.getTimestampValue().getNanos());
      case TYPE_DATETIME ->
          Comparator.comparing(v -> Value.deserialize(type, v).getLocalDateTimeValue());
      case TYPE_NUMERIC -> Comparator.comparing(v -> Value.deserialize(type, v).getNumericValue());
      case TYPE_BIGNUMERIC ->
          Comparator.comparing(v -> Value.deserialize(type, v).getBigNumericValue());
      // By code point, which is the order of the UTF-8 bytes and not that of String.
      case TYPE_STRING ->
          Comparator.comparing(
              ValueProto::getStringValueBytes, ByteString.unsignedLexicographicalComparator());
      case TYPE_BYTES ->
          Comparator.comparing(
              ValueProto::getBytesValue, ByteString.unsignedLexicographicalComparator());
      default -> null;
    };
  }
}
