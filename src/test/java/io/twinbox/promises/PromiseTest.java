package io.twinbox.promises;

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
import io.twinbox.TwinboxApplication;
import io.twinbox.local.LocalPostgres;
import io.twinbox.local.pubsub.LocalPubSub;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Arrays;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import javax.sql.DataSource;
import org.awaitility.core.ConditionFactory;
import org.flywaydb.core.Flyway;
import org.junit.jupiter.api.AfterEach;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.io.TempDir;
import org.springframework.boot.WebApplicationType;
import org.springframework.boot.builder.SpringApplicationBuilder;
import org.springframework.context.ConfigurableApplicationContext;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.jdbc.datasource.DriverManagerDataSource;

/**
 * A promise of the README is tested on Twinbox as it is deployed: its own routes and statements, a
 * real PostgreSQL, and Pub/Sub by its protocol. Each test has a database, a Pub/Sub and a topic
 * folder of its own.
 */
public abstract class PromiseTest {

  protected static final String PROJECT = "promises";
  protected static final String TOPIC = "orders";
  protected static final String SUBSCRIPTION = "orders-ledger";
  protected static final String TOPIC_PATH = "projects/promises/topics/orders";
  protected static final String SUBSCRIPTION_PATH = "projects/promises/subscriptions/orders-ledger";

  /** Posts the payload's text to the table {@code effect}, which the test's database has. */
  protected static final String POSTING_HANDLER =
      """
      - route:
          id: orders-handle
          from:
            id: orders-handle-call
            uri: direct
            parameters:
              name: handle
            steps:
              - to:
                  id: orders-post
                  uri: sql
                  parameters:
                    query: file:{{twinbox.topic-dir}}/post.sql
                    noop: true
      """;

  private static final LocalPostgres POSTGRES = startPostgres();

  @TempDir protected Path topicDir;
  protected LocalPubSub pubSub;
  protected JdbcTemplate jdbc;
  protected String databaseUrl;
  private final List<ConfigurableApplicationContext> running = new ArrayList<>();
  private ManagedChannel channel;
  private TopicAdminClient publisher;

  private static LocalPostgres startPostgres() {
    LocalPostgres postgres = LocalPostgres.start();
    Runtime.getRuntime().addShutdownHook(new Thread(postgres::close));
    return postgres;
  }

  @BeforeEach
  void freshServices() throws IOException {
    databaseUrl = POSTGRES.createDatabase();
    prepareDatabase(LocalPostgres.USER, LocalPostgres.PASSWORD);
    pubSub = LocalPubSub.start();
    pubSub.stats().keepPublished(10_000);
    channel = ManagedChannelBuilder.forTarget(pubSub.endpoint()).usePlaintext().build();
    publisher =
        TopicAdminClient.create(
            TopicAdminSettings.newBuilder()
                .setTransportChannelProvider(
                    FixedTransportChannelProvider.create(GrpcTransportChannel.create(channel)))
                .setCredentialsProvider(NoCredentialsProvider.create())
                .build());
    topicFile("handle.camel.yaml", POSTING_HANDLER);
    topicFile(
        "post.sql",
        """
        -- Posts the payload's text.
        INSERT INTO effect (what) VALUES (convert_from(:#${body}, 'UTF8'))
        """);
  }

  /** Makes the database of {@link #databaseUrl} ready, with the table that handlers post to. */
  protected final void prepareDatabase(String user, String password) {
    DataSource dataSource = new DriverManagerDataSource(databaseUrl, user, password);
    Flyway.configure()
        .dataSource(dataSource)
        .locations("classpath:sql/schema")
        .table("twinbox_schema_history")
        .load()
        .migrate();
    jdbc = new JdbcTemplate(dataSource);
    jdbc.execute("CREATE TABLE effect (what text NOT NULL)");
  }

  @AfterEach
  void stopEverything() throws InterruptedException {
    for (ConfigurableApplicationContext context : running) {
      context.close();
    }
    publisher.close();
    channel.shutdownNow().awaitTermination(5, java.util.concurrent.TimeUnit.SECONDS);
    pubSub.close();
  }

  protected void topicFile(String name, String text) throws IOException {
    Files.writeString(topicDir.resolve(name), text);
  }

  protected void createTopicAndSubscription() {
    pubSub.createTopic(PROJECT, TOPIC);
    pubSub.createSubscription(PROJECT, SUBSCRIPTION, TOPIC);
  }

  /**
   * Starts Twinbox in this JVM.
   *
   * @param routes route sets, a comma list
   * @param settings further settings, {@code name=value}
   */
  protected ConfigurableApplicationContext start(String routes, String... settings) {
    return start(TwinboxApplication.class, routes, settings);
  }

  protected ConfigurableApplicationContext start(
      Class<?> application, String routes, String... settings) {
    List<String> arguments =
        new ArrayList<>(
            List.of(
                "--twinbox.routes=" + routes,
                "--twinbox.topic-dir=" + topicDir,
                "--twinbox.consumer=ledger",
                "--twinbox.source=orders-source",
                "--twinbox.pod=" + "pod-" + running.size(),
                "--google.cloud.project=" + PROJECT,
                "--topic.name=" + TOPIC,
                "--subscription.name=" + SUBSCRIPTION,
                "--pubsub.emulator.host=" + pubSub.endpoint(),
                "--spring.datasource.url=" + databaseUrl,
                "--spring.datasource.username=" + LocalPostgres.USER,
                "--spring.datasource.password=" + LocalPostgres.PASSWORD,
                "--spring.datasource.hikari.connection-timeout=1000",
                "--spring.jmx.enabled=false",
                "--camel.main.run-controller=false",
                "--logging.level.root=WARN"));
    for (String setting : settings) {
      // Spring joins what is given twice.
      String name = "--" + setting.substring(0, setting.indexOf('=') + 1);
      arguments.removeIf(argument -> argument.startsWith(name));
      arguments.add("--" + setting);
    }
    ConfigurableApplicationContext context =
        new SpringApplicationBuilder(application)
            .web(serves(settings) ? WebApplicationType.SERVLET : WebApplicationType.NONE)
            .registerShutdownHook(false)
            .run(arguments.toArray(String[]::new));
    running.add(context);
    return context;
  }

  /** The instances that run, in the order of their start. */
  protected List<ConfigurableApplicationContext> running() {
    return running;
  }

  /** Most tests need no ports, and are quicker without. */
  private static boolean serves(String... settings) {
    return Arrays.stream(settings).anyMatch(s -> s.startsWith("management.server.port="));
  }

  protected void stop(ConfigurableApplicationContext context) {
    context.close();
    running.remove(context);
  }

  /** Stops what was started; the database stays. */
  protected void stopAll() {
    running.forEach(ConfigurableApplicationContext::close);
    running.clear();
  }

  /** Puts an event as a service does. */
  protected UUID put(String payload, String attributes, String orderingKey) {
    return jdbc.queryForObject(
        "SELECT outbox_put(?, ?, CAST(? AS jsonb), ?)",
        UUID.class,
        TOPIC,
        payload,
        attributes,
        orderingKey);
  }

  protected UUID put(String payload) {
    return put(payload, "{}", null);
  }

  /** Publishes a message as another system does. */
  protected void publish(String payload, Map<String, String> attributes) {
    publish(List.of(message(payload, attributes, "")));
  }

  /** Publishes messages by one call, in their order. */
  protected void publish(List<PubsubMessage> messages) {
    publisher.publish(TOPIC_PATH, messages);
  }

  protected static PubsubMessage message(
      String payload, Map<String, String> attributes, String orderingKey) {
    return PubsubMessage.newBuilder()
        .setData(ByteString.copyFromUtf8(payload))
        .putAllAttributes(attributes)
        .setOrderingKey(orderingKey)
        .build();
  }

  protected List<PubsubMessage> published() {
    return pubSub.stats().publishedMessages(TOPIC_PATH);
  }

  protected List<String> publishedTexts() {
    return published().stream().map(m -> m.getData().toStringUtf8()).toList();
  }

  protected int backlog() {
    return pubSub.stats().backlog(SUBSCRIPTION_PATH);
  }

  protected long count(String table) {
    return jdbc.queryForObject("SELECT count(*) FROM " + table, Long.class);
  }

  protected List<String> effects() {
    return jdbc.queryForList("SELECT what FROM effect ORDER BY what", String.class);
  }

  protected static ConditionFactory eventually() {
    return await().atMost(Duration.ofSeconds(60)).pollInterval(Duration.ofMillis(20));
  }

  /** Waits until a session of the test's database waits for a lock. */
  protected void awaitBlockedSessions(int sessions) {
    eventually()
        .until(
            () ->
                jdbc.queryForObject(
                        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database() AND wait_event_type = 'Lock'",
                        Integer.class)
                    >= sessions);
  }
}
