package io.twinbox.local.pubsub;

import java.time.Duration;
import java.util.ArrayList;
import java.util.List;

/** {@link LocalPubSubMain} as a process: it lives on when its clients are killed. */
public final class LocalPubSubProcess implements AutoCloseable {
  private static final String LISTENING = "Local Pub/Sub listening on ";
  private static final Duration START = Duration.ofSeconds(60);

  private final ChildProcess process;
  private final String endpoint;

  private LocalPubSubProcess(ChildProcess process, String endpoint) {
    this.process = process;
    this.endpoint = endpoint;
  }

  /** Starts it with nothing in it. */
  public static LocalPubSubProcess start() {
    return start(List.of());
  }

  /**
   * Starts it with one topic.
   *
   * @param options as {@link LocalPubSubMain} takes them
   */
  public static LocalPubSubProcess start(
      String project, String topic, List<String> subscriptions, String... options) {
    List<String> arguments = new ArrayList<>(List.of(options));
    String topicName = ResourceNames.topic(project, topic);
    arguments.addAll(List.of("--topic", topicName));
    for (String subscription : subscriptions) {
      arguments.add("--subscription");
      arguments.add(ResourceNames.subscription(project, subscription) + "=" + topicName);
    }
    return start(arguments);
  }

  private static LocalPubSubProcess start(List<String> arguments) {
    ChildProcess process =
        ChildProcess.java(LocalPubSubMain.class, arguments.toArray(String[]::new));
    try {
      return new LocalPubSubProcess(
          process, process.awaitLine(LISTENING, START).replace(LISTENING, ""));
    } catch (RuntimeException e) {
      process.close();
      throw e;
    }
  }

  /** Host and port, as {@code PUBSUB_EMULATOR_HOST} wants them. */
  public String endpoint() {
    return endpoint;
  }

  @Override
  public void close() {
    process.close();
  }
}
