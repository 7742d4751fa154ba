package io.twinbox.local.bigquery;

import java.util.ArrayList;
import java.util.LinkedHashMap;
import java.util.List;
import java.util.Map;

/** Datasets and tables of the one project that a local BigQuery has. */
final class Catalog implements AutoCloseable {
  private final String project;
  private final String location;
  private final Map<String, Map<String, Table>> datasets = new LinkedHashMap<>();

  /** All tables as they were at one moment, by dataset and name: what one query sees. */
  record Snapshot(
      String project, String location, Map<String, Map<String, Table.Snapshot>> datasets) {

    Table.Snapshot table(String dataset, String table) {
      Map<String, Table.Snapshot> tables = datasets.get(dataset);
      if (tables == null) {
        throw ApiError.notFound(
            "Dataset " + project + ":" + dataset + " was not found in location " + location);
      }
      Table.Snapshot found = tables.get(table);
      if (found == null) {
        throw ApiError.notFound(
            "Table "
                + project
                + ":"
                + dataset
                + "."
                + table
                + " was not found in location "
                + location);
      }
      return found;
    }

    /** Finds what a query wrote in its FROM clause, and answers as BigQuery does when it cannot. */
    Table.Snapshot resolve(List<String> path, String defaultDataset) {
      return switch (path.size()) {
        case 1 -> {
          if (defaultDataset == null) {
            throw new ApiError(
                400,
                "invalid",
                path.get(0),
                "Table \""
                    + path.get(0)
                    + "\" must be qualified with a dataset (e.g. dataset.table).");
          }
          yield table(defaultDataset, path.get(0));
        }
        case 2 -> table(path.get(0), path.get(1));
        case 3 -> {
          if (!path.get(0).equals(project)) {
            throw ApiError.notFound(
                "Dataset "
                    + path.get(0)
                    + ":"
                    + path.get(1)
                    + " was not found in location "
                    + location);
          }
          yield table(path.get(1), path.get(2));
        }
        default ->
            throw ApiError.invalidQuery("Invalid table name: `" + String.join(".", path) + "`");
      };
    }
  }

  Catalog(String project, String location) {
    this.project = project;
    this.location = location;
  }

  /**
   * @param partitionFilter the partition column that every query must filter by; null for none
   */
  synchronized void create(
      String dataset, String table, List<Column> columns, String partitionFilter) {
    if (partitionFilter != null
        && columns.stream().noneMatch(column -> column.name().equalsIgnoreCase(partitionFilter))) {
      throw ApiError.invalid(
          "The field specified for partitioning cannot be found in the schema: " + partitionFilter);
    }
    Map<String, Table> tables = datasets.computeIfAbsent(dataset, d -> new LinkedHashMap<>());
    if (tables.containsKey(table)) {
      throw new ApiError(
          409, "duplicate", null, "Already Exists: Table " + project + ":" + dataset + "." + table);
    }
    tables.put(table, new Table(dataset, table, columns, partitionFilter));
  }

  synchronized Table get(String dataset, String table) {
    Map<String, Table> tables = datasets.get(dataset);
    if (tables == null) {
      throw ApiError.notFound("Dataset " + project + ":" + dataset);
    }
    Table found = tables.get(table);
    if (found == null) {
      throw ApiError.notFound("Table " + project + ":" + dataset + "." + table);
    }
    return found;
  }

  String location() {
    return location;
  }

  synchronized boolean hasDataset(String dataset) {
    return datasets.containsKey(dataset);
  }

  synchronized List<String> tableNames() {
    List<String> names = new ArrayList<>();
    datasets.forEach(
        (dataset, tables) -> tables.keySet().forEach(t -> names.add(dataset + "." + t)));
    return names;
  }

  synchronized Snapshot snapshot() {
    Map<String, Map<String, Table.Snapshot>> copy = new LinkedHashMap<>();
    datasets.forEach(
        (dataset, tables) -> {
          Map<String, Table.Snapshot> snapshots = new LinkedHashMap<>();
          tables.forEach((name, table) -> snapshots.put(name, table.snapshot()));
          copy.put(dataset, snapshots);
        });
    return new Snapshot(project, location, copy);
  }

  @Override
  public synchronized void close() {
    datasets.values().forEach(tables -> tables.values().forEach(Table::close));
  }
}
