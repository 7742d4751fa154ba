package io.twinbox.local;

import com.google.protobuf.util.Durations;
import com.google.pubsub.v1.DeadLetterPolicy;
import com.google.pubsub.v1.ExpirationPolicy;
import com.google.pubsub.v1.RetryPolicy;
import com.google.pubsub.v1.Subscription;
import io.twinbox.local.bigquery.LocalBigQuery;
import io.twinbox.local.pubsub.LocalPubSub;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/**
 * The three services that Twinbox stands between, each started locally unless its address is given
 * from outside, and the settings that point Twinbox at them.
 */
final class Backends implements AutoCloseable {

  static final String PROJECT = "local";

  private final Map<String, String> environment;
  private final List<AutoCloseable> started = new ArrayList<>();
  private final Map<String, String> settings = new LinkedHashMap<>();
  private LocalPubSub pubSub;
  private LocalBigQuery bigQuery;

  Backends(Map<String, String> environment) {
    this.environment = environment;
  }

  /**
   * Starts what is not given and fills it with the sample; the local Pub/Sub gets this topic and
   * this subscription to it.
   */
  void start(int sampleRows, double redeliverShare, String topic, String subscription) {
    if (given("SPRING_DATASOURCE_URL") == null) {
      LocalPostgres postgres = keep(LocalPostgres.start());
      settings.put("spring.datasource.url", postgres.url());
      settings.put("spring.datasource.username", LocalPostgres.USER);
      settings.put("spring.datasource.password", LocalPostgres.PASSWORD);
    }
    String project =
        given("GOOGLE_CLOUD_PROJECT") == null ? PROJECT : given("GOOGLE_CLOUD_PROJECT");
    settings.put("google.cloud.project", project);
    if (given("PUBSUB_EMULATOR_HOST") == null) {
      pubSub = keep(LocalPubSub.start());
      pubSub.createTopic(project, topic);
      createSubscription(project, topic, subscription);
      pubSub.faults().redeliverAcknowledged(redeliverShare, 1);
      settings.put("pubsub.emulator.host", pubSub.endpoint());
    }
    if (given("BIGQUERY_EMULATOR_HOST") == null) {
      bigQuery = keep(LocalBigQuery.start(project));
      bigQuery.createTable(
          InvoicesSample.DATASET,
          InvoicesSample.TABLE,
          Path.of("topics/invoices/sample/schema.json"));
      bigQuery.append(
          InvoicesSample.DATASET, InvoicesSample.TABLE, InvoicesSample.rows(sampleRows));
      settings.put("bigquery.emulator.host", bigQuery.url());
    }
  }

  /** The subscription as it should be in production, which is what consume-watch checks it for. */
  private void createSubscription(String project, String topic, String subscription) {
    String dead = topic + "-dead";
    pubSub.createTopic(project, dead);
    pubSub.createSubscription(project, dead + "-kept", dead);
    pubSub.createSubscription(
        Subscription.newBuilder()
            .setName("projects/%s/subscriptions/%s".formatted(project, subscription))
            .setTopic("projects/%s/topics/%s".formatted(project, topic))
            .setExpirationPolicy(ExpirationPolicy.getDefaultInstance())
            .setRetryPolicy(
                RetryPolicy.newBuilder()
                    .setMinimumBackoff(Durations.fromSeconds(10))
                    .setMaximumBackoff(Durations.fromSeconds(600)))
            .setDeadLetterPolicy(
                DeadLetterPolicy.newBuilder()
                    .setDeadLetterTopic("projects/%s/topics/%s".formatted(project, dead))
                    .setMaxDeliveryAttempts(100))
            .build());
  }

  /** The address given for a service, or null. */
  String given(String variable) {
    String value = environment.get(variable);
    return value == null || value.isBlank() ? null : value;
  }

  Map<String, String> settings() {
    return settings;
  }

  /** The local Pub/Sub, or null when another one is used. */
  LocalPubSub pubSub() {
    return pubSub;
  }

  /** The local BigQuery, or null when another one is used. */
  LocalBigQuery bigQuery() {
    return bigQuery;
  }

  private <T extends AutoCloseable> T keep(T service) {
    started.add(service);
    return service;
  }

  @Override
  public void close() throws Exception {
    for (int i = started.size() - 1; i >= 0; i--) {
      started.get(i).close();
    }
  }
}
