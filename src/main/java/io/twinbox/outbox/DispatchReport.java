package io.twinbox.outbox;

import java.util.List;
import java.util.Map;
import org.apache.camel.Body;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.stereotype.Component;

/** Says in the log what did not go well with a claim. What went well is counted, not said. */
@Component("dispatchReport")
public class DispatchReport {

  private static final Logger log = LoggerFactory.getLogger("io.twinbox.dispatch");

  private final String topic;

  DispatchReport(@Value("${topic.name}") String topic) {
    this.topic = topic;
  }

  /**
   * @param counts the row that {@code settle.sql} returns
   */
  public void settled(@Body Map<String, Object> counts) {
    long waiting = ((Number) counts.get("waiting")).longValue();
    long dead = ((Number) counts.get("dead")).longValue();
    if (waiting > 0) {
      log.warn(
          "Topic {}: Pub/Sub refused {} message(s); they wait and are tried again. pubsub_outbox_status.last_error says why.",
          topic,
          waiting);
    }
    if (dead > 0) {
      log.error(
          "Topic {}: {} message(s) were refused too often and are dead. They stay in the outbox until an operator replays or discards them; see pubsub_outbox_status where state = 'dead'.",
          topic,
          dead);
    }
  }

  /**
   * Says which row was given up by quarantine.
   *
   * @param rows of {@code claim-suspect.sql}, one or none
   * @return the rows that are to be published
   */
  public List<Map<String, Object>> quarantined(@Body List<Map<String, Object>> rows) {
    for (Map<String, Object> row : rows) {
      if (dead(row)) {
        log.atError()
            .addKeyValue("outbox_id", row.get("id"))
            .addKeyValue("topic", topic)
            // Refusals; what ended it were crashes, which last_error counts.
            .addKeyValue("attempt", row.get("attempts"))
            .log(
                "Topic {}: event {} is dead, {}. Look at how those processes ended, then replay or discard it (docs/repair.md); an ordering key waits until then.",
                topic,
                row.get("id"),
                row.get("last_error"));
      }
    }
    return rows.stream().filter(row -> !dead(row)).toList();
  }

  private static boolean dead(Map<String, Object> row) {
    return Boolean.TRUE.equals(row.get("dead_now"));
  }
}
