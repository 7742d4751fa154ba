package io.twinbox.routes;

import io.twinbox.config.RetentionCheck;
import io.twinbox.config.StartupException;
import io.twinbox.config.TwinboxProperties;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Optional;
import java.util.Set;
import org.apache.camel.CamelContext;
import org.apache.camel.spring.boot.CamelContextConfiguration;
import org.apache.camel.support.PluginHelper;
import org.apache.camel.support.ResourceHelper;
import org.springframework.core.env.Environment;
import org.springframework.core.io.Resource;
import org.springframework.core.io.support.PathMatchingResourcePatternResolver;
import org.springframework.stereotype.Component;

/**
 * Loads the routes of the chosen route sets and, for {@code consume}, the topic's handler.
 * Everything that a set needs is checked first, so that a wrong setting is a message about that
 * setting and not a stack trace from the depths of a route.
 */
@Component
class RouteSets implements CamelContextConfiguration {

  static final List<String> KNOWN = List.of("produce", "dispatch", "consume", "maintain");
  static final String HANDLER = "handle.camel.yaml";

  private final TwinboxProperties properties;
  private final Environment environment;

  RouteSets(TwinboxProperties properties, Environment environment) {
    this.properties = properties;
    this.environment = environment;
  }

  @Override
  public void beforeApplicationStart(CamelContext camelContext) {
    Set<String> sets = chosen();
    checkSettings(sets);
    List<RouteFile> files = new ArrayList<>();
    for (String set : sets) {
      files.addAll(filesOf(set));
    }
    List<Finding> findings =
        RouteRules.check(
            files,
            Surroundings.here(property -> Optional.ofNullable(environment.getProperty(property))));
    if (!findings.isEmpty()) {
      throw new InvalidRoutesException(findings);
    }
    for (RouteFile file : files) {
      load(camelContext, file);
    }
  }

  @Override
  public void afterApplicationStart(CamelContext camelContext) {
    // Nothing: the routes run.
  }

  /** The route sets of {@code TWINBOX_ROUTES}, in the order given. */
  private Set<String> chosen() {
    Set<String> sets = new LinkedHashSet<>();
    for (String name : properties.routes() == null ? List.<String>of() : properties.routes()) {
      if (!KNOWN.contains(name.strip())) {
        throw new StartupException(
            "TWINBOX_ROUTES names the unknown route set '%s'.".formatted(name.strip()),
            "Use a comma list of " + String.join(", ", KNOWN) + ".");
      }
      sets.add(name.strip());
    }
    if (sets.isEmpty()) {
      throw new StartupException(
          "TWINBOX_ROUTES is not set, so there is nothing to run.",
          "Set it to a comma list of " + String.join(", ", KNOWN) + ".");
    }
    return sets;
  }

  private void checkSettings(Set<String> sets) {
    List<String> missing = new ArrayList<>();
    if (sets.contains("dispatch") || sets.contains("produce")) {
      require(missing, "topic.name", "TOPIC_NAME");
    }
    if (sets.contains("consume")) {
      require(missing, "subscription.name", "SUBSCRIPTION_NAME");
      require(missing, "twinbox.consumer", "TWINBOX_CONSUMER");
    }
    if (sets.contains("produce")) {
      require(missing, "twinbox.source", "TWINBOX_SOURCE");
    }
    if (!sets.equals(Set.of("maintain"))) {
      require(missing, "google.cloud.project", "GOOGLE_CLOUD_PROJECT");
    }
    if (!missing.isEmpty()) {
      throw new StartupException(
          "Route sets %s need settings that are missing: %s."
              .formatted(String.join(", ", sets), String.join(", ", missing)),
          "Set each in the environment or in %s."
              .formatted(properties.topicDir().resolve("topic.properties")));
    }
    RetentionCheck.check(properties, sets);
    var dispatch = properties.dispatch();
    if (dispatch.publishTimeout().compareTo(dispatch.lease()) >= 0) {
      throw new StartupException(
          "twinbox.dispatch.publish-timeout (%s) is not shorter than twinbox.dispatch.lease (%s): another pod would claim rows that are still being published."
              .formatted(
                  environment.getProperty("twinbox.dispatch.publish-timeout"),
                  environment.getProperty("twinbox.dispatch.lease")),
          "Make the lease at least twice the publish timeout.");
    }
    int pool =
        environment.getRequiredProperty(
            "spring.datasource.hikari.maximum-pool-size", Integer.class);
    if (sets.contains("consume") && pool < properties.consume().concurrency() + 2) {
      throw new StartupException(
          "spring.datasource.hikari.maximum-pool-size (%d) is too small for twinbox.consume.concurrency (%d): handlers would wait for connections while their messages' leases run."
              .formatted(pool, properties.consume().concurrency()),
          "Make the pool at least %d.".formatted(properties.consume().concurrency() + 2));
    }
    if (sets.contains("produce") && !properties.produce().scheduled() && sets.size() > 1) {
      throw new StartupException(
          "produce has no schedule, so it would run once and end the process, and with it %s."
              .formatted(
                  String.join(", ", sets.stream().filter(s -> !s.equals("produce")).toList())),
          "Set TWINBOX_PRODUCE_SCHEDULE to a cron expression, or run produce as a process of its own.");
    }
  }

  private void require(List<String> missing, String property, String variable) {
    String value = environment.getProperty(property);
    if (value == null || value.isBlank()) {
      missing.add(variable);
    }
  }

  private List<RouteFile> filesOf(String set) {
    List<RouteFile> files = new ArrayList<>();
    String pattern = properties.routesLocation() + "/" + set + "/*.camel.yaml";
    try {
      for (Resource resource : new PathMatchingResourcePatternResolver().getResources(pattern)) {
        if (set.equals("produce")
            && !properties.produce().scheduled()
            && "produce-schedule.camel.yaml".equals(resource.getFilename())) {
          continue;
        }
        files.add(
            new RouteFile(
                set + "/" + resource.getFilename(),
                resource.getContentAsString(StandardCharsets.UTF_8),
                Kind.ROUTE));
      }
    } catch (IOException e) {
      throw new StartupException(
          "The routes of set '%s' cannot be read from %s: %s."
              .formatted(set, pattern, e.getMessage()),
          "Check twinbox.routes-location and that the process may read it.");
    }
    if (files.isEmpty()) {
      throw new StartupException(
          "There are no routes for set '%s' at %s.".formatted(set, pattern),
          "Check twinbox.routes-location: it holds one folder per route set.");
    }
    if (set.equals("consume")) {
      files.add(handler());
    }
    if (set.equals("produce")) {
      readable("query.sql", "produce");
    }
    return files;
  }

  private RouteFile handler() {
    Path file = readable(HANDLER, "consume");
    try {
      return new RouteFile(file.toString(), Files.readString(file), Kind.HANDLER);
    } catch (IOException e) {
      throw new StartupException(
          "%s cannot be read: %s.".formatted(file.toAbsolutePath(), e.getMessage()),
          "Save it as UTF-8 text.");
    }
  }

  private Path readable(String name, String set) {
    Path file = properties.topicDir().resolve(name);
    if (!Files.isReadable(file)) {
      throw new StartupException(
          "%s is missing or cannot be read; route set %s needs it."
              .formatted(file.toAbsolutePath().normalize(), set),
          "Point TWINBOX_TOPIC_DIR at the topic's folder (it is '%s' now)."
              .formatted(properties.topicDir()));
    }
    return file;
  }

  private static void load(CamelContext camelContext, RouteFile file) {
    try {
      PluginHelper.getRoutesLoader(camelContext)
          .loadRoutes(ResourceHelper.fromString(file.name(), file.text()));
    } catch (Exception e) {
      throw new StartupException(
          "%s cannot be loaded: %s".formatted(file.name(), rootMessage(e)),
          "Correct the file; docs/adding-a-topic.md shows the form.");
    }
  }

  private static String rootMessage(Throwable e) {
    Throwable root = e;
    while (root.getCause() != null && root.getCause() != root) {
      root = root.getCause();
    }
    return root.getMessage();
  }
}
