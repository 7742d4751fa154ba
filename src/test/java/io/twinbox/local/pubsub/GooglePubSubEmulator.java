package io.twinbox.local.pubsub;

import java.io.File;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.nio.charset.StandardCharsets;
import java.nio.file.DirectoryStream;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Optional;

/**
 * Google's own Pub/Sub emulator, where the machine has it ({@code gcloud components install
 * pubsub-emulator}, or Debian's google-cloud-cli-pubsub-emulator). It runs as a child process, in
 * the java that runs the tests.
 */
public final class GooglePubSubEmulator implements AutoCloseable {
  /** What to say when a test is left out for lack of it. */
  public static final String NOT_FOUND =
      "Google's Pub/Sub emulator was not found: neither CLOUDSDK_ROOT_DIR nor gcloud leads to"
          + " platform/pubsub-emulator/lib/cloud-pubsub-emulator-*-all.jar";

  private static final Duration START_TIMEOUT = Duration.ofSeconds(30);

  private final ChildProcess process;
  private final String endpoint;

  private GooglePubSubEmulator(ChildProcess process, String endpoint) {
    this.process = process;
    this.endpoint = endpoint;
  }

  /** The emulator's jar; empty when this machine has none. */
  public static Optional<Path> find() {
    Optional<Path> gcloud = gcloud();
    return Optional.ofNullable(System.getenv("CLOUDSDK_ROOT_DIR"))
        .map(Path::of)
        .flatMap(GooglePubSubEmulator::jarUnder)
        .or(
            () ->
                gcloud
                    .map(Path::getParent)
                    .map(Path::getParent)
                    .flatMap(GooglePubSubEmulator::jarUnder))
        // Last, for it takes a second.
        .or(
            () ->
                gcloud
                    .flatMap(GooglePubSubEmulator::askForRoot)
                    .flatMap(GooglePubSubEmulator::jarUnder));
  }

  /** Starts it on a free port and waits until it listens. */
  public static GooglePubSubEmulator start(Path jar) {
    int port = freePort();
    ChildProcess process =
        ChildProcess.java(List.of("-jar", jar.toString(), "--host=127.0.0.1", "--port=" + port));
    try {
      process.awaitLine("Server started, listening on", START_TIMEOUT);
    } catch (RuntimeException failed) {
      process.kill();
      throw failed;
    }
    return new GooglePubSubEmulator(process, "127.0.0.1:" + port);
  }

  /** Host and port, as {@code PUBSUB_EMULATOR_HOST} wants them. */
  public String endpoint() {
    return endpoint;
  }

  @Override
  public void close() {
    process.kill();
  }

  private static Optional<Path> jarUnder(Path root) {
    Path lib = root.resolve("platform/pubsub-emulator/lib");
    if (!Files.isDirectory(lib)) {
      return Optional.empty();
    }
    try (DirectoryStream<Path> jars =
        Files.newDirectoryStream(lib, "cloud-pubsub-emulator-*-all.jar")) {
      for (Path jar : jars) {
        return Optional.of(jar);
      }
      return Optional.empty();
    } catch (IOException unreadable) {
      throw new UncheckedIOException(unreadable);
    }
  }

  /** The real file behind the first gcloud on the path: it lies in the SDK's bin folder. */
  private static Optional<Path> gcloud() {
    String path = Optional.ofNullable(System.getenv("PATH")).orElse("");
    for (String folder : path.split(File.pathSeparator)) {
      Path gcloud = Path.of(folder, "gcloud");
      if (Files.isExecutable(gcloud)) {
        try {
          return Optional.of(gcloud.toRealPath());
        } catch (IOException broken) {
          return Optional.empty();
        }
      }
    }
    return Optional.empty();
  }

  private static Optional<Path> askForRoot(Path gcloud) {
    try {
      Process asked =
          new ProcessBuilder(
                  gcloud.toString(), "info", "--format=value(installation.sdk_root)", "--quiet")
              .redirectError(ProcessBuilder.Redirect.DISCARD)
              .start();
      String root =
          new String(asked.getInputStream().readAllBytes(), StandardCharsets.UTF_8).strip();
      return root.isEmpty() ? Optional.empty() : Optional.of(Path.of(root));
    } catch (IOException noAnswer) {
      return Optional.empty();
    }
  }

  private static int freePort() {
    try (ServerSocket socket = new ServerSocket(0, 1, InetAddress.getLoopbackAddress())) {
      return socket.getLocalPort();
    } catch (IOException none) {
      throw new UncheckedIOException(none);
    }
  }
}
