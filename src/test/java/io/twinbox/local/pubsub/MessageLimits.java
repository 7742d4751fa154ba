package io.twinbox.local.pubsub;

import com.google.pubsub.v1.PublishRequest;
import com.google.pubsub.v1.PubsubMessage;
import java.nio.charset.StandardCharsets;
import java.util.Map;

/**
 * What the service refuses to publish, as INVALID_ARGUMENT (but for mixed ordering keys) for the
 * whole request: a single bad message fails its batch mates too.
 *
 * <p>Figures: cloud.google.com/pubsub/quotas, "Resource limits". Sizes are in bytes of UTF-8; MB is
 * 1,000,000 bytes.
 */
final class MessageLimits {
  static final int REQUEST_BYTES = 10_000_000;
  static final int MESSAGES_PER_REQUEST = 1_000;
  static final int ATTRIBUTES = 100;
  static final int ATTRIBUTE_KEY_BYTES = 256;
  static final int ATTRIBUTE_VALUE_BYTES = 1_024;
  static final int ORDERING_KEY_BYTES = 1_024;
  static final String RESERVED_KEY_PREFIX = "goog";

  private MessageLimits() {}

  static void check(PublishRequest request) {
    if (request.getMessagesCount() == 0) {
      throw Errors.invalid(
          "The value for message_count is too small. You passed 0 in the request.");
    }
    atMost("message_count", request.getMessagesCount(), MESSAGES_PER_REQUEST);
    atMost("request_size", request.getSerializedSize(), REQUEST_BYTES);
    String firstKey = request.getMessages(0).getOrderingKey();
    for (PubsubMessage message : request.getMessagesList()) {
      check(message);
      if (!message.getOrderingKey().equals(firstKey)) {
        // Seen: FAILED_PRECONDITION, in github.com/yoshidan/google-cloud-rust/issues/226.
        throw Errors.failedPrecondition(
            "In a single publish request, all messages must have no ordering key or they must all"
                + " have the same ordering key.");
      }
    }
  }

  private static void check(PubsubMessage message) {
    if (message.getData().isEmpty() && message.getAttributesCount() == 0) {
      throw Errors.invalid(
          "Some messages in the publish request have empty data and no attributes: a message must"
              + " have non-empty data, or at least one attribute.");
    }
    atMost("attribute_count", message.getAttributesCount(), ATTRIBUTES);
    for (Map.Entry<String, String> attribute : message.getAttributesMap().entrySet()) {
      String key = attribute.getKey();
      if (key.isEmpty()) {
        throw Errors.invalid("An attribute key must not be empty.");
      }
      if (key.startsWith(RESERVED_KEY_PREFIX)) {
        throw Errors.invalid(
            "Attribute keys must not start with '" + RESERVED_KEY_PREFIX + "' (key=" + key + ").");
      }
      atMost("attribute_key_size", bytes(key), ATTRIBUTE_KEY_BYTES);
      atMost("attribute_value_size", bytes(attribute.getValue()), ATTRIBUTE_VALUE_BYTES);
    }
    atMost("ordering_key_size", bytes(message.getOrderingKey()), ORDERING_KEY_BYTES);
  }

  private static void atMost(String what, int value, int limit) {
    if (value > limit) {
      throw Errors.invalid(
          "The value for %s is too large. You passed %d in the request, but the maximum value is %d."
              .formatted(what, value, limit));
    }
  }

  private static int bytes(String text) {
    // A character is at most three bytes a UTF-16 unit: short texts need no encoding to be judged.
    return text.length() * 3 <= ATTRIBUTE_KEY_BYTES
        ? text.length()
        : text.getBytes(StandardCharsets.UTF_8).length;
  }
}
