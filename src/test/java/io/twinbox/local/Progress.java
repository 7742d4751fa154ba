package io.twinbox.local;

import io.twinbox.local.bigquery.LocalBigQuery;
import io.twinbox.local.pubsub.LocalPubSub;
import java.math.BigDecimal;
import javax.sql.DataSource;
import org.springframework.jdbc.core.JdbcTemplate;

/** How far the events have come, stage by stage, read from the services themselves. */
final class Progress {

  private final JdbcTemplate jdbc;
  private final Backends backends;
  private final String subscription;

  Progress(DataSource dataSource, Backends backends, String project, String subscription) {
    this.jdbc = new JdbcTemplate(dataSource);
    this.backends = backends;
    this.subscription = "projects/%s/subscriptions/%s".formatted(project, subscription);
  }

  /**
   * @param source rows in BigQuery, -1 when it is not the local one
   * @param distinct different ids published, -1 when Pub/Sub is not the local one
   * @param backlog messages not yet acknowledged, -1 when Pub/Sub is not the local one
   */
  record Stages(
      long source,
      long outbox,
      long published,
      long distinct,
      long inbox,
      long ledger,
      long dead,
      long backlog) {

    boolean through() {
      return outbox > 0
          && (source < 0 || source == outbox)
          && outbox == published
          && published == inbox
          && inbox == ledger
          && backlog <= 0;
    }

    String line() {
      return "BigQuery %s | outbox %,d | published %,d | inbox %,d | ledger %,d%s"
          .formatted(
              source < 0 ? "?" : "%,d".formatted(source),
              outbox,
              published,
              inbox,
              ledger,
              dead == 0 ? "" : " | dead %,d".formatted(dead));
    }
  }

  Stages look() {
    LocalBigQuery bigQuery = backends.bigQuery();
    LocalPubSub pubSub = backends.pubSub();
    return new Stages(
        bigQuery == null ? -1 : bigQuery.rowCount(InvoicesSample.DATASET, InvoicesSample.TABLE),
        count("SELECT count(*) FROM pubsub_outbox"),
        count("SELECT count(*) FROM pubsub_outbox_published"),
        pubSub == null ? -1 : pubSub.stats().distinctPublished(),
        count("SELECT count(*) FROM transactional_inbox"),
        count("SELECT count(*) FROM ledger_entry"),
        count(
            "SELECT (SELECT count(*) FROM pubsub_outbox_due WHERE dead_at IS NOT NULL) + (SELECT count(*) FROM transactional_inbox_dead_letter)"),
        pubSub == null ? -1 : pubSub.stats().backlog(subscription));
  }

  private long count(String sql) {
    return jdbc.queryForObject(sql, Long.class);
  }

  /** The sum of all totals in the outbox's payloads, which are the source's rows. */
  BigDecimal sumOfOutbox() {
    return jdbc.queryForObject(
        "SELECT sum(CAST(CAST(convert_from(payload, 'UTF8') AS jsonb) ->> 'total' AS numeric)) FROM pubsub_outbox",
        BigDecimal.class);
  }

  BigDecimal sumOfLedger() {
    return jdbc.queryForObject("SELECT sum(total) FROM ledger_entry", BigDecimal.class);
  }

  BigDecimal sumOfPostings() {
    return jdbc.queryForObject("SELECT sum(posting) FROM ledger_entry", BigDecimal.class);
  }

  BigDecimal sumOfBalances() {
    return jdbc.queryForObject("SELECT sum(balance) FROM customer_balance", BigDecimal.class);
  }
}
