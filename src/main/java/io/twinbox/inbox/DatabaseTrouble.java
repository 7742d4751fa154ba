package io.twinbox.inbox;

import io.twinbox.config.Causes;
import java.sql.Connection;
import java.sql.SQLException;
import java.sql.SQLNonTransientConnectionException;
import java.sql.SQLRecoverableException;
import java.sql.SQLTransientConnectionException;
import java.time.Duration;
import java.util.Set;
import java.util.concurrent.atomic.AtomicBoolean;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.concurrent.locks.LockSupport;
import javax.sql.DataSource;
import org.apache.camel.Exchange;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.transaction.support.TransactionSynchronizationManager;

/**
 * Tells failures of the database from failures of a message, and waits while the database is away.
 * Such a failure is not counted against the message, and waiting here instead of refusing keeps
 * Pub/Sub's own dead-letter policy, which counts refusals, from giving up on messages that nobody
 * could have handled.
 */
public class DatabaseTrouble {

  private static final Logger log = LoggerFactory.getLogger("io.twinbox.consume");

  /**
   * Serialization failure, deadlock, lock not available, server shutting down or starting,
   * read-only after a failover.
   */
  private static final Set<String> STATES =
      Set.of("40001", "40P01", "55P03", "57P01", "57P02", "57P03", "25006", "25P03", "58030");

  private static final Duration PAUSE = Duration.ofSeconds(1);
  private static final int CONNECTION_TEST_SECONDS = 2;

  private final DataSource dataSource;
  private final Duration longest;
  private final AtomicInteger waiting = new AtomicInteger();
  private final AtomicBoolean said = new AtomicBoolean();

  /**
   * @param longest how long a message waits for the database before it goes back to Pub/Sub
   */
  DatabaseTrouble(DataSource dataSource, Duration longest) {
    this.dataSource = dataSource;
    this.longest = longest;
  }

  /**
   * Whether the caught failure is the database's and not the message's. For a step within {@code
   * doCatch}: in its {@code onWhen} a bean does not see the failure yet, but perhaps an older one.
   */
  public boolean caused(Exchange exchange) {
    Throwable failure = exchange.getProperty(Exchange.EXCEPTION_CAUGHT, Throwable.class);
    return behind(failure);
  }

  /** Whether a failure, or one of its causes, is the database's; null is none. */
  public static boolean behind(Throwable failure) {
    return failure != null && Causes.any(failure, DatabaseTrouble::isTrouble);
  }

  private static boolean isTrouble(Throwable cause) {
    if (cause instanceof SQLTransientConnectionException
        || cause instanceof SQLNonTransientConnectionException
        || cause instanceof SQLRecoverableException) {
      return true;
    }
    if (cause instanceof SQLException e) {
      String state = e.getSQLState();
      // The pool's own exceptions about connections that it has closed have no state. Class 08 is a
      // lost connection, class 53 insufficient resources (disk full, too many connections).
      return state == null
          || STATES.contains(state)
          || state.startsWith("08")
          || state.startsWith("53");
    }
    return false;
  }

  /**
   * Returns when the database answers, or after the longest wait. Blocks the message's thread,
   * which pauses the subscriber. Within a batch's transaction it leaves word for {@link
   * #takeWord()}.
   */
  public void await() {
    if (TransactionSynchronizationManager.isActualTransactionActive()
        && !TransactionSynchronizationManager.hasResource(DatabaseTrouble.class)) {
      TransactionSynchronizationManager.bindResource(DatabaseTrouble.class, true);
    }
    long end = System.nanoTime() + longest.toNanos();
    waiting.incrementAndGet();
    try {
      while (!answers() && System.nanoTime() < end && !Thread.currentThread().isInterrupted()) {
        if (!said.getAndSet(true)) {
          log.warn("The database does not answer; messages wait for it. Check the database.");
        }
        LockSupport.parkNanos(PAUSE.toNanos());
      }
    } finally {
      if (waiting.decrementAndGet() == 0 && said.getAndSet(false)) {
        log.info("The database answers again.");
      }
    }
  }

  /**
   * Whether a message of the batch that this thread has just ended met trouble, such as a deadlock.
   * Asking takes the word away, so that the thread's next batch begins without it.
   */
  public static boolean takeWord() {
    return TransactionSynchronizationManager.unbindResourceIfPossible(DatabaseTrouble.class)
        != null;
  }

  /** How many messages wait for the database now. */
  public int waiting() {
    return waiting.get();
  }

  private boolean answers() {
    try (Connection connection = dataSource.getConnection()) {
      return connection.isValid(CONNECTION_TEST_SECONDS);
    } catch (SQLException e) {
      return false;
    }
  }
}
