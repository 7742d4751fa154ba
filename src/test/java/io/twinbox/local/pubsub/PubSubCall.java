package io.twinbox.local.pubsub;

/** The calls of the service that a fault can be aimed at. */
public enum PubSubCall {
  PUBLISH,
  PULL,
  /** The opening of a stream; what flows over an open stream is not a call of its own. */
  STREAMING_PULL,
  ACKNOWLEDGE,
  MODIFY_ACK_DEADLINE,
  /** Creating, reading, listing, changing and deleting topics and subscriptions. */
  ADMIN
}
