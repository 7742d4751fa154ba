package io.twinbox.outbox;

import io.twinbox.config.TwinboxProperties;
import java.time.Duration;
import org.apache.camel.ExchangeProperty;
import org.springframework.stereotype.Component;

/**
 * A claim's lease as this pod counts it: on its own monotonic clock, from before the claim was
 * sent, so never longer than the database's. A claim that waited for a publisher is published only
 * while publishing surely ends within the lease.
 */
@Component("claimLease")
public class ClaimLease {

  private final Duration lease;
  private final Duration publishTimeout;

  ClaimLease(TwinboxProperties properties) {
    this.lease = properties.dispatch().lease();
    this.publishTimeout = properties.dispatch().publishTimeout();
  }

  /** When a claim sent now ends, on the clock of {@link System#nanoTime}. */
  public long end() {
    return System.nanoTime() + lease.toNanos();
  }

  /** Whether the lease lasts for as long as publishing may take. */
  public boolean suffices(@ExchangeProperty("leaseEnd") long leaseEnd) {
    return leaseEnd - System.nanoTime() >= publishTimeout.toNanos();
  }
}
