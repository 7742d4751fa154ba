package io.twinbox.config;

import com.zaxxer.hikari.SQLExceptionOverride;
import java.sql.SQLException;

/**
 * Takes a connection out of the pool when its server says that it is read-only (SQLSTATE 25006).
 * After a failover the old primary may live on as a standby: the pool sees a sound connection and
 * would keep it, and every write would fail until a restart.
 */
public class EvictAfterFailover implements SQLExceptionOverride {

  private static final String READ_ONLY_SQL_TRANSACTION = "25006";

  @java.lang.Override
  public Override adjudicate(SQLException exception) {
    return READ_ONLY_SQL_TRANSACTION.equals(exception.getSQLState())
        ? Override.MUST_EVICT
        : Override.CONTINUE_EVICT;
  }
}
