package io.twinbox.local.bigquery;

import com.fasterxml.jackson.databind.JsonNode;
import com.google.zetasql.LocalService.TableData;
import java.util.ArrayList;
import java.util.List;

/** A table: its schema and its rows so far. Rows are only ever added. */
final class Table implements AutoCloseable {
  /** Few enough bytes that a chunk of any believable table fits one request to ZetaSQL. */
  private static final int CHUNK_BYTES = 256 * 1024;

  private final String dataset;
  private final String name;
  private final List<Column> columns;
  private final String partitionFilter;
  private final RowReader reader;
  private final RowFile file;
  private final List<RowFile.Chunk> chunks = new ArrayList<>();
  private final long[] columnBytes;
  private long rows;

  /**
   * The table as it was at one moment.
   *
   * @param partitionFilter the partition column that every query must filter by; null for none
   * @param columnBytes BigQuery's logical size of each column, in bytes
   */
  record Snapshot(
      String dataset,
      String name,
      List<Column> columns,
      String partitionFilter,
      RowFile file,
      List<RowFile.Chunk> chunks,
      long[] columnBytes,
      long rows) {}

  Table(String dataset, String name, List<Column> columns, String partitionFilter) {
    this.partitionFilter = partitionFilter;
    this.dataset = dataset;
    this.name = name;
    this.columns = columns;
    this.reader = new RowReader(columns);
    this.file = new RowFile(dataset + "." + name);
    this.columnBytes = new long[columns.size()];
  }

  /** All of the rows, or, when one is wrong, none: the error names the first wrong one. */
  void append(Iterable<JsonNode> newRows) {
    List<TableData> parts = new ArrayList<>();
    long[] newBytes = new long[columns.size()];
    TableData.Builder part = TableData.newBuilder();
    int partBytes = 0;
    int number = 0;
    for (JsonNode json : newRows) {
      number++;
      try {
        TableData.Row row = reader.read(json, newBytes);
        part.addRow(row);
        partBytes += row.getSerializedSize();
      } catch (ApiError e) {
        throw new ApiError(e.status(), e.reason(), null, "Row " + number + ": " + e.getMessage());
      }
      if (partBytes >= CHUNK_BYTES) {
        parts.add(part.build());
        part = TableData.newBuilder();
        partBytes = 0;
      }
    }
    if (part.getRowCount() > 0) {
      parts.add(part.build());
    }
    synchronized (this) {
      for (TableData data : parts) {
        chunks.add(file.append(data));
        rows += data.getRowCount();
      }
      for (int i = 0; i < newBytes.length; i++) {
        columnBytes[i] += newBytes[i];
      }
    }
  }

  /** One bad row of insertAll is reported by its index, so it is tried before all are appended. */
  void check(JsonNode row) {
    reader.read(row, new long[columns.size()]);
  }

  synchronized Snapshot snapshot() {
    return new Snapshot(
        dataset,
        name,
        columns,
        partitionFilter,
        file,
        List.copyOf(chunks),
        columnBytes.clone(),
        rows);
  }

  @Override
  public void close() {
    file.close();
  }
}
