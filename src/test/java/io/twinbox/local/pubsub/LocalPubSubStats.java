package io.twinbox.local.pubsub;

import com.google.pubsub.v1.PubsubMessage;
import java.util.ArrayDeque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.LongAdder;
import java.util.function.Supplier;

/**
 * What the local Pub/Sub has done since it started. Every figure is cheap to read at any time; read
 * while messages flow, the figures need not be of the same instant.
 */
public final class LocalPubSubStats {
  /** The attribute that says which event a message is, in Twinbox's own contract. */
  public static final String DEFAULT_DISTINCT_ATTRIBUTE = "outbox_id";

  private final LongAdder published = new LongAdder();
  private final LongAdder delivered = new LongAdder();
  private final LongAdder redeliveriesInjected = new LongAdder();
  private final LongAdder acknowledged = new LongAdder();
  private final LongAdder nacked = new LongAdder();
  private final LongAdder expired = new LongAdder();
  private final LongAdder deadLettered = new LongAdder();
  private final Set<String> distinct = ConcurrentHashMap.newKeySet();
  private final Map<String, ArrayDeque<PubsubMessage>> kept = new HashMap<>();
  private volatile String distinctAttribute = DEFAULT_DISTINCT_ATTRIBUTE;
  private volatile int keepPublished;
  private volatile Supplier<Map<String, Integer>> backlogs = Map::of;

  LocalPubSubStats() {}

  /**
   * All figures at one look.
   *
   * @param backlog unacknowledged messages over all subscriptions
   */
  public record Snapshot(
      long published,
      long distinctPublished,
      long delivered,
      long redeliveriesInjected,
      long acknowledged,
      long nacked,
      long expired,
      long deadLettered,
      long backlog) {}

  public Snapshot snapshot() {
    return new Snapshot(
        published(),
        distinctPublished(),
        delivered.sum(),
        redeliveriesInjected(),
        acks(),
        nacks(),
        expiredLeases(),
        deadLetters(),
        backlogs.get().values().stream().mapToLong(Integer::longValue).sum());
  }

  /** Messages published to any topic, dead letters among them, whether anyone subscribes or not. */
  public long published() {
    return published.sum();
  }

  /** How many different values of the counted attribute were published. */
  public long distinctPublished() {
    return distinct.size();
  }

  /** Deliveries to subscribers, repeated ones included. */
  public long deliveries() {
    return delivered.sum();
  }

  /** Deliveries that were more than needed, on purpose (see {@link LocalPubSubFaults}). */
  public long redeliveriesInjected() {
    return redeliveriesInjected.sum();
  }

  /** Acknowledgements of messages that were leased; late ones do not count. */
  public long acks() {
    return acknowledged.sum();
  }

  public long nacks() {
    return nacked.sum();
  }

  /** Ack deadlines that ran out. */
  public long expiredLeases() {
    return expired.sum();
  }

  /** Messages forwarded to a dead-letter topic. */
  public long deadLetters() {
    return deadLettered.sum();
  }

  /**
   * Unacknowledged messages of a subscription; 0 when there is no such subscription.
   *
   * @param subscription full name, {@code projects/p/subscriptions/s}
   */
  public int backlog(String subscription) {
    return backlogs.get().getOrDefault(subscription, 0);
  }

  /**
   * Which attribute's values {@link #distinctPublished} counts from now on; null for none (each
   * value is kept in memory).
   */
  public void countDistinct(String attribute) {
    distinctAttribute = attribute;
    distinct.clear();
  }

  /**
   * Keeps the last so many messages published to each topic, for {@link #publishedMessages}; 0, as
   * at the start, keeps none.
   */
  public void keepPublished(int messagesPerTopic) {
    keepPublished = messagesPerTopic;
    synchronized (kept) {
      kept.clear();
    }
  }

  /**
   * The messages kept of a topic, in the order of publishing.
   *
   * @param topic full name, {@code projects/p/topics/t}
   */
  public List<PubsubMessage> publishedMessages(String topic) {
    synchronized (kept) {
      return List.copyOf(kept.getOrDefault(topic, new ArrayDeque<>()));
    }
  }

  void backlogsFrom(Supplier<Map<String, Integer>> source) {
    backlogs = source;
  }

  void published(String topic, List<PubsubMessage> messages) {
    published.add(messages.size());
    String attribute = distinctAttribute;
    if (attribute != null) {
      for (PubsubMessage message : messages) {
        String value = message.getAttributesMap().get(attribute);
        if (value != null) {
          distinct.add(value);
        }
      }
    }
    int keep = keepPublished;
    if (keep > 0) {
      synchronized (kept) {
        ArrayDeque<PubsubMessage> list = kept.computeIfAbsent(topic, name -> new ArrayDeque<>());
        list.addAll(messages);
        while (list.size() > keep) {
          list.poll();
        }
      }
    }
  }

  void delivered() {
    delivered.increment();
  }

  void redeliveryInjected() {
    redeliveriesInjected.increment();
  }

  void acknowledged() {
    acknowledged.increment();
  }

  void nacked() {
    nacked.increment();
  }

  void expired() {
    expired.increment();
  }

  void deadLettered() {
    deadLettered.increment();
  }
}
