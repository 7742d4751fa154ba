package io.twinbox.outbox;

import io.twinbox.config.TwinboxProperties;
import java.time.Duration;
import org.apache.camel.CamelContext;
import org.apache.camel.ExchangeProperty;
import org.springframework.beans.factory.annotation.Autowired;
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

  @Autowired
  ClaimLease(TwinboxProperties properties) {
    this(properties.dispatch().lease(), properties.dispatch().publishTimeout());
  }

  ClaimLease(Duration lease, Duration publishTimeout) {
    this.lease = lease;
    this.publishTimeout = publishTimeout;
  }

  /** When a claim sent now ends, on the clock of {@link System#nanoTime}. */
  public long end() {
    return System.nanoTime() + lease.toNanos();
  }

  /**
   * Whether a claim may be published: its lease lasts for as long as that may take, and the process
   * is not stopping. What a stopping process has not begun is free for others at once.
   */
  public boolean suffices(@ExchangeProperty("leaseEnd") long leaseEnd, CamelContext context) {
    return !context.isStopping() && leaseEnd - System.nanoTime() >= publishTimeout.toNanos();
  }

  /** Whether the lease has not ended yet. */
  boolean lasts(long leaseEnd) {
    return leaseEnd - System.nanoTime() > 0;
  }
}
