package io.twinbox.local.pubsub;

import com.google.pubsub.v1.ReceivedMessage;
import com.google.pubsub.v1.StreamingPullRequest;
import com.google.pubsub.v1.StreamingPullResponse;
import com.google.pubsub.v1.StreamingPullResponse.SubscriptionProperties;
import com.google.pubsub.v1.Subscription;
import io.grpc.stub.ServerCallStreamObserver;

/** The sending side of one streaming pull. Its own monitor guards what the lock does not. */
final class PullStream extends Receiver {
  /** A response is sent when it holds this much, so that no lease waits for a long one. */
  private static final int RESPONSE_MESSAGES = 250;

  private static final int RESPONSE_BYTES = 500_000;

  private final ServerCallStreamObserver<StreamingPullResponse> caller;
  private final SubscriptionProperties properties;
  private volatile int ackDeadlineSeconds;
  private StreamingPullResponse.Builder response;
  private int responseBytes;
  private boolean finished;

  PullStream(
      StreamingPullRequest opening,
      Subscription settings,
      ServerCallStreamObserver<StreamingPullResponse> caller) {
    super(opening.getMaxOutstandingMessages(), opening.getMaxOutstandingBytes());
    this.caller = caller;
    this.ackDeadlineSeconds = opening.getStreamAckDeadlineSeconds();
    // The client takes every response's word on these: without it, it stops ordering.
    this.properties =
        SubscriptionProperties.newBuilder()
            .setMessageOrderingEnabled(settings.getEnableMessageOrdering())
            .setExactlyOnceDeliveryEnabled(settings.getEnableExactlyOnceDelivery())
            .build();
  }

  void changeAckDeadline(int seconds) {
    ackDeadlineSeconds = seconds;
  }

  @Override
  synchronized boolean acceptsMore() {
    return !finished && (response != null || caller.isReady());
  }

  @Override
  synchronized void take(ReceivedMessage message, int bytes) {
    if (response == null) {
      response = StreamingPullResponse.newBuilder().setSubscriptionProperties(properties);
    }
    response.addReceivedMessages(message);
    responseBytes += bytes;
    if (response.getReceivedMessagesCount() >= RESPONSE_MESSAGES
        || responseBytes >= RESPONSE_BYTES) {
      flush();
    }
  }

  @Override
  synchronized void flush() {
    if (response != null) {
      send(response.build());
      response = null;
      responseBytes = 0;
    }
  }

  /** Answers a client that asks whether the stream still lives. */
  synchronized void pong() {
    send(StreamingPullResponse.newBuilder().setSubscriptionProperties(properties).build());
  }

  private void send(StreamingPullResponse message) {
    // A stream that its client left needs no answer: what it was given comes back by its deadline.
    if (!finished && !caller.isCancelled()) {
      caller.onNext(message);
    }
  }

  @Override
  synchronized boolean finished() {
    return finished;
  }

  @Override
  int ackDeadlineSeconds(int subscriptionDefault) {
    return ackDeadlineSeconds;
  }

  /** The client has nothing more to send. */
  synchronized void complete() {
    if (!finished) {
      finished = true;
      if (!caller.isCancelled()) {
        caller.onCompleted();
      }
    }
  }

  /** The client is gone. */
  synchronized void abandoned() {
    finished = true;
  }

  @Override
  synchronized void fail(RuntimeException reason) {
    if (!finished) {
      finished = true;
      if (!caller.isCancelled()) {
        caller.onError(reason);
      }
    }
  }
}
