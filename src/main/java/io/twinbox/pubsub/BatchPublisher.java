package io.twinbox.pubsub;

import com.google.api.core.ApiFuture;
import com.google.api.gax.grpc.GrpcCallContext;
import com.google.api.gax.rpc.ApiException;
import com.google.api.gax.rpc.StatusCode;
import com.google.cloud.pubsub.v1.TopicAdminClient;
import com.google.pubsub.v1.PublishRequest;
import com.google.pubsub.v1.PublishResponse;
import com.google.pubsub.v1.PubsubMessage;
import io.twinbox.config.Causes;
import java.time.Duration;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;

/**
 * Publishes a claim's messages at once and says what became of each. Serves one claim, on one
 * thread.
 *
 * <p>It calls Pub/Sub's publish method itself instead of going through the client's {@code
 * Publisher}. A claim already is a batch, so nothing need be collected or timed; every call ends
 * within the claim's time, where a Publisher with message ordering retries without bound
 * (java-pubsub#1702) and keeps a key blocked after a failure; and a call takes all of its messages
 * or none, so its outcome is theirs. {@code docs/adr/0002-publish-calls.md} has the comparison.
 */
final class BatchPublisher {

  /** Pub/Sub takes 1,000 messages a call; fewer make calls run side by side. */
  static final int MESSAGES_PER_CALL = 250;

  /**
   * Pub/Sub takes 10,000,000 bytes a call, topic name and framing included; one larger message goes
   * alone.
   */
  static final int BYTES_PER_CALL = 9_000_000;

  private final TopicAdminClient client;
  private final String topic;
  private final List<PubsubMessage> messages;
  private final PublishOutcome[] outcomes;
  private final long deadline;

  /**
   * @param topic full name, {@code projects/…/topics/…}
   * @param time how long all calls together may take; messages whose turn does not come are
   *     released
   */
  BatchPublisher(
      TopicAdminClient client, String topic, List<PubsubMessage> messages, Duration time) {
    this.client = client;
    this.topic = topic;
    this.messages = messages;
    this.outcomes = new PublishOutcome[messages.size()];
    this.deadline = System.nanoTime() + time.toNanos();
  }

  /**
   * Publishes. Messages with one ordering key go one call after the other in the order given, all
   * else side by side.
   *
   * @return one outcome per message, in the order of the messages; never throws for what Pub/Sub
   *     answers
   * @throws InterruptedException when the process gives up waiting: what became of the messages is
   *     unknown then
   */
  List<PublishOutcome> publish() throws InterruptedException {
    List<Call> running = new ArrayList<>();
    List<Call> refused = new ArrayList<>();
    for (Lane lane : lanes()) {
      startNext(lane, running);
    }
    // Calls of a lane follow one another; the list grows while it is walked.
    for (int i = 0; i < running.size(); i++) {
      Call call = running.get(i);
      Throwable failure = settle(call);
      if (failure == null) {
        startNext(call.lane, running);
      } else if (code(failure) == StatusCode.Code.INVALID_ARGUMENT && call.lines.size() > 1) {
        refused.add(call);
      } else {
        PublishOutcome outcome = outcomeOf(failure);
        call.lines.forEach(line -> outcomes[line] = outcome);
        releaseFollowers(call.lane);
      }
    }
    isolate(refused);
    return List.of(outcomes);
  }

  /**
   * Messages that must follow one another: those of one ordering key, or one call's worth of
   * unordered ones.
   */
  private static final class Lane {
    final boolean ordered;
    final List<List<Integer>> calls = new ArrayList<>();
    int bytes;
    int next;

    Lane(boolean ordered) {
      this.ordered = ordered;
    }

    void add(int line, int size) {
      List<Integer> last = calls.isEmpty() ? null : calls.get(calls.size() - 1);
      if (last == null || last.size() >= MESSAGES_PER_CALL || bytes + size > BYTES_PER_CALL) {
        last = new ArrayList<>();
        calls.add(last);
        bytes = 0;
      }
      last.add(line);
      bytes += size;
    }
  }

  private record Call(Lane lane, List<Integer> lines, ApiFuture<PublishResponse> answer) {}

  private List<Lane> lanes() {
    Map<String, Lane> byKey = new LinkedHashMap<>();
    Lane unordered = new Lane(false);
    for (int line = 0; line < messages.size(); line++) {
      PubsubMessage message = messages.get(line);
      String key = message.getOrderingKey();
      Lane lane = key.isEmpty() ? unordered : byKey.computeIfAbsent(key, k -> new Lane(true));
      lane.add(line, message.getSerializedSize());
    }
    List<Lane> lanes = new ArrayList<>(byKey.values());
    for (List<Integer> call : unordered.calls) {
      Lane alone = new Lane(false);
      alone.calls.add(call);
      lanes.add(alone);
    }
    return lanes;
  }

  private void startNext(Lane lane, List<Call> running) {
    if (lane.next == lane.calls.size()) {
      return;
    }
    if (timeLeft().isNegative()) {
      releaseFollowers(lane);
      return;
    }
    running.add(send(lane, lane.calls.get(lane.next++)));
  }

  private Duration timeLeft() {
    return Duration.ofNanos(deadline - System.nanoTime());
  }

  private Call send(Lane lane, List<Integer> lines) {
    PublishRequest.Builder request = PublishRequest.newBuilder().setTopic(topic);
    lines.forEach(line -> request.addMessages(messages.get(line)));
    Duration left = timeLeft().isNegative() ? Duration.ofMillis(1) : timeLeft().plusMillis(1);
    return new Call(
        lane,
        lines,
        client
            .publishCallable()
            .futureCall(
                request.build(),
                GrpcCallContext.createDefault()
                    .withRetrySettings(PubSubConnection.retriesWithin(left))));
  }

  /**
   * Waits for a call, which ends by itself, and keeps its message ids; returns its failure, or
   * null.
   */
  private Throwable settle(Call call) throws InterruptedException {
    try {
      PublishResponse response = call.answer.get();
      if (response.getMessageIdsCount() != call.lines.size()) {
        return new IllegalStateException(
            "Pub/Sub answered %d message ids for %d messages"
                .formatted(response.getMessageIdsCount(), call.lines.size()));
      }
      for (int i = 0; i < call.lines.size(); i++) {
        outcomes[call.lines.get(i)] = PublishOutcome.published(response.getMessageIds(i));
      }
      return null;
    } catch (ExecutionException e) {
      return e.getCause();
    }
  }

  /** Nothing behind a failed call is sent: its messages would overtake the failed ones. */
  private void releaseFollowers(Lane lane) {
    while (lane.next < lane.calls.size()) {
      lane.calls.get(lane.next++).forEach(line -> outcomes[line] = PublishOutcome.released(null));
    }
  }

  /**
   * Pub/Sub refused a whole call because of one message: each goes singly, so that it harms no
   * mate.
   */
  private void isolate(List<Call> refused) throws InterruptedException {
    for (Call call : refused) {
      if (call.lane.ordered) {
        isolateOrdered(call);
      } else {
        List<Call> singles =
            call.lines.stream().map(line -> send(call.lane, List.of(line))).toList();
        for (Call single : singles) {
          settleSingle(single);
        }
      }
    }
  }

  private void isolateOrdered(Call call) throws InterruptedException {
    boolean broken = false;
    for (int line : call.lines) {
      if (broken || timeLeft().isNegative()) {
        outcomes[line] = PublishOutcome.released(null);
      } else {
        broken = !settleSingle(send(call.lane, List.of(line)));
      }
    }
    // What comes behind in the lane waits for the next claim, also when every single went well.
    releaseFollowers(call.lane);
  }

  private boolean settleSingle(Call single) throws InterruptedException {
    Throwable failure = settle(single);
    if (failure != null) {
      outcomes[single.lines.get(0)] = outcomeOf(failure);
    }
    return failure == null;
  }

  private static PublishOutcome outcomeOf(Throwable failure) {
    StatusCode.Code code = code(failure);
    String error =
        code == null ? failure.toString() : "%s: %s".formatted(code, Causes.describe(failure));
    return code == StatusCode.Code.INVALID_ARGUMENT
        ? PublishOutcome.refused(error)
        : PublishOutcome.released(error);
  }

  private static StatusCode.Code code(Throwable failure) {
    return failure instanceof ApiException e ? e.getStatusCode().getCode() : null;
  }
}
