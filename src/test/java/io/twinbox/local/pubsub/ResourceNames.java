package io.twinbox.local.pubsub;

import java.util.regex.Matcher;
import java.util.regex.Pattern;

/**
 * The names of topics and subscriptions.
 *
 * <p>Rule: 3 to 255 characters, starting with a letter, then letters, digits and {@code -._~+%},
 * not starting with {@code goog} (cloud.google.com/pubsub/docs/create-topic, "Guidelines to name a
 * topic, subscription, schema, or snapshot").
 */
final class ResourceNames {
  /** What a subscription names as its topic once that was deleted. */
  static final String DELETED_TOPIC = "_deleted-topic_";

  private static final Pattern NAME =
      Pattern.compile(
          "projects/([^/]+)/(topics|subscriptions)/(?!goog)([A-Za-z][A-Za-z0-9._~+%-]{2,254})");
  private static final Pattern PROJECT = Pattern.compile("projects/[^/]+");

  private ResourceNames() {}

  static String topic(String project, String topic) {
    return "projects/" + project + "/topics/" + topic;
  }

  static String subscription(String project, String subscription) {
    return "projects/" + project + "/subscriptions/" + subscription;
  }

  static String requireTopic(String name) {
    return require(name, "topics");
  }

  static String requireSubscription(String name) {
    return require(name, "subscriptions");
  }

  static String requireProject(String name) {
    if (!PROJECT.matcher(name).matches()) {
      throw Errors.invalid("Invalid [project] name: (name=" + name + ")");
    }
    return name;
  }

  /** The project's id in a full name: {@code p} of {@code projects/p/subscriptions/s}. */
  static String projectOf(String name) {
    return name.split("/")[1];
  }

  /** The last part of a full name: {@code s} of {@code projects/p/subscriptions/s}. */
  static String idOf(String name) {
    return name.substring(name.lastIndexOf('/') + 1);
  }

  private static String require(String name, String collection) {
    Matcher matcher = NAME.matcher(name);
    if (!matcher.matches() || !matcher.group(2).equals(collection)) {
      throw Errors.invalid("Invalid [" + collection + "] name: (name=" + name + ")");
    }
    return name;
  }
}
