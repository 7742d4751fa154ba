package io.twinbox.operate;

import static io.twinbox.operate.Repairs.parameters;
import static io.twinbox.operate.Repairs.who;

import io.twinbox.config.TwinboxProperties;
import java.util.ArrayList;
import java.util.List;
import org.apache.camel.CamelContext;
import org.apache.camel.ServiceStatus;
import org.apache.camel.spi.RouteController;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.context.annotation.Lazy;
import org.springframework.stereotype.Component;

/** Suspends and resumes routes of this process, and writes down who did so. */
@Component
class RoutePause {

  private static final Logger log = LoggerFactory.getLogger("io.twinbox.operate");

  private final CamelContext camelContext;
  private final Repairs repairs;
  private final String pod;

  RoutePause(@Lazy CamelContext camelContext, Repairs repairs, TwinboxProperties properties) {
    this.camelContext = camelContext;
    this.repairs = repairs;
    this.pod = properties.pod();
  }

  boolean paused(List<String> routes) {
    return routes.stream().anyMatch(id -> controller().getRouteStatus(id) != ServiceStatus.Started);
  }

  String pause(List<String> routes, String topic, String consumer, String reason, String who) {
    check(reason, who);
    return set(routes, false) + noted("pause", topic, consumer, reason, who);
  }

  String resume(List<String> routes, String topic, String consumer, String reason, String who) {
    check(reason, who);
    return set(routes, true) + noted("resume", topic, consumer, reason, who);
  }

  private static void check(String reason, String who) {
    who(who);
    if (reason == null || reason.isBlank()) {
      throw new IllegalArgumentException("reason is missing; say why, it goes into twinbox_audit");
    }
  }

  private String set(List<String> routes, boolean run) {
    List<String> changed = new ArrayList<>();
    for (String id : routes) {
      ServiceStatus status = controller().getRouteStatus(id);
      try {
        if (run && status == ServiceStatus.Suspended) {
          controller().resumeRoute(id);
          changed.add(id);
        } else if (run && status == ServiceStatus.Stopped) {
          controller().startRoute(id);
          changed.add(id);
        } else if (!run && status == ServiceStatus.Started) {
          controller().suspendRoute(id);
          changed.add(id);
        }
      } catch (Exception e) {
        throw new IllegalStateException("Route " + id + ": " + e.getMessage());
      }
    }
    return "%s in pod %s: %s. "
        .formatted(
            run ? "Resumed" : "Paused",
            pod,
            changed.isEmpty() ? "nothing, it was so already" : String.join(", ", changed));
  }

  /** A pause must be possible while the database is away, so it does not depend on the note. */
  private String noted(String action, String topic, String consumer, String reason, String who) {
    log.warn("{} by {}: {}", action.equals("pause") ? "Paused" : "Resumed", who, reason);
    try {
      repairs.row(
          "audit-add.sql",
          parameters(
              "action",
              action,
              "topic",
              topic,
              "consumer",
              consumer,
              "reason",
              reason,
              "who",
              who,
              "rows",
              0,
              "pod",
              pod));
      return "";
    } catch (IllegalArgumentException e) {
      return "It could not be written into twinbox_audit: " + e.getMessage();
    }
  }

  private RouteController controller() {
    return camelContext.getRouteController();
  }
}
