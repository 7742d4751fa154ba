package io.twinbox.inbox;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.google.protobuf.Timestamp;
import io.twinbox.config.Causes;
import java.time.Instant;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.util.HashMap;
import java.util.Map;
import org.apache.camel.Exchange;
import org.apache.camel.Message;
import org.apache.camel.component.google.pubsub.GooglePubsubConstants;
import org.springframework.stereotype.Component;

/** A message that cannot take effect, whole, as the parameters of {@code bury.sql}. */
@Component("deadLetter")
public class DeadLetter {

  private final ObjectMapper json = new ObjectMapper();
  private final IdempotencyKey keys;

  DeadLetter(IdempotencyKey keys) {
    this.keys = keys;
  }

  /** Why the handler failed: the innermost cause, as text that PostgreSQL can store. */
  public String reason(Exchange exchange) {
    Throwable failure = exchange.getProperty(Exchange.EXCEPTION_CAUGHT, Throwable.class);
    return storable(failure == null ? "unknown" : Causes.describe(failure));
  }

  /**
   * The statement's parameters, from the message as it was received, whatever a handler made of it
   * since.
   */
  public Map<String, Object> describe(Exchange exchange) throws JsonProcessingException {
    Message message = exchange.getUnitOfWork().getOriginalInMessage();
    String key = exchange.getProperty("idempotencyKey", String.class);
    Map<String, Object> letter = new HashMap<>();
    letter.put("idempotencyKey", keys.fault(key) == null ? key : null);
    letter.put("messageId", message.getHeader(GooglePubsubConstants.MESSAGE_ID, String.class));
    letter.put("payload", message.getBody(byte[].class));
    letter.put(
        "attributes",
        json.writeValueAsString(message.getHeader(GooglePubsubConstants.ATTRIBUTES, Map.class)));
    letter.put("reason", storable(exchange.getProperty("failure", String.class)));
    letter.put("attempts", exchange.getMessage().getHeader("failures", 1, Integer.class));
    letter.put("publishedAt", publishedAt(message));
    return letter;
  }

  private static String storable(String text) {
    return text.replace('\0', '\u2400');
  }

  private static OffsetDateTime publishedAt(Message message) {
    Timestamp time = message.getHeader(GooglePubsubConstants.PUBLISH_TIME, Timestamp.class);
    return time == null
        ? null
        : Instant.ofEpochSecond(time.getSeconds(), time.getNanos()).atOffset(ZoneOffset.UTC);
  }
}
