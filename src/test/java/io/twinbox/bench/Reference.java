package io.twinbox.bench;

import com.google.api.core.ApiFuture;
import com.google.api.core.ApiFutures;
import com.google.api.gax.batching.BatchingSettings;
import com.google.api.gax.core.NoCredentialsProvider;
import com.google.cloud.pubsub.v1.Publisher;
import com.google.protobuf.ByteString;
import com.google.pubsub.v1.PubsubMessage;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.PreparedStatement;
import java.sql.ResultSet;
import java.sql.SQLException;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.UUID;
import java.util.concurrent.TimeUnit;

/**
 * What teams write by hand, on one wide table, as a process. {@code naive} claims 100 rows,
 * publishes them one by one, waiting for each, and completes them one by one. {@code tuned} claims
 * 500, publishes all, awaits all, completes all by one statement, in two workers. Neither has
 * failure classes, ordering, tokens or a bound; that is in their favour.
 */
final class Reference {

  static final String SCHEMA =
      """
      CREATE TABLE wide_outbox (
        id            uuid PRIMARY KEY,
        topic_name    text NOT NULL,
        payload       bytea NOT NULL,
        attributes    jsonb NOT NULL DEFAULT '{}',
        created_at    timestamptz NOT NULL DEFAULT now(),
        lock_id       text,
        locked_at     timestamptz,
        next_retry_at timestamptz NOT NULL DEFAULT now(),
        attempts      int NOT NULL DEFAULT 0,
        last_error    text,
        completed_at  timestamptz,
        message_id    text
      );
      -- The best of the wide table's indexes that were measured (docs/benchmarks.md).
      CREATE INDEX wide_outbox_pending ON wide_outbox (topic_name, next_retry_at) WHERE completed_at IS NULL;
      """;

  private static final String CLAIM =
      """
      WITH due AS MATERIALIZED (
        SELECT id FROM wide_outbox
        WHERE topic_name = ? AND completed_at IS NULL AND next_retry_at <= now()
        ORDER BY next_retry_at LIMIT ? FOR UPDATE SKIP LOCKED)
      UPDATE wide_outbox w
      SET lock_id = 'reference', locked_at = now(), next_retry_at = now() + interval '60 seconds'
      FROM due WHERE w.id = due.id
      RETURNING w.id, w.payload
      """;

  private static final Duration IDLE_POLL = Duration.ofMillis(100);

  private final String url;
  private final String user;
  private final String password;
  private final String topic;
  private final Publisher publisher;

  private Reference(String url, String user, String password, String topic, Publisher publisher) {
    this.url = url;
    this.user = user;
    this.password = password;
    this.topic = topic;
    this.publisher = publisher;
  }

  /** Runs until it is killed. */
  public static void main(String[] arguments) throws Exception {
    boolean tuned = arguments[0].equals("tuned");
    String topic = arguments[5];
    Publisher.Builder publisher =
        Publisher.newBuilder(BenchPubSub.topicPath(topic))
            .setChannelProvider(BenchPubSub.provider(BenchPubSub.channel(arguments[4])))
            .setCredentialsProvider(NoCredentialsProvider.create());
    if (tuned) {
      publisher.setBatchingSettings(
          BatchingSettings.newBuilder()
              .setElementCountThreshold(250L)
              .setRequestByteThreshold(1_000_000L)
              .setDelayThresholdDuration(Duration.ofMillis(5))
              .build());
    }
    Reference reference =
        new Reference(arguments[1], arguments[2], arguments[3], topic, publisher.build());
    System.out.println("Reference runs");
    Thread second = new Thread(() -> reference.work(true));
    if (tuned) {
      second.start();
    }
    reference.work(tuned);
  }

  private void work(boolean tuned) {
    try (Connection connection = DriverManager.getConnection(url, user, password);
        PreparedStatement claim = connection.prepareStatement(CLAIM);
        PreparedStatement one =
            connection.prepareStatement(
                "UPDATE wide_outbox SET completed_at = clock_timestamp(), message_id = ?, lock_id = NULL WHERE id = ?");
        PreparedStatement all =
            connection.prepareStatement(
                """
                UPDATE wide_outbox w
                SET completed_at = clock_timestamp(), message_id = p.message_id, lock_id = NULL
                FROM unnest(CAST(? AS uuid[]), CAST(? AS text[])) AS p (id, message_id)
                WHERE w.id = p.id
                """)) {
      while (true) {
        List<UUID> ids = new ArrayList<>();
        List<PubsubMessage> messages = new ArrayList<>();
        claim.setString(1, topic);
        claim.setInt(2, tuned ? 500 : 100);
        try (ResultSet rows = claim.executeQuery()) {
          while (rows.next()) {
            UUID id = rows.getObject(1, UUID.class);
            ids.add(id);
            messages.add(
                PubsubMessage.newBuilder()
                    .setData(ByteString.copyFrom(rows.getBytes(2)))
                    .putAttributes("outbox_id", id.toString())
                    .build());
          }
        }
        if (ids.isEmpty()) {
          TimeUnit.MILLISECONDS.sleep(IDLE_POLL.toMillis());
        } else if (tuned) {
          completeAll(connection, all, ids, publishAll(messages));
        } else {
          completeEach(one, ids, messages);
        }
      }
    } catch (Exception e) {
      e.printStackTrace();
      System.exit(1);
    }
  }

  private List<String> publishAll(List<PubsubMessage> messages) throws Exception {
    List<ApiFuture<String>> futures = new ArrayList<>(messages.size());
    messages.forEach(message -> futures.add(publisher.publish(message)));
    return ApiFutures.allAsList(futures).get(30, TimeUnit.SECONDS);
  }

  private static void completeAll(
      Connection connection, PreparedStatement all, List<UUID> ids, List<String> messageIds)
      throws SQLException {
    all.setArray(1, connection.createArrayOf("uuid", ids.toArray()));
    all.setArray(2, connection.createArrayOf("text", messageIds.toArray()));
    all.executeUpdate();
  }

  private void completeEach(PreparedStatement one, List<UUID> ids, List<PubsubMessage> messages)
      throws Exception {
    for (int i = 0; i < ids.size(); i++) {
      one.setString(1, publisher.publish(messages.get(i)).get(30, TimeUnit.SECONDS));
      one.setObject(2, ids.get(i));
      one.executeUpdate();
    }
  }
}
