package io.twinbox.pubsub;

import io.twinbox.config.TwinboxProperties.Dispatch;
import java.time.Clock;
import java.time.Duration;
import java.time.Instant;
import java.util.List;
import java.util.concurrent.ThreadLocalRandom;
import org.apache.camel.Body;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;

/**
 * The circuit before the topic. When the destination refuses or the network fails, which is no
 * row's fault, it opens: nothing is claimed for a pause that doubles from a second to {@code
 * twinbox.dispatch.probe-cap}, then one row probes, of all routes together. When a row is
 * published, or refused for its own sake, the destination works and the circuit closes.
 *
 * <p>It also holds the rows while the topic has no subscription, because Pub/Sub drops what is
 * published then.
 */
public class PublishGate {

  private static final Logger log = LoggerFactory.getLogger("io.twinbox.dispatch");
  private static final Duration FIRST_PAUSE = Duration.ofSeconds(1);

  /** A topic that took a message this long ago is not suspected for refusing others. */
  private static final Duration OF_LATE = Duration.ofMinutes(1);

  private final Dispatch settings;
  private final SubscriptionCheck subscriptions;
  private final Clock clock;
  private Duration pause = Duration.ZERO;
  private Instant openUntil = Instant.MIN;
  private Instant probeOutUntil = Instant.MIN;
  private String trouble;
  private Instant lastPublished;
  private boolean suspected;

  PublishGate(Dispatch settings, SubscriptionCheck subscriptions, Clock clock) {
    this.settings = settings;
    this.subscriptions = subscriptions;
    this.clock = clock;
  }

  /**
   * How many rows the next claim may take: the batch size, 1 for a probe, 0 while the circuit is
   * open or a probe is out. Whoever gets 1 says with {@link #claimed} what it found.
   */
  public int claimLimit() {
    synchronized (this) {
      if (closedToClaims()) {
        return 0;
      }
    }
    if (settings.requireSubscription() && !subscriptions.present()) {
      return 0;
    }
    synchronized (this) {
      if (pause.isZero()) {
        return settings.batchRows();
      }
      // Another route may have asked meanwhile.
      if (closedToClaims()) {
        return 0;
      }
      // A probe of which nobody hears (its claim failed) is one no more when publishing would end.
      probeOutUntil = clock.instant().plus(settings.publishTimeout());
      return 1;
    }
  }

  private boolean closedToClaims() {
    Instant now = clock.instant();
    return now.isBefore(openUntil) || (!pause.isZero() && now.isBefore(probeOutUntil));
  }

  /** A claim that found nothing probes nothing: another route may. */
  public synchronized void claimed(@Body List<?> rows) {
    if (rows.isEmpty()) {
      probeOutUntil = Instant.MIN;
    }
  }

  /**
   * Learns from the outcomes of a claim whether the destination works.
   *
   * @return the outcomes as the circuit sees them: refusals that it takes for the destination's
   *     fault are no row's
   */
  public synchronized List<PublishOutcome> learn(List<PublishOutcome> answers) {
    Instant now = clock.instant();
    probeOutUntil = Instant.MIN;
    List<PublishOutcome> outcomes = suspect(answers, now);
    boolean works =
        outcomes.stream()
            .anyMatch(
                o ->
                    o.kind() == PublishOutcome.Kind.PUBLISHED
                        || o.kind() == PublishOutcome.Kind.REFUSED);
    String error =
        outcomes.stream()
            .filter(o -> o.kind() == PublishOutcome.Kind.RELEASED && o.error() != null)
            .map(PublishOutcome::error)
            .findFirst()
            .orElse(null);
    if (works) {
      close();
    } else if (error != null) {
      open(error, now);
    }
    return outcomes;
  }

  /**
   * A topic that answers INVALID_ARGUMENT to everything is at fault, not its messages. It is
   * suspected when all of a claim's messages are refused, more than one, and nothing was published
   * of late; then a probe that is refused says no more, until one is published.
   */
  private List<PublishOutcome> suspect(List<PublishOutcome> outcomes, Instant now) {
    if (outcomes.stream().anyMatch(o -> o.kind() == PublishOutcome.Kind.PUBLISHED)) {
      lastPublished = now;
      suspected = false;
      return outcomes;
    }
    long refused = outcomes.stream().filter(o -> o.kind() == PublishOutcome.Kind.REFUSED).count();
    boolean ofLate = lastPublished != null && lastPublished.plus(OF_LATE).isAfter(now);
    suspected = suspected || (refused > 1 && !ofLate);
    if (!suspected) {
      return outcomes;
    }
    return outcomes.stream()
        .map(o -> o.kind() == PublishOutcome.Kind.REFUSED ? PublishOutcome.released(o.error()) : o)
        .toList();
  }

  private void close() {
    if (trouble != null) {
      log.info("The topic takes messages again.");
    }
    trouble = null;
    pause = Duration.ZERO;
  }

  private void open(String error, Instant now) {
    pause = pause.isZero() ? FIRST_PAUSE : pause.multipliedBy(2);
    pause = pause.compareTo(settings.probeCap()) > 0 ? settings.probeCap() : pause;
    // Half of the pause is random, so that pods do not probe in step.
    long millis = pause.toMillis();
    openUntil = now.plusMillis(millis / 2 + ThreadLocalRandom.current().nextLong(millis / 2 + 1));
    if (trouble == null) {
      log.warn(
          "The topic takes no messages ({}). Rows stay due, uncounted; one row probes it again and again, at most every {} s. Check that the topic exists and that this pod may publish to it.",
          error,
          settings.probeCap().toSeconds());
    }
    trouble = error;
  }

  /** What keeps rows from being published now, or null. */
  public String trouble() {
    String missing = settings.requireSubscription() ? subscriptions.trouble() : null;
    synchronized (this) {
      return trouble != null ? trouble : missing;
    }
  }
}
