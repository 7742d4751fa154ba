package io.twinbox.pubsub;

import org.springframework.boot.actuate.health.Health;
import org.springframework.boot.actuate.health.HealthIndicator;
import org.springframework.stereotype.Component;

/**
 * The health entry {@code pubSub}: out of service while the topic takes no messages or the
 * subscription cannot be read. Not part of liveness or readiness: a restart cures neither.
 */
@Component("pubSubHealthIndicator")
class PubSubHealth implements HealthIndicator {

  private final PublishGate gate;
  private final SubscriptionWatch subscription;

  PubSubHealth(PublishGate gate, SubscriptionWatch subscription) {
    this.gate = gate;
    this.subscription = subscription;
  }

  @Override
  public Health health() {
    Health.Builder health =
        gate.trouble() == null && subscription.trouble() == null
            ? Health.up()
            : Health.outOfService();
    if (gate.trouble() != null) {
      health.withDetail("topic", gate.trouble());
    }
    if (subscription.trouble() != null) {
      health.withDetail("subscription", subscription.trouble());
    }
    return health.build();
  }
}
