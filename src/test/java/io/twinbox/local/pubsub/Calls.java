package io.twinbox.local.pubsub;

import com.google.protobuf.MessageLite;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.stub.StreamObserver;
import java.util.Optional;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.function.Supplier;

/** Answers calls: with what they ask for, with their error, or with the fault that was ordered. */
final class Calls {
  private final LocalPubSubFaults faults;
  private final ScheduledExecutorService timer;

  Calls(LocalPubSubFaults faults, ScheduledExecutorService timer) {
    this.faults = faults;
    this.timer = timer;
  }

  /** A call that is answered at once. */
  <A> void answer(
      PubSubCall call, MessageLite request, StreamObserver<A> caller, Supplier<A> work) {
    LocalPubSubFaults.Decision decision = faults.decide(call, request);
    later(
        decision,
        caller,
        () -> {
          A answer = work.get();
          if (decision.afterwards() != null) {
            throw decision.afterwards().asRuntimeException();
          }
          caller.onNext(answer);
          caller.onCompleted();
        });
  }

  /** A call whose work answers it itself, now or later. */
  void start(PubSubCall call, MessageLite request, StreamObserver<?> caller, Runnable work) {
    later(faults.decide(call, request), caller, work);
  }

  /** What every call is answered with just now, if so ordered. */
  Optional<Status> refusal() {
    return faults.refusal();
  }

  private void later(LocalPubSubFaults.Decision decision, StreamObserver<?> caller, Runnable work) {
    Runnable guarded = () -> guard(decision, caller, work);
    if (decision.held() != null) {
      decision.held().thenRunAsync(guarded, timer);
    } else if (decision.delay().isZero()) {
      guarded.run();
    } else {
      timer.schedule(guarded, decision.delay().toNanos(), TimeUnit.NANOSECONDS);
    }
  }

  private static void guard(
      LocalPubSubFaults.Decision decision, StreamObserver<?> caller, Runnable work) {
    try {
      if (decision.instead() != null) {
        throw decision.instead().asRuntimeException();
      }
      work.run();
    } catch (StatusRuntimeException refusal) {
      caller.onError(refusal);
    } catch (RuntimeException bug) {
      caller.onError(
          Status.INTERNAL.withDescription(bug.toString()).withCause(bug).asRuntimeException());
    }
  }
}
