package io.twinbox.pubsub;

import com.google.cloud.pubsub.v1.AckReplyConsumer;
import com.google.cloud.pubsub.v1.MessageReceiver;
import com.google.pubsub.v1.PubsubMessage;
import io.twinbox.config.Causes;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.transaction.TransactionException;
import org.springframework.transaction.support.TransactionOperations;

/**
 * Lets several messages share one transaction and its commit: batch mode. The routes stay as they
 * are. Each message goes through them within the batch's transaction, where their {@code
 * transacted} becomes a savepoint that holds the message's key <em>and</em> its handler: a key
 * outside of it would survive its handler's rollback, and the message would be lost.
 *
 * <p>What the routes decide about a message is told to Pub/Sub after the commit only. When the
 * batch does not commit, nothing of it has happened, and its messages go through the routes one by
 * one, each in a transaction of its own: one message cannot fail its mates for ever.
 */
final class MessageBatches implements MessageReceiver, AutoCloseable {

  private static final Logger log = LoggerFactory.getLogger("io.twinbox.consume");

  /** How soon an idle worker sees that it is no longer needed. */
  private static final int LOOK_UP_MILLIS = 500;

  private final MessageReceiver routes;
  private final TransactionOperations transaction;
  private final int size;
  private final Comparator<Received> byKey;
  private final BlockingQueue<Received> waiting = new LinkedBlockingQueue<>();
  private volatile boolean closed;

  /**
   * @param routes takes one message through the routes and answers it before it returns
   * @param size the most messages of a batch; PostgreSQL keeps up to 64 savepoints of a session in
   *     fast memory
   * @param threads batches worked on side by side, each with a connection
   * @param keyAttribute messages of a batch go by their keys, so that two processes take the same
   *     keys in the same order and do not deadlock
   */
  MessageBatches(
      MessageReceiver routes,
      TransactionOperations transaction,
      int size,
      int threads,
      String keyAttribute) {
    this.routes = routes;
    this.transaction = transaction;
    this.size = size;
    this.byKey = Comparator.comparing(r -> r.message.getAttributesOrDefault(keyAttribute, ""));
    for (int i = 0; i < threads; i++) {
      Thread worker = new Thread(this::work, "consume-batch-" + i);
      worker.setDaemon(true);
      worker.start();
    }
  }

  private record Received(PubsubMessage message, AckReplyConsumer reply) {}

  /** Remembers what the routes decide, until it may be told. */
  private static final class Decision implements AckReplyConsumer {
    private boolean acknowledged;

    @Override
    public void ack() {
      acknowledged = true;
    }

    @Override
    public void nack() {
      acknowledged = false;
    }

    void tell(AckReplyConsumer reply) {
      if (acknowledged) {
        reply.ack();
      } else {
        reply.nack();
      }
    }
  }

  /** Queues the message for the next batch; flow control bounds how many wait. */
  @Override
  public void receiveMessage(PubsubMessage message, AckReplyConsumer reply) {
    if (closed) {
      reply.nack();
      return;
    }
    waiting.add(new Received(message, reply));
  }

  private void work() {
    while (!closed) {
      try {
        Received first = waiting.poll(LOOK_UP_MILLIS, TimeUnit.MILLISECONDS);
        if (first != null) {
          List<Received> batch = new ArrayList<>(size);
          batch.add(first);
          waiting.drainTo(batch, size - 1);
          batch.sort(byKey);
          apply(batch);
        }
      } catch (InterruptedException e) {
        return;
      } catch (RuntimeException e) {
        // The messages are not answered and come again when their leases end.
        log.warn("A batch was given up: {}; its messages are delivered again.", Causes.describe(e));
      }
    }
  }

  private void apply(List<Received> batch) {
    List<Decision> decisions = batch.stream().map(received -> new Decision()).toList();
    try {
      transaction.executeWithoutResult(
          status -> {
            for (int i = 0; i < batch.size(); i++) {
              routes.receiveMessage(batch.get(i).message, decisions.get(i));
            }
          });
    } catch (TransactionException e) {
      log.info(
          "A batch of {} messages did not commit ({}); they are applied one by one.",
          batch.size(),
          Causes.describe(e));
      batch.forEach(received -> routes.receiveMessage(received.message, received.reply));
      return;
    }
    for (int i = 0; i < batch.size(); i++) {
      decisions.get(i).tell(batch.get(i).reply);
    }
  }

  /** Lets running batches end; what waits goes back at once. */
  @Override
  public void close() {
    closed = true;
    List<Received> left = new ArrayList<>();
    waiting.drainTo(left);
    left.forEach(received -> received.reply.nack());
  }
}
