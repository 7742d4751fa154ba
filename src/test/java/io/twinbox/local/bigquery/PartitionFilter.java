package io.twinbox.local.bigquery;

import com.google.protobuf.Message;
import com.google.zetasql.AnyResolvedExprProto;
import com.google.zetasql.AnyResolvedScanProto;
import com.google.zetasql.ResolvedFilterScanProto;
import com.google.zetasql.ResolvedFunctionCallBaseProto;
import com.google.zetasql.ResolvedJoinScanProto;
import com.google.zetasql.ResolvedTableScanProto;
import com.google.zetasql.resolvedast.ResolvedJoinScanEnums.JoinType;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;

/**
 * Tables that require a partition filter: a query over one is refused unless a filter of its own
 * can be used to leave partitions out.
 *
 * <p>Accepted is what Google's documents say prunes
 * (cloud.google.com/bigquery/docs/querying-partitioned-tables), and no more: in a WHERE that stands
 * directly over the table, or over an inner join of it, one of the conditions that AND joins
 * compares the partition column, by itself or in one of a few functions, with a constant:
 * parameters and functions of constants are constants. BigQuery itself may accept more.
 */
final class PartitionFilter {

  private static final Set<String> COMPARISONS =
      Set.of(
          "$equal",
          "$greater",
          "$greater_or_equal",
          "$less",
          "$less_or_equal",
          "$between",
          "$in",
          "$in_array");

  /** With constants as their other arguments. */
  private static final Set<String> PRUNING_FUNCTIONS =
      Set.of(
          "date",
          "date_add",
          "date_diff",
          "date_sub",
          "date_trunc",
          "datetime_diff",
          "timestamp_add",
          "timestamp_diff",
          "timestamp_sub",
          "timestamp_trunc",
          "$extract_date");

  private final Map<String, Table.Snapshot> tables;
  private final String project;

  /**
   * @param tables by the full name that ZetaSQL knows them by
   */
  PartitionFilter(Map<String, Table.Snapshot> tables, String project) {
    this.tables = tables;
    this.project = project;
  }

  /** Refuses a statement that reads a table without the filter that it requires. */
  void require(Message statement) {
    Set<ResolvedTableScanProto> filtered = new HashSet<>();
    each(statement, ResolvedFilterScanProto.class, filter -> accept(filter, filtered));
    each(
        statement,
        ResolvedTableScanProto.class,
        scan -> {
          Table.Snapshot table = tables.get(scan.getTable().getFullName());
          if (table.partitionFilter() != null && !filtered.contains(scan)) {
            throw ApiError.invalidQuery(
                "Cannot query over table '%s.%s.%s' without a filter over column(s) '%s' that can be used for partition elimination"
                    .formatted(project, table.dataset(), table.name(), table.partitionFilter()));
          }
        });
  }

  private void accept(ResolvedFilterScanProto filter, Set<ResolvedTableScanProto> filtered) {
    directly(
        filter.getInputScan(),
        scan -> {
          Long column = partitionColumn(scan);
          if (column != null && prunes(filter.getFilterExpr(), column)) {
            filtered.add(scan);
          }
        });
  }

  /** The tables whose rows a filter over this sees as they are. */
  private static void directly(
      AnyResolvedScanProto scan, java.util.function.Consumer<ResolvedTableScanProto> found) {
    switch (scan.getNodeCase()) {
      case RESOLVED_TABLE_SCAN_NODE -> found.accept(scan.getResolvedTableScanNode());
      case RESOLVED_FILTER_SCAN_NODE ->
          directly(scan.getResolvedFilterScanNode().getInputScan(), found);
      case RESOLVED_ARRAY_SCAN_NODE -> {
        if (scan.getResolvedArrayScanNode().hasInputScan()) {
          directly(scan.getResolvedArrayScanNode().getInputScan(), found);
        }
      }
      case RESOLVED_JOIN_SCAN_NODE -> {
        ResolvedJoinScanProto join = scan.getResolvedJoinScanNode();
        if (join.getJoinType() == JoinType.INNER) {
          directly(join.getLeftScan(), found);
          directly(join.getRightScan(), found);
        }
      }
      default -> {
        // What stands over a subquery, an aggregation or an outer join is not promised to prune.
      }
    }
  }

  private Long partitionColumn(ResolvedTableScanProto scan) {
    Table.Snapshot table = tables.get(scan.getTable().getFullName());
    for (int i = 0; i < scan.getColumnIndexListCount(); i++) {
      Column column = table.columns().get((int) scan.getColumnIndexList(i));
      if (column.name().equalsIgnoreCase(table.partitionFilter())) {
        return scan.getParent().getColumnList(i).getColumnId();
      }
    }
    return null;
  }

  private static boolean prunes(AnyResolvedExprProto condition, long column) {
    ResolvedFunctionCallBaseProto call = call(condition);
    if (call == null) {
      return false;
    }
    List<AnyResolvedExprProto> arguments = call.getArgumentListList();
    String function = name(call);
    if (function.equals("$and")) {
      return arguments.stream().anyMatch(part -> prunes(part, column));
    }
    if (!COMPARISONS.contains(function)) {
      return false;
    }
    AnyResolvedExprProto first = arguments.get(0);
    List<AnyResolvedExprProto> others = arguments.subList(1, arguments.size());
    return (isolates(first, column) && others.stream().allMatch(PartitionFilter::isConstant))
        // A comparison of two may be written the other way round.
        || (arguments.size() == 2 && isConstant(first) && isolates(arguments.get(1), column));
  }

  /** The column itself, or in a function through which BigQuery prunes. */
  private static boolean isolates(AnyResolvedExprProto expression, long column) {
    if (expression.hasResolvedColumnRefNode()) {
      return expression.getResolvedColumnRefNode().getColumn().getColumnId() == column;
    }
    ResolvedFunctionCallBaseProto call = call(expression);
    return call != null
        && PRUNING_FUNCTIONS.contains(name(call))
        && isolates(call.getArgumentList(0), column)
        && call.getArgumentListList().stream().skip(1).allMatch(PartitionFilter::isConstant);
  }

  private static boolean isConstant(AnyResolvedExprProto expression) {
    if (expression.hasResolvedLiteralNode() || expression.hasResolvedParameterNode()) {
      return true;
    }
    if (expression.hasResolvedCastNode()) {
      return isConstant(expression.getResolvedCastNode().getExpr());
    }
    ResolvedFunctionCallBaseProto call = call(expression);
    return call != null
        && call.getArgumentListList().stream().allMatch(PartitionFilter::isConstant);
  }

  private static ResolvedFunctionCallBaseProto call(AnyResolvedExprProto expression) {
    return expression.hasResolvedFunctionCallBaseNode()
            && expression.getResolvedFunctionCallBaseNode().hasResolvedFunctionCallNode()
        ? expression.getResolvedFunctionCallBaseNode().getResolvedFunctionCallNode().getParent()
        : null;
  }

  private static String name(ResolvedFunctionCallBaseProto call) {
    return call.getFunction().getName().replaceFirst("^.*:", "");
  }

  private static <T extends Message> void each(
      Message node, Class<T> type, java.util.function.Consumer<T> visitor) {
    if (type.isInstance(node)) {
      visitor.accept(type.cast(node));
    }
    node.getAllFields()
        .values()
        .forEach(
            value -> {
              for (Object item : value instanceof List<?> list ? list : List.of(value)) {
                if (item instanceof Message message) {
                  each(message, type, visitor);
                }
              }
            });
  }
}
