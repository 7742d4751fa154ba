package io.twinbox.local.pubsub;

import com.google.pubsub.v1.StreamingPullRequest;
import com.google.pubsub.v1.StreamingPullResponse;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.stub.ServerCallStreamObserver;
import io.grpc.stub.StreamObserver;
import java.util.List;
import java.util.Set;

/** The receiving side of one streaming pull. gRPC calls it from one thread at a time. */
final class StreamingPullCall implements StreamObserver<StreamingPullRequest> {
  private final Registry registry;
  private final Calls calls;
  private final Set<StreamingPullCall> open;
  private final ServerCallStreamObserver<StreamingPullResponse> caller;
  private boolean keepsAlive;

  /** Whether the first request was seen; without a {@link #stream} after it, it was refused. */
  private boolean asked;

  private volatile SubscriptionQueue queue;
  private volatile PullStream stream;

  StreamingPullCall(
      Registry registry,
      Calls calls,
      Set<StreamingPullCall> open,
      ServerCallStreamObserver<StreamingPullResponse> caller) {
    this.registry = registry;
    this.calls = calls;
    this.open = open;
    this.caller = caller;
    caller.setOnReadyHandler(this::onReady);
    caller.setOnCancelHandler(this::onCancelled);
    caller.setOnCloseHandler(() -> open.remove(this));
  }

  @Override
  public void onNext(StreamingPullRequest request) {
    if (asked) {
      if (stream != null && !stream.finished()) {
        guarded(() -> more(request));
      }
    } else {
      asked = true;
      calls.start(PubSubCall.STREAMING_PULL, request, caller, () -> open(request));
    }
  }

  private void open(StreamingPullRequest request) {
    SubscriptionQueue wanted = registry.subscription(request.getSubscription());
    RedeliveryPolicy.requireAckDeadline(request.getStreamAckDeadlineSeconds());
    keepsAlive = request.getProtocolVersion() >= 1;
    queue = wanted;
    acknowledge(request);
    stream = new PullStream(request, wanted.settings(), caller);
    open.add(this);
    wanted.addReceiver(stream);
    // Either may have happened before this stream was among the open ones.
    calls.refusal().ifPresent(this::breakWith);
    if (caller.isCancelled()) {
      onCancelled();
    }
  }

  private void more(StreamingPullRequest request) {
    if (!request.getSubscription().isEmpty()) {
      throw Errors.invalid("The subscription may be given in the first request only.");
    }
    if (request.getStreamAckDeadlineSeconds() != 0) {
      RedeliveryPolicy.requireAckDeadline(request.getStreamAckDeadlineSeconds());
      stream.changeAckDeadline(request.getStreamAckDeadlineSeconds());
    }
    acknowledge(request);
    if (keepsAlive
        && request.getAckIdsCount() == 0
        && request.getModifyDeadlineAckIdsCount() == 0) {
      stream.pong();
    }
  }

  private void acknowledge(StreamingPullRequest request) {
    if (request.getModifyDeadlineAckIdsCount() != request.getModifyDeadlineSecondsCount()) {
      throw Errors.invalid("modify_deadline_seconds and modify_deadline_ack_ids differ in size.");
    }
    if (request.getAckIdsCount() > 0) {
      queue.acknowledge(request.getAckIdsList());
    }
    for (int i = 0; i < request.getModifyDeadlineAckIdsCount(); i++) {
      queue.modifyAckDeadline(
          List.of(request.getModifyDeadlineAckIds(i)), request.getModifyDeadlineSeconds(i));
    }
  }

  @Override
  public void onError(Throwable lost) {
    onCancelled();
  }

  @Override
  public void onCompleted() {
    if (stream != null) {
      leave();
      stream.complete();
    } else if (!asked) {
      caller.onCompleted();
    }
  }

  void breakWith(Status status) {
    leave();
    stream.fail(status.asRuntimeException());
  }

  private void guarded(Runnable work) {
    try {
      work.run();
    } catch (StatusRuntimeException refusal) {
      leave();
      stream.fail(refusal);
    }
  }

  private void onReady() {
    if (queue != null) {
      queue.receiverReady();
    }
  }

  private void onCancelled() {
    if (stream != null) {
      stream.abandoned();
      leave();
    }
  }

  /** Before the stream ends: nothing may be handed to it that can no longer be sent. */
  private void leave() {
    open.remove(this);
    queue.removeReceiver(stream);
  }
}
