package io.twinbox.local.pubsub;

import com.google.pubsub.v1.PubsubMessage;
import com.google.pubsub.v1.ReceivedMessage;
import com.google.pubsub.v1.Subscription;
import java.util.ArrayList;
import java.util.List;
import java.util.Queue;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.ReentrantLock;
import java.util.regex.Pattern;

/**
 * One subscription at work: hands messages out, takes acknowledgements, and brings back what was
 * not acknowledged. Everything happens under one lock a subscription.
 */
final class SubscriptionQueue {
  private static final AtomicInteger INSTANCES = new AtomicInteger();
  private static final Pattern ACK_ID = Pattern.compile("[0-9a-z]+-[0-9a-z]+");

  private record Letter(String topic, PubsubMessage message) {}

  private final ReentrantLock lock = new ReentrantLock();
  private final Backlog backlog = new Backlog();
  private final LeaseTable leases;
  private final List<Receiver> receivers = new ArrayList<>();
  private final Queue<Letter> letters = new ConcurrentLinkedQueue<>();
  private final LocalPubSubFaults faults;
  private final LocalPubSubStats stats;
  private final DeadLetters deadLetters;

  /** Tells the ack ids of this subscription from those of one that had its name before. */
  private final String ackIdPrefix = Integer.toString(INSTANCES.incrementAndGet(), 36) + "-";

  private volatile Subscription settings;
  private volatile int size;
  private volatile boolean deleted;
  private long lastPosition;
  private long lastLease;
  private int turn;

  SubscriptionQueue(
      Subscription settings,
      ScheduledExecutorService timer,
      LocalPubSubFaults faults,
      LocalPubSubStats stats,
      DeadLetters deadLetters) {
    this.settings = settings;
    this.faults = faults;
    this.stats = stats;
    this.deadLetters = deadLetters;
    this.leases = new LeaseTable(timer, this::onDue);
  }

  Subscription settings() {
    return settings;
  }

  void change(Subscription newSettings) {
    act(() -> settings = newSettings);
  }

  /** Messages not yet acknowledged, those being delivered included. */
  int size() {
    return size;
  }

  void add(List<PubsubMessage> messages) {
    act(
        () -> {
          for (PubsubMessage message : messages) {
            backlog.add(newEntry(message));
          }
        });
  }

  void addReceiver(Receiver receiver) {
    act(() -> receivers.add(receiver));
    if (deleted) {
      receiver.fail(Errors.notFound(settings.getName()));
    }
  }

  /**
   * Nothing more goes to this receiver. What it has stays leased until its ack deadline, as in the
   * service: the client may still acknowledge over another connection.
   */
  void removeReceiver(Receiver receiver) {
    act(() -> receivers.remove(receiver));
  }

  /** A receiver may have room again. */
  void receiverReady() {
    act(() -> {});
  }

  /**
   * Ids of leases that are over are ignored, as the service does without exactly-once delivery.
   * With it they are named in the refusal, and the others are acknowledged all the same.
   */
  void acknowledge(List<String> ackIds) {
    requireAckIds(ackIds);
    List<String> over = new ArrayList<>();
    act(
        () -> {
          over.addAll(over(ackIds));
          ackIds.forEach(this::acknowledge);
        });
    refuse(over);
  }

  /**
   * As {@link #acknowledge(List)} about leases that are over.
   *
   * @param seconds 0 to 600, counted from now; 0 is a nack
   */
  void modifyAckDeadline(List<String> ackIds, int seconds) {
    requireAckIds(ackIds);
    if (seconds < 0 || seconds > RedeliveryPolicy.MAX_ACK_DEADLINE_SECONDS) {
      throw Errors.invalid(
          "Invalid ack deadline given: (ack_deadline=%d). Must be between 0 and %d seconds."
              .formatted(seconds, RedeliveryPolicy.MAX_ACK_DEADLINE_SECONDS));
    }
    List<String> over = new ArrayList<>();
    act(
        () -> {
          over.addAll(over(ackIds));
          long until = System.nanoTime() + TimeUnit.SECONDS.toNanos(seconds);
          for (String ackId : ackIds) {
            Entry entry = leases.find(ackId);
            if (entry == null) {
              continue;
            }
            if (seconds > 0) {
              leases.extend(entry, until);
            } else {
              stats.nacked();
              failed(entry);
            }
          }
        });
    refuse(over);
  }

  private List<String> over(List<String> ackIds) {
    return ackIds.stream().filter(ackId -> leases.find(ackId) == null).toList();
  }

  private void refuse(List<String> over) {
    if (settings.getEnableExactlyOnceDelivery() && !over.isEmpty()) {
      throw Errors.leasesAreOver(over);
    }
  }

  /** Its receivers fail with NOT_FOUND, its messages are gone. */
  void delete() {
    lock.lock();
    try {
      deleted = true;
      leases.clear();
      size = 0;
      for (Receiver receiver : receivers) {
        receiver.fail(Errors.notFound(settings.getName()));
      }
      receivers.clear();
    } finally {
      lock.unlock();
    }
  }

  private static void requireAckIds(List<String> ackIds) {
    for (String ackId : ackIds) {
      if (!ACK_ID.matcher(ackId).matches()) {
        throw Errors.invalid(
            "You have passed an invalid ack ID to the service (ack_id=" + ackId + ").");
      }
    }
  }

  private void act(Runnable change) {
    lock.lock();
    try {
      if (deleted) {
        return;
      }
      change.run();
      dispatch();
      leases.arm(System.nanoTime());
    } finally {
      lock.unlock();
    }
    // Not under the lock: the letter enters other queues, which may send theirs back here.
    for (Letter letter = letters.poll(); letter != null; letter = letters.poll()) {
      deadLetters.forward(letter.topic(), letter.message());
    }
  }

  private void onDue(long timer) {
    act(
        () -> {
          leases.disarmed(timer);
          long now = System.nanoTime();
          for (Entry entry = leases.due(now); entry != null; entry = leases.due(now)) {
            if (entry.state == Entry.State.WAITING) {
              backlog.ready(entry);
            } else {
              stats.expired();
              failed(entry);
            }
          }
        });
  }

  /** Hands out what can be handed out, one message a receiver in turn. */
  private void dispatch() {
    int without = 0;
    while (without < receivers.size()) {
      turn = (turn + 1) % receivers.size();
      Receiver receiver = receivers.get(turn);
      Entry entry = receiver.hasRoom() ? backlog.next(receiver) : null;
      if (entry == null) {
        without++;
      } else {
        without = 0;
        deliver(entry, receiver);
      }
    }
    receivers.forEach(Receiver::flush);
    receivers.removeIf(Receiver::finished);
  }

  private void deliver(Entry entry, Receiver receiver) {
    String ackId = ackIdPrefix + Long.toString(++lastLease, 36);
    entry.receiver = receiver;
    int seconds = receiver.ackDeadlineSeconds(settings.getAckDeadlineSeconds());
    leases.lease(entry, ackId, System.nanoTime() + TimeUnit.SECONDS.toNanos(seconds));
    ReceivedMessage.Builder message =
        ReceivedMessage.newBuilder().setAckId(ackId).setMessage(entry.message());
    if (settings.hasDeadLetterPolicy()) {
      message.setDeliveryAttempt(entry.failures + 1);
    }
    receiver.deliver(message.build(), entry.bytes);
    stats.delivered();
    if (entry.run == null
        && !entry.redelivered
        && faults.deliversTwice(entry.message(), entry.position)) {
      entry.redelivered = true;
      Entry twin = newEntry(entry.message());
      twin.redelivered = true;
      backlog.addTwin(twin);
      stats.redeliveryInjected();
    }
  }

  private Entry newEntry(PubsubMessage message) {
    size++;
    boolean ordered = settings.getEnableMessageOrdering() && !message.getOrderingKey().isEmpty();
    return new Entry(
        ++lastPosition, message, ordered ? backlog.run(message.getOrderingKey()) : null);
  }

  private void acknowledge(String ackId) {
    Entry entry = leases.find(ackId);
    if (entry == null) {
      return;
    }
    stats.acknowledged();
    leases.end(entry);
    if (!entry.redelivered && faults.redeliversAcknowledged(entry.message(), entry.position)) {
      redeliver(entry);
    } else {
      backlog.acknowledged(entry, this::release);
    }
  }

  /**
   * Delivers an acknowledged message again, with the later ones of its key that are out. Those then
   * had their extra delivery too: otherwise every acknowledgement could send the whole key back.
   */
  private void redeliver(Entry entry) {
    entry.state = Entry.State.READY;
    entry.redelivered = true;
    stats.redeliveryInjected();
    backlog.giveBack(
        entry,
        later -> {
          takeBack(later);
          if (!later.redelivered) {
            later.redelivered = true;
            stats.redeliveryInjected();
          }
        });
  }

  private void failed(Entry entry) {
    leases.end(entry);
    entry.failures++;
    String deadLetterTopic = settings.getDeadLetterPolicy().getDeadLetterTopic();
    if (RedeliveryPolicy.exhausted(settings, entry.failures)
        && deadLetters.reachable(deadLetterTopic)) {
      letters.add(
          new Letter(
              deadLetterTopic,
              DeadLetters.letter(entry.message(), settings.getName(), entry.failures)));
      stats.deadLettered();
      backlog.drop(entry, this::release);
      return;
    }
    long backoff = RedeliveryPolicy.backoffNanos(settings, entry.failures);
    if (backoff > 0) {
      leases.waitUntil(entry, System.nanoTime() + backoff);
    } else {
      entry.state = Entry.State.READY;
    }
    backlog.giveBack(entry, this::takeBack);
  }

  /** Ends whatever lease a message has, without counting it as a failure of this message. */
  private void takeBack(Entry later) {
    if (later.state == Entry.State.LEASED) {
      leases.end(later);
    }
    later.state = Entry.State.READY;
  }

  private void release(Entry entry) {
    entry.release();
    size--;
  }
}
