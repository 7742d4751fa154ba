package io.twinbox.local.pubsub;

import com.google.protobuf.MessageLite;
import com.google.pubsub.v1.PublishRequest;
import com.google.pubsub.v1.PubsubMessage;
import io.grpc.Status;
import java.time.Duration;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.CompletableFuture;
import java.util.concurrent.CopyOnWriteArrayList;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.function.Consumer;
import java.util.function.Predicate;

/**
 * What goes wrong on purpose. Everything can be switched while the server runs; at the start
 * nothing is on. Thread-safe.
 */
public final class LocalPubSubFaults {
  private static final Status REFUSED =
      Status.UNAVAILABLE.withDescription("The local Pub/Sub was told to refuse every call.");
  private static final Status ANSWER_LOST =
      Status.UNAVAILABLE.withDescription("The local Pub/Sub was told to lose this answer.");

  /** Which part of all messages, by a hash that depends on the seed only. */
  private record Share(double share, long seed) {
    static final Share NONE = new Share(0, 0);

    boolean holds(PubsubMessage message, long position) {
      if (share <= 0) {
        return false;
      }
      String id = message.getAttributesMap().get(LocalPubSubStats.DEFAULT_DISTINCT_ATTRIBUTE);
      long mixed = mix(seed ^ mix(id == null ? position : id.hashCode() + (1L << 40)));
      return (mixed >>> 11) * 0x1.0p-53 < share;
    }

    /** The finalizer of SplitMix64, as in {@link java.util.SplittableRandom}. */
    private static long mix(long z) {
      z = (z + 0x9e3779b97f4a7c15L) * 0xbf58476d1ce4e5b9L;
      z = (z ^ (z >>> 30)) * 0xbf58476d1ce4e5b9L;
      z = (z ^ (z >>> 27)) * 0x94d049bb133111ebL;
      return z ^ (z >>> 31);
    }
  }

  /** A standing order to fail calls, to be counted and to be taken back. */
  public final class Rule implements AutoCloseable {
    private final PubSubCall call;
    private final Predicate<MessageLite> matches;
    private final Status status;
    private final boolean afterApplying;
    private final AtomicInteger remaining;
    private final AtomicInteger hits = new AtomicInteger();

    private Rule(
        PubSubCall call,
        Predicate<MessageLite> matches,
        Status status,
        boolean afterApplying,
        int times) {
      this.call = call;
      this.matches = matches;
      this.status = status;
      this.afterApplying = afterApplying;
      this.remaining = new AtomicInteger(times);
    }

    /** How many calls it has failed. */
    public int hits() {
      return hits.get();
    }

    /** Takes the rule back. */
    @Override
    public void close() {
      rules.remove(this);
    }

    private boolean takes(PubSubCall made, MessageLite request) {
      if (call != null && call != made || !matches.test(request)) {
        return false;
      }
      if (remaining.getAndUpdate(left -> left == FOR_EVER ? left : Math.max(0, left - 1)) == 0) {
        return false;
      }
      if (remaining.get() == 0) {
        rules.remove(this);
      }
      hits.incrementAndGet();
      return true;
    }
  }

  /** Publishes that are kept without an answer, and not done, until this is closed. */
  public final class Hold implements AutoCloseable {
    private final Predicate<PublishRequest> matches;
    private final AtomicInteger calls = new AtomicInteger();
    private final CompletableFuture<Void> end = new CompletableFuture<>();

    private Hold(Predicate<PublishRequest> matches) {
      this.matches = matches;
    }

    /** How many calls it has kept. */
    public int calls() {
      return calls.get();
    }

    /** Lets them go on, and keeps no more. */
    @Override
    public void close() {
      holds.remove(this);
      end.complete(null);
    }
  }

  private static final int FOR_EVER = -1;

  /**
   * What is to happen to one call.
   *
   * @param instead the status to answer with, without doing anything; null to go on
   * @param afterwards the status to answer with once it was done; null for the true answer
   * @param held what it waits for; null for nothing
   */
  record Decision(
      Duration delay, Status instead, Status afterwards, CompletableFuture<Void> held) {}

  private final List<Rule> rules = new CopyOnWriteArrayList<>();
  private final List<Hold> holds = new CopyOnWriteArrayList<>();
  private volatile Share redeliver = Share.NONE;
  private volatile Share twice = Share.NONE;
  private volatile Duration publishLatency = Duration.ZERO;
  private volatile Duration otherLatency = Duration.ZERO;
  private volatile boolean refusing;
  private volatile Consumer<Status> breakStreams = status -> {};

  LocalPubSubFaults() {}

  /**
   * Delivers a share of the messages once more after they were acknowledged. Which ones depends on
   * the seed and the message's {@code outbox_id} (without one, on its place in the subscription).
   * Each message at most once; with an ordering key, what is out of the key's later messages comes
   * again too.
   *
   * @param share 0 (none) to 1 (each)
   */
  public void redeliverAcknowledged(double share, long seed) {
    redeliver = share(share, seed);
  }

  /**
   * Delivers a share of the messages twice at the same time, to two streams if there are two.
   * Messages with an ordering key in an ordering subscription are left out: the service never has
   * one out twice.
   *
   * @param share 0 (none) to 1 (each)
   */
  public void deliverTwice(double share, long seed) {
    twice = share(share, seed);
  }

  /** Answers each publish this much later (and does it later, too). */
  public void publishLatency(Duration latency) {
    publishLatency = latency;
  }

  /** Answers each call but publish and streams this much later. */
  public void otherLatency(Duration latency) {
    otherLatency = latency;
  }

  /** Fails the next calls of any kind. */
  public Rule failNext(int calls, Status status) {
    return add(new Rule(null, request -> true, status, false, calls));
  }

  public Rule failNext(PubSubCall call, int calls, Status status) {
    return add(new Rule(call, request -> true, status, false, calls));
  }

  /**
   * Fails every call whose request matches, until the rule is closed.
   *
   * @param request is given the protocol's request, {@link PublishRequest} for a publish
   */
  public Rule failWhen(PubSubCall call, Predicate<MessageLite> request, Status status) {
    return add(new Rule(call, request, status, false, FOR_EVER));
  }

  /** Fails every publish that holds a matching message, with all its other messages. */
  public Rule failPublishWhen(Predicate<PubsubMessage> message, Status status) {
    return failWhen(
        PubSubCall.PUBLISH,
        request -> ((PublishRequest) request).getMessagesList().stream().anyMatch(message),
        status);
  }

  /** Keeps every publish that holds a matching message; other calls go on. */
  public Hold holdPublishWhen(Predicate<PubsubMessage> message) {
    Hold hold = new Hold(request -> request.getMessagesList().stream().anyMatch(message));
    holds.add(hold);
    return hold;
  }

  /** {@link #loseAnswers} of publishes. */
  public Rule losePublishAnswers(int calls) {
    return loseAnswers(PubSubCall.PUBLISH, calls);
  }

  /**
   * Does what is asked, but answers UNAVAILABLE: what a caller sees when the answer is lost on its
   * way.
   *
   * @param call not a pull: what a lost pull held just stays leased
   */
  public Rule loseAnswers(PubSubCall call, int calls) {
    if (call == PubSubCall.PULL || call == PubSubCall.STREAMING_PULL) {
      throw new IllegalArgumentException("The answer of " + call + " cannot be lost");
    }
    return add(new Rule(call, request -> true, ANSWER_LOST, true, calls));
  }

  /** Answers every call UNAVAILABLE and breaks the open streams, until told otherwise. */
  public void refuseAll(boolean refuse) {
    refusing = refuse;
    if (refuse) {
      breakStreams.accept(REFUSED);
    }
  }

  /** Breaks the open streams once, as the service does now and then. */
  public void breakStreams(Status status) {
    breakStreams.accept(status);
  }

  /** Back to a server without faults. */
  public void clear() {
    rules.clear();
    holds.forEach(Hold::close);
    redeliver = Share.NONE;
    twice = Share.NONE;
    publishLatency = Duration.ZERO;
    otherLatency = Duration.ZERO;
    refusing = false;
  }

  void streamsBrokenBy(Consumer<Status> breaker) {
    breakStreams = breaker;
  }

  Optional<Status> refusal() {
    return refusing ? Optional.of(REFUSED) : Optional.empty();
  }

  Decision decide(PubSubCall call, MessageLite request) {
    Duration delay =
        switch (call) {
          case PUBLISH -> publishLatency;
          case STREAMING_PULL -> Duration.ZERO;
          default -> otherLatency;
        };
    if (refusing) {
      return new Decision(Duration.ZERO, REFUSED, null, null);
    }
    CompletableFuture<Void> held = held(call, request);
    for (Rule rule : rules) {
      if (rule.takes(call, request)) {
        return rule.afterApplying
            ? new Decision(delay, null, rule.status, held)
            : new Decision(delay, rule.status, null, held);
      }
    }
    return new Decision(delay, null, null, held);
  }

  private CompletableFuture<Void> held(PubSubCall call, MessageLite request) {
    if (call != PubSubCall.PUBLISH) {
      return null;
    }
    for (Hold hold : holds) {
      if (hold.matches.test((PublishRequest) request)) {
        hold.calls.incrementAndGet();
        return hold.end;
      }
    }
    return null;
  }

  boolean redeliversAcknowledged(PubsubMessage message, long position) {
    return redeliver.holds(message, position);
  }

  boolean deliversTwice(PubsubMessage message, long position) {
    return twice.holds(message, position);
  }

  private Rule add(Rule rule) {
    rules.add(rule);
    return rule;
  }

  private static Share share(double share, long seed) {
    if (!(share >= 0 && share <= 1)) {
      throw new IllegalArgumentException("A share is between 0 and 1, not " + share);
    }
    return new Share(share, seed);
  }
}
