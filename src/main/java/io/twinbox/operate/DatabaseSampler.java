package io.twinbox.operate;

import io.micrometer.core.instrument.Counter;
import io.micrometer.core.instrument.Gauge;
import io.micrometer.core.instrument.MeterRegistry;
import io.micrometer.core.instrument.MultiGauge;
import io.micrometer.core.instrument.Tags;
import io.twinbox.config.Causes;
import io.twinbox.config.SqlFiles;
import io.twinbox.config.TwinboxProperties;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;
import java.util.concurrent.Executors;
import java.util.concurrent.RejectedExecutionException;
import java.util.concurrent.ScheduledExecutorService;
import java.util.concurrent.ScheduledThreadPoolExecutor;
import java.util.concurrent.TimeUnit;
import javax.sql.DataSource;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.context.SmartLifecycle;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.jdbc.core.namedparam.NamedParameterJdbcTemplate;
import org.springframework.stereotype.Component;

/**
 * Looks at the database every sample interval, for metrics, JMX and health, so that who asks them
 * often costs the database nothing. Each look is bounded: it counts no more than 100,000 rows of a
 * kind, gives up after ten seconds, and is followed by a pause of twenty times as long as it took.
 */
@Component
class DatabaseSampler implements SmartLifecycle {

  private static final Logger log = LoggerFactory.getLogger("io.twinbox.operate");
  private static final int TIMEOUT_SECONDS = 10;
  private static final int PAUSE_PER_LOOK = 20;

  private final NamedParameterJdbcTemplate jdbc;
  private final String consumer;
  private final long pauseNanos;
  private final List<Rate> rates = new ArrayList<>();
  private final Counter failures;
  private final MultiGauge events;
  private final MultiGauge oldest;
  private final MultiGauge sourceAges;
  private final MultiGauge bytesToday;
  private final MultiGauge slotsToday;
  private final MultiGauge rowsToday;
  private final MultiGauge backfillSteps;
  private final MultiGauge backfillBytes;
  private final MultiGauge rejects;
  private final MultiGauge failing;
  private final MultiGauge liveRows;
  private final MultiGauge deadRows;
  private volatile DatabaseSample sample;
  private ScheduledExecutorService executor;

  DatabaseSampler(
      DataSource dataSource,
      TwinboxProperties properties,
      MeterRegistry registry,
      List<RateSource> rateSources) {
    JdbcTemplate bounded = new JdbcTemplate(dataSource);
    bounded.setQueryTimeout(TIMEOUT_SECONDS);
    jdbc = new NamedParameterJdbcTemplate(bounded);
    consumer = properties.routeSets().contains("consume") ? properties.consumer() : null;
    pauseNanos = properties.operate().sampleInterval().toNanos();
    rateSources.forEach(source -> rates.addAll(source.rates()));
    failures =
        Counter.builder("twinbox.sample.failures")
            .description("Looks at the database that failed")
            .register(registry);
    Gauge.builder("twinbox.sample.age", this, DatabaseSampler::ageSeconds)
        .description("How old the figures from the database are")
        .baseUnit("seconds")
        .register(registry);
    events =
        gauge(
            registry,
            "twinbox.outbox.events",
            "Events not yet published; 100000 is that or more",
            null);
    oldest =
        gauge(
            registry,
            "twinbox.outbox.oldest.due.age",
            "How long the oldest due event could have been sent",
            "seconds");
    sourceAges =
        gauge(
            registry,
            "twinbox.source.age",
            "How long ago the watermark, the move of it and the last good run were",
            "seconds");
    bytesToday =
        gauge(
            registry,
            "twinbox.source.bytes.today",
            "Bytes billed or estimated since midnight UTC",
            null);
    slotsToday =
        gauge(
            registry,
            "twinbox.source.slot.today",
            "Slot time of the query jobs since midnight UTC",
            "seconds");
    rowsToday =
        gauge(
            registry,
            "twinbox.source.rows.today",
            "Rows of the runs since midnight UTC, by what became of them",
            null);
    backfillSteps =
        gauge(
            registry,
            "twinbox.source.backfill.steps",
            "Steps of the backfill that was begun last",
            null);
    backfillBytes =
        gauge(
            registry,
            "twinbox.source.backfill.bytes",
            "Bytes that the backfill begun last was billed so far",
            null);
    rejects =
        gauge(
            registry,
            "twinbox.source.rejects",
            "Rows that the outbox refused; 10000 is that or more",
            null);
    failing =
        gauge(
            registry,
            "twinbox.source.failing",
            "1 when the newest run that ended has failed",
            null);
    liveRows =
        gauge(registry, "twinbox.table.live.rows", "Rows, as PostgreSQL estimates them", null);
    deadRows =
        gauge(
            registry,
            "twinbox.table.dead.rows",
            "Rows that vacuum has yet to remove, as PostgreSQL estimates them",
            null);
    if (consumer != null) {
      Gauge.builder("twinbox.inbox.dead.letters", this, s -> s.inbox("dead"))
          .description("Open dead letters; 100000 is that or more")
          .tag("consumer", consumer)
          .register(registry);
      Gauge.builder("twinbox.inbox.failing", this, s -> s.inbox("failing"))
          .description("Messages whose handler has failed and that are tried again")
          .tag("consumer", consumer)
          .register(registry);
    }
  }

  /** What has rates that are taken with every look. */
  interface RateSource {
    List<Rate> rates();
  }

  private static MultiGauge gauge(
      MeterRegistry registry, String name, String description, String unit) {
    return MultiGauge.builder(name).description(description).baseUnit(unit).register(registry);
  }

  /** The last look that succeeded, or null before the first. */
  DatabaseSample sample() {
    return sample;
  }

  /** How old the last look is, NaN before the first. */
  double ageSeconds() {
    DatabaseSample last = sample;
    return last == null ? Double.NaN : (System.nanoTime() - last.takenAt()) / 1e9;
  }

  private double inbox(String column) {
    DatabaseSample last = sample;
    return last == null ? Double.NaN : ((Number) last.inbox().get(column)).doubleValue();
  }

  /** Looks now, and says whether the database answered. */
  boolean look() {
    long started = System.nanoTime();
    rates.forEach(rate -> rate.look(started));
    try {
      DatabaseSample taken =
          new DatabaseSample(
              started,
              rows("sample-outbox.sql", Map.of()),
              rows("sample-produce.sql", Map.of()),
              rows("sample-tables.sql", Map.of()),
              consumer == null
                  ? null
                  : rows("sample-inbox.sql", Map.of("consumer", consumer)).get(0));
      show(taken);
      sample = taken;
      return true;
    } catch (RuntimeException e) {
      failures.increment();
      log.debug("The database could not be looked at: {}", Causes.describe(e));
      return false;
    }
  }

  private List<Map<String, Object>> rows(String statement, Map<String, Object> parameters) {
    return jdbc.queryForList(SqlFiles.read("sql/operate/" + statement), parameters);
  }

  private void show(DatabaseSample taken) {
    List<MultiGauge.Row<?>> byState = new ArrayList<>();
    List<MultiGauge.Row<?>> ages = new ArrayList<>();
    for (Map<String, Object> row : taken.topics()) {
      Tags topic = Tags.of("topic", (String) row.get("topic_name"));
      for (String state : List.of("due", "claimed", "waiting", "dead")) {
        byState.add(MultiGauge.Row.of(topic.and("state", state), (Number) row.get(state)));
      }
      ages.add(MultiGauge.Row.of(topic, (Number) row.get("oldest_due_seconds")));
    }
    events.register(byState, true);
    oldest.register(ages, true);

    List<MultiGauge.Row<?>> since = new ArrayList<>();
    List<MultiGauge.Row<?>> bytes = new ArrayList<>();
    List<MultiGauge.Row<?>> slots = new ArrayList<>();
    List<MultiGauge.Row<?>> queried = new ArrayList<>();
    List<MultiGauge.Row<?>> steps = new ArrayList<>();
    List<MultiGauge.Row<?>> stepBytes = new ArrayList<>();
    List<MultiGauge.Row<?>> refused = new ArrayList<>();
    List<MultiGauge.Row<?>> bad = new ArrayList<>();
    for (Map<String, Object> row : taken.sources()) {
      Tags source =
          Tags.of("topic", (String) row.get("topic_name"), "source", (String) row.get("source"));
      for (String of : List.of("watermark", "moved", "success")) {
        if (row.get(of + "_seconds") instanceof Number seconds) {
          since.add(MultiGauge.Row.of(source.and("of", of), seconds));
        }
      }
      bytes.add(MultiGauge.Row.of(source, (Number) row.get("bytes_today")));
      slots.add(MultiGauge.Row.of(source, (Number) row.get("slot_seconds_today")));
      for (String outcome : ProduceMeters.ROWS) {
        queried.add(
            MultiGauge.Row.of(
                source.and("outcome", outcome), (Number) row.get(outcome + "_today")));
      }
      if (row.get("backfill_steps") instanceof Number all) {
        long done = ((Number) row.get("backfill_steps_done")).longValue();
        steps.add(MultiGauge.Row.of(source.and("state", "done"), done));
        steps.add(MultiGauge.Row.of(source.and("state", "left"), all.longValue() - done));
        stepBytes.add(MultiGauge.Row.of(source, (Number) row.get("backfill_bytes")));
      }
      refused.add(MultiGauge.Row.of(source, (Number) row.get("rejected")));
      bad.add(MultiGauge.Row.of(source, Boolean.TRUE.equals(row.get("failing")) ? 1 : 0));
    }
    sourceAges.register(since, true);
    bytesToday.register(bytes, true);
    slotsToday.register(slots, true);
    rowsToday.register(queried, true);
    backfillSteps.register(steps, true);
    backfillBytes.register(stepBytes, true);
    rejects.register(refused, true);
    failing.register(bad, true);

    List<MultiGauge.Row<?>> live = new ArrayList<>();
    List<MultiGauge.Row<?>> dead = new ArrayList<>();
    for (Map<String, Object> row : taken.tables()) {
      Tags table = Tags.of("table", (String) row.get("table_name"));
      live.add(MultiGauge.Row.of(table, (Number) row.get("live_rows")));
      dead.add(MultiGauge.Row.of(table, (Number) row.get("dead_rows")));
    }
    liveRows.register(live, true);
    deadRows.register(dead, true);
  }

  private void lookAndGoOn() {
    long started = System.nanoTime();
    boolean succeeded = look();
    // One that failed has not kept the database busy.
    long took = succeeded ? PAUSE_PER_LOOK * (System.nanoTime() - started) : 0;
    try {
      executor.schedule(this::lookAndGoOn, Math.max(pauseNanos, took), TimeUnit.NANOSECONDS);
    } catch (RejectedExecutionException e) {
      // Stopped meanwhile.
    }
  }

  @Override
  public void start() {
    ScheduledThreadPoolExecutor one =
        new ScheduledThreadPoolExecutor(
            1,
            runnable -> {
              Thread thread = Executors.defaultThreadFactory().newThread(runnable);
              thread.setName("twinbox-sample");
              thread.setDaemon(true);
              return thread;
            });
    one.setExecuteExistingDelayedTasksAfterShutdownPolicy(false);
    executor = one;
    executor.execute(this::lookAndGoOn);
  }

  @Override
  public void stop() {
    executor.shutdownNow();
    try {
      executor.awaitTermination(TIMEOUT_SECONDS, TimeUnit.SECONDS);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
    executor = null;
  }

  @Override
  public boolean isRunning() {
    return executor != null;
  }
}
