package io.twinbox.local.bigquery;

import com.google.cloud.NoCredentials;
import com.google.cloud.ServiceOptions;
import com.google.cloud.bigquery.BigQuery;
import com.google.cloud.bigquery.BigQueryOptions;
import com.google.cloud.bigquery.FieldValueList;
import com.google.cloud.bigquery.QueryJobConfiguration;
import com.google.cloud.bigquery.TableResult;
import java.util.ArrayList;
import java.util.List;

/** Google's own client, pointed at a local BigQuery. */
final class Clients {
  private Clients() {}

  static BigQuery of(LocalBigQuery local) {
    return options(local).build().getService();
  }

  /** One that shows each fault instead of trying again. */
  static BigQuery withoutRetries(LocalBigQuery local) {
    return options(local)
        .setRetrySettings(ServiceOptions.getNoRetrySettings())
        .build()
        .getService();
  }

  static BigQueryOptions.Builder options(LocalBigQuery local) {
    return at(local.url(), local.project());
  }

  static BigQueryOptions.Builder at(String url, String project) {
    return BigQueryOptions.newBuilder()
        .setHost(url)
        .setProjectId(project)
        .setCredentials(NoCredentials.getInstance());
  }

  static List<FieldValueList> rows(BigQuery client, String sql) {
    return rows(client, QueryJobConfiguration.newBuilder(sql).build());
  }

  static List<FieldValueList> rows(BigQuery client, QueryJobConfiguration query) {
    try {
      List<FieldValueList> rows = new ArrayList<>();
      client.query(query).iterateAll().forEach(rows::add);
      return rows;
    } catch (InterruptedException e) {
      throw new IllegalStateException(e);
    }
  }

  static FieldValueList row(BigQuery client, String sql) {
    List<FieldValueList> rows = rows(client, sql);
    if (rows.size() != 1) {
      throw new AssertionError("Expected one row, got " + rows.size());
    }
    return rows.get(0);
  }

  static List<Integer> pageSizes(TableResult result) {
    List<Integer> sizes = new ArrayList<>();
    for (TableResult page = result; page != null; page = page.getNextPage()) {
      int size = 0;
      for (FieldValueList ignored : page.getValues()) {
        size++;
      }
      sizes.add(size);
    }
    return sizes;
  }
}
