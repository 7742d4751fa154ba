package io.twinbox.operate;

import java.util.Map;
import java.util.TreeMap;
import org.apache.camel.CamelContext;
import org.apache.camel.Route;
import org.apache.camel.ServiceStatus;
import org.springframework.boot.actuate.health.Health;
import org.springframework.boot.actuate.health.HealthIndicator;
import org.springframework.context.annotation.Lazy;
import org.springframework.stereotype.Component;

/**
 * The health entry {@code routes}, part of readiness: out of service while a route is not started,
 * which an operator may have wanted.
 */
@Component("routesHealthIndicator")
class RoutesHealth implements HealthIndicator {

  private final CamelContext camelContext;

  RoutesHealth(@Lazy CamelContext camelContext) {
    this.camelContext = camelContext;
  }

  @Override
  public Health health() {
    Map<String, String> notStarted = new TreeMap<>();
    for (Route route : camelContext.getRoutes()) {
      ServiceStatus status = camelContext.getRouteController().getRouteStatus(route.getId());
      if (status != ServiceStatus.Started) {
        notStarted.put(route.getId(), String.valueOf(status));
      }
    }
    return notStarted.isEmpty()
        ? Health.up().withDetail("started", camelContext.getRoutesSize()).build()
        : Health.outOfService().withDetails(notStarted).build();
  }
}
