package io.twinbox.inbox;

import io.twinbox.config.TwinboxProperties;
import javax.sql.DataSource;
import org.apache.camel.spring.spi.SpringTransactionPolicy;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.jdbc.core.namedparam.NamedParameterJdbcTemplate;
import org.springframework.transaction.PlatformTransactionManager;

/** The beans of the consuming side that routes name. */
@Configuration(proxyBeanMethods = false)
class InboxConfiguration {

  /**
   * The only transaction manager: Spring Boot's own steps back, and Camel finds no other to choose.
   */
  @Bean
  PlatformTransactionManager transactionManager(DataSource dataSource) {
    return new GuardedTransactionManager(dataSource);
  }

  /**
   * What {@code transacted} refers to, by name, so that a second data source cannot break a route.
   * It is a transaction of its own or, in batch mode, a savepoint in the batch's.
   */
  @Bean
  SpringTransactionPolicy inboxTransaction(PlatformTransactionManager transactionManager) {
    SpringTransactionPolicy policy = new SpringTransactionPolicy(transactionManager);
    policy.setPropagationBehaviorName("PROPAGATION_NESTED");
    return policy;
  }

  @Bean
  InboxRepository inbox(NamedParameterJdbcTemplate jdbc, TwinboxProperties properties) {
    return new InboxRepository(jdbc, properties.consumer());
  }

  @Bean
  DatabaseTrouble databaseTrouble(DataSource dataSource, TwinboxProperties properties) {
    return new DatabaseTrouble(dataSource, properties.consume().maxLease());
  }
}
