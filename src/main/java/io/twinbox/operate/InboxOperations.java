package io.twinbox.operate;

import static io.twinbox.operate.Repairs.ids;
import static io.twinbox.operate.Repairs.orDefault;
import static io.twinbox.operate.Repairs.parameters;
import static io.twinbox.operate.Repairs.who;

import io.twinbox.pubsub.SubscriptionWatch;
import java.util.List;
import java.util.Map;
import javax.management.MalformedObjectNameException;
import javax.management.ObjectName;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.context.annotation.Conditional;
import org.springframework.jmx.export.annotation.ManagedAttribute;
import org.springframework.jmx.export.annotation.ManagedOperation;
import org.springframework.jmx.export.annotation.ManagedOperationParameter;
import org.springframework.jmx.export.annotation.ManagedOperationParameters;
import org.springframework.jmx.export.annotation.ManagedResource;
import org.springframework.jmx.export.naming.SelfNaming;
import org.springframework.stereotype.Component;

/** The inbox's repairs as JMX operations: the functions of {@code V4__repair.sql}, for people. */
@Component
@Conditional(OnRouteSet.Consume.class)
@ManagedResource(
    description =
        "Messages of one consumer that could not take effect (dead letters): look at them, apply them again, or give them up. Every change is written into twinbox_audit.")
public class InboxOperations implements SelfNaming {

  private static final String ERROR_LIKE =
      "Only letters whose reason contains this text, upper or lower case; % and _ are wildcards. Empty: all.";
  private static final String OLDER_THAN =
      "Only letters that failed last longer ago than this, for example 2 hours. Empty: all.";
  private static final String REASON =
      "Why, in a few words, for example the number of the incident. Required; kept in twinbox_audit.";
  private static final String WHO = "Your name. Required; kept in twinbox_audit.";
  private static final String IDS =
      "The letters' ids (numbers, from listDead), separated by commas, spaces or lines.";

  private static final List<String> ROUTES = List.of("consume");

  private final Repairs repairs;
  private final String consumer;
  private final DatabaseSampler sampler;
  private final ConsumeMeters meters;
  private final SubscriptionWatch subscription;
  private final RoutePause pause;

  InboxOperations(
      Repairs repairs,
      @Value("${twinbox.consumer}") String consumer,
      DatabaseSampler sampler,
      ConsumeMeters meters,
      SubscriptionWatch subscription,
      RoutePause pause) {
    this.repairs = repairs;
    this.consumer = consumer;
    this.sampler = sampler;
    this.meters = meters;
    this.subscription = subscription;
    this.pause = pause;
  }

  @Override
  public ObjectName getObjectName() throws MalformedObjectNameException {
    return Repairs.objectName("Inbox", "consumer", consumer);
  }

  @ManagedAttribute(
      description =
          "This consumer's open dead letters, as of the last look at the database; 100000 is that or more, -1 not known yet")
  public long getDead() {
    return figure("dead");
  }

  @ManagedAttribute(
      description =
          "Messages whose handler has failed and that Pub/Sub delivers again, as of the last look at the database")
  public long getWaiting() {
    return figure("failing");
  }

  @ManagedAttribute(description = "Messages that this pod is applying now")
  public int getInFlight() {
    return meters.inHand();
  }

  @ManagedAttribute(
      description = "Messages that this pod applied each second between the last two looks")
  public double getAppliedPerSecond() {
    return meters.appliedRate().perSecond();
  }

  @ManagedAttribute(
      description = "Duplicates that this pod absorbed each second between the last two looks")
  public double getDuplicatesPerSecond() {
    return meters.duplicateRate().perSecond();
  }

  @ManagedAttribute(
      description =
          "Where and why the last delivery to this pod failed, or the newest dead letter's reason")
  public String getLastError() {
    DatabaseSample sample = sampler.sample();
    return meters.lastError() != null || sample == null
        ? meters.lastError()
        : (String) sample.inbox().get("last_error");
  }

  @ManagedAttribute(
      description = "Why nothing is received from the subscription now; empty when it is")
  public String getTrouble() {
    return subscription.trouble();
  }

  @ManagedAttribute(description = "Whether this pod's consumer is paused")
  public boolean isPaused() {
    return pause.paused(ROUTES);
  }

  @ManagedAttribute(
      description =
          "How many seconds old the figures from the database are; NaN before the first look")
  public double getSampleAgeSeconds() {
    return sampler.ageSeconds();
  }

  private long figure(String column) {
    DatabaseSample sample = sampler.sample();
    return sample == null ? -1 : ((Number) sample.inbox().get(column)).longValue();
  }

  @ManagedOperation(
      description =
          "Stops this pod from receiving messages; what it has in hand comes to its end. Other pods go on: to stop all of them, pause each or scale them to none. It lasts until resume or the pod's end, and the pod is not ready meanwhile.")
  @ManagedOperationParameters({
    @ManagedOperationParameter(name = "reason", description = REASON),
    @ManagedOperationParameter(name = "who", description = WHO)
  })
  public String pause(String reason, String who) {
    return pause.pause(ROUTES, null, consumer, reason, who);
  }

  @ManagedOperation(
      description =
          "Lets this pod receive messages again, after pause or after its route was stopped.")
  @ManagedOperationParameters({
    @ManagedOperationParameter(name = "reason", description = REASON),
    @ManagedOperationParameter(name = "who", description = WHO)
  })
  public String resume(String reason, String who) {
    return pause.resume(ROUTES, null, consumer, reason, who);
  }

  @ManagedOperation(
      description =
          "Shows this consumer's open dead letters, oldest failure first: messages whose handler failed too often or that had no usable key. They were acknowledged and stored whole; nothing of them took effect. applied means that the same message has taken effect by another way meanwhile: replay it to close it. Changes nothing.")
  @ManagedOperationParameters({
    @ManagedOperationParameter(name = "errorLike", description = ERROR_LIKE),
    @ManagedOperationParameter(name = "olderThan", description = OLDER_THAN),
    @ManagedOperationParameter(name = "maxRows", description = "At most so many. 0: 100.")
  })
  public String listDead(String errorLike, String olderThan, int maxRows) {
    return repairs.list(
        "inbox-dead.sql",
        parameters(
            "consumer",
            consumer,
            "errorLike",
            errorLike,
            "olderThan",
            olderThan,
            "maxRows",
            orDefault(maxRows, 100)));
  }

  @ManagedOperation(
      description =
          "Applies this consumer's dead letters again, all that match the filters and have a key. Use it when the handler or the data that it needs is mended; if it is not, each letter fails once more and stays. A message that has taken effect already does not do so again. It happens in the background, one after the other: look at listDead for what is left.")
  @ManagedOperationParameters({
    @ManagedOperationParameter(name = "errorLike", description = ERROR_LIKE),
    @ManagedOperationParameter(name = "olderThan", description = OLDER_THAN),
    @ManagedOperationParameter(
        name = "maxRows",
        description = "At most so many, the oldest failures. 0: 10000."),
    @ManagedOperationParameter(name = "reason", description = REASON),
    @ManagedOperationParameter(name = "who", description = WHO)
  })
  public String replayMatching(
      String errorLike, String olderThan, int maxRows, String reason, String who) {
    Map<String, Object> result =
        repairs.row(
            "inbox-replay.sql",
            parameters(
                "consumer",
                consumer,
                "errorLike",
                errorLike,
                "olderThan",
                olderThan,
                "maxRows",
                orDefault(maxRows, 10_000),
                "reason",
                reason,
                "who",
                who(who)));
    return "Replays asked for: %s. %s"
        .formatted(
            result.get("requested"),
            Boolean.TRUE.equals(result.get("more"))
                ? "More letters match: call again."
                : "No other letter matches.");
  }

  @ManagedOperation(
      description =
          "Applies these dead letters again, all of them or none is asked for. A discarded letter is opened again. An id that took effect or has no key is named in the error.")
  @ManagedOperationParameters({
    @ManagedOperationParameter(name = "ids", description = IDS),
    @ManagedOperationParameter(name = "reason", description = REASON),
    @ManagedOperationParameter(name = "who", description = WHO)
  })
  public String replayIds(String ids, String reason, String who) {
    return "Replays asked for: %s."
        .formatted(
            repairs
                .row(
                    "inbox-replay-ids.sql",
                    parameters("ids", ids(ids), "reason", reason, "who", who(who)))
                .get("requested"));
  }

  @ManagedOperation(
      description =
          "Gives up these dead letters, all of them or none: their messages do not take effect, also when they are delivered or published again. The letters stay in the table, closed; replayIds opens one again.")
  @ManagedOperationParameters({
    @ManagedOperationParameter(name = "ids", description = IDS),
    @ManagedOperationParameter(name = "reason", description = REASON),
    @ManagedOperationParameter(name = "who", description = WHO)
  })
  public String discardIds(String ids, String reason, String who) {
    return "Discarded: %s."
        .formatted(
            repairs
                .row(
                    "inbox-discard-ids.sql",
                    parameters("ids", ids(ids), "reason", reason, "who", who(who)))
                .get("discarded"));
  }

  @ManagedOperation(
      description =
          "Gives a dead letter that came without a usable key the key of its event, so that it can be replayed. Take the key that the event has everywhere else: under another key the same event could take effect twice.")
  @ManagedOperationParameters({
    @ManagedOperationParameter(name = "id", description = "The letter's id, from listDead."),
    @ManagedOperationParameter(name = "key", description = "The event's key, 1 to 512 bytes."),
    @ManagedOperationParameter(name = "reason", description = REASON),
    @ManagedOperationParameter(name = "who", description = WHO)
  })
  public String assignKey(long id, String key, String reason, String who) {
    repairs.row(
        "inbox-assign-key.sql",
        parameters("id", id, "key", key, "reason", reason, "who", who(who)));
    return "Letter %d has its key; it is not replayed by this alone.".formatted(id);
  }

  @ManagedOperation(
      description =
          "Shows who repaired what and why for this consumer, newest first, with the repairs by ids of all consumers. Changes nothing.")
  @ManagedOperationParameters(
      @ManagedOperationParameter(name = "maxRows", description = "At most so many. 0: 100."))
  public String listRepairs(int maxRows) {
    return repairs.list(
        "audit.sql",
        parameters("topic", null, "consumer", consumer, "maxRows", orDefault(maxRows, 100)));
  }
}
