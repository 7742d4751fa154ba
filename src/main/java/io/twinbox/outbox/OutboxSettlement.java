package io.twinbox.outbox;

import io.twinbox.pubsub.PublishOutcome;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import org.springframework.stereotype.Component;

/**
 * Turns the outcomes of a claim into the arrays that {@code settle.sql} takes, so that one
 * statement settles it.
 */
@Component("outboxSettlement")
public class OutboxSettlement {

  private static final int LONGEST_ERROR = 1000;

  /**
   * @param rows the claimed rows
   * @param outcomes what became of each, in the order of the rows
   */
  public Map<String, Object> of(List<Map<String, Object>> rows, List<PublishOutcome> outcomes) {
    int size = rows.size();
    Long[] seqs = new Long[size];
    String[] kinds = new String[size];
    String[] messageIds = new String[size];
    String[] errors = new String[size];
    for (int i = 0; i < size; i++) {
      PublishOutcome outcome = outcomes.get(i);
      seqs[i] = ((Number) rows.get(i).get("seq")).longValue();
      kinds[i] = outcome.kind().name();
      messageIds[i] = outcome.messageId();
      errors[i] = storable(outcome.error());
    }
    return Map.of("seqs", seqs, "kinds", kinds, "messageIds", messageIds, "errors", errors);
  }

  /** One outcome per row, for rows that were not given to Pub/Sub at all. */
  public List<PublishOutcome> releaseAll(List<Map<String, Object>> rows) {
    return Collections.nCopies(rows.size(), PublishOutcome.released(null));
  }

  private static String storable(String error) {
    if (error == null) {
      return null;
    }
    String clean = error.replace('\0', '\u2400');
    return clean.length() <= LONGEST_ERROR ? clean : clean.substring(0, LONGEST_ERROR);
  }
}
