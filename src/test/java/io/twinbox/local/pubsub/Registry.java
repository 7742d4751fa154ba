package io.twinbox.local.pubsub;

import com.google.protobuf.FieldMask;
import com.google.protobuf.Timestamp;
import com.google.protobuf.util.FieldMaskUtil;
import com.google.pubsub.v1.PubsubMessage;
import com.google.pubsub.v1.Subscription;
import com.google.pubsub.v1.Topic;
import java.time.Instant;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.atomic.AtomicLong;
import java.util.stream.Collectors;

/** The topics and subscriptions that exist. */
final class Registry implements DeadLetters {
  /** Fields of a subscription that the service lets change and that mean something here. */
  private static final Set<String> CHANGEABLE =
      Set.of(
          "ack_deadline_seconds",
          "retry_policy",
          "dead_letter_policy",
          "labels",
          "expiration_policy",
          "message_retention_duration",
          "retain_acked_messages");

  private final Map<String, LocalTopic> topics = new ConcurrentHashMap<>();
  private final Map<String, SubscriptionQueue> subscriptions = new ConcurrentHashMap<>();
  private final ScheduledExecutorService timer;
  private final LocalPubSubFaults faults;
  private final LocalPubSubStats stats;

  /** Starts at the time, in microseconds: ids keep rising across restarts. */
  private final AtomicLong lastMessageId = new AtomicLong(System.currentTimeMillis() * 1_000);

  Registry(ScheduledExecutorService timer, LocalPubSubFaults faults, LocalPubSubStats stats) {
    this.timer = timer;
    this.faults = faults;
    this.stats = stats;
  }

  synchronized Topic createTopic(Topic topic) {
    ResourceNames.requireTopic(topic.getName());
    Topic created = topic.toBuilder().setState(Topic.State.ACTIVE).build();
    if (topics.putIfAbsent(topic.getName(), new LocalTopic(created)) != null) {
      throw Errors.alreadyExists(topic.getName());
    }
    return created;
  }

  LocalTopic topic(String name) {
    LocalTopic topic = topics.get(ResourceNames.requireTopic(name));
    if (topic == null) {
      throw Errors.notFound(name);
    }
    return topic;
  }

  List<Topic> topicsOf(String project) {
    String prefix = ResourceNames.requireProject(project) + "/";
    return topics.values().stream()
        .map(LocalTopic::settings)
        .filter(topic -> topic.getName().startsWith(prefix))
        .sorted(Comparator.comparing(Topic::getName))
        .toList();
  }

  /** Its subscriptions stay, with what they hold. */
  synchronized void deleteTopic(String name) {
    LocalTopic topic = topic(name);
    topics.remove(name);
    for (SubscriptionQueue subscription : topic.subscriptions()) {
      subscription.change(
          subscription.settings().toBuilder().setTopic(ResourceNames.DELETED_TOPIC).build());
    }
  }

  synchronized Subscription createSubscription(Subscription subscription) {
    String name = ResourceNames.requireSubscription(subscription.getName());
    LocalTopic topic = topic(subscription.getTopic());
    if (subscriptions.containsKey(name)) {
      throw Errors.alreadyExists(name);
    }
    Subscription settings = RedeliveryPolicy.normalize(subscription);
    SubscriptionQueue queue = new SubscriptionQueue(settings, timer, faults, stats, this);
    subscriptions.put(name, queue);
    topic.subscriptions().add(queue);
    return settings;
  }

  SubscriptionQueue subscription(String name) {
    SubscriptionQueue queue = subscriptions.get(ResourceNames.requireSubscription(name));
    if (queue == null) {
      throw Errors.notFound(name);
    }
    return queue;
  }

  List<Subscription> subscriptionsOf(String project) {
    String prefix = ResourceNames.requireProject(project) + "/";
    return subscriptions.values().stream()
        .map(SubscriptionQueue::settings)
        .filter(subscription -> subscription.getName().startsWith(prefix))
        .sorted(Comparator.comparing(Subscription::getName))
        .toList();
  }

  synchronized Subscription updateSubscription(Subscription change, FieldMask mask) {
    SubscriptionQueue queue = subscription(change.getName());
    if (mask.getPathsCount() == 0) {
      throw Errors.invalid("The update_mask in the UpdateSubscriptionRequest must be set.");
    }
    for (String path : mask.getPathsList()) {
      if (!CHANGEABLE.contains(path.split("\\.")[0])
          || !FieldMaskUtil.isValid(Subscription.class, path)) {
        throw Errors.invalid("Invalid update_mask provided in the request: " + path + ".");
      }
    }
    Subscription.Builder changed = queue.settings().toBuilder();
    FieldMaskUtil.MergeOptions replacing =
        new FieldMaskUtil.MergeOptions()
            .setReplaceMessageFields(true)
            .setReplacePrimitiveFields(true)
            .setReplaceRepeatedFields(true);
    FieldMaskUtil.merge(mask, change, changed, replacing);
    Subscription settings = RedeliveryPolicy.normalize(changed.build());
    queue.change(settings);
    return settings;
  }

  synchronized void deleteSubscription(String name) {
    SubscriptionQueue queue = subscription(name);
    subscriptions.remove(name);
    topics.values().forEach(topic -> topic.subscriptions().remove(queue));
    queue.delete();
  }

  /** Unacknowledged messages of each subscription, by full name. */
  Map<String, Integer> backlogs() {
    return subscriptions.entrySet().stream()
        .collect(Collectors.toMap(Map.Entry::getKey, entry -> entry.getValue().size()));
  }

  /**
   * @return the message ids, in the order of the messages
   */
  List<String> publish(String topicName, List<PubsubMessage> messages) {
    LocalTopic topic = topic(topicName);
    Instant now = Instant.now();
    Timestamp time =
        Timestamp.newBuilder().setSeconds(now.getEpochSecond()).setNanos(now.getNano()).build();
    List<PubsubMessage> published = new ArrayList<>(messages.size());
    List<String> ids = new ArrayList<>(messages.size());
    for (PubsubMessage message : messages) {
      String id = Long.toString(lastMessageId.incrementAndGet());
      ids.add(id);
      published.add(message.toBuilder().setMessageId(id).setPublishTime(time).build());
    }
    stats.published(topicName, published);
    topic.deliver(published);
    return ids;
  }

  @Override
  public boolean reachable(String topic) {
    return topics.containsKey(topic);
  }

  /** A topic deleted this very moment loses the letter. */
  @Override
  public void forward(String topic, PubsubMessage letter) {
    if (reachable(topic)) {
      publish(topic, List.of(letter));
    }
  }
}
