package io.twinbox.outbox;

import io.twinbox.config.TwinboxProperties;
import java.time.Duration;
import java.util.concurrent.ThreadLocalRandom;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;

/** The beans of dispatch that are there once per polling route. */
@Configuration(proxyBeanMethods = false)
class OutboxConfiguration {

  private static final Duration SUSPECTS_IDLE = Duration.ofSeconds(5);
  private static final int SUSPECTS_REST = 50;

  @Bean
  PollPace dispatchPace(TwinboxProperties properties) {
    return new PollPace(properties.dispatch());
  }

  @Bean
  PollPace orderedPace(TwinboxProperties properties) {
    return new PollPace(properties.dispatch());
  }

  /**
   * Suspects are there after a crash only, and have waited for a lease: no hurry to find them.
   * Their claim has no floor, so behind a pinned vacuum horizon a look takes longer and longer; it
   * is made less often then.
   */
  @Bean
  PollPace suspectPace(TwinboxProperties properties) {
    return new PollPace(
        properties.dispatch().idleInterval(),
        SUSPECTS_IDLE,
        properties.dispatch().batchBytes(),
        SUSPECTS_REST,
        () -> ThreadLocalRandom.current().nextDouble());
  }
}
