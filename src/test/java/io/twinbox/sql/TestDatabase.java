package io.twinbox.sql;

import com.fasterxml.jackson.core.JsonProcessingException;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.zaxxer.hikari.HikariDataSource;
import io.twinbox.config.SqlFiles;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.sql.Connection;
import java.sql.DriverManager;
import java.sql.SQLException;
import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.Properties;
import java.util.concurrent.Callable;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.Future;
import org.apache.camel.Exchange;
import org.apache.camel.ProducerTemplate;
import org.apache.camel.component.sql.SqlComponent;
import org.apache.camel.impl.DefaultCamelContext;
import org.apache.camel.spi.PropertiesSource;
import org.awaitility.Awaitility;
import org.flywaydb.core.Flyway;
import org.springframework.core.io.ClassPathResource;
import org.springframework.core.io.support.PropertiesLoaderUtils;
import org.springframework.jdbc.core.JdbcTemplate;
import org.springframework.jdbc.core.namedparam.NamedParameterJdbcTemplate;
import org.springframework.jdbc.support.JdbcTransactionManager;
import org.springframework.transaction.support.TransactionTemplate;
import org.springframework.util.PropertyPlaceholderHelper;

/**
 * A database with Twinbox's schema, and Camel's own {@code sql} component to run the statement
 * files on it: placeholders, casts and arrays are bound as they are in production, with the
 * defaults of {@code application.properties}.
 */
final class TestDatabase implements AutoCloseable {

  static final String TOPIC = "invoices";
  static final String SOURCE = "billing";
  static final String CONSUMER = "ledger";

  private static final PropertyPlaceholderHelper PRODUCTION_OPTIONS =
      new PropertyPlaceholderHelper("${", "}");

  private final HikariDataSource dataSource = new HikariDataSource();
  private final ExecutorService threads = Executors.newCachedThreadPool();
  private final Map<String, String> settings = new ConcurrentHashMap<>();
  private final Properties defaults;
  private final DefaultCamelContext camel = new DefaultCamelContext();
  private final ProducerTemplate template;

  final JdbcTemplate jdbc = new JdbcTemplate(dataSource);
  final TransactionTemplate transaction =
      new TransactionTemplate(new JdbcTransactionManager(dataSource));

  TestDatabase(String url) {
    dataSource.setJdbcUrl(url);
    dataSource.setUsername(PostgresServer.USER);
    dataSource.setPassword(PostgresServer.PASSWORD);
    dataSource.setMaximumPoolSize(10);
    dataSource.setMinimumIdle(1);
    try {
      defaults =
          PropertiesLoaderUtils.loadProperties(new ClassPathResource("application.properties"));
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
    dataSource.addDataSourceProperty(
        "options",
        PRODUCTION_OPTIONS
            .replacePlaceholders(
                defaults.getProperty("spring.datasource.hikari.data-source-properties.options"),
                defaults)
            // A test that waits for its own lock must fail by its own time-out.
            .replaceFirst("-c lock_timeout=\\S+", "-c lock_timeout=60s"));
    flyway(dataSource).migrate();
    reset();
    camel.getPropertiesComponent().addPropertiesSource(new Settings());
    SqlComponent sql = new SqlComponent();
    sql.setDataSource(dataSource);
    camel.addComponent("sql", sql);
    camel.start();
    template = camel.createProducerTemplate();
  }

  /** Flyway as {@code application.properties} configures it. */
  static Flyway flyway(javax.sql.DataSource dataSource) {
    return Flyway.configure()
        .dataSource(dataSource)
        .locations("classpath:sql/schema")
        .table("twinbox_schema_history")
        .baselineOnMigrate(true)
        .baselineVersion("0")
        .load();
  }

  /** Empties every table and takes back what {@link #set} set. */
  void reset() {
    settings.clear();
    set("topic.name", TOPIC);
    set("twinbox.source", SOURCE);
    set("twinbox.consumer", CONSUMER);
    set("twinbox.pod", "pod-1");
    jdbc.execute(
        "TRUNCATE pubsub_outbox, pubsub_outbox_due, pubsub_outbox_published, transactional_inbox,"
            + " transactional_inbox_failure, transactional_inbox_dead_letter, produce_watermark,"
            + " produce_reject, produce_changed, produce_run, produce_backfill, produce_backfill_step, pubsub_outbox_discarded, twinbox_audit");
  }

  void set(String property, String value) {
    settings.put(property, value);
  }

  private final class Settings implements PropertiesSource {
    @Override
    public String getName() {
      return "settings";
    }

    @Override
    public String getProperty(String name) {
      return settings.containsKey(name) ? settings.get(name) : defaults.getProperty(name);
    }
  }

  /**
   * Runs a statement file as a route's {@code sql} step does.
   *
   * @param properties exchange properties
   */
  List<Map<String, Object>> query(String file, Map<String, Object> properties, Object body) {
    return rows(send("sql:classpath:sql/" + file, properties, body));
  }

  List<Map<String, Object>> query(String file, Map<String, Object> properties) {
    return query(file, properties, null);
  }

  /** Runs a statement file that returns one row. */
  @SuppressWarnings("unchecked")
  Map<String, Object> queryOne(String file, Map<String, Object> properties, Object body) {
    return (Map<String, Object>)
        send("sql:classpath:sql/" + file + "?outputType=SelectOne", properties, body)
            .getMessage()
            .getBody();
  }

  /** Runs a statement file that returns no rows; returns how many it changed. */
  int update(String file, Map<String, Object> properties, Object body) {
    return send("sql:classpath:sql/" + file, properties, body)
        .getMessage()
        .getHeader("CamelSqlUpdateCount", Integer.class);
  }

  /** Runs a statement file and returns its plan with what it really read. */
  Plan explain(String file, Map<String, Object> properties, Object body) {
    try {
      Path explained = Files.createTempFile("twinbox-", ".sql");
      try {
        Files.writeString(
            explained, "EXPLAIN (ANALYZE, BUFFERS, FORMAT JSON)\n" + SqlFiles.read("sql/" + file));
        List<Map<String, Object>> rows = rows(send("sql:file:" + explained, properties, body));
        return new Plan(
            new ObjectMapper().readTree(rows.get(0).values().iterator().next().toString()));
      } finally {
        Files.delete(explained);
      }
    } catch (JsonProcessingException e) {
      throw new IllegalStateException(e);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** An executed plan. */
  record Plan(JsonNode json) {

    /** Pages of tables and indexes that the statement touched. */
    long buffers() {
      JsonNode root = json.get(0).get("Plan");
      return root.get("Shared Hit Blocks").asLong() + root.get("Shared Read Blocks").asLong();
    }

    boolean uses(String index) {
      return json.toString().contains("\"Index Name\":\"" + index + "\"");
    }

    /** Names of tables that were read from end to end. */
    List<String> sequentialScans() {
      return json.findParents("Node Type").stream()
          .filter(node -> node.get("Node Type").asText().equals("Seq Scan"))
          .map(node -> node.get("Relation Name").asText())
          .distinct()
          .toList();
    }

    /** Rows, and pairs of rows, that were looked at and not taken. */
    long passedOver() {
      return json.findParents("Node Type").stream()
          .mapToLong(
              node ->
                  node.path("Actual Loops").asLong()
                      * (node.path("Rows Removed by Filter").asLong()
                          + node.path("Rows Removed by Join Filter").asLong()))
          .sum();
    }
  }

  @SuppressWarnings("unchecked")
  private static List<Map<String, Object>> rows(Exchange exchange) {
    return (List<Map<String, Object>>) exchange.getMessage().getBody();
  }

  private Exchange send(String uri, Map<String, Object> properties, Object body) {
    Exchange exchange =
        template.send(
            uri,
            e -> {
              properties.forEach(e::setProperty);
              e.getMessage().setBody(body);
            });
    if (exchange.getException() != null) {
      throw exchange.getException() instanceof RuntimeException runtime
          ? runtime
          : new IllegalStateException(exchange.getException());
    }
    return exchange;
  }

  /** Runs the statement of the inbox as {@code InboxRepository} does. */
  boolean takeInboxKey(String key) {
    return new NamedParameterJdbcTemplate(dataSource)
            .update(
                SqlFiles.read("sql/consume/insert-inbox-key.sql"),
                Map.of("consumer", CONSUMER, "idempotencyKey", key))
        == 1;
  }

  <T> Future<T> async(Callable<T> task) {
    return threads.submit(task);
  }

  /** Waits until a session of this database waits for a lock of another. */
  void awaitBlockedSession() {
    Awaitility.await()
        .atMost(Duration.ofSeconds(60))
        .pollInterval(Duration.ofMillis(10))
        .until(
            () ->
                jdbc.queryForObject(
                        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
                            + " AND wait_event_type = 'Lock'",
                        Long.class)
                    > 0);
  }

  /** Waits until a session that last ran such a statement is in such a state. */
  void awaitSession(String statement, String state) {
    Awaitility.await()
        .atMost(Duration.ofSeconds(60))
        .pollInterval(Duration.ofMillis(10))
        .until(
            () ->
                jdbc.queryForObject(
                        "SELECT count(*) FROM pg_stat_activity WHERE datname = current_database()"
                            + " AND pid <> pg_backend_pid() AND query LIKE ? AND state = ?",
                        Long.class,
                        "%" + statement + "%",
                        state)
                    > 0);
  }

  long count(String table) {
    return jdbc.queryForObject("SELECT count(*) FROM " + table, Long.class);
  }

  String string(String sql, Object... parameters) {
    return jdbc.queryForObject(sql, String.class, parameters);
  }

  Map<String, Object> row(String sql, Object... parameters) {
    return jdbc.queryForMap(sql, parameters);
  }

  /** A connection that the pool knows nothing of. */
  Connection connect() throws SQLException {
    return DriverManager.getConnection(url(), PostgresServer.USER, PostgresServer.PASSWORD);
  }

  String url() {
    return dataSource.getJdbcUrl();
  }

  /** Body of a statement's named parameters; null values are allowed. */
  static Map<String, Object> parameters(Object... namesAndValues) {
    Map<String, Object> map = new HashMap<>();
    for (int i = 0; i < namesAndValues.length; i += 2) {
      map.put((String) namesAndValues[i], namesAndValues[i + 1]);
    }
    return map;
  }

  @Override
  public void close() {
    threads.shutdownNow();
    camel.stop();
    dataSource.close();
  }
}
