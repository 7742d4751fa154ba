package io.twinbox.inbox;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.google.protobuf.Timestamp;
import io.twinbox.config.Causes;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.time.Instant;
import java.time.OffsetDateTime;
import java.time.ZoneOffset;
import java.util.HashMap;
import java.util.Map;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.apache.camel.Exchange;
import org.apache.camel.Message;
import org.apache.camel.component.google.pubsub.GooglePubsubConstants;
import org.springframework.stereotype.Component;

/** A message that cannot take effect, whole, as the parameters of {@code bury.sql}. */
@Component("deadLetter")
public class DeadLetter {

  /** A name that begins with Camel, because no publisher's attribute becomes such a header. */
  private static final String FAILURES = "CamelTwinboxFailures";

  private static final Pattern STATEMENT_FILE = Pattern.compile("([^/:?=&]+\\.sql)");

  private final ObjectMapper json = new ObjectMapper();
  private final IdempotencyKey keys;

  DeadLetter(IdempotencyKey keys) {
    this.keys = keys;
  }

  /**
   * Where and why the handler failed: the step and the innermost cause, as text that PostgreSQL can
   * store.
   */
  public String reason(Exchange exchange) {
    Throwable failure = exchange.getProperty(Exchange.EXCEPTION_CAUGHT, Throwable.class);
    String what = failure == null ? "unknown" : Causes.describe(failure);
    return storable(step(exchange) + what);
  }

  /** The statement file that failed, where it was a SQL step: a handler has several. */
  private static String step(Exchange exchange) {
    String endpoint = exchange.getProperty(Exchange.FAILURE_ENDPOINT, String.class);
    if (endpoint == null) {
      return "";
    }
    Matcher file = STATEMENT_FILE.matcher(URLDecoder.decode(endpoint, StandardCharsets.UTF_8));
    return file.find() ? file.group(1) + ": " : "";
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
    letter.put("attempts", exchange.getMessage().getHeader(FAILURES, 1, Integer.class));
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
