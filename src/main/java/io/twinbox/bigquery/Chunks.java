package io.twinbox.bigquery;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.google.cloud.bigquery.FieldValue;
import com.google.cloud.bigquery.FieldValueList;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;
import java.util.Map;
import java.util.NoSuchElementException;

/**
 * Cuts a result into chunks of bounded rows and bytes, each as the arrays that {@code
 * queue-events.sql} takes. Rows come from BigQuery page by page as they are asked for, so memory
 * does not grow with the result.
 *
 * <p>Finds what a row must not be because PostgreSQL could not even be told: a missing key, a NUL
 * in text, attributes that are no JSON object of strings. Limits of Pub/Sub are the statement's to
 * find.
 */
class Chunks implements Iterator<Map<String, Object>> {

  private static final ObjectMapper JSON = new ObjectMapper();

  private final Iterator<FieldValueList> rows;
  private final Columns columns;
  private final ExtractionRun run;
  private final int maxRows;
  private final long maxBytes;

  Chunks(
      Iterator<FieldValueList> rows,
      Columns columns,
      ExtractionRun run,
      int maxRows,
      long maxBytes) {
    this.rows = rows;
    this.columns = columns;
    this.run = run;
    this.maxRows = maxRows;
    this.maxBytes = maxBytes;
  }

  @Override
  public boolean hasNext() {
    return !run.isClosed() && rows.hasNext();
  }

  @Override
  public Map<String, Object> next() {
    if (!hasNext()) {
      throw new NoSuchElementException();
    }
    List<String> eventKeys = new ArrayList<>();
    List<byte[]> payloads = new ArrayList<>();
    List<String> attributes = new ArrayList<>();
    List<String> orderingKeys = new ArrayList<>();
    List<String> topics = new ArrayList<>();
    List<String> reasons = new ArrayList<>();
    long bytes = 0;
    // A full chunk does not wait for the page behind it.
    while (eventKeys.size() < maxRows && bytes < maxBytes && rows.hasNext()) {
      FieldValueList row = rows.next();
      run.saw(
          columns.watermark() == null
              ? null
              : Watermark.of(run.watermarkType(), row.get(columns.watermark())));
      String eventKey = text(row, "event_key");
      String payload = text(row, "payload");
      String attribute = columns.hasAttributes() ? text(row, "attributes") : null;
      String orderingKey = columns.hasOrderingKey() ? text(row, "ordering_key") : null;
      String topic = columns.hasTopicName() ? text(row, "topic_name") : null;
      byte[] data = payload == null ? null : payload.getBytes(StandardCharsets.UTF_8);
      reasons.add(fault(eventKey, payload, attribute, orderingKey, topic));
      eventKeys.add(storable(eventKey));
      payloads.add(data);
      attributes.add(storable(attribute));
      // An empty ordering key is none: Pub/Sub makes no difference.
      orderingKeys.add(orderingKey == null || orderingKey.isEmpty() ? null : storable(orderingKey));
      topics.add(storable(topic));
      bytes += data == null ? 0 : data.length;
    }
    return Map.of(
        "eventKeys", eventKeys.toArray(String[]::new),
        "payloads", payloads.toArray(byte[][]::new),
        "attributes", attributes.toArray(String[]::new),
        "orderingKeys", orderingKeys.toArray(String[]::new),
        "topics", topics.toArray(String[]::new),
        "reasons", reasons.toArray(String[]::new));
  }

  private static String text(FieldValueList row, String column) {
    FieldValue value = row.get(column);
    return value.isNull() ? null : value.getStringValue();
  }

  private static String fault(
      String eventKey, String payload, String attributes, String orderingKey, String topic) {
    if (eventKey == null) {
      return "event_key is NULL; every event needs its own key";
    }
    if (eventKey.isBlank()) {
      return "event_key is blank; every event needs its own key";
    }
    if (eventKey.indexOf('\0') >= 0) {
      return "event_key contains a NUL";
    }
    if (payload == null) {
      return "payload is NULL";
    }
    if (orderingKey != null && orderingKey.indexOf('\0') >= 0) {
      return "ordering_key contains a NUL";
    }
    if (topic != null && !topic.matches("[A-Za-z][A-Za-z0-9._~+%-]{2,254}")) {
      return "topic_name '%s' is no Pub/Sub topic's short name".formatted(storable(topic));
    }
    return attributes == null ? null : attributesFault(attributes);
  }

  private static String attributesFault(String text) {
    try {
      JsonNode node = JSON.readTree(text);
      if (node == null || !node.isObject()) {
        return "attributes are no JSON object of strings";
      }
      for (Map.Entry<String, JsonNode> attribute : node.properties()) {
        if (attribute.getKey().indexOf('\0') >= 0
            || (attribute.getValue().isTextual()
                && attribute.getValue().textValue().indexOf('\0') >= 0)) {
          return "attribute '%s' contains a NUL".formatted(storable(attribute.getKey()));
        }
        if (!isUtf8(attribute.getKey())
            || (attribute.getValue().isTextual() && !isUtf8(attribute.getValue().textValue()))) {
          return "attribute '%s' is no UTF-8: it holds half of a surrogate pair"
              .formatted(
                  attribute
                      .getKey()
                      .codePoints()
                      .map(c -> isSurrogate(c) ? '\uFFFD' : c)
                      .collect(
                          StringBuilder::new,
                          StringBuilder::appendCodePoint,
                          StringBuilder::append));
        }
      }
      return null;
    } catch (JsonProcessingException e) {
      return "attributes are no JSON: " + storable(e.getOriginalMessage());
    }
  }

  /** JSON can escape what UTF-8 cannot say. */
  private static boolean isUtf8(String text) {
    return text.codePoints().noneMatch(Chunks::isSurrogate);
  }

  private static boolean isSurrogate(int codePoint) {
    return codePoint >= Character.MIN_SURROGATE && codePoint <= Character.MAX_SURROGATE;
  }

  /** PostgreSQL cannot store a NUL in text; only rejects show the sign that takes its place. */
  private static String storable(String text) {
    return text == null ? null : text.replace('\0', '\u2400');
  }
}
