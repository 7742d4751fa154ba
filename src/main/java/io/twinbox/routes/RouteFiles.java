package io.twinbox.routes;

import io.twinbox.config.StartupException;
import io.twinbox.config.TwinboxProperties;
import java.io.IOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import org.springframework.core.io.Resource;
import org.springframework.core.io.support.PathMatchingResourcePatternResolver;

/**
 * The route files that this process runs: those of the chosen route sets and, for {@code consume},
 * the topic's handler.
 */
public record RouteFiles(List<RouteFile> files) {

  public static final String HANDLER = "handle.camel.yaml";

  /**
   * @throws StartupException when a file that a route set needs is missing or cannot be read
   */
  public static RouteFiles read(TwinboxProperties properties) {
    List<RouteFile> files = new ArrayList<>();
    for (String set : properties.routeSets()) {
      files.addAll(read(set, properties).files());
    }
    return new RouteFiles(files);
  }

  /**
   * The files of one route set.
   *
   * @throws StartupException when one is missing or cannot be read
   */
  public static RouteFiles read(String set, TwinboxProperties properties) {
    List<RouteFile> files = new ArrayList<>(ofSet(set, properties));
    if (set.equals("consume")) {
      files.add(handler(properties));
    }
    if (set.equals("produce")) {
      readable("query.sql", "produce", properties);
    }
    return new RouteFiles(files);
  }

  private static List<RouteFile> ofSet(String set, TwinboxProperties properties) {
    List<RouteFile> files = new ArrayList<>();
    String pattern = properties.routesLocation() + "/" + set + "/*.camel.yaml";
    try {
      for (Resource resource : new PathMatchingResourcePatternResolver().getResources(pattern)) {
        if (resource.getFilename().startsWith(".")) {
          // What an editor or a mounted volume keeps beside the files.
          continue;
        }
        if (set.equals("produce") && !isWanted(resource.getFilename(), properties.produce())) {
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
          "Check TWINBOX_ROUTES_LOCATION and that this process may read it.");
    }
    if (files.isEmpty()) {
      throw new StartupException(
          "There are no routes for set '%s' at %s.".formatted(set, pattern),
          "Check TWINBOX_ROUTES_LOCATION: it holds one folder per route set.");
    }
    return files;
  }

  /** Routes that start by themselves, and not in every process of produce. */
  private static boolean isWanted(String file, TwinboxProperties.Produce produce) {
    return switch (file) {
      case "produce-schedule.camel.yaml" -> produce.scheduled();
      case "produce-renew.camel.yaml" -> produce.backfill().asked() && !produce.check();
      default -> true;
    };
  }

  private static RouteFile handler(TwinboxProperties properties) {
    Path file = readable(HANDLER, "consume", properties);
    try {
      return new RouteFile(file.toString(), Files.readString(file), Kind.HANDLER);
    } catch (IOException e) {
      throw new StartupException(
          "%s cannot be read: %s.".formatted(file.toAbsolutePath(), e.getMessage()),
          "Save it as UTF-8 text.");
    }
  }

  private static Path readable(String name, String set, TwinboxProperties properties) {
    Path file = properties.topicDir().resolve(name);
    if (!Files.isRegularFile(file) || !Files.isReadable(file)) {
      throw new StartupException(
          "%s is missing or cannot be read; route set %s needs it."
              .formatted(file.toAbsolutePath().normalize(), set),
          "Point TWINBOX_TOPIC_DIR at the topic's folder (it is '%s' now)."
              .formatted(properties.topicDir()));
    }
    return file;
  }
}
