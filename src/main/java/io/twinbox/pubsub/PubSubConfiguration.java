package io.twinbox.pubsub;

import io.twinbox.config.TwinboxProperties;
import java.time.Clock;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.transaction.PlatformTransactionManager;
import org.springframework.transaction.support.TransactionTemplate;

/** The beans that routes and other packages use to reach Pub/Sub. */
@Configuration(proxyBeanMethods = false)
class PubSubConfiguration {

  @Bean
  PubSubConnection pubSubConnection(
      @Value("${pubsub.emulator.host}") String emulatorHost, TwinboxProperties properties) {
    return new PubSubConnection(emulatorHost, properties.dispatch().publishTimeout());
  }

  /** Takes the place of Camel's own component of this scheme. */
  @Bean("google-pubsub-component")
  TwinboxPubSubComponent pubSubComponent(
      PubSubConnection connection,
      TwinboxProperties properties,
      SubscriptionWatch watch,
      PlatformTransactionManager transactionManager) {
    return new TwinboxPubSubComponent(
        connection, properties.consume(), watch, new TransactionTemplate(transactionManager));
  }

  @Bean
  SubscriptionWatch subscriptionWatch(
      PubSubConnection connection,
      TwinboxProperties properties,
      @Value("${google.cloud.project}") String project,
      @Value("${subscription.name}") String subscription) {
    return new SubscriptionWatch(
        connection, properties, "projects/%s/subscriptions/%s".formatted(project, subscription));
  }

  @Bean
  PublishGate publishGate(
      TwinboxProperties properties,
      PubSubConnection connection,
      @Value("${google.cloud.project}") String project,
      @Value("${topic.name}") String topic) {
    Clock clock = Clock.systemUTC();
    return new PublishGate(
        properties.dispatch(),
        new SubscriptionCheck(connection, "projects/%s/topics/%s".formatted(project, topic), clock),
        clock);
  }
}
