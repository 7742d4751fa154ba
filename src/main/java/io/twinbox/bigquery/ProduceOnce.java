package io.twinbox.bigquery;

import io.twinbox.config.Causes;
import io.twinbox.config.TwinboxProperties;
import java.util.Set;
import java.util.stream.Collectors;
import org.apache.camel.ProducerTemplate;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.boot.ApplicationArguments;
import org.springframework.boot.ApplicationRunner;
import org.springframework.boot.ExitCodeGenerator;
import org.springframework.context.annotation.Condition;
import org.springframework.context.annotation.ConditionContext;
import org.springframework.context.annotation.Conditional;
import org.springframework.core.env.Environment;
import org.springframework.core.type.AnnotatedTypeMetadata;
import org.springframework.stereotype.Component;
import org.springframework.util.StringUtils;

/**
 * Runs {@code produce} once, for a CronJob: exit code 0 only when all rows and the watermark are
 * committed; or a backfill, with exit code 0 when all its steps are done; or checks it, for a
 * pipeline: exit code 0 when it could run.
 */
@Component
@Conditional(ProduceOnce.Chosen.class)
class ProduceOnce implements ApplicationRunner, ExitCodeGenerator {

  /** produce is the only route set and has no schedule, or is checked, or a backfill. */
  static class Chosen implements Condition {
    @Override
    public boolean matches(ConditionContext context, AnnotatedTypeMetadata metadata) {
      Environment environment = context.getEnvironment();
      return StringUtils.commaDelimitedListToSet(environment.getProperty("twinbox.routes", ""))
              .stream()
              .map(String::strip)
              .filter(set -> !set.isEmpty())
              .collect(Collectors.toSet())
              .equals(Set.of("produce"))
          && (environment.getProperty("twinbox.produce.schedule", "-").strip().equals("-")
              || !environment.getProperty("twinbox.produce.backfill.from", "").isBlank()
              || !environment.getProperty("twinbox.produce.backfill.until", "").isBlank()
              || environment.getProperty("twinbox.produce.check", Boolean.class, false));
    }
  }

  private static final Logger log = LoggerFactory.getLogger("io.twinbox.produce");

  private final ProducerTemplate template;
  private final TwinboxProperties properties;
  private int exitCode = 1;

  ProduceOnce(ProducerTemplate template, TwinboxProperties properties) {
    this.template = template;
    this.properties = properties;
  }

  @Override
  public void run(ApplicationArguments arguments) {
    if (properties.produce().check()) {
      check();
      return;
    }
    if (properties.produce().backfill().asked()) {
      backfill();
      return;
    }
    try {
      template.sendBody("direct:produce", null);
      exitCode = 0;
    } catch (RuntimeException e) {
      log.error(
          "The run of source {} failed: {}. Chunks that were committed stand; the watermark did not move, so the next run reads the rest.",
          properties.source(),
          reason(e));
      log.debug("The failure in full", e);
    }
  }

  private void backfill() {
    try {
      template.sendBody("direct:produce-backfill", null);
      exitCode = 0;
    } catch (RuntimeException e) {
      log.error(
          "The backfill of source {} failed: {}. Steps that are done stay done; run it again with the same settings, and it goes on.",
          properties.source(),
          reason(e));
      log.debug("The failure in full", e);
    }
  }

  private void check() {
    try {
      template.sendBody("direct:produce-check", null);
      exitCode = 0;
    } catch (RuntimeException e) {
      log.error(
          "The check of source {} failed: {}. Nothing was run or written.",
          properties.source(),
          reason(e));
      log.debug("The failure in full", e);
    }
  }

  /** To be followed by a full stop. */
  private static String reason(Throwable failure) {
    return Causes.describe(failure).replaceFirst("\\.$", "");
  }

  @Override
  public int getExitCode() {
    return exitCode;
  }
}
