package io.twinbox.local.pubsub;

import com.google.protobuf.Empty;
import com.google.pubsub.v1.AcknowledgeRequest;
import com.google.pubsub.v1.DeleteSubscriptionRequest;
import com.google.pubsub.v1.GetSubscriptionRequest;
import com.google.pubsub.v1.ListSubscriptionsRequest;
import com.google.pubsub.v1.ListSubscriptionsResponse;
import com.google.pubsub.v1.ModifyAckDeadlineRequest;
import com.google.pubsub.v1.PullRequest;
import com.google.pubsub.v1.PullResponse;
import com.google.pubsub.v1.StreamingPullRequest;
import com.google.pubsub.v1.StreamingPullResponse;
import com.google.pubsub.v1.SubscriberGrpc;
import com.google.pubsub.v1.Subscription;
import com.google.pubsub.v1.UpdateSubscriptionRequest;
import io.grpc.Status;
import io.grpc.stub.ServerCallStreamObserver;
import io.grpc.stub.StreamObserver;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;

/** google.pubsub.v1.Subscriber; calls that are not here answer UNIMPLEMENTED. */
final class SubscriberService extends SubscriberGrpc.SubscriberImplBase {
  /**
   * How long a pull waits for a first message; the service says only "a bounded amount of time".
   */
  private static final int PULL_WAIT_SECONDS = 5;

  private final Registry registry;
  private final Calls calls;
  private final ScheduledExecutorService timer;
  private final Set<StreamingPullCall> streams = ConcurrentHashMap.newKeySet();

  SubscriberService(Registry registry, Calls calls, ScheduledExecutorService timer) {
    this.registry = registry;
    this.calls = calls;
    this.timer = timer;
  }

  @Override
  public void createSubscription(Subscription request, StreamObserver<Subscription> caller) {
    calls.answer(PubSubCall.ADMIN, request, caller, () -> registry.createSubscription(request));
  }

  @Override
  public void getSubscription(GetSubscriptionRequest request, StreamObserver<Subscription> caller) {
    calls.answer(
        PubSubCall.ADMIN,
        request,
        caller,
        () -> registry.subscription(request.getSubscription()).settings());
  }

  @Override
  public void listSubscriptions(
      ListSubscriptionsRequest request, StreamObserver<ListSubscriptionsResponse> caller) {
    calls.answer(
        PubSubCall.ADMIN,
        request,
        caller,
        () -> {
          Page<Subscription> page =
              Page.of(
                  registry.subscriptionsOf(request.getProject()),
                  request.getPageSize(),
                  request.getPageToken(),
                  Subscription::getName);
          return ListSubscriptionsResponse.newBuilder()
              .addAllSubscriptions(page.items())
              .setNextPageToken(page.nextToken())
              .build();
        });
  }

  @Override
  public void updateSubscription(
      UpdateSubscriptionRequest request, StreamObserver<Subscription> caller) {
    calls.answer(
        PubSubCall.ADMIN,
        request,
        caller,
        () -> registry.updateSubscription(request.getSubscription(), request.getUpdateMask()));
  }

  @Override
  public void deleteSubscription(DeleteSubscriptionRequest request, StreamObserver<Empty> caller) {
    calls.answer(
        PubSubCall.ADMIN,
        request,
        caller,
        empty(() -> registry.deleteSubscription(request.getSubscription())));
  }

  @Override
  public void pull(PullRequest request, StreamObserver<PullResponse> caller) {
    calls.start(
        PubSubCall.PULL,
        request,
        caller,
        () -> {
          SubscriptionQueue queue = registry.subscription(request.getSubscription());
          if (request.getMaxMessages() <= 0) {
            throw Errors.invalid(
                "Invalid max_messages given: " + request.getMaxMessages() + ". Must be positive.");
          }
          PullCall pull =
              new PullCall(
                  request.getMaxMessages(), (ServerCallStreamObserver<PullResponse>) caller);
          queue.addReceiver(pull);
          if (!pull.finished()) {
            @SuppressWarnings("deprecation")
            int wait = request.getReturnImmediately() ? 0 : PULL_WAIT_SECONDS;
            timer.schedule(
                () -> {
                  queue.removeReceiver(pull);
                  pull.finish();
                },
                wait,
                TimeUnit.SECONDS);
          }
        });
  }

  @Override
  public StreamObserver<StreamingPullRequest> streamingPull(
      StreamObserver<StreamingPullResponse> caller) {
    return new StreamingPullCall(
        registry, calls, streams, (ServerCallStreamObserver<StreamingPullResponse>) caller);
  }

  @Override
  public void acknowledge(AcknowledgeRequest request, StreamObserver<Empty> caller) {
    calls.answer(
        PubSubCall.ACKNOWLEDGE,
        request,
        caller,
        empty(
            () -> {
              SubscriptionQueue queue = registry.subscription(request.getSubscription());
              requireSome(request.getAckIdsCount());
              queue.acknowledge(request.getAckIdsList());
            }));
  }

  @Override
  public void modifyAckDeadline(ModifyAckDeadlineRequest request, StreamObserver<Empty> caller) {
    calls.answer(
        PubSubCall.MODIFY_ACK_DEADLINE,
        request,
        caller,
        empty(
            () -> {
              SubscriptionQueue queue = registry.subscription(request.getSubscription());
              requireSome(request.getAckIdsCount());
              queue.modifyAckDeadline(request.getAckIdsList(), request.getAckDeadlineSeconds());
            }));
  }

  /** Ends all open streams; their clients may open new ones. */
  void breakStreams(Status status) {
    streams.forEach(stream -> stream.breakWith(status));
  }

  private static void requireSome(int ackIds) {
    if (ackIds == 0) {
      throw Errors.invalid("No ack ids specified.");
    }
  }

  private static Supplier<Empty> empty(Runnable work) {
    return () -> {
      work.run();
      return Empty.getDefaultInstance();
    };
  }
}
