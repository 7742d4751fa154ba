package io.twinbox.local.bigquery;

import com.google.zetasql.LocalService.TableData;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.ByteBuffer;
import java.nio.channels.FileChannel;
import java.nio.file.Files;
import java.nio.file.Path;
import java.nio.file.StandardOpenOption;
import java.util.List;

/**
 * Rows as serialised ZetaSQL table data in a temporary file, so that neither a big table nor a big
 * result lives on the heap: two million rows are about 1.5 GB. Append-only; what was appended never
 * changes, so a list of chunks is a consistent snapshot for as long as someone holds it.
 */
final class RowFile implements AutoCloseable {

  /**
   * Consecutive rows of the file.
   *
   * @param offset where they start, in bytes
   * @param length how long they are, in bytes
   * @param rows how many they are
   */
  record Chunk(long offset, int length, int rows) {}

  private final FileChannel channel;
  private long end;

  RowFile(String name) {
    try {
      Path path = Files.createTempFile("local-bigquery-" + name, ".rows");
      channel =
          FileChannel.open(
              path,
              StandardOpenOption.READ,
              StandardOpenOption.WRITE,
              StandardOpenOption.DELETE_ON_CLOSE);
      // Where the system allows it, unlinked at once: a killed process leaves no file behind.
      path.toFile().delete();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  synchronized Chunk append(TableData rows) {
    try {
      ByteBuffer bytes = ByteBuffer.wrap(rows.toByteArray());
      Chunk chunk = new Chunk(end, bytes.remaining(), rows.getRowCount());
      while (bytes.hasRemaining()) {
        end += channel.write(bytes, end);
      }
      return chunk;
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** Protobuf concatenates repeated fields, so chunks that are read together are one table data. */
  TableData read(List<Chunk> chunks) {
    try {
      TableData.Builder rows = TableData.newBuilder();
      for (Chunk chunk : chunks) {
        ByteBuffer bytes = ByteBuffer.allocate(chunk.length());
        while (bytes.hasRemaining()) {
          if (channel.read(bytes, chunk.offset() + bytes.position()) < 0) {
            throw new IOException("Row file ends before " + chunk);
          }
        }
        rows.mergeFrom(bytes.array());
      }
      return rows.build();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  @Override
  public void close() {
    try {
      channel.close();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
