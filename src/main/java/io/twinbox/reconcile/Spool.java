package io.twinbox.reconcile;

import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Collection;
import java.util.LinkedHashMap;
import java.util.Map;
import java.util.UUID;

/**
 * Events by their ids, gathered from several sides in temporary files and read back part by part:
 * what is in memory at once is a 256th of them, whatever their number. The files can hold event
 * keys; only this user can read them, and they go when it is closed.
 */
final class Spool implements AutoCloseable {

  static final int PARTS = 256;

  /** What is known of one event from the sides that were listed. */
  static final class Event {
    final UUID id;
    int flags;
    long rows;
    String key;
    String topic;
    String watermark;
    String hash;

    Event(UUID id) {
      this.id = id;
    }

    boolean has(int flag) {
      return (flags & flag) != 0;
    }
  }

  private final Path folder;
  private final DataOutputStream[] parts = new DataOutputStream[PARTS];

  Spool() throws IOException {
    folder = Files.createTempDirectory("twinbox-reconcile");
    for (int i = 0; i < PARTS; i++) {
      parts[i] =
          new DataOutputStream(new BufferedOutputStream(Files.newOutputStream(part(i)), 4096));
    }
  }

  private Path part(int i) {
    return folder.resolve(String.valueOf(i));
  }

  void add(UUID id, int flags) throws IOException {
    add(id, flags, 0, null, null, null, null);
  }

  /**
   * @param rows how many rows of BigQuery are this event
   * @param hash of the payload, null when it is not compared
   */
  void add(UUID id, int flags, long rows, String key, String topic, String watermark, String hash)
      throws IOException {
    // Not the first byte: that of a UUIDv7 is the time, and all would go into one part.
    long mixed = id.getMostSignificantBits() ^ id.getLeastSignificantBits() * 0x9E3779B97F4A7C15L;
    DataOutputStream out = parts[(int) (mixed >>> 56)];
    out.writeLong(id.getMostSignificantBits());
    out.writeLong(id.getLeastSignificantBits());
    out.writeInt(flags);
    out.writeLong(rows);
    text(out, key);
    text(out, topic);
    text(out, watermark);
    text(out, hash);
  }

  private static void text(DataOutputStream out, String text) throws IOException {
    if (text == null) {
      out.writeInt(-1);
      return;
    }
    byte[] bytes = text.getBytes(StandardCharsets.UTF_8);
    out.writeInt(bytes.length);
    out.write(bytes);
  }

  private static String text(DataInputStream in) throws IOException {
    int length = in.readInt();
    return length < 0 ? null : new String(in.readNBytes(length), StandardCharsets.UTF_8);
  }

  /** Ends the gathering. */
  void seal() throws IOException {
    for (DataOutputStream out : parts) {
      out.close();
    }
  }

  /** The events of one part, each once; what several sides said of it taken together. */
  Collection<Event> read(int part) {
    Map<UUID, Event> events = new LinkedHashMap<>();
    try (DataInputStream in =
        new DataInputStream(new BufferedInputStream(Files.newInputStream(part(part))))) {
      while (true) {
        long high;
        try {
          high = in.readLong();
        } catch (EOFException end) {
          return events.values();
        }
        Event event = events.computeIfAbsent(new UUID(high, in.readLong()), Event::new);
        event.flags |= in.readInt();
        event.rows += in.readLong();
        String key = text(in);
        String topic = text(in);
        String watermark = text(in);
        String hash = text(in);
        event.key = key == null ? event.key : key;
        event.topic = topic == null ? event.topic : topic;
        event.watermark = watermark == null ? event.watermark : watermark;
        event.hash = hash == null ? event.hash : hash;
      }
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  @Override
  public void close() throws IOException {
    for (int i = 0; i < PARTS; i++) {
      parts[i].close();
      Files.deleteIfExists(part(i));
    }
    Files.deleteIfExists(folder);
  }
}
