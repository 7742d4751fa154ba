package io.twinbox.local.bigquery;

import com.google.zetasql.LocalService.TableData;
import java.util.ArrayList;
import java.util.Collections;
import java.util.List;

/** The rows of one result: small ones in memory, big ones in a temporary file. */
final class QueryRows implements AutoCloseable {
  private static final int IN_MEMORY_BYTES = 1024 * 1024;
  private static final int ROWS_PER_PART = 500;

  private final List<TableData> memory = new ArrayList<>();
  private final List<RowFile.Chunk> chunks = new ArrayList<>();
  private final List<Long> partStarts = new ArrayList<>();
  private RowFile file;
  private long memoryBytes;
  private long rows;

  synchronized void append(TableData data, long atMost) {
    int count = (int) Math.min(data.getRowCount(), atMost);
    for (int from = 0; from < count; from += ROWS_PER_PART) {
      int to = Math.min(count, from + ROWS_PER_PART);
      appendPart(TableData.newBuilder().addAllRow(data.getRowList().subList(from, to)).build());
    }
  }

  private void appendPart(TableData part) {
    partStarts.add(rows);
    rows += part.getRowCount();
    if (file == null) {
      memory.add(part);
      memoryBytes += part.getSerializedSize();
      if (memoryBytes <= IN_MEMORY_BYTES) {
        return;
      }
      file = new RowFile("result");
      memory.forEach(m -> chunks.add(file.append(m)));
      memory.clear();
      return;
    }
    chunks.add(file.append(part));
  }

  synchronized long count() {
    return rows;
  }

  /** Some rows, at least one if there is one, from this index on; the caller asks again. */
  synchronized List<TableData.Row> from(long index) {
    if (index >= rows) {
      return List.of();
    }
    int part = partOf(index);
    TableData data = file == null ? memory.get(part) : file.read(List.of(chunks.get(part)));
    int skip = (int) (index - partStarts.get(part));
    return data.getRowList().subList(skip, data.getRowCount());
  }

  private int partOf(long index) {
    int found = Collections.binarySearch(partStarts, index);
    return found >= 0 ? found : -found - 2;
  }

  @Override
  public synchronized void close() {
    if (file != null) {
      file.close();
    }
  }
}
