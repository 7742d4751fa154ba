package io.twinbox.deploy;

import com.google.gson.Gson;
import com.google.gson.JsonObject;
import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Optional;
import java.util.concurrent.TimeUnit;
import org.yaml.snakeyaml.LoaderOptions;
import org.yaml.snakeyaml.Yaml;
import org.yaml.snakeyaml.constructor.SafeConstructor;

/** Renders overlays with the {@code kubectl} of the path, and reads manifests. */
final class Kustomize {

  private Kustomize() {}

  /** The kubectl of the path, or none. */
  static Optional<Path> kubectl() {
    for (String folder : System.getenv().getOrDefault("PATH", "").split(File.pathSeparator)) {
      Path program = Path.of(folder, "kubectl");
      if (Files.isExecutable(program)) {
        return Optional.of(program);
      }
    }
    return Optional.empty();
  }

  /**
   * What {@code kubectl kustomize} makes of a folder, with kustomize's own rule that a
   * kustomization reads no file outside its folder.
   */
  static List<JsonObject> render(Path folder) {
    try {
      Path output = Files.createTempFile("rendered-", ".yaml");
      Path errors = Files.createTempFile("rendered-", ".err");
      try {
        Process process =
            new ProcessBuilder(kubectl().orElseThrow().toString(), "kustomize", folder.toString())
                .redirectOutput(output.toFile())
                .redirectError(errors.toFile())
                .start();
        if (!process.waitFor(60, TimeUnit.SECONDS) || process.exitValue() != 0) {
          process.destroyForcibly();
          throw new AssertionError(folder + " does not render: " + Files.readString(errors));
        }
        return read(Files.readString(output));
      } finally {
        Files.delete(output);
        Files.delete(errors);
      }
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new IllegalStateException(e);
    }
  }

  static List<JsonObject> read(Path file) {
    try {
      return read(Files.readString(file, StandardCharsets.UTF_8));
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** The documents of a YAML text; a key that stands twice is an error. */
  static List<JsonObject> read(String text) {
    LoaderOptions options = new LoaderOptions();
    options.setAllowDuplicateKeys(false);
    List<JsonObject> documents = new ArrayList<>();
    for (Object document : new Yaml(new SafeConstructor(options)).loadAll(text)) {
      if (document != null) {
        documents.add(new Gson().toJsonTree(document).getAsJsonObject());
      }
    }
    return documents;
  }
}
