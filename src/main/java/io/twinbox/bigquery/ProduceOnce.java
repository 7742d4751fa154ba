package io.twinbox.bigquery;

import io.twinbox.config.Causes;
import io.twinbox.config.TwinboxProperties;
import org.apache.camel.ProducerTemplate;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.boot.ApplicationArguments;
import org.springframework.boot.ApplicationRunner;
import org.springframework.boot.ExitCodeGenerator;
import org.springframework.boot.autoconfigure.condition.ConditionalOnExpression;
import org.springframework.stereotype.Component;

/**
 * Runs {@code produce} once, for a CronJob: exit code 0 only when all rows and the watermark are
 * committed.
 */
@Component
@ConditionalOnExpression(
    "'${twinbox.routes}'.trim() == 'produce' and '${twinbox.produce.schedule}' == '-'")
class ProduceOnce implements ApplicationRunner, ExitCodeGenerator {

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
    try {
      template.sendBody("direct:produce", null);
      exitCode = 0;
    } catch (RuntimeException e) {
      log.error(
          "The run of source {} failed: {}. Chunks that were committed stand; the watermark did not move, so the next run reads the rest.",
          properties.source(),
          Causes.describe(e));
      log.debug("The failure in full", e);
    }
  }

  @Override
  public int getExitCode() {
    return exitCode;
  }
}
