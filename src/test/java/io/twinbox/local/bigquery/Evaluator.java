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
    List<TableData.Row> sorted = new ArrayList<>();
    for (List<RowFile.Chunk> part : parts(table.chunks())) {
      if (result.count() >= plan.limit()) {
        break;
      }
      between.run();
      TableData rows = evaluate(plan, Map.of(only.getKey(), table.file().read(part)));
      if (plan.order() == null) {
        result.append(rows, plan.limit() - result.count());
        continue;
      }
      // Each part comes sorted, so this merges.
      sorted.addAll(rows.getRowList());
      sorted.sort(plan.order());
      if (sorted.size() > plan.limit()) {
        sorted.subList((int) plan.limit(), sorted.size()).clear();
      }
    }
    result.append(TableData.newBuilder().addAllRow(sorted).build(), plan.limit());
  }

  /** Neighbouring chunks together as long as they are small; one empty part of an empty table. */
  private static List<List<RowFile.Chunk>> parts(List<RowFile.Chunk> chunks) {
    List<List<RowFile.Chunk>> parts = new ArrayList<>();
    List<RowFile.Chunk> part = new ArrayList<>();
    int bytes = 0;
    for (RowFile.Chunk chunk : chunks) {
      if (!part.isEmpty() && bytes + chunk.length() > PART_BYTES) {
        parts.add(part);
        part = new ArrayList<>();
        bytes = 0;
      }
      part.add(chunk);
      bytes += chunk.length();
    }
    parts.add(part);
    return parts;
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
