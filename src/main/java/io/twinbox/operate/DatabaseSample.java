package io.twinbox.operate;

import java.util.List;
import java.util.Map;

/**
 * What one look at the database found: rows of {@code sql/operate/sample-*.sql}.
 *
 * @param takenAt on the clock of {@link System#nanoTime}
 * @param topics what is queued, by topic
 * @param sources how far each source was read
 * @param tables rows and dead rows of the busy tables
 * @param inbox this process's consumer, or null when it has none
 */
record DatabaseSample(
    long takenAt,
    List<Map<String, Object>> topics,
    List<Map<String, Object>> sources,
    List<Map<String, Object>> tables,
    Map<String, Object> inbox) {

  /** The topic's figure; 0 when nothing of it is queued. */
  double topic(String topic, String column) {
    return topics.stream()
        .filter(row -> topic.equals(row.get("topic_name")))
        .mapToDouble(row -> ((Number) row.get(column)).doubleValue())
        .findFirst()
        .orElse(0);
  }
}
