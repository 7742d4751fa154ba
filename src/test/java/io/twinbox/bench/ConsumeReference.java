package io.twinbox.bench;

import com.google.api.gax.batching.FlowControlSettings;
import com.google.api.gax.core.InstantiatingExecutorProvider;
import com.google.api.gax.core.NoCredentialsProvider;
import com.google.cloud.pubsub.v1.AckReplyConsumer;
import com.google.cloud.pubsub.v1.Subscriber;
import com.google.pubsub.v1.PubsubMessage;
import com.zaxxer.hikari.HikariConfig;
import com.zaxxer.hikari.HikariDataSource;
import java.sql.Connection;
import java.sql.PreparedStatement;
import java.sql.SQLException;

/**
 * What teams write by hand: the client's {@code Subscriber} with 16 threads, a pool of 16
 * connections, and per message one transaction with Twinbox's own statement for the key and the
 * handler's statement. It counts no failures, keeps no dead letters and guards nothing; that is in
 * its favour.
 */
final class ConsumeReference {

  static final int THREADS = 16;

  /** {@code sql/consume/insert-inbox-key.sql}, with JDBC's placeholders. */
  private static final String TAKE_KEY =
      """
      WITH forgotten AS (
        DELETE FROM transactional_inbox_failure
        WHERE consumer = ?
          AND idempotency_key = ?
      )
      INSERT INTO transactional_inbox (consumer, idempotency_key)
      VALUES (?, ?)
      ON CONFLICT ON CONSTRAINT transactional_inbox_pkey DO NOTHING
      """;

  private final HikariDataSource pool;

  private ConsumeReference(HikariDataSource pool) {
    this.pool = pool;
  }

  /** Runs until it is killed. */
  public static void main(String[] arguments) {
    HikariConfig config = new HikariConfig();
    config.setJdbcUrl(arguments[0]);
    config.setUsername(arguments[1]);
    config.setPassword(arguments[2]);
    config.setMaximumPoolSize(THREADS);
    config.setAutoCommit(false);
    ConsumeReference reference = new ConsumeReference(new HikariDataSource(config));
    Subscriber subscriber =
        Subscriber.newBuilder(arguments[4], reference::receive)
            .setChannelProvider(BenchPubSub.provider(BenchPubSub.channel(arguments[3])))
            .setCredentialsProvider(NoCredentialsProvider.create())
            .setExecutorProvider(
                InstantiatingExecutorProvider.newBuilder().setExecutorThreadCount(THREADS).build())
            .setFlowControlSettings(
                FlowControlSettings.newBuilder().setMaxOutstandingElementCount(1_000L).build())
            .build();
    subscriber.startAsync().awaitRunning();
    System.out.println("Reference runs");
    subscriber.awaitTerminated();
  }

  private void receive(PubsubMessage message, AckReplyConsumer reply) {
    try (Connection connection = pool.getConnection()) {
      try {
        if (takeKey(connection, message.getAttributesOrThrow("outbox_id"))) {
          try (PreparedStatement post = connection.prepareStatement(ConsumeBenchmark.POST)) {
            post.setBytes(1, message.getData().toByteArray());
            post.executeUpdate();
          }
        }
        connection.commit();
        reply.ack();
      } catch (SQLException e) {
        connection.rollback();
        throw e;
      }
    } catch (SQLException e) {
      e.printStackTrace();
      reply.nack();
    }
  }

  private static boolean takeKey(Connection connection, String key) throws SQLException {
    try (PreparedStatement take = connection.prepareStatement(TAKE_KEY)) {
      take.setString(1, ConsumeBenchmark.CONSUMER);
      take.setString(2, key);
      take.setString(3, ConsumeBenchmark.CONSUMER);
      take.setString(4, key);
      return take.executeUpdate() == 1;
    }
  }
}
