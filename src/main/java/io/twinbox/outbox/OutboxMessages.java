package io.twinbox.outbox;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.google.protobuf.UnsafeByteOperations;
import com.google.pubsub.v1.PubsubMessage;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import org.apache.camel.Body;
import org.springframework.stereotype.Component;

/**
 * Makes the message of each claimed row: its payload, its own attributes, {@code outbox_id}, and
 * nothing else.
 */
@Component("outboxMessages")
public class OutboxMessages {

  /** The attribute that carries the event's id, the inbox's idempotency key. */
  static final String ID_ATTRIBUTE = "outbox_id";

  private static final TypeReference<Map<String, String>> STRINGS = new TypeReference<>() {};

  private final ObjectMapper json = new ObjectMapper();

  /**
   * @param rows rows as {@code claim.sql} returns them
   * @return one message per row, in their order
   */
  public List<PubsubMessage> from(@Body List<Map<String, Object>> rows)
      throws JsonProcessingException {
    List<PubsubMessage> messages = new ArrayList<>(rows.size());
    for (Map<String, Object> row : rows) {
      PubsubMessage.Builder message = PubsubMessage.newBuilder();
      String attributes = (String) row.get("attributes");
      if (!attributes.equals("{}")) {
        message.putAllAttributes(json.readValue(attributes, STRINGS));
      }
      message.putAttributes(ID_ATTRIBUTE, row.get("id").toString());
      // The row's array is nobody else's: no copy.
      message.setData(UnsafeByteOperations.unsafeWrap((byte[]) row.get("payload")));
      String orderingKey = (String) row.get("ordering_key");
      if (orderingKey != null) {
        message.setOrderingKey(orderingKey);
      }
      messages.add(message.build());
    }
    return messages;
  }
}
