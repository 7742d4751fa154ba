package io.twinbox.config;

import jakarta.validation.Valid;
import jakarta.validation.constraints.Max;
import jakarta.validation.constraints.Min;
import jakarta.validation.constraints.NotBlank;
import jakarta.validation.constraints.NotNull;
import jakarta.validation.constraints.Pattern;
import jakarta.validation.constraints.PositiveOrZero;
import java.nio.file.Path;
import java.time.Duration;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Set;
import org.springframework.boot.context.properties.ConfigurationProperties;
import org.springframework.validation.annotation.Validated;

/**
 * The settings of {@code application.properties}, which documents each with its unit and default,
 * checked at start. Routes and statements read the same settings by name.
 *
 * @param migrations {@code run}: migrate at start; {@code wait}: wait until another process has;
 *     {@code only}: migrate and exit
 * @param migrationsWait how long {@code wait} waits
 */
@Validated
@ConfigurationProperties("twinbox")
public record TwinboxProperties(
    List<String> routes,
    @NotNull Path topicDir,
    @NotBlank String routesLocation,
    boolean reload,
    @NotBlank String pod,
    String source,
    String consumer,
    @Pattern(regexp = "run|wait|only", message = "must be run, wait or only") String migrations,
    @NotNull Duration migrationsWait,
    @Valid @NotNull Dispatch dispatch,
    @Valid @NotNull Consume consume,
    @Valid @NotNull Produce produce,
    @Valid @NotNull Reconcile reconcile,
    @Valid @NotNull Maintain maintain,
    @Valid @NotNull Operate operate,
    @NotNull Traces traces) {

  /** The route sets that this process runs, in the order given, each once. */
  public Set<String> routeSets() {
    Set<String> sets = new LinkedHashSet<>();
    if (routes != null) {
      routes.stream().map(String::strip).filter(set -> !set.isEmpty()).forEach(sets::add);
    }
    return sets;
  }

  /** Whether this process is a job that migrates and does nothing else. */
  public boolean migratesOnly() {
    return "only".equals(migrations);
  }

  /** Settings of the outbox's publishing side. */
  public record Dispatch(
      @Min(1) @Max(5000) int batchRows,
      @Min(1) long batchBytes,
      @Min(1) @Max(16) int publishers,
      @NotNull Duration pollInterval,
      @NotNull Duration idleInterval,
      @NotNull Duration lease,
      @NotNull Duration publishTimeout,
      @Min(1) int maxAttempts,
      @Min(2) int maxCrashes,
      @NotNull Duration backoffBase,
      @NotNull Duration backoffCap,
      boolean requireSubscription,
      @NotNull Duration probeCap) {}

  /** Settings of the inbox's consuming side. */
  public record Consume(
      @NotBlank String keyAttribute,
      @Min(1) @Max(200) int concurrency,
      @Min(1) @Max(5000) int outstanding,
      @Min(1) @Max(8) int streams,
      @Min(1) @Max(60) int batchSize,
      @NotNull Duration maxLease,
      @Min(1) int maxAttempts,
      @Min(2) int maxDeliveries,
      @NotNull Duration shutdownTimeout,
      @NotNull Duration lockTimeout,
      @NotNull Duration replayInterval,
      @NotNull Duration watchInterval) {}

  /** Settings of the extraction from BigQuery. */
  public record Produce(
      @NotBlank String schedule,
      @Pattern(
              regexp = "TIMESTAMP|DATETIME|DATE|INT64|STRING",
              message = "must be TIMESTAMP, DATETIME, DATE, INT64 or STRING")
          String watermarkType,
      String firstWatermark,
      String lookback,
      @Min(1) @Max(10000) int chunkRows,
      @Min(1) long chunkBytes,
      @Min(1) int pageRows,
      @PositiveOrZero long maxBytesBilled,
      @PositiveOrZero long maxBytesBilledPerDay,
      @Pattern(regexp = "INTERACTIVE|BATCH", message = "must be INTERACTIVE or BATCH")
          String priority,
      @NotNull Duration jobTimeout,
      @NotNull Duration retryBase,
      @NotNull Duration retryTimeout,
      String location,
      boolean check,
      @Valid @NotNull Backfill backfill) {

    /**
     * Whether a cron expression is set, and this is no check and no backfill; without one produce
     * runs once.
     */
    public boolean scheduled() {
      return !check && !backfill.asked() && !schedule.strip().equals("-");
    }
  }

  /**
   * A window to be read again.
   *
   * @param from its first watermark, in the notation of the watermark's type; empty for no backfill
   * @param until the first watermark behind it
   * @param step its parts: a duration, whole days for DATE, a number for INT64; empty for one part
   * @param name under which it is written down, empty for one made of window and step
   * @param lease how long the step of a process that died is kept from others, at least 3 s
   */
  public record Backfill(
      String from, String until, String step, String name, @NotNull Duration lease) {

    /** Whether this process is a backfill; also when only one end of its window is given. */
    public boolean asked() {
      return (from != null && !from.isBlank()) || (until != null && !until.isBlank());
    }
  }

  /**
   * Settings of the command {@code reconcile}.
   *
   * @param consumerUrl JDBC URL of the consumer's database; blank where it is the outbox's
   * @param consumerUsername blank for none
   * @param consumerPassword blank for none
   * @param grace how long a published event may take until it is applied, above zero
   */
  public record Reconcile(
      String consumerUrl,
      String consumerUsername,
      String consumerPassword,
      @NotNull Duration grace) {

    /** Without the password. */
    @Override
    public String toString() {
      return "Reconcile[grace=%s]".formatted(grace);
    }
  }

  /** Settings of retention. */
  public record Maintain(
      @NotNull Duration payloadRetention,
      @NotNull Duration subscriptionRetention,
      @NotNull Duration interval,
      @Min(1) int batchSize,
      @NotNull Duration statementTimeout) {}

  /**
   * Settings of what operators see and may do.
   *
   * @param loginRequired whether the management port asks for a login; false is for loopback only
   * @param metricsOpen whether /actuator/prometheus can be read without a login
   * @param sampleInterval least pause between two looks at the database for metrics and JMX
   * @param stuckAfter how long a stage may have work and finish none of it, at least a minute,
   *     until liveness fails
   */
  public record Operate(
      boolean loginRequired,
      boolean metricsOpen,
      @NotNull Duration sampleInterval,
      @NotNull Duration stuckAfter) {}

  /**
   * Settings of OpenTelemetry traces; its own {@code otel.*} settings say where spans go.
   *
   * @param enabled whether spans are written
   */
  public record Traces(boolean enabled) {}
}
