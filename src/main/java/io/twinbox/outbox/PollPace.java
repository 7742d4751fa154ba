package io.twinbox.outbox;

import io.twinbox.config.TwinboxProperties.Dispatch;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ThreadLocalRandom;
import java.util.concurrent.TimeUnit;
import java.util.function.DoubleSupplier;
import org.apache.camel.Body;
import org.apache.camel.CamelContext;
import org.apache.camel.Consumer;
import org.apache.camel.ExchangeProperty;
import org.apache.camel.spi.ScheduledPollConsumerScheduler;
import org.apache.camel.support.service.ServiceSupport;

/**
 * When a route polls next: again at once after a claim that was full, after {@code
 * twinbox.dispatch.poll-interval} when it found some rows, and then, poll by poll without any, less
 * often, up to {@code twinbox.dispatch.idle-interval}. Up to a quarter of each pause is left out at
 * random, so that pods do not poll in step.
 *
 * <p>It is the route's scheduler, because Camel's own knows one pause only: its greedy mode takes a
 * run that ends with an empty poll, as each of them does, for an idle one, and its back-off then
 * leaves out polls while rows flow.
 *
 * <p>A poll that found nothing and took long, as behind a pinned vacuum horizon where it reads dead
 * rows, is followed by a pause that is a multiple of it where that is asked for, so that idle polls
 * are a small share of the database's time.
 *
 * <p>Each serves one route, whose polls do not overlap. A poll that fails counts as one that found
 * nothing, however long it took.
 */
public final class PollPace extends ServiceSupport implements ScheduledPollConsumerScheduler {

  private static final double GROWTH = 1.5;
  private static final double JITTER = 0.25;
  private static final Duration LONGEST_REST = Duration.ofMinutes(1);

  private final long intervalNanos;
  private final long idleNanos;
  private final long batchBytes;
  private final int rest;
  private final DoubleSupplier random;
  private CamelContext camelContext;
  private Consumer consumer;
  private Runnable poll;
  private volatile ScheduledExecutorService executor;
  private boolean some;
  private boolean full;
  private boolean none;
  private double pauseNanos;

  PollPace(Dispatch settings) {
    this(
        settings.pollInterval(),
        settings.idleInterval(),
        settings.batchBytes(),
        0,
        () -> ThreadLocalRandom.current().nextDouble());
  }

  /**
   * @param interval pause after a claim that found some rows
   * @param idle longest pause; not below the interval
   * @param batchBytes payload bytes with which a claim is full
   * @param rest how many times as long as a poll that found nothing took the pause after it is at
   *     least, up to a minute
   * @param random from 0 to 1, which part of the jitter is left out
   */
  PollPace(Duration interval, Duration idle, long batchBytes, int rest, DoubleSupplier random) {
    this.intervalNanos = interval.toNanos();
    this.idleNanos = Math.max(intervalNanos, idle.toNanos());
    this.batchBytes = batchBytes;
    this.rest = rest;
    this.random = random;
    this.pauseNanos = intervalNanos;
  }

  /**
   * Called by the route with what its claim found.
   *
   * @param limit how many rows the claim might take
   * @param cursor the last ordering key that the claim looked at; null without ordering keys, empty
   *     when it looked at the last. Keys that are left are worth another look soon, also when those
   *     before them were all blocked
   */
  public void found(
      @Body List<Map<String, Object>> rows,
      @ExchangeProperty("claimLimit") int limit,
      @ExchangeProperty("cursor") String cursor) {
    boolean keysLeft = cursor != null && !cursor.isEmpty();
    full = !rows.isEmpty() && (keysLeft || rows.size() >= limit || bytes(rows) >= batchBytes);
    some = !rows.isEmpty() || keysLeft;
    none = !some;
  }

  static long bytes(List<Map<String, Object>> rows) {
    return rows.stream().mapToLong(row -> ((byte[]) row.get("payload")).length).sum();
  }

  /**
   * The pause after the poll that has just ended; forgets what that one found.
   *
   * @param took how long the poll took
   */
  Duration next(Duration took) {
    if (full) {
      pauseNanos = 0;
    } else if (some) {
      pauseNanos = intervalNanos;
    } else {
      pauseNanos = Math.min(idleNanos, Math.max(intervalNanos, pauseNanos * GROWTH));
    }
    double pause = pauseNanos;
    if (none) {
      pause = Math.max(pause, Math.min(LONGEST_REST.toNanos(), (double) took.toNanos() * rest));
    }
    some = false;
    full = false;
    none = false;
    return Duration.ofNanos((long) (pause * (1 - JITTER * random.getAsDouble())));
  }

  private void run(ScheduledExecutorService mine) {
    long begin = System.nanoTime();
    try {
      poll.run();
    } finally {
      schedule(mine, next(Duration.ofNanos(System.nanoTime() - begin)));
    }
  }

  private void schedule(ScheduledExecutorService mine, Duration pause) {
    try {
      mine.schedule(() -> run(mine), pause.toNanos(), TimeUnit.NANOSECONDS);
    } catch (RejectedExecutionException e) {
      // The route was stopped while it polled.
    }
  }

  @Override
  public void onInit(Consumer consumer) {
    this.consumer = consumer;
  }

  @Override
  public void scheduleTask(Runnable task) {
    this.poll = task;
  }

  @Override
  public void startScheduler() {
    if (executor == null) {
      executor =
          camelContext
              .getExecutorServiceManager()
              .newSingleThreadScheduledExecutor(
                  consumer, consumer.getEndpoint().getEndpointBaseUri());
      schedule(executor, Duration.ZERO);
    }
  }

  @Override
  public void unscheduleTask() {
    if (executor != null) {
      camelContext.getExecutorServiceManager().shutdownNow(executor);
      executor = null;
    }
  }

  @Override
  public boolean isSchedulerStarted() {
    return executor != null;
  }

  @Override
  protected void doStop() {
    unscheduleTask();
  }

  @Override
  public void setCamelContext(CamelContext camelContext) {
    this.camelContext = camelContext;
  }

  @Override
  public CamelContext getCamelContext() {
    return camelContext;
  }
}
