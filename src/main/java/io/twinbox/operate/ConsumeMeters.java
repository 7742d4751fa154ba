package io.twinbox.operate;

import com.google.protobuf.Timestamp;
import io.micrometer.core.instrument.Counter;
import io.micrometer.core.instrument.Gauge;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.Timer;
import io.twinbox.inbox.DatabaseTrouble;
import io.twinbox.pubsub.SubscriptionWatch;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import java.util.concurrent.atomic.AtomicInteger;
import org.apache.camel.Exchange;
import org.apache.camel.component.google.pubsub.GooglePubsubConstants;
import org.springframework.context.annotation.Conditional;
import org.springframework.stereotype.Component;

/**
 * Counts what consume receives and what becomes of it. docs/metrics.md says what each figure means.
 */
@Component
@Conditional(OnRouteSet.Consume.class)
class ConsumeMeters implements StepObserver, DatabaseSampler.RateSource {

  /** The step of {@code consume} that does all the work of a message. */
  private static final String MESSAGE = "consume-key-usable";

  private static final String APPLIED = "consume-apply-once";
  private static final String HANDLER_FAILED = "consume-count-failure";
  private static final String DATABASE_FAILED = "consume-await-database";
  private static final String REPLAYED = "inbox-replay-letter";

  private static final Map<String, String> DEAD_LETTERS =
      Map.of(
          "consume-no-key-bury", "no_key",
          "consume-endless-bury", "deliveries",
          "consume-give-up-bury", "failures");

  private final MeterRegistry registry;
  private final Counter applied;
  private final Counter duplicates;
  private final Counter handlerFailures;
  private final Counter databaseFailures;
  private final Timer age;
  private final Timer eventAge;
  private final AtomicInteger inHand = new AtomicInteger();
  private final Rate appliedRate;
  private final Rate duplicateRate;
  private volatile long finishedAt = System.nanoTime();
  private volatile long startedAt = System.nanoTime();
  private volatile String lastError;

  ConsumeMeters(MeterRegistry registry, SubscriptionWatch subscription, DatabaseTrouble database) {
    this.registry = registry;
    applied = messages("applied");
    duplicates = messages("duplicate");
    handlerFailures = failures("handler");
    databaseFailures = failures("database");
    DEAD_LETTERS.values().forEach(this::deadLetters);
    replays("ok");
    replays("failed");
    age =
        Ages.timer(
            registry,
            "twinbox.consume.age",
            "From Pub/Sub's publish time until the effect's commit");
    eventAge =
        Ages.timer(
            registry,
            "twinbox.consume.event.age",
            "From an event's transaction until the effect's commit, for ids that hold a time");
    appliedRate = new Rate(applied::count);
    duplicateRate = new Rate(duplicates::count);
    Gauge.builder("twinbox.consume.in.hand", inHand, AtomicInteger::get)
        .description("Messages in the routes now")
        .register(registry);
    Gauge.builder("twinbox.consume.waiting.for.database", database, DatabaseTrouble::waiting)
        .description("Messages that wait for the database to answer")
        .register(registry);
    Gauge.builder(
            "twinbox.consume.subscription.lost", subscription, s -> s.trouble() == null ? 0 : 1)
        .description("1 while the subscription cannot be read")
        .register(registry);
  }

  private Counter messages(String outcome) {
    return Counter.builder("twinbox.consume.messages")
        .description("Messages that are done: applied now, or absorbed because applied before")
        .tag("outcome", outcome)
        .register(registry);
  }

  private Counter failures(String cause) {
    return Counter.builder("twinbox.consume.failures")
        .description("Deliveries whose transaction was rolled back, by whose fault it was")
        .tag("class", cause)
        .register(registry);
  }

  private Counter deadLetters(String cause) {
    return Counter.builder("twinbox.consume.dead.letters")
        .description("Messages stored as dead letters, by why")
        .tag("cause", cause)
        .register(registry);
  }

  private Counter replays(String outcome) {
    return Counter.builder("twinbox.consume.replays")
        .description("Dead letters that were run again")
        .tag("outcome", outcome)
        .register(registry);
  }

  @Override
  public boolean observes(String stepId) {
    return switch (stepId) {
      case MESSAGE, APPLIED, HANDLER_FAILED, DATABASE_FAILED, REPLAYED -> true;
      default -> DEAD_LETTERS.containsKey(stepId);
    };
  }

  @Override
  public void before(String stepId, Exchange exchange) {
    if (stepId.equals(MESSAGE)) {
      if (inHand.getAndIncrement() == 0) {
        startedAt = System.nanoTime();
      }
    }
  }

  @Override
  public void after(String stepId, Exchange exchange, long nanos) {
    boolean failed = exchange.getException() != null;
    switch (stepId) {
      case MESSAGE -> {
        inHand.decrementAndGet();
        finishedAt = System.nanoTime();
      }
      case APPLIED -> {
        if (!failed) {
          done(exchange);
        }
      }
      case HANDLER_FAILED -> {
        handlerFailures.increment();
        lastError = exchange.getProperty("failure", String.class);
      }
      case DATABASE_FAILED -> {
        databaseFailures.increment();
        lastError = exchange.getProperty("failure", String.class);
      }
      case REPLAYED -> replays(failed ? "failed" : "ok").increment();
      default -> {
        if (!failed) {
          deadLetters(DEAD_LETTERS.get(stepId)).increment();
        }
      }
    }
  }

  private void done(Exchange exchange) {
    if (Boolean.TRUE.equals(exchange.getProperty(Exchange.DUPLICATE_MESSAGE, Boolean.class))) {
      duplicates.increment();
      return;
    }
    applied.increment();
    Timestamp publishedAt =
        exchange.getMessage().getHeader(GooglePubsubConstants.PUBLISH_TIME, Timestamp.class);
    if (publishedAt != null) {
      age.record(Ages.since(publishedAt.getSeconds() * 1000 + publishedAt.getNanos() / 1_000_000));
    }
    long emitted = millisOf(exchange.getProperty("idempotencyKey", String.class));
    if (emitted >= 0) {
      eventAge.record(Ages.since(emitted));
    }
  }

  /**
   * The time in an id that is a UUIDv7 (RFC 9562, 5.7), which {@code outbox_new_id} makes; or -1.
   */
  static long millisOf(String key) {
    if (key == null || key.length() != 36 || key.charAt(14) != '7') {
      return -1;
    }
    try {
      return UUID.fromString(key).getMostSignificantBits() >>> 16;
    } catch (IllegalArgumentException e) {
      return -1;
    }
  }

  /** Messages in the routes now. */
  int inHand() {
    return inHand.get();
  }

  /** When the last message left the routes, on the clock of {@link System#nanoTime}. */
  long finishedAt() {
    return finishedAt;
  }

  /** When a message came into the routes while none was there, on the same clock. */
  long startedAt() {
    return startedAt;
  }

  /** Where and why the last delivery failed, or null. */
  String lastError() {
    return lastError;
  }

  Rate appliedRate() {
    return appliedRate;
  }

  Rate duplicateRate() {
    return duplicateRate;
  }

  @Override
  public List<Rate> rates() {
    return List.of(appliedRate, duplicateRate);
  }
}
