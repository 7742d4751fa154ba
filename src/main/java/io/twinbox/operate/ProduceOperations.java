package io.twinbox.operate;

import static io.twinbox.operate.Repairs.orDefault;
import static io.twinbox.operate.Repairs.parameters;
import static io.twinbox.operate.Repairs.who;

import io.twinbox.config.TwinboxProperties;
import java.util.Map;
import javax.management.MalformedObjectNameException;
import javax.management.ObjectName;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.context.annotation.Condition;
import org.springframework.context.annotation.ConditionContext;
import org.springframework.context.annotation.Conditional;
import org.springframework.core.type.AnnotatedTypeMetadata;
import org.springframework.jmx.export.annotation.ManagedOperation;
import org.springframework.jmx.export.annotation.ManagedOperationParameter;
import org.springframework.jmx.export.annotation.ManagedOperationParameters;
import org.springframework.jmx.export.annotation.ManagedResource;
import org.springframework.jmx.export.naming.SelfNaming;
import org.springframework.stereotype.Component;

/**
 * How far a source was read, as JMX operations. A run that is a job of its own lives too briefly,
 * so dispatch has the bean as well when it knows the source.
 */
@Component
@Conditional(ProduceOperations.KnowsSource.class)
@ManagedResource(
    description =
        "How far one source of a topic was read, and what its runs did and cost. Every change is written into twinbox_audit.")
public class ProduceOperations implements SelfNaming {

  static class KnowsSource implements Condition {
    @Override
    public boolean matches(ConditionContext context, AnnotatedTypeMetadata metadata) {
      return !context.getEnvironment().getProperty("twinbox.source", "").isBlank()
          && (new OnRouteSet.Produce().matches(context, metadata)
              || new OnRouteSet.Dispatch().matches(context, metadata));
    }
  }

  private final Repairs repairs;
  private final String topic;
  private final String source;
  private final String type;

  ProduceOperations(
      Repairs repairs, TwinboxProperties properties, @Value("${topic.name}") String topic) {
    this.repairs = repairs;
    this.topic = topic;
    this.source = properties.source();
    this.type = properties.produce().watermarkType();
  }

  @Override
  public ObjectName getObjectName() throws MalformedObjectNameException {
    return Repairs.objectName("Produce", "source", source);
  }

  @ManagedOperation(
      description =
          "Shows how far this source was read (watermark), who set it last and why, and how the last run ended. Changes nothing.")
  public String listWatermark() {
    return repairs.list("watermark.sql", parameters("topic", topic, "source", source));
  }

  @ManagedOperation(
      description =
          "Shows this source's last runs, newest first: rows by what became of them, bytes billed, the error. Changes nothing.")
  @ManagedOperationParameters(
      @ManagedOperationParameter(name = "maxRows", description = "At most so many. 0: 20."))
  public String listRuns(int maxRows) {
    return repairs.list(
        "runs.sql",
        parameters("topic", topic, "source", source, "maxRows", orDefault(maxRows, 20)));
  }

  @ManagedOperation(
      description =
          "Sets how far this source counts as read; the next run begins there, less the lookback. Set back, everything since is read and billed again, and known rows are not sent again. Set ahead, rows in between are never read. A run in flight does not overwrite it.")
  @ManagedOperationParameters({
    @ManagedOperationParameter(
        name = "value",
        description =
            "In the notation of twinbox.produce.watermark-type, for example 2026-01-31T09:00:00Z."),
    @ManagedOperationParameter(
        name = "reason",
        description = "Why, in a few words. Required; kept in twinbox_audit."),
    @ManagedOperationParameter(
        name = "who",
        description = "Your name. Required; kept in twinbox_audit.")
  })
  public String setWatermark(String value, String reason, String who) {
    Map<String, Object> result =
        repairs.row(
            "watermark-set.sql",
            parameters(
                "topic", topic, "source", source, "type", type, "value", value, "reason", reason,
                "who", who(who)));
    return "The watermark was %s and is %s now."
        .formatted(
            result.get("old_value") == null ? "not set" : result.get("old_value"),
            result.get("new_value"));
  }
}
