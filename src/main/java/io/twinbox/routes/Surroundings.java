package io.twinbox.routes;

import java.io.IOException;
import java.io.InputStream;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.Optional;
import java.util.function.Function;

/**
 * What a route file refers to and does not hold itself: property values and statement files.
 *
 * <p>The checker runs before Camel and Spring exist, and in CI where neither will; so both come in
 * as functions.
 */
public interface Surroundings {

  /**
   * The value of the property in <code>{{key}}</code>; empty when it is not set. The key can be
   * {@code env:NAME} or {@code sys:name}, as Camel takes them.
   */
  Optional<String> property(String key);

  /**
   * The text behind {@code classpath:sql/x.sql} or {@code file:dir/x.sql} (placeholders resolved);
   * empty when there is no such file.
   */
  Optional<String> text(String reference);

  static Surroundings of(
      Function<String, Optional<String>> properties, Function<String, Optional<String>> texts) {
    return new Surroundings() {
      @Override
      public Optional<String> property(String key) {
        return properties.apply(key);
      }

      @Override
      public Optional<String> text(String reference) {
        return texts.apply(reference);
      }
    };
  }

  /** Statement files from this process's class path and file system, as Camel would find them. */
  static Surroundings here(Function<String, Optional<String>> properties) {
    return of(properties, Surroundings::read);
  }

  private static Optional<String> read(String reference) {
    try {
      if (reference.startsWith("file:")) {
        Path path = Path.of(reference.substring("file:".length()));
        return Files.isRegularFile(path) ? Optional.of(Files.readString(path)) : Optional.empty();
      }
      if (reference.startsWith("classpath:")) {
        String name = reference.substring("classpath:".length()).replaceFirst("^/+", "");
        ClassLoader loader = Thread.currentThread().getContextClassLoader();
        try (InputStream in =
            (loader == null ? Surroundings.class.getClassLoader() : loader)
                .getResourceAsStream(name)) {
          return in == null
              ? Optional.empty()
              : Optional.of(new String(in.readAllBytes(), StandardCharsets.UTF_8));
        }
      }
      return Optional.empty();
    } catch (IOException unreadable) {
      // The caller reports it as missing, with the name, which is what an operator can act on.
      return Optional.empty();
    }
  }
}
