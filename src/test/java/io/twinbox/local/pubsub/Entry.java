package io.twinbox.local.pubsub;

import com.google.pubsub.v1.PubsubMessage;

/** One message in one subscription. Guarded by its queue's lock. */
final class Entry {
  enum State {
    /** To be delivered as soon as a receiver has room. */
    READY,
    /** Delivered; {@link #wakeAtNanos} is when its ack deadline ends. */
    LEASED,
    /** Failed; {@link #wakeAtNanos} is when its retry backoff ends. */
    WAITING,
    /** Acknowledged, kept because an earlier message of its ordering key may still come again. */
    RETAINED,
    /** Gone: acknowledged or dead-lettered. */
    DONE
  }

  /** Position in the subscription: publish order, and what makes two entries differ. */
  final long position;

  final int bytes;

  /** Null when its subscription does not order or the message has no ordering key. */
  final KeyRun run;

  private PubsubMessage message;
  State state = State.READY;

  /** Nacks and expired deadlines so far. */
  int failures;

  /** Already delivered once more than needed, on purpose: not a second time. */
  boolean redelivered;

  String ackId;
  Receiver receiver;

  /** On the clock of {@link System#nanoTime()}; meaningful while LEASED or WAITING. */
  long wakeAtNanos;

  Entry(long position, PubsubMessage message, KeyRun run) {
    this.position = position;
    this.message = message;
    this.bytes = message.getSerializedSize();
    this.run = run;
  }

  PubsubMessage message() {
    return message;
  }

  /** Lets the payload go: a lease table or a key may hold the entry itself a little longer. */
  void release() {
    state = State.DONE;
    message = null;
  }
}
