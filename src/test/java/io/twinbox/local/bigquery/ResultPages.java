package io.twinbox.local.bigquery;

import com.fasterxml.jackson.core.JsonGenerator;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;
import com.google.zetasql.LocalService.TableData;
import java.io.ByteArrayOutputStream;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.util.Base64;
import java.util.List;
import java.util.Map;

/** Writes rows page by page: as many as were asked for, as BigQuery at most 10 MB of them. */
final class ResultPages {
  private static final int PAGE_BYTES = 10_000_000;

  private final Faults faults;

  /**
   * Which rows, and how.
   *
   * @param start the first row, from 0
   * @param maxRows how many at most; 0 is allowed, the client asks so to wait for a job
   */
  record Page(long start, long maxRows, boolean int64Timestamps) {

    static Page of(Map<String, String> parameters) {
      long start =
          parameters.containsKey("pageToken")
              ? startOf(parameters.get("pageToken"))
              : number(parameters, "startIndex", 0);
      return new Page(
          start,
          number(parameters, "maxResults", Long.MAX_VALUE),
          Boolean.parseBoolean(parameters.get("formatOptions.useInt64Timestamp")));
    }

    private static long number(Map<String, String> parameters, String name, long absent) {
      try {
        String text = parameters.get(name);
        return text == null || text.isEmpty() ? absent : Long.parseUnsignedLong(text);
      } catch (NumberFormatException e) {
        throw ApiError.invalid("Invalid value for " + name + ": " + parameters.get(name));
      }
    }

    private static long startOf(String token) {
      try {
        String text = new String(Base64.getUrlDecoder().decode(token), StandardCharsets.UTF_8);
        return Long.parseUnsignedLong(text);
      } catch (IllegalArgumentException e) {
        throw ApiError.invalid("Invalid page token: " + token);
      }
    }
  }

  ResultPages(Faults faults) {
    this.faults = faults;
  }

  /** A page of a job's result; without rows when the job is not done by then, or its error. */
  byte[] jobPage(ObjectNode head, QueryJob job, Page page, long waitMillis) throws IOException {
    head.set("jobReference", job.reference());
    if (!job.await(waitMillis)) {
      return Json.MAPPER.writeValueAsBytes(head.put("jobComplete", false));
    }
    if (job.error() != null) {
      throw job.error();
    }
    head.put("jobComplete", true);
    head.put("cacheHit", false);
    head.put("totalBytesProcessed", Long.toString(job.plan().bytesProcessed()));
    head.set("schema", Column.toSchema(job.plan().columns()));
    return write(head, job.plan().columns(), job.rows(), page);
  }

  /** A page of a table. */
  byte[] tablePage(List<Column> columns, QueryRows rows, Page page) throws IOException {
    ObjectNode head = JsonNodeFactory.instance.objectNode();
    head.put("kind", "bigquery#tableDataList");
    return write(head, columns, rows, page);
  }

  private byte[] write(ObjectNode head, List<Column> columns, QueryRows rows, Page page)
      throws IOException {
    head.put("totalRows", Long.toString(rows.count()));
    ValueEncoder encoder = new ValueEncoder(columns, page.int64Timestamps(), faults);
    ByteArrayOutputStream out = new ByteArrayOutputStream();
    long next = page.start();
    long end = Math.min(rows.count(), next + Math.min(page.maxRows(), faults.pageRows()));
    if (page.maxRows() > Long.MAX_VALUE / 2) {
      end = Math.min(rows.count(), next + faults.pageRows());
    }
    try (JsonGenerator json = Json.MAPPER.createGenerator(out)) {
      json.writeStartObject();
      for (var field : head.properties()) {
        json.writeFieldName(field.getKey());
        json.writeTree(field.getValue());
      }
      json.writeArrayFieldStart("rows");
      while (next < end && out.size() < PAGE_BYTES) {
        for (TableData.Row row : rows.from(next)) {
          if (next >= end || out.size() >= PAGE_BYTES) {
            break;
          }
          encoder.writeRow(json, row);
          next++;
        }
        json.flush();
      }
      json.writeEndArray();
      if (page.maxRows() > 0 && next < rows.count()) {
        json.writeStringField("pageToken", token(next));
      }
      json.writeEndObject();
    }
    return out.toByteArray();
  }

  private static String token(long start) {
    byte[] text = Long.toString(start).getBytes(StandardCharsets.UTF_8);
    return Base64.getUrlEncoder().withoutPadding().encodeToString(text);
  }
}
