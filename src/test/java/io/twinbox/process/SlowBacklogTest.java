package io.twinbox.process;

import static org.assertj.core.api.Assertions.assertThat;
import static org.awaitility.Awaitility.await;

import com.google.api.gax.core.NoCredentialsProvider;
import com.google.api.gax.grpc.GrpcTransportChannel;
import com.google.api.gax.rpc.FixedTransportChannelProvider;
import com.google.cloud.pubsub.v1.TopicAdminClient;
import com.google.cloud.pubsub.v1.TopicAdminSettings;
import com.google.protobuf.ByteString;
import com.google.pubsub.v1.PubsubMessage;
import io.grpc.ManagedChannel;
import io.grpc.ManagedChannelBuilder;
import io.twinbox.local.LocalPostgres;
import io.twinbox.local.pubsub.LocalPubSub;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import org.flywaydb.core.Flyway;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.jdbc.datasource.DriverManagerDataSource;

/**
 * A backlog whose messages wait in a consumer for longer than their lease, because SQL is slow: one
 * at a time in one consumer, in batches in another. {@code mvn -Plong test} takes 40,000 messages.
 */
class SlowBacklogTest {

  private static final int EVENTS = Integer.getInteger("twinbox.fire.backlog", 1_000);

  private static final String SLEEP = EVENTS > 10_000 ? "0.05" : "0.2";
  private static final int CONCURRENCY = EVENTS > 10_000 ? 16 : 7;

  /** What is leased at once takes longer than Pub/Sub's shortest lease, ten seconds. */
  private static final int LEASED = EVENTS > 10_000 ? 5_000 : 400;

  private static final Duration PATIENCE = Duration.ofMinutes(10);

  @TempDir Path topic;

  private final List<AutoCloseable> started = new ArrayList<>();

  @AfterEach
  void stopWhatWasStarted() throws Exception {
    for (int i = started.size() - 1; i >= 0; i--) {
      started.get(i).close();
    }
  }

  private <T extends AutoCloseable> T keep(T service) {
    started.add(service);
    return service;
  }

  @Test
  void everyMessageOfASlowBacklogTakesEffectOnceAndHardlyAnyIsDeliveredTwice() throws Exception {
    LocalPostgres server = keep(LocalPostgres.start());
    String url = server.createDatabase();
    DriverManagerDataSource dataSource =
        new DriverManagerDataSource(url, LocalPostgres.USER, LocalPostgres.PASSWORD);
    Flyway.configure()
        .dataSource(dataSource)
        .locations("classpath:sql/schema")
        .table("twinbox_schema_history")
        .load()
        .migrate();
    JdbcTemplate jdbc = new JdbcTemplate(dataSource);
    jdbc.execute("CREATE TABLE effect (what text NOT NULL, pod text NOT NULL)");
    Files.writeString(
        topic.resolve("handle.camel.yaml"),
        """
        - route:
            id: slow-handle
            from:
              id: slow-handle-call
              uri: direct
              parameters:
                name: handle
              steps:
                - to:
                    id: slow-post
                    uri: sql
                    parameters:
                      query: file:{{twinbox.topic-dir}}/post.sql
                      noop: true
        """);
    Files.writeString(
        topic.resolve("post.sql"),
        """
        -- Posts, slowly.
        WITH waited AS MATERIALIZED (SELECT pg_sleep(%s))
        INSERT INTO effect (what, pod)
        SELECT convert_from(:#${body}, 'UTF8'), current_setting('application_name') FROM waited
        """
            .formatted(SLEEP));
    LocalPubSub pubSub = keep(LocalPubSub.start());
    pubSub.createTopic("local", "slow");
    pubSub.createSubscription("local", "slow-ledger", "slow");
    publish(pubSub);
    start("single", 1, url, pubSub);
    start("batch", 20, url, pubSub);

    await()
        .atMost(PATIENCE)
        .pollInterval(Duration.ofMillis(200))
        .until(() -> pubSub.stats().backlog("projects/local/subscriptions/slow-ledger") == 0);
    long deliveries = pubSub.stats().deliveries();
    System.out.printf(
        "%,d messages, %,d deliveries, %,d leases expired; by consumer %s%n",
        EVENTS,
        deliveries,
        pubSub.stats().expiredLeases(),
        jdbc.queryForList("SELECT pod || ' ' || count(*) FROM effect GROUP BY pod", String.class));
    assertThat(jdbc.queryForObject("SELECT count(*) FROM effect", Integer.class)).isEqualTo(EVENTS);
    assertThat(jdbc.queryForObject("SELECT count(DISTINCT what) FROM effect", Integer.class))
        .isEqualTo(EVENTS);
    assertThat(jdbc.queryForObject("SELECT count(DISTINCT pod) FROM effect", Integer.class))
        .isEqualTo(2);
    assertThat(deliveries - EVENTS).as("delivered more than once").isLessThan(EVENTS / 20);
  }

  private static void publish(LocalPubSub pubSub) throws IOException {
    ManagedChannel channel =
        ManagedChannelBuilder.forTarget(pubSub.endpoint()).usePlaintext().build();
    try (TopicAdminClient client =
        TopicAdminClient.create(
            TopicAdminSettings.newBuilder()
                .setTransportChannelProvider(
                    FixedTransportChannelProvider.create(GrpcTransportChannel.create(channel)))
                .setCredentialsProvider(NoCredentialsProvider.create())
                .build())) {
      List<PubsubMessage> messages = new ArrayList<>();
      for (int i = 0; i < EVENTS; i++) {
        messages.add(
            PubsubMessage.newBuilder()
                .setData(ByteString.copyFromUtf8("event " + i))
                .putAttributes("outbox_id", "id-" + i)
                .build());
        if (messages.size() == 1_000 || i == EVENTS - 1) {
          client.publish("projects/local/topics/slow", messages);
          messages.clear();
        }
      }
    } finally {
      channel.shutdownNow();
    }
  }

  private void start(String name, int batchSize, String url, LocalPubSub pubSub) {
    keep(
        TwinboxProcess.classes(name)
            .with(
                "TWINBOX_ROUTES",
                "consume",
                "TWINBOX_POD",
                name,
                "TWINBOX_TOPIC_DIR",
                topic.toString(),
                "TWINBOX_CONSUMER",
                "ledger",
                "GOOGLE_CLOUD_PROJECT",
                "local",
                "SUBSCRIPTION_NAME",
                "slow-ledger",
                "PUBSUB_EMULATOR_HOST",
                pubSub.endpoint(),
                "SPRING_DATASOURCE_URL",
                url,
                "SPRING_DATASOURCE_USERNAME",
                LocalPostgres.USER,
                "SPRING_DATASOURCE_PASSWORD",
                LocalPostgres.PASSWORD,
                "SPRING_DATASOURCE_HIKARI_DATA_SOURCE_PROPERTIES_APPLICATIONNAME",
                name,
                "SPRING_DATASOURCE_HIKARI_MAXIMUM_POOL_SIZE",
                String.valueOf(CONCURRENCY + 2),
                "TWINBOX_CONSUME_BATCH_SIZE",
                String.valueOf(batchSize),
                "TWINBOX_CONSUME_CONCURRENCY",
                String.valueOf(CONCURRENCY),
                "TWINBOX_CONSUME_OUTSTANDING",
                String.valueOf(LEASED))
            .start());
  }
}
