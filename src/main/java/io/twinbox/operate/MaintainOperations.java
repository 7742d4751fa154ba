package io.twinbox.operate;

import static io.twinbox.operate.Repairs.parameters;
import static io.twinbox.operate.Repairs.who;

import io.twinbox.config.Causes;
import io.twinbox.config.TwinboxProperties;
import javax.management.MalformedObjectNameException;
import javax.management.ObjectName;
import org.apache.camel.Exchange;
import org.apache.camel.ProducerTemplate;
import org.apache.camel.component.sql.SqlConstants;
import org.springframework.context.annotation.Conditional;
import org.springframework.context.annotation.Lazy;
import org.springframework.jmx.export.annotation.ManagedOperation;
import org.springframework.jmx.export.annotation.ManagedOperationParameter;
import org.springframework.jmx.export.annotation.ManagedOperationParameters;
import org.springframework.jmx.export.annotation.ManagedResource;
import org.springframework.jmx.export.naming.SelfNaming;
import org.springframework.stereotype.Component;

/** Retention, as a JMX operation. */
@Component
@Conditional(OnRouteSet.Maintain.class)
@ManagedResource(
    description =
        "The clean-up of payloads whose retention is over. Every call is written into twinbox_audit.")
public class MaintainOperations implements SelfNaming {

  /** A call answers before a console gives up on it. */
  private static final int MOST_BATCHES = 100;

  private final ProducerTemplate template;
  private final Repairs repairs;
  private final TwinboxProperties properties;

  MaintainOperations(
      @Lazy ProducerTemplate template, Repairs repairs, TwinboxProperties properties) {
    this.template = template;
    this.repairs = repairs;
    this.properties = properties;
  }

  @Override
  public ObjectName getObjectName() throws MalformedObjectNameException {
    return new ObjectName("io.twinbox:type=Maintain");
  }

  @ManagedOperation(
      description =
          "Deletes payloads that were published or discarded longer ago than twinbox.maintain.payload-retention, now and not at the next interval, at most a hundred batches. Identities stay. What is deleted cannot be published again.")
  @ManagedOperationParameters({
    @ManagedOperationParameter(
        name = "reason",
        description = "Why, in a few words. Required; kept in twinbox_audit."),
    @ManagedOperationParameter(
        name = "who",
        description = "Your name. Required; kept in twinbox_audit.")
  })
  public String runRetention(String reason, String who) {
    who(who);
    if (reason == null || reason.isBlank()) {
      throw new IllegalArgumentException("reason is missing; say why, it goes into twinbox_audit");
    }
    int batchSize = properties.maintain().batchSize();
    long deleted = 0;
    boolean more = true;
    for (int batch = 0; more && batch < MOST_BATCHES; batch++) {
      Exchange exchange = template.request("direct:maintain-batch", e -> {});
      if (exchange.getException() != null) {
        throw new IllegalStateException(
            "Deleted: %d, then: %s".formatted(deleted, Causes.describe(exchange.getException())));
      }
      int published = exchange.getProperty("published", 0, Integer.class);
      int discarded =
          exchange.getMessage().getHeader(SqlConstants.SQL_UPDATE_COUNT, 0, Integer.class);
      deleted += published + discarded;
      more = published >= batchSize || discarded >= batchSize;
    }
    repairs.row(
        "audit-add.sql",
        parameters(
            "action",
            "run_retention",
            "topic",
            null,
            "consumer",
            null,
            "reason",
            reason,
            "who",
            who,
            "rows",
            deleted,
            "pod",
            properties.pod()));
    return "Deleted: %d. %s"
        .formatted(
            deleted, more ? "More is old enough: call again." : "Nothing else is old enough.");
  }
}
