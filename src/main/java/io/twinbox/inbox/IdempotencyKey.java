package io.twinbox.inbox;

import java.nio.charset.StandardCharsets;
import org.apache.camel.ExchangeProperty;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.stereotype.Component;

/**
 * What a message's key must be: text of 1 to 512 bytes without NUL, which PostgreSQL cannot store,
 * and not only blanks.
 */
@Component("idempotencyKey")
public class IdempotencyKey {

  /** The longest key in bytes of UTF-8; the inbox's primary key has the same limit. */
  static final int LONGEST = 512;

  private final String attribute;

  IdempotencyKey(@Value("${twinbox.consume.key-attribute}") String attribute) {
    this.attribute = attribute;
  }

  /** What is wrong with the key, or null when it can be used. A route takes null for false. */
  public String fault(@ExchangeProperty("idempotencyKey") String key) {
    if (key == null) {
      return "the message has no attribute '" + attribute + "'";
    }
    if (key.isBlank()) {
      return "the attribute '" + attribute + "' is blank";
    }
    if (key.indexOf('\0') >= 0) {
      return "the attribute '" + attribute + "' contains a NUL";
    }
    int bytes = key.getBytes(StandardCharsets.UTF_8).length;
    if (bytes > LONGEST) {
      return "the attribute '%s' has %d bytes; at most %d are a key"
          .formatted(attribute, bytes, LONGEST);
    }
    return null;
  }
}
