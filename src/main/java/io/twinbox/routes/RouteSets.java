package io.twinbox.routes;

import io.twinbox.config.Causes;
import io.twinbox.config.StartupCheck;
import io.twinbox.config.StartupException;
import io.twinbox.config.TwinboxProperties;
import java.util.List;
import java.util.Set;
import org.apache.camel.CamelContext;
import org.apache.camel.spring.boot.CamelContextConfiguration;
import org.apache.camel.support.PluginHelper;
import org.apache.camel.support.ResourceHelper;
import org.springframework.stereotype.Component;

/** Loads the route files, which {@link Preflight} has read and checked. */
@Component
class RouteSets implements CamelContextConfiguration {

  private final RouteFiles routeFiles;

  private final TwinboxProperties properties;
  private final List<StartupCheck> checks;

  RouteSets(RouteFiles routeFiles, TwinboxProperties properties, List<StartupCheck> checks) {
    this.routeFiles = routeFiles;
    this.properties = properties;
    this.checks = checks;
  }

  @Override
  public void beforeApplicationStart(CamelContext camelContext) {
    Set<String> sets = properties.routeSets();
    checks.stream().filter(check -> sets.contains(check.routeSet())).forEach(StartupCheck::check);
    // Made when it is first asked for, by whichever route that is; two that start at the same time
    // would both register it with JMX, and one would log a stack trace.
    PluginHelper.getAsyncProcessorAwaitManager(camelContext);
    for (RouteFile file : routeFiles.files()) {
      load(camelContext, file);
    }
  }

  @Override
  public void afterApplicationStart(CamelContext camelContext) {
    // Nothing: the routes run.
  }

  private static void load(CamelContext camelContext, RouteFile file) {
    try {
      PluginHelper.getRoutesLoader(camelContext)
          .loadRoutes(ResourceHelper.fromString(file.name(), file.text()));
    } catch (Exception e) {
      throw new StartupException(
          "%s cannot be loaded: %s".formatted(file.name(), Causes.describe(e)),
          "Correct the file; docs/adding-a-topic.md shows the form.");
    }
  }
}
