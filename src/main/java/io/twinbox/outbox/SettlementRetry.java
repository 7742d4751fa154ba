package io.twinbox.outbox;

import io.twinbox.inbox.DatabaseTrouble;
import org.apache.camel.Exchange;
import org.apache.camel.Predicate;
import org.springframework.stereotype.Component;

/**
 * Whether Camel's error handler runs the step of {@code publish} that failed once more: when the
 * database was in trouble, as long as the claim's lease lasts. What became of the rows is known
 * then but not written down, and they would be published again. Another try is harmless: the
 * statement is fenced by the claim's token, so one whose answer was lost finds nothing the second
 * time.
 */
@Component("settlementRetry")
public class SettlementRetry implements Predicate {

  private final ClaimLease lease;

  SettlementRetry(ClaimLease lease) {
    this.lease = lease;
  }

  @Override
  public boolean matches(Exchange exchange) {
    return DatabaseTrouble.behind(exchange.getProperty(Exchange.EXCEPTION_CAUGHT, Throwable.class))
        && lease.lasts(exchange.getProperty("leaseEnd", Long.class));
  }
}
