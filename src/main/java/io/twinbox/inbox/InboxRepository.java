package io.twinbox.inbox;

import io.twinbox.config.SqlFiles;
import java.util.Map;
import org.apache.camel.Exchange;
import org.apache.camel.spi.IdempotentRepository;
import org.apache.camel.support.service.ServiceSupport;
import org.springframework.jdbc.core.namedparam.NamedParameterJdbcTemplate;
import org.springframework.transaction.support.TransactionSynchronizationManager;

/**
 * The inbox as the repository of Camel's {@code idempotentConsumer}. {@link #add} takes the key in
 * the transaction of the effect with one {@code INSERT … ON CONFLICT DO NOTHING}: a duplicate waits
 * for its twin's transaction, then sees its outcome.
 *
 * <p>Nothing is ever removed. Camel removes a key after a failure, in another transaction: by then
 * another pod may have committed it. Here a rollback takes the key with it.
 */
class InboxRepository extends ServiceSupport implements IdempotentRepository {

  private final NamedParameterJdbcTemplate jdbc;
  private final String consumer;
  private final String insertKey = SqlFiles.read("sql/consume/insert-inbox-key.sql");

  InboxRepository(NamedParameterJdbcTemplate jdbc, String consumer) {
    this.jdbc = jdbc;
    this.consumer = consumer;
  }

  /**
   * @return whether the key is new, so that the handler runs
   * @throws IllegalStateException outside a transaction, where the key would be committed without
   *     its effect
   */
  @Override
  public boolean add(Exchange exchange, String key) {
    return add(key);
  }

  @Override
  public boolean add(String key) {
    if (!TransactionSynchronizationManager.isActualTransactionActive()) {
      throw new IllegalStateException(
          "The inbox takes a key only inside the transaction of its effect; put idempotentConsumer inside transacted.");
    }
    return jdbc.update(insertKey, Map.of("consumer", consumer, "idempotencyKey", key)) == 1;
  }

  /**
   * Not asked by {@code idempotentConsumer} when it adds eagerly, its default: looking first would
   * let twins both run.
   */
  @Override
  public boolean contains(String key) {
    throw new UnsupportedOperationException(
        "The inbox does not look first; leave idempotentConsumer's eager option on.");
  }

  @Override
  public boolean remove(String key) {
    return false;
  }

  @Override
  public boolean confirm(String key) {
    return true;
  }

  @Override
  public void clear() {
    throw new UnsupportedOperationException(
        "The inbox is a ledger: without its keys every redelivery would take effect again.");
  }
}
