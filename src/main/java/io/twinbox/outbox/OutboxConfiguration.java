package io.twinbox.outbox;

import io.twinbox.config.TwinboxProperties;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;

/** The beans of dispatch that are there once per polling route. */
@Configuration(proxyBeanMethods = false)
class OutboxConfiguration {

  @Bean
  PollPace dispatchPace(TwinboxProperties properties) {
    return new PollPace(properties.dispatch());
  }

  @Bean
  PollPace orderedPace(TwinboxProperties properties) {
    return new PollPace(properties.dispatch());
  }
}
