package io.twinbox.config;

import org.apache.camel.ErrorHandlerFactory;
import org.apache.camel.model.errorhandler.DefaultErrorHandlerDefinition;
import org.apache.camel.model.errorhandler.NoErrorHandlerDefinition;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;

/**
 * What Twinbox's routes name in {@code errorHandlerRef}. By {@code noErrorHandler} an error leaves
 * the route as it is, for the route's source to decide. By reference, because Hawtio 4.3.0 draws no
 * route whose source has an {@code errorHandler} element before {@code from}, and none that is
 * looked at after such a one.
 */
@Configuration(proxyBeanMethods = false)
class RouteErrors {

  @Bean
  ErrorHandlerFactory noErrorHandler() {
    return new NoErrorHandlerDefinition();
  }

  /**
   * For {@code publish}: a step that {@code settlementRetry} says so of is run again, after 0.1 s
   * at first, then after twice as long each time, up to 5 s, with jitter.
   */
  @Bean
  ErrorHandlerFactory settlementErrorHandler() {
    DefaultErrorHandlerDefinition handler = new DefaultErrorHandlerDefinition();
    handler.setRetryWhileRef("settlementRetry");
    handler
        .redeliveryDelay(100)
        .useExponentialBackOff()
        .backOffMultiplier(2)
        .maximumRedeliveryDelay(5_000)
        .useCollisionAvoidance()
        .logExhausted(false);
    return handler;
  }
}
