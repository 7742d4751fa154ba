package io.twinbox.pubsub;

import com.google.cloud.pubsub.v1.AckReplyConsumer;
import com.google.cloud.pubsub.v1.MessageReceiver;
import com.google.pubsub.v1.PubsubMessage;
import io.twinbox.config.Causes;
import io.twinbox.inbox.DatabaseTrouble;
import java.time.Duration;
import java.util.ArrayDeque;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.Deque;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.BlockingQueue;
import java.util.concurrent.LinkedBlockingQueue;
import java.util.concurrent.TimeUnit;
import java.util.concurrent.atomic.AtomicBoolean;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
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
 *
 * <p>Of one ordering key one message at a time is in a batch; the next one waits for its answer.
 * The client keeps their order only until it has handed them over, and batches run side by side.
 */
final class MessageBatches implements MessageReceiver, AutoCloseable {

  private static final Logger log = LoggerFactory.getLogger("io.twinbox.consume");

  /** Stands behind the last message and tells one worker after the other that it may go. */
  private static final Received END = new Received(null, null);

  private final MessageReceiver routes;
  private final TransactionOperations transaction;
  private final int size;

  private final BatchLimit limit;
  private final String keyAttribute;
  private final Comparator<Received> byKey;
  private final BlockingQueue<Received> waiting = new LinkedBlockingQueue<>();

  /** Behind each ordering key that is being worked on: what came later. Guarded by itself. */
  private final Map<String, Deque<Received>> followers = new HashMap<>();

  private final List<Thread> workers = new ArrayList<>();
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
    this.limit = new BatchLimit(size);
    this.keyAttribute = keyAttribute;
    this.byKey = Comparator.comparing(r -> r.message.getAttributesOrDefault(keyAttribute, ""));
    for (int i = 0; i < threads; i++) {
      Thread worker = new Thread(this::work, "consume-batch-" + i);
      worker.setDaemon(true);
      workers.add(worker);
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
    Received received = new Received(message, reply);
    synchronized (followers) {
      if (closed) {
        reply.nack();
        return;
      }
      String key = message.getOrderingKey();
      if (!key.isEmpty()) {
        Deque<Received> behind = followers.get(key);
        if (behind != null) {
          behind.add(received);
          return;
        }
        followers.put(key, new ArrayDeque<>());
      }
    }
    queue(received);
  }

  private void queue(Received received) {
    String key = received.message.getOrderingKey();
    waiting.add(
        key.isEmpty()
            ? received
            : new Received(received.message, new InOrder(key, received.reply)));
    if (closed) {
      giveBack();
    }
  }

  /** Answers a message, then lets the next one of its ordering key go on. */
  private final class InOrder implements AckReplyConsumer {
    private final String key;
    private final AckReplyConsumer reply;
    private final AtomicBoolean answered = new AtomicBoolean();

    InOrder(String key, AckReplyConsumer reply) {
      this.key = key;
      this.reply = reply;
    }

    @Override
    public void ack() {
      reply.ack();
      next();
    }

    @Override
    public void nack() {
      reply.nack();
      next();
    }

    private void next() {
      if (answered.getAndSet(true)) {
        return;
      }
      Received follower;
      synchronized (followers) {
        Deque<Received> behind = followers.get(key);
        follower = behind == null ? null : behind.poll();
        if (follower == null) {
          followers.remove(key);
        }
      }
      if (follower != null) {
        queue(follower);
      }
    }
  }

  private void work() {
    try {
      for (Received first = waiting.take(); first != END; first = waiting.take()) {
        List<Received> batch = new ArrayList<>(size);
        batch.add(first);
        waiting.drainTo(batch, limit.messages() - 1);
        if (batch.remove(END)) {
          waiting.add(END);
        }
        batch.sort(byKey);
        applyAll(batch);
      }
      waiting.add(END);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  /**
   * A batch ends with its first message that is not applied: what that message locked before it
   * failed is held until the commit, and the messages behind it would run into it one after the
   * other. They make a batch of their own; after a deadlock, or other trouble of the database, they
   * go one by one, since each then holds the locks of one message only.
   */
  private void applyAll(List<Received> batch) {
    int next = 0;
    while (next < batch.size() && !closed) {
      next += apply(batch.subList(next, batch.size()));
    }
    batch.subList(next, batch.size()).forEach(received -> received.reply.nack());
  }

  /** Applies a batch, or its beginning, and answers it; returns how many messages are answered. */
  private int apply(List<Received> batch) {
    List<Decision> decisions = new ArrayList<>(batch.size());
    boolean trouble;
    try {
      transaction.executeWithoutResult(
          status -> {
            for (Received received : batch) {
              Decision decision = new Decision();
              decisions.add(decision);
              routes.receiveMessage(received.message, decision);
              if (!decision.acknowledged || closed) {
                return;
              }
            }
          });
    } catch (RuntimeException e) {
      log.info(
          "A batch of {} messages did not commit ({}); they are applied one by one.",
          decisions.size(),
          Causes.describe(e));
      int tried = Math.max(1, decisions.size());
      batch.subList(0, tried).forEach(this::applyAlone);
      return tried;
    } catch (Error e) {
      batch.forEach(received -> received.reply.nack());
      throw e;
    } finally {
      trouble = DatabaseTrouble.takeWord();
      limit.learn(trouble);
    }
    // The one that met it was not counted and has taken nothing; it need not come again. One that
    // met it as the first of its batch was alone already.
    int told = trouble && decisions.size() > 1 ? decisions.size() - 1 : decisions.size();
    for (int i = 0; i < told; i++) {
      decisions.get(i).tell(batch.get(i).reply);
    }
    if (trouble) {
      batch.subList(told, batch.size()).forEach(this::applyAlone);
      return batch.size();
    }
    return told;
  }

  private void applyAlone(Received received) {
    if (closed) {
      received.reply.nack();
      return;
    }
    try {
      routes.receiveMessage(received.message, received.reply);
    } catch (RuntimeException e) {
      String key = received.message.getAttributesOrDefault(keyAttribute, "none");
      log.atWarn()
          .addKeyValue("outbox_id", key)
          .log(
              "Message with key {} was given up: {}; it is delivered again.",
              key,
              Causes.describe(e));
      received.reply.nack();
    }
  }

  /** Ends running batches after the message that each is at; what waits goes back at once. */
  @Override
  public void close() {
    List<Received> behind = new ArrayList<>();
    synchronized (followers) {
      closed = true;
      followers.values().forEach(behind::addAll);
      followers.clear();
    }
    behind.forEach(received -> received.reply.nack());
    giveBack();
    waiting.add(END);
  }

  /** Waits until the running batches have ended, at most so long. */
  void awaitEnd(Duration patience) {
    long end = System.nanoTime() + patience.toNanos();
    try {
      for (Thread worker : workers) {
        worker.join(Math.max(1, TimeUnit.NANOSECONDS.toMillis(end - System.nanoTime())));
      }
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
    }
  }

  private void giveBack() {
    List<Received> left = new ArrayList<>();
    waiting.drainTo(left);
    if (left.remove(END)) {
      waiting.add(END);
    }
    left.forEach(received -> received.reply.nack());
  }
}
