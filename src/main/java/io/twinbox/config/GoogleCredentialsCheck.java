package io.twinbox.config;

import com.google.auth.oauth2.GoogleCredentials;
import java.io.IOException;
import java.util.Set;
import org.springframework.core.env.Environment;

/**
 * Looks for Google credentials before a client needs them. Without any, Camel's consumer makes one
 * subscriber after the other, with a stack trace each, and the process looks alive.
 */
public final class GoogleCredentialsCheck {

  private GoogleCredentialsCheck() {}

  /**
   * @throws StartupException when a route set needs credentials and there are none
   */
  public static void check(Set<String> routeSets, Environment environment) {
    boolean pubSub =
        (routeSets.contains("dispatch") || routeSets.contains("consume"))
            && environment.getProperty("pubsub.emulator.host", "").isBlank();
    boolean bigQuery =
        routeSets.contains("produce")
            && environment.getProperty("bigquery.emulator.host", "").isBlank();
    if (!pubSub && !bigQuery) {
      return;
    }
    try {
      // Google's clients ask for the same and find it kept.
      GoogleCredentials.getApplicationDefault();
    } catch (IOException e) {
      throw new StartupException(
          "There are no Google credentials to reach %s with: %s"
              .formatted(pubSub ? "Pub/Sub" : "BigQuery", Causes.describe(e)),
          "On GKE bind the pod's service account (workload identity); elsewhere set GOOGLE_APPLICATION_CREDENTIALS to a key file. For a local stand-in set %s to host:port."
              .formatted(pubSub ? "PUBSUB_EMULATOR_HOST" : "BIGQUERY_EMULATOR_HOST"));
    }
  }
}
