package io.twinbox.outbox;

import static org.assertj.core.api.Assertions.assertThat;

import java.sql.SQLException;
import java.time.Duration;
import org.apache.camel.Exchange;
import org.apache.camel.impl.DefaultCamelContext;
import org.apache.camel.support.DefaultExchange;
import org.junit.jupiter.api.Test;
import org.springframework.jdbc.CannotGetJdbcConnectionException;

class SettlementRetryTest {

  private static final long MINUTE = 60_000_000_000L;

  private final SettlementRetry retry =
      new SettlementRetry(new ClaimLease(Duration.ofMinutes(1), Duration.ofSeconds(30)));

  private boolean retries(Exception failure, long leaseLeftNanos) {
    Exchange exchange = new DefaultExchange(new DefaultCamelContext());
    exchange.setProperty(Exchange.EXCEPTION_CAUGHT, failure);
    exchange.setProperty("leaseEnd", System.nanoTime() + leaseLeftNanos);
    return retry.matches(exchange);
  }

  @Test
  void whileTheDatabaseIsAwayItTriesAgainUntilTheLeaseEnds() {
    Exception away =
        new CannotGetJdbcConnectionException("away", new SQLException("refused", "08001"));

    assertThat(retries(away, MINUTE)).isTrue();
    assertThat(retries(away, 0)).isFalse();
    assertThat(retries(away, -MINUTE)).isFalse();
  }

  @Test
  void aFailureThatAnotherTryDoesNotMendIsNotTriedAgain() {
    assertThat(retries(new SQLException("syntax error", "42601"), MINUTE)).isFalse();
    assertThat(retries(new IllegalStateException("a fault of ours"), MINUTE)).isFalse();
  }
}
