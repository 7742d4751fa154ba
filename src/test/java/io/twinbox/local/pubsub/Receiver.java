package io.twinbox.local.pubsub;

import com.google.pubsub.v1.ReceivedMessage;
import java.util.LinkedHashSet;

/**
 * Whoever a subscription delivers to: a stream, or one unary pull. Guarded by the queue's lock,
 * except where a subclass says otherwise.
 */
abstract class Receiver {
  /** Keys whose next message must come here because their earlier ones are still out here. */
  final LinkedHashSet<KeyRun> boundRuns = new LinkedHashSet<>();

  private final long maxMessages;
  private final long maxBytes;
  private long outstandingMessages;
  private long outstandingBytes;

  /** Limits of 0 or less mean none, as in the protocol. */
  Receiver(long maxMessages, long maxBytes) {
    this.maxMessages = maxMessages;
    this.maxBytes = maxBytes;
  }

  /**
   * Whether one more message may go out. Like the service's, the byte limit is looked at before a
   * message is added: a message larger than the limit is still delivered.
   */
  final boolean hasRoom() {
    return (maxMessages <= 0 || outstandingMessages < maxMessages)
        && (maxBytes <= 0 || outstandingBytes < maxBytes)
        && acceptsMore();
  }

  final void deliver(ReceivedMessage message, int bytes) {
    outstandingMessages++;
    outstandingBytes += bytes;
    take(message, bytes);
  }

  /** A message delivered here is no longer out here: acknowledged, nacked or expired. */
  final void settled(int bytes) {
    outstandingMessages--;
    outstandingBytes -= bytes;
  }

  /** Whether the transport can take a message now without piling it up in memory. */
  abstract boolean acceptsMore();

  abstract void take(ReceivedMessage message, int bytes);

  /** Sends what was taken. */
  abstract void flush();

  /** True when it will never take another message. */
  abstract boolean finished();

  /** The lease, in seconds, that a delivery to here starts with. */
  abstract int ackDeadlineSeconds(int subscriptionDefault);

  /** The subscription is gone, or the server is told to refuse. */
  abstract void fail(RuntimeException reason);
}
