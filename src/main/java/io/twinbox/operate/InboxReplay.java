package io.twinbox.operate;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.core.type.TypeReference;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.google.protobuf.Timestamp;
import io.twinbox.config.TwinboxProperties;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.camel.CamelContext;
import org.apache.camel.Exchange;
import org.apache.camel.component.google.pubsub.GooglePubsubComponent;
import org.apache.camel.component.google.pubsub.GooglePubsubConstants;
import org.apache.camel.spi.HeaderFilterStrategy;
import org.springframework.stereotype.Component;

/** Makes a stored dead letter the message again that the subscriber delivered. */
@Component("inboxReplay")
public class InboxReplay {

  /** Claims without an outcome after which the message is taken to be what kills the process. */
  private static final int MOST_CLAIMS = 3;

  private static final TypeReference<LinkedHashMap<String, String>> STRINGS =
      new TypeReference<>() {};

  private final ObjectMapper json = new ObjectMapper();
  private final CamelContext camelContext;
  private final String keyAttribute;

  InboxReplay(CamelContext camelContext, TwinboxProperties properties) {
    this.camelContext = camelContext;
    this.keyAttribute = properties.consume().keyAttribute();
  }

  /**
   * Body, headers and key as {@code consume} has them. The attributes pass the same filter as those
   * of a delivered message. A key that an operator assigned stands in its attribute, too, where a
   * handler looks for it.
   *
   * @throws IllegalStateException when this replay has ended three processes
   */
  public void restore(Exchange exchange) throws JsonProcessingException {
    @SuppressWarnings("unchecked")
    Map<String, Object> letter = exchange.getMessage().getBody(Map.class);
    exchange.setProperty("replayId", letter.get("id"));
    exchange.setProperty("idempotencyKey", letter.get("idempotency_key"));
    if (((Number) letter.get("replay_claims")).intValue() > MOST_CLAIMS) {
      throw new IllegalStateException(
          "its replay has ended without an outcome %d times: the message may be what ends the process"
              .formatted(MOST_CLAIMS));
    }
    String attributesText = (String) letter.get("attributes");
    Map<String, String> attributes = json.readValue(attributesText, STRINGS);
    if (attributes == null) {
      attributes = new LinkedHashMap<>();
    }
    attributes.put(keyAttribute, (String) letter.get("idempotency_key"));
    Map<String, Object> headers = new HashMap<>();
    headers.put(GooglePubsubConstants.MESSAGE_ID, letter.get("message_id"));
    headers.put(GooglePubsubConstants.ATTRIBUTES, attributes);
    if (letter.get("published_at") instanceof java.sql.Timestamp published) {
      headers.put(
          GooglePubsubConstants.PUBLISH_TIME,
          Timestamp.newBuilder()
              .setSeconds(Math.floorDiv(published.getTime(), 1000L))
              .setNanos(published.getNanos())
              .build());
    }
    HeaderFilterStrategy filter =
        camelContext
            .getComponent("google-pubsub", GooglePubsubComponent.class)
            .getHeaderFilterStrategy();
    attributes.forEach(
        (name, value) -> {
          if (!filter.applyFilterToExternalHeaders(name, value, exchange)) {
            headers.put(name, value);
          }
        });
    exchange.getMessage().removeHeaders("*");
    exchange.getMessage().setHeaders(headers);
    exchange.getMessage().setBody(letter.get("payload"));
  }
}
