package io.twinbox.inbox;

import java.sql.Connection;
import java.sql.SQLException;
import javax.sql.DataSource;
import org.postgresql.core.BaseConnection;
import org.postgresql.core.TransactionState;
import org.springframework.jdbc.datasource.ConnectionHolder;
import org.springframework.jdbc.support.JdbcTransactionManager;
import org.springframework.transaction.TransactionSystemException;
import org.springframework.transaction.UnexpectedRollbackException;
import org.springframework.transaction.support.DefaultTransactionStatus;
import org.springframework.transaction.support.TransactionSynchronizationManager;

/**
 * Refuses to commit a transaction in which a statement has failed. PostgreSQL answers COMMIT of
 * such a transaction with ROLLBACK, and pgjdbc's {@code commit()} returns normally: a handler that
 * swallowed the error would have its message acknowledged with nothing done.
 */
class GuardedTransactionManager extends JdbcTransactionManager {

  GuardedTransactionManager(DataSource dataSource) {
    super(dataSource);
    // A commit that fails must not leave its transaction open on a pooled connection.
    setRollbackOnCommitFailure(true);
  }

  @Override
  protected void doCommit(DefaultTransactionStatus status) {
    if (failed(connection())) {
      doRollback(status);
      throw new UnexpectedRollbackException(
          "A statement of this transaction has failed and its error was swallowed, so PostgreSQL would roll it back silently. Let the error of a SQL step through.");
    }
    super.doCommit(status);
  }

  private Connection connection() {
    ConnectionHolder holder =
        (ConnectionHolder) TransactionSynchronizationManager.getResource(obtainDataSource());
    if (holder == null) {
      throw new IllegalStateException("No connection is bound to the transaction that commits");
    }
    return holder.getConnection();
  }

  private static boolean failed(Connection connection) {
    try {
      return connection.unwrap(BaseConnection.class).getTransactionState()
          == TransactionState.FAILED;
    } catch (SQLException e) {
      throw new TransactionSystemException("The state of the transaction cannot be seen", e);
    }
  }
}
