package io.twinbox.local.pubsub;

import com.google.pubsub.v1.PullResponse;
import com.google.pubsub.v1.ReceivedMessage;
import io.grpc.stub.ServerCallStreamObserver;

/** One unary pull: takes what is there, or the first that comes, and is over. */
final class PullCall extends Receiver {
  /** Keeps an answer of large messages within what clients accept (20 MB in Google's). */
  private static final int MAX_ANSWER_BYTES = 10_000_000;

  private final int maxMessages;
  private final ServerCallStreamObserver<PullResponse> caller;
  private final PullResponse.Builder answer = PullResponse.newBuilder();
  private int bytes;
  private boolean finished;

  PullCall(int maxMessages, ServerCallStreamObserver<PullResponse> caller) {
    super(0, 0);
    this.maxMessages = maxMessages;
    this.caller = caller;
  }

  @Override
  synchronized boolean acceptsMore() {
    return !finished
        && !caller.isCancelled()
        && answer.getReceivedMessagesCount() < maxMessages
        && bytes < MAX_ANSWER_BYTES;
  }

  @Override
  synchronized void take(ReceivedMessage message, int size) {
    answer.addReceivedMessages(message);
    bytes += size;
  }

  @Override
  synchronized void flush() {
    if (answer.getReceivedMessagesCount() > 0) {
      finish();
    }
  }

  /** Answers with what there is, nothing included. */
  synchronized void finish() {
    if (finished) {
      return;
    }
    finished = true;
    if (!caller.isCancelled()) {
      caller.onNext(answer.build());
      caller.onCompleted();
    }
  }

  @Override
  synchronized boolean finished() {
    return finished;
  }

  @Override
  int ackDeadlineSeconds(int subscriptionDefault) {
    return subscriptionDefault;
  }

  @Override
  synchronized void fail(RuntimeException reason) {
    if (!finished) {
      finished = true;
      caller.onError(reason);
    }
  }
}
