package io.twinbox.routes;

import java.util.Objects;

/**
 * A route file as text, so that a classpath resource, a file and a ConfigMap are checked alike.
 *
 * @param name the path shown in messages; its last part is compared with the route's id
 * @param text the YAML
 */
public record RouteFile(String name, String text, Kind kind) {
  public RouteFile {
    Objects.requireNonNull(name, "name");
    Objects.requireNonNull(text, "text");
    Objects.requireNonNull(kind, "kind");
  }
}
