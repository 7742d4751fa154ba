package io.twinbox.operate;

import static io.twinbox.operate.Repairs.ids;
import static io.twinbox.operate.Repairs.orDefault;
import static io.twinbox.operate.Repairs.parameters;
import static io.twinbox.operate.Repairs.time;
import static io.twinbox.operate.Repairs.who;

import io.twinbox.pubsub.PublishGate;
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

/** The outbox's repairs as JMX operations: the functions of {@code V4__repair.sql}, for people. */
@Component
@Conditional(OnRouteSet.Dispatch.class)
@ManagedResource(
    description =
        "Events of one topic on their way to Pub/Sub: look at those that died, send them again, or give them up. Every change is written into twinbox_audit.")
public class OutboxOperations implements SelfNaming {

  private static final String ERROR_LIKE =
      "Only events whose last error contains this text, upper or lower case; % and _ are wildcards. Empty: all.";
  private static final String OLDER_THAN =
      "Only events that died longer ago than this, for example 2 hours. Empty: all.";
  private static final String REASON =
      "Why, in a few words, for example the number of the incident. Required; kept in twinbox_audit.";
  private static final String WHO = "Your name. Required; kept in twinbox_audit.";
  private static final String IDS =
      "The events' ids (outbox_id), separated by commas, spaces or lines.";
  private static final String PER_SECOND =
      "How many of them become due each second, so that new events are sent between them. 0: 500.";

  private static final List<String> ROUTES =
      List.of("dispatch", "dispatch-ordered", "dispatch-suspects");

  private final Repairs repairs;
  private final String topic;
  private final DatabaseSampler sampler;
  private final DispatchMeters meters;
  private final PublishGate gate;
  private final RoutePause pause;

  OutboxOperations(
      Repairs repairs,
      @Value("${topic.name}") String topic,
      DatabaseSampler sampler,
      DispatchMeters meters,
      PublishGate gate,
      RoutePause pause) {
    this.repairs = repairs;
    this.topic = topic;
    this.sampler = sampler;
    this.meters = meters;
    this.gate = gate;
    this.pause = pause;
  }

  @Override
  public ObjectName getObjectName() throws MalformedObjectNameException {
    return Repairs.objectName("Outbox", "topic", topic);
  }

  @ManagedAttribute(
      description =
          "Events of this topic that could be sent now, as of the last look at the database; 100000 is that or more, -1 not known yet")
  public long getDue() {
    return figure("due");
  }

  @ManagedAttribute(
      description =
          "Events of this topic that some pod is sending, as of the last look at the database")
  public long getInFlight() {
    return figure("claimed");
  }

  @ManagedAttribute(
      description =
          "Events of this topic that wait for their next try, as of the last look at the database")
  public long getWaiting() {
    return figure("waiting");
  }

  @ManagedAttribute(
      description = "Events of this topic that are dead, as of the last look at the database")
  public long getDead() {
    return figure("dead");
  }

  @ManagedAttribute(
      description = "For how many seconds the oldest due event of this topic could have been sent")
  public long getOldestDueSeconds() {
    return figure("oldest_due_seconds");
  }

  @ManagedAttribute(
      description = "Events that this pod published each second between the last two looks")
  public double getPublishedPerSecond() {
    return meters.publishedRate().perSecond();
  }

  @ManagedAttribute(
      description =
          "What Pub/Sub or the network said of the last event that this pod could not publish")
  public String getLastError() {
    return meters.lastError();
  }

  @ManagedAttribute(description = "Why this pod holds all events back now; empty when it does not")
  public String getTrouble() {
    return gate.trouble();
  }

  @ManagedAttribute(description = "Whether this pod's dispatch is paused")
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
    return sample == null ? -1 : (long) sample.topic(topic, column);
  }

  @ManagedOperation(
      description =
          "Stops this pod from taking events of the topic; what it has taken is still sent. Other pods go on: to stop all of them, pause each or scale them to none. It lasts until resume or the pod's end, and the pod is not ready meanwhile.")
  @ManagedOperationParameters({
    @ManagedOperationParameter(name = "reason", description = REASON),
    @ManagedOperationParameter(name = "who", description = WHO)
  })
  public String pause(String reason, String who) {
    return pause.pause(ROUTES, topic, null, reason, who);
  }

  @ManagedOperation(
      description =
          "Lets this pod take events of the topic again, after pause or after its routes were stopped.")
  @ManagedOperationParameters({
    @ManagedOperationParameter(name = "reason", description = REASON),
    @ManagedOperationParameter(name = "who", description = WHO)
  })
  public String resume(String reason, String who) {
    return pause.resume(ROUTES, topic, null, reason, who);
  }

  @ManagedOperation(
      description =
          "Takes away what a pod has claimed of this topic, so that other pods send it now and not when the lease ends. If that pod lives, what it is just sending is published TWICE; inboxes absorb that, other consumers must. For a pod that is surely gone.")
  @ManagedOperationParameters({
    @ManagedOperationParameter(
        name = "pod",
        description = "The pod's name as it stands in pubsub_outbox_status.lock_id."),
    @ManagedOperationParameter(name = "reason", description = REASON),
    @ManagedOperationParameter(name = "who", description = WHO)
  })
  public String releaseClaims(String pod, String reason, String who) {
    return "Due again: %s."
        .formatted(
            repairs
                .row(
                    "outbox-release.sql",
                    parameters("topic", topic, "pod", pod, "reason", reason, "who", who(who)))
                .get("released"));
  }

  @ManagedOperation(
      description =
          "Shows what is queued, for every topic of this database: due (could be sent now), claimed (being sent), waiting (for its next try), dead, and how long the oldest due event could have been sent. 100000 means that many or more. Changes nothing.")
  public String backlog() {
    return repairs.list("outbox-backlog.sql", Map.of());
  }

  @ManagedOperation(
      description =
          "Shows this topic's dead events, those that died first first: id, last error, attempts, and how many events of the same ordering key wait behind each (blocked). Dead means that Pub/Sub refused the message itself, again and again; it is not tried any more until somebody replays or discards it. Changes nothing.")
  @ManagedOperationParameters({
    @ManagedOperationParameter(name = "errorLike", description = ERROR_LIKE),
    @ManagedOperationParameter(name = "olderThan", description = OLDER_THAN),
    @ManagedOperationParameter(name = "maxRows", description = "At most so many. 0: 100.")
  })
  public String listDead(String errorLike, String olderThan, int maxRows) {
    return repairs.list(
        "outbox-dead.sql",
        parameters(
            "topic",
            topic,
            "errorLike",
            errorLike,
            "olderThan",
            olderThan,
            "maxRows",
            orDefault(maxRows, 100)));
  }

  @ManagedOperation(
      description =
          "Sends this topic's dead events again, all that match the filters. Use it when what made Pub/Sub refuse them is mended; if it is not, they die again and nothing is lost. They are sent in the normal flow, spread over time, and take effect once even if an earlier try did reach Pub/Sub.")
  @ManagedOperationParameters({
    @ManagedOperationParameter(name = "errorLike", description = ERROR_LIKE),
    @ManagedOperationParameter(name = "olderThan", description = OLDER_THAN),
    @ManagedOperationParameter(
        name = "maxRows",
        description = "At most so many, those that died first. 0: 100000."),
    @ManagedOperationParameter(name = "perSecond", description = PER_SECOND),
    @ManagedOperationParameter(
        name = "notBefore",
        description =
            "The first becomes due at this time, for example 2026-01-31T09:00:00Z. Empty: now. To go on after maxRows, give the time that the last call answered."),
    @ManagedOperationParameter(name = "reason", description = REASON),
    @ManagedOperationParameter(name = "who", description = WHO)
  })
  public String replayMatching(
      String errorLike,
      String olderThan,
      int maxRows,
      int perSecond,
      String notBefore,
      String reason,
      String who) {
    Map<String, Object> result =
        repairs.row(
            "outbox-replay.sql",
            parameters(
                "topic",
                topic,
                "errorLike",
                errorLike,
                "olderThan",
                olderThan,
                "maxRows",
                orDefault(maxRows, 100_000),
                "perSecond",
                orDefault(perSecond, 500),
                "notBefore",
                time("notBefore", notBefore),
                "reason",
                reason,
                "who",
                who(who)));
    return "Queued again: %s. The last one is due at %s. %s"
        .formatted(
            result.get("replayed"),
            Repairs.instant(result.get("last_due_at")),
            more(result.get("more")));
  }

  @ManagedOperation(
      description =
          "Sends these dead events again, all of them or none. listDead shows the ids. An id that is not dead is named in the error, with its state.")
  @ManagedOperationParameters({
    @ManagedOperationParameter(name = "ids", description = IDS),
    @ManagedOperationParameter(name = "reason", description = REASON),
    @ManagedOperationParameter(name = "who", description = WHO)
  })
  public String replayIds(String ids, String reason, String who) {
    return "Queued again: %s."
        .formatted(
            repairs
                .row(
                    "outbox-replay-ids.sql",
                    parameters("ids", ids(ids), "reason", reason, "who", who(who)))
                .get("replayed"));
  }

  @ManagedOperation(
      description =
          "Gives up this topic's dead events, all that match the filters: they are never sent, also when BigQuery is read again, and the events behind them under the same ordering key go on. Look at listDead with the same filters first. Until the payload retention ends, republishIds brings a discarded event back.")
  @ManagedOperationParameters({
    @ManagedOperationParameter(name = "errorLike", description = ERROR_LIKE),
    @ManagedOperationParameter(name = "olderThan", description = OLDER_THAN),
    @ManagedOperationParameter(
        name = "maxRows",
        description = "At most so many, those that died first. 0: 1000."),
    @ManagedOperationParameter(name = "reason", description = REASON),
    @ManagedOperationParameter(name = "who", description = WHO)
  })
  public String discardMatching(
      String errorLike, String olderThan, int maxRows, String reason, String who) {
    Map<String, Object> result =
        repairs.row(
            "outbox-discard.sql",
            parameters(
                "topic",
                topic,
                "errorLike",
                errorLike,
                "olderThan",
                olderThan,
                "maxRows",
                orDefault(maxRows, 1_000),
                "reason",
                reason,
                "who",
                who(who)));
    return "Discarded: %s. %s".formatted(result.get("discarded"), more(result.get("more")));
  }

  @ManagedOperation(
      description =
          "Gives up these events, all of them or none: dead ones, and ones that still wait, but none that is being sent just now. They are never sent, and the events behind them under the same ordering key go on. Until the payload retention ends, republishIds brings a discarded event back.")
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
                    "outbox-discard-ids.sql",
                    parameters("ids", ids(ids), "reason", reason, "who", who(who)))
                .get("discarded"));
  }

  @ManagedOperation(
      description =
          "Sends this topic's events again that were published within a span of time, under their ids. Use it when the topic or a subscription lost messages, or when a consumer's database was restored to an earlier point: give the time of that point, less some minutes. Consumers that still have an event's effect ignore it. Payloads that retention has deleted cannot be sent; the answer says how many.")
  @ManagedOperationParameters({
    @ManagedOperationParameter(
        name = "from",
        description =
            "Published at or after this time, with its zone, for example 2026-01-31T09:00:00Z."),
    @ManagedOperationParameter(
        name = "until",
        description = "Published before this time, with its zone."),
    @ManagedOperationParameter(
        name = "maxRows",
        description = "About so many at most, those published first. 0: 100000."),
    @ManagedOperationParameter(name = "perSecond", description = PER_SECOND),
    @ManagedOperationParameter(
        name = "notBefore",
        description =
            "The first becomes due at this time. Empty: now. To go on after maxRows, give the times that the last call answered as from and notBefore."),
    @ManagedOperationParameter(name = "reason", description = REASON),
    @ManagedOperationParameter(name = "who", description = WHO)
  })
  public String republish(
      String from,
      String until,
      int maxRows,
      int perSecond,
      String notBefore,
      String reason,
      String who) {
    Map<String, Object> result =
        repairs.row(
            "outbox-republish.sql",
            parameters(
                "topic",
                topic,
                "from",
                time("from", from),
                "until",
                time("until", until),
                "maxRows",
                orDefault(maxRows, 100_000),
                "perSecond",
                orDefault(perSecond, 500),
                "notBefore",
                time("notBefore", notBefore),
                "reason",
                reason,
                "who",
                who(who)));
    return republished(result)
        + (result.get("last_due_at") == null
            ? ""
            : " The last one is due at %s.".formatted(Repairs.instant(result.get("last_due_at"))))
        + (result.get("next_from") == null
            ? " The span is done."
            : " Not done: call again with from %s and notBefore %s."
                .formatted(
                    Repairs.instant(result.get("next_from")),
                    Repairs.instant(result.get("last_due_at"))));
  }

  @ManagedOperation(
      description =
          "Sends these published events again under their ids, or discarded ones after all. Consumers that have an event's effect ignore it.")
  @ManagedOperationParameters({
    @ManagedOperationParameter(name = "ids", description = IDS),
    @ManagedOperationParameter(name = "reason", description = REASON),
    @ManagedOperationParameter(name = "who", description = WHO)
  })
  public String republishIds(String ids, String reason, String who) {
    return republished(
        repairs.row(
            "outbox-republish-ids.sql",
            parameters("ids", ids(ids), "reason", reason, "who", who(who))));
  }

  @ManagedOperation(
      description =
          "Shows who repaired what and why on this topic, newest first, with the repairs by ids of all topics. Changes nothing.")
  @ManagedOperationParameters(
      @ManagedOperationParameter(name = "maxRows", description = "At most so many. 0: 100."))
  public String listRepairs(int maxRows) {
    return repairs.list(
        "audit.sql",
        parameters("topic", topic, "consumer", null, "maxRows", orDefault(maxRows, 100)));
  }

  private static String more(Object more) {
    return Boolean.TRUE.equals(more)
        ? "More events match: call again."
        : "No other dead event matches.";
  }

  private static String republished(Map<String, Object> result) {
    return "Queued again: %s. Were queued already: %s. Had no payload any more: %s."
        .formatted(
            result.get("queued"), result.get("already_queued"), result.get("without_payload"));
  }
}
