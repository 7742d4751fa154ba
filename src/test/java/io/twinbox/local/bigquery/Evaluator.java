package io.twinbox.local.bigquery;

import com.google.zetasql.LocalService.TableData;
import com.google.zetasql.ZetaSQLValue.ValueProto;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;

/** Runs a plan: the table in parts where the plan says that this is the same, whole otherwise. */
final class Evaluator {
  /** Table data of one part, in bytes; the rest of the 4 MB is for the query and its parameters. */
  private static final int PART_BYTES = 1024 * 1024;

  private Evaluator() {}

  /**
   * Appends all rows of the result.
   *
   * @param between runs before each part; ends the evaluation by throwing
   */
  static void run(QueryPlan plan, QueryRows result, Runnable between) {
    if (plan.rowByRow()) {
      runInParts(plan, result, between);
    } else {
      between.run();
      result.append(evaluate(plan, wholeTables(plan)), Long.MAX_VALUE);
    }
  }

  private static void runInParts(QueryPlan plan, QueryRows result, Runnable between) {
    Map.Entry<String, QueryPlan.Input> only = plan.inputs().entrySet().iterator().next();
    Table.Snapshot table = only.getValue().table();
    List<RowFile.Chunk> part = new ArrayList<>();
    int bytes = 0;
    for (RowFile.Chunk chunk : table.chunks()) {
      if (!part.isEmpty() && bytes + chunk.length() > PART_BYTES) {
        if (result.count() >= plan.limit()) {
          return;
        }
        between.run();
        TableData rows = evaluate(plan, Map.of(only.getKey(), table.file().read(part)));
        result.append(rows, plan.limit() - result.count());
        part.clear();
        bytes = 0;
      }
      part.add(chunk);
      bytes += chunk.length();
    }
    if (result.count() < plan.limit()) {
      between.run();
      TableData rows = evaluate(plan, Map.of(only.getKey(), table.file().read(part)));
      result.append(rows, plan.limit() - result.count());
    }
  }

  private static Map<String, TableData> wholeTables(QueryPlan plan) {
    Map<String, TableData> tables = new LinkedHashMap<>();
    long bytes = 0;
    for (Map.Entry<String, QueryPlan.Input> entry : plan.inputs().entrySet()) {
      Table.Snapshot table = entry.getValue().table();
      TableData.Builder rows = TableData.newBuilder();
      for (RowFile.Chunk chunk : table.chunks()) {
        for (TableData.Row row : table.file().read(List.of(chunk)).getRowList()) {
          TableData.Row kept = keep(row, entry.getValue().columns());
          bytes += kept.getSerializedSize();
          rows.addRow(kept);
        }
        if (bytes > GoogleSql.MAX_REQUEST_BYTES) {
          throw GoogleSql.tooBig(
              table.dataset() + "." + table.name() + " has " + table.rows() + " rows");
        }
      }
      tables.put(entry.getKey(), rows.build());
    }
    return tables;
  }

  private static TableData.Row keep(TableData.Row row, Set<Integer> columns) {
    TableData.Row.Builder kept = TableData.Row.newBuilder();
    for (int i = 0; i < row.getCellCount(); i++) {
      kept.addCell(columns.contains(i) ? row.getCell(i) : ValueProto.getDefaultInstance());
    }
    return kept.build();
  }

  private static TableData evaluate(QueryPlan plan, Map<String, TableData> tables) {
    return GoogleSql.get().evaluate(plan.evaluation(), tables, plan.query());
  }
}
