package io.twinbox.local.pubsub;

import com.google.pubsub.v1.Subscription;
import com.google.pubsub.v1.Topic;
import io.grpc.StatusRuntimeException;
import java.io.UncheckedIOException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;

/** The local Pub/Sub as a process of its own, so that its clients can be killed around it. */
public final class LocalPubSubMain {
  private static final int USAGE_ERROR = 2;
  private static final int START_FAILED = 1;

  private static final String USAGE =
      """
      Usage: LocalPubSubMain [options]
        --port N                  port on 127.0.0.1, 0 to 65535; 0 (default) takes a free one
        --topic projects/p/topics/t
                                  create a topic; repeatable
        --subscription projects/p/subscriptions/s=projects/p/topics/t
                                  create a subscription; repeatable
        --redeliver-share X       deliver this share of the messages, 0 to 1, again after their ack
        --seed N                  which messages those are (default 1)
        --publish-latency-ms N    answer each publish this many milliseconds later""";

  /** What is wrong with the arguments, for their author to read. */
  static final class BadArgument extends RuntimeException {
    BadArgument(String message) {
      super(message);
    }
  }

  private int port;
  private double redeliverShare;
  private long seed = 1;
  private long publishLatencyMillis;
  private final List<Topic> topics = new ArrayList<>();
  private final List<Subscription> subscriptions = new ArrayList<>();

  private LocalPubSubMain() {}

  public static void main(String[] arguments) throws InterruptedException {
    try {
      parse(arguments).run();
    } catch (BadArgument bad) {
      System.err.println(bad.getMessage());
      System.err.println(USAGE);
      System.exit(USAGE_ERROR);
    }
  }

  static LocalPubSubMain parse(String[] arguments) {
    LocalPubSubMain main = new LocalPubSubMain();
    main.read(arguments);
    return main;
  }

  private void read(String[] arguments) {
    for (int i = 0; i < arguments.length; i += 2) {
      String option = arguments[i];
      switch (option) {
        case "--port" -> port = (int) number(option, value(arguments, i), 65_535);
        case "--topic" -> topics.add(Topic.newBuilder().setName(value(arguments, i)).build());
        case "--subscription" -> subscriptions.add(subscription(value(arguments, i)));
        case "--redeliver-share" -> redeliverShare = share(option, value(arguments, i));
        case "--seed" -> seed = number(option, value(arguments, i), Long.MAX_VALUE);
        case "--publish-latency-ms" ->
            publishLatencyMillis = number(option, value(arguments, i), 3_600_000);
        default -> throw new BadArgument("Unknown option: " + option);
      }
    }
  }

  private static String value(String[] arguments, int option) {
    if (option + 1 >= arguments.length) {
      throw new BadArgument(arguments[option] + " needs a value");
    }
    return arguments[option + 1];
  }

  private static long number(String option, String value, long max) {
    try {
      long number = Long.parseLong(value);
      if (number >= 0 && number <= max) {
        return number;
      }
    } catch (NumberFormatException notANumber) {
      // Said below.
    }
    throw new BadArgument(option + " wants a whole number from 0 to " + max + ", not " + value);
  }

  private static double share(String option, String value) {
    try {
      double share = Double.parseDouble(value);
      if (share >= 0 && share <= 1) {
        return share;
      }
    } catch (NumberFormatException notANumber) {
      // Said below.
    }
    throw new BadArgument(option + " wants a number from 0 to 1, not " + value);
  }

  private static Subscription subscription(String value) {
    String[] parts = value.split("=", 2);
    if (parts.length != 2) {
      throw new BadArgument("--subscription wants SUBSCRIPTION=TOPIC in full names, not " + value);
    }
    return Subscription.newBuilder().setName(parts[0]).setTopic(parts[1]).build();
  }

  private void run() throws InterruptedException {
    LocalPubSub pubSub;
    try {
      pubSub = LocalPubSub.start(port);
    } catch (UncheckedIOException taken) {
      System.err.println(taken.getMessage());
      System.exit(START_FAILED);
      return;
    }
    try {
      topics.forEach(pubSub::createTopic);
      subscriptions.forEach(pubSub::createSubscription);
    } catch (StatusRuntimeException refused) {
      throw new BadArgument(refused.getStatus().getDescription());
    }
    pubSub.faults().redeliverAcknowledged(redeliverShare, seed);
    pubSub.faults().publishLatency(Duration.ofMillis(publishLatencyMillis));
    Runtime.getRuntime().addShutdownHook(new Thread(pubSub::close));
    System.out.println("Local Pub/Sub listening on " + pubSub.endpoint());
    pubSub.awaitTermination();
  }
}
