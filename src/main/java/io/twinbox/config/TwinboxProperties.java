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
 */
@Validated
@ConfigurationProperties("twinbox")
public record TwinboxProperties(
    List<String> routes,
    @NotNull Path topicDir,
    @NotBlank String routesLocation,
    @NotBlank String pod,
    String source,
    String consumer,
    @Valid @NotNull Dispatch dispatch,
    @Valid @NotNull Consume consume,
    @Valid @NotNull Produce produce,
    @Valid @NotNull Maintain maintain) {

  /** The route sets that this process runs, in the order given, each once. */
  public Set<String> routeSets() {
    Set<String> sets = new LinkedHashSet<>();
    if (routes != null) {
      routes.stream().map(String::strip).filter(set -> !set.isEmpty()).forEach(sets::add);
    }
    return sets;
  }

  /** Settings of the outbox's publishing side. */
  public record Dispatch(
      @Min(1) @Max(5000) int batchRows,
      @Min(1) long batchBytes,
      @Min(1) @Max(16) int publishers,
      @NotNull Duration pollInterval,
      @Min(2) int idleFactor,
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
      boolean check) {

    /** Whether a cron expression is set, and this is no check; without one produce runs once. */
    public boolean scheduled() {
      return !check && !schedule.strip().equals("-");
    }
  }

  /** Settings of retention. */
  public record Maintain(
      @NotNull Duration payloadRetention,
      @NotNull Duration subscriptionRetention,
      @NotNull Duration interval,
      @Min(1) int batchSize,
      @NotNull Duration statementTimeout) {}
}
