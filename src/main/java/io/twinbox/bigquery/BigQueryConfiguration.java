package io.twinbox.bigquery;

import com.google.cloud.NoCredentials;
import com.google.cloud.ServiceOptions;
import com.google.cloud.bigquery.BigQuery;
import com.google.cloud.bigquery.BigQueryOptions;
import com.zaxxer.hikari.HikariDataSource;
import io.twinbox.config.TwinboxProperties;
import java.nio.file.Files;
import org.springframework.beans.factory.ObjectProvider;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.beans.factory.config.BeanPostProcessor;
import org.springframework.boot.autoconfigure.condition.ConditionalOnProperty;
import org.springframework.boot.autoconfigure.flyway.FlywayMigrationStrategy;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.context.annotation.Lazy;
import org.springframework.core.env.Environment;

/**
 * The beans of {@code produce}; made when its routes ask for them, so that other route sets need no
 * BigQuery.
 */
@Configuration(proxyBeanMethods = false)
class BigQueryConfiguration {

  @Bean
  @Lazy
  BigQuery bigQuery(
      @Value("${google.cloud.project}") String project,
      @Value("${bigquery.emulator.host}") String emulatorHost) {
    BigQueryOptions.Builder options =
        BigQueryOptions.newBuilder()
            .setProjectId(project)
            // Retries has them all.
            .setRetrySettings(ServiceOptions.getNoRetrySettings());
    if (!emulatorHost.isBlank()) {
      options
          .setHost(emulatorHost.contains("://") ? emulatorHost : "http://" + emulatorHost)
          .setCredentials(NoCredentials.getInstance());
    }
    return options.build().getService();
  }

  @Bean
  @Lazy
  Extraction extraction(
      BigQuery bigQuery,
      TwinboxProperties properties,
      @Value("${topic.name}") String topic,
      ProduceFigures figures,
      ObjectProvider<QueryReload> reload) {
    QueryReload checked = reload.getIfAvailable();
    return new Extraction(
        bigQuery,
        properties,
        topic,
        figures,
        checked != null
            ? checked::text
            : () -> Files.readString(properties.topicDir().resolve("query.sql")));
  }

  @Bean
  @Lazy
  Backfill backfill(
      Extraction extraction,
      TwinboxProperties properties,
      @Value("${topic.name}") String topic,
      ProduceFigures figures) {
    return new Backfill(extraction, properties, topic, figures);
  }

  /** A check writes nothing, so it does not migrate either. */
  @Bean
  @ConditionalOnProperty(name = "twinbox.produce.check", havingValue = "true")
  FlywayMigrationStrategy checkMigratesNothing() {
    return flyway -> {};
  }

  /**
   * A check asks any server, a standby too, and only through connections that cannot write. Without
   * a check the data source is left as it is.
   */
  @Bean
  static BeanPostProcessor checkOnlyReads(Environment environment) {
    boolean check = environment.getProperty("twinbox.produce.check", Boolean.class, false);
    return new BeanPostProcessor() {
      @Override
      public Object postProcessBeforeInitialization(Object bean, String name) {
        if (check && bean instanceof HikariDataSource dataSource) {
          dataSource.addDataSourceProperty("targetServerType", "any");
          dataSource.setReadOnly(true);
        }
        return bean;
      }
    };
  }
}
