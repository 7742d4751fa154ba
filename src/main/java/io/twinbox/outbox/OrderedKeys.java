package io.twinbox.outbox;

import java.util.List;
import java.util.Map;
import org.apache.camel.Body;
import org.apache.camel.Exchange;
import org.springframework.stereotype.Component;

/**
 * Remembers how far this pod has looked through the ordering keys. A claim looks at a bounded
 * number of keys; without the cursor, keys behind many blocked ones would never get their turn.
 */
@Component("orderedKeys")
public class OrderedKeys {

  private volatile String cursor = "";

  /** The last key looked at, empty to begin anew. */
  public String cursor() {
    return cursor;
  }

  /**
   * Takes the cursor from the rows of {@code claim-ordered.sql}, and the row without an event,
   * which is there when nothing was claimed, out of them. The exchange's cursor is the new one
   * then.
   */
  public List<Map<String, Object>> advance(
      @Body List<Map<String, Object>> rows, Exchange exchange) {
    String last = (String) rows.get(0).get("cursor");
    cursor = last == null ? "" : last;
    exchange.setProperty("cursor", cursor);
    return rows.stream().filter(row -> row.get("seq") != null).toList();
  }
}
