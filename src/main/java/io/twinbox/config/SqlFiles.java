package io.twinbox.config;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import org.springframework.core.io.ClassPathResource;

/** Reads statements of {@code sql/} for the few places where Java runs one. */
public final class SqlFiles {

  private SqlFiles() {}

  /**
   * @param path path on the classpath, for example {@code sql/consume/insert-inbox-key.sql}
   */
  public static String read(String path) {
    try {
      return new ClassPathResource(path).getContentAsString(StandardCharsets.UTF_8);
    } catch (IOException e) {
      throw new UncheckedIOException("The statement " + path + " is not on the classpath", e);
    }
  }
}
