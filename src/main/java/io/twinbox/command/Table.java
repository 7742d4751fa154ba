package io.twinbox.command;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.SerializationFeature;
import java.io.PrintWriter;
import java.sql.Timestamp;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Rows for a terminal or, as JSON, for a program. */
final class Table {

  private static final ObjectMapper JSON =
      new ObjectMapper().enable(SerializationFeature.INDENT_OUTPUT);

  private static final int WIDEST = 70;

  private Table() {}

  static void print(PrintWriter out, List<Map<String, Object>> rows, boolean json) {
    if (json) {
      out.println(json(rows.stream().map(Table::plain).toList()));
    } else {
      print(out, rows);
    }
  }

  static String json(Object value) {
    try {
      return JSON.writeValueAsString(value);
    } catch (JsonProcessingException e) {
      throw new IllegalStateException(e);
    }
  }

  /** Times in UTC, numbers and truth as they are, everything else as text. */
  private static Map<String, Object> plain(Map<String, Object> row) {
    Map<String, Object> plain = new LinkedHashMap<>();
    row.forEach((name, value) -> plain.put(name, plain(value)));
    return plain;
  }

  private static Object plain(Object value) {
    if (value instanceof Timestamp time) {
      return time.toInstant().toString();
    }
    return value == null || value instanceof Number || value instanceof Boolean
        ? value
        : value.toString();
  }

  private static void print(PrintWriter out, List<Map<String, Object>> rows) {
    if (rows.isEmpty()) {
      out.println("None.");
      return;
    }
    List<String> names = new ArrayList<>(rows.get(0).keySet());
    int[] widths = names.stream().mapToInt(String::length).toArray();
    List<List<String>> cells = new ArrayList<>();
    for (Map<String, Object> row : rows) {
      List<String> line = new ArrayList<>();
      for (int i = 0; i < names.size(); i++) {
        String cell = cell(row.get(names.get(i)));
        widths[i] = Math.max(widths[i], cell.length());
        line.add(cell);
      }
      cells.add(line);
    }
    line(out, names, widths);
    cells.forEach(line -> line(out, line, widths));
  }

  private static String cell(Object value) {
    Object plain = plain(value);
    String text = plain == null ? "" : plain.toString().replaceAll("\\s+", " ");
    return text.length() > WIDEST ? text.substring(0, WIDEST - 3) + "..." : text;
  }

  private static void line(PrintWriter out, List<String> cells, int[] widths) {
    StringBuilder line = new StringBuilder();
    for (int i = 0; i < cells.size(); i++) {
      line.append(cells.get(i)).append(" ".repeat(widths[i] - cells.get(i).length() + 2));
    }
    out.println(line.toString().stripTrailing());
  }
}
