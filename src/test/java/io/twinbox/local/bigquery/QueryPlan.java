package io.twinbox.local.bigquery;

import com.google.protobuf.Message;
import com.google.zetasql.AnalyzerOptions;
import com.google.zetasql.AnyResolvedScanProto;
import com.google.zetasql.LocalService.AnalyzeResponse;
import com.google.zetasql.LocalService.EvaluateQueryRequest;
import com.google.zetasql.LocalService.TableData;
import com.google.zetasql.ParseLocationRangeProto;
import com.google.zetasql.ResolvedLimitOffsetScanProto;
import com.google.zetasql.ResolvedOutputColumnProto;
import com.google.zetasql.ResolvedQueryStmtProto;
import com.google.zetasql.ResolvedTableScanProto;
import com.google.zetasql.ResolvedWithRefScanProto;
import com.google.zetasql.SimpleCatalog;
import com.google.zetasql.SimpleTable;
import com.google.zetasql.TypeFactory;
import java.io.ByteArrayOutputStream;
import java.nio.charset.StandardCharsets;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.HashMap;
import java.util.LinkedHashMap;
import java.util.LinkedHashSet;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeSet;

/**
 * A query, resolved by ZetaSQL against one snapshot of the tables: its result columns, what it
 * reads, what it costs, and how it can be evaluated although ZetaSQL takes 4 MB of table data at a
 * time.
 *
 * <p>A query that looks at each row of a single table by itself (projection, filter, correlated
 * UNNEST, an ORDER BY of result columns and a LIMIT at its end) gives the same rows whether it sees
 * the table whole or in parts, so it is evaluated part by part, in the table's order. LIMIT/OFFSET
 * pages over any query would not help (the input is what is capped), and ranges of a key would need
 * a key. Every other query sees its tables whole, with the columns that it does not read left
 * empty.
 *
 * <p>One difference remains: CURRENT_TIMESTAMP moves by milliseconds from part to part.
 */
final class QueryPlan {
  /** A name of a FROM clause: where it stands in the text, in UTF-8 bytes. */
  private record Reference(int start, int end, String table, String alias) {}

  /** A table and which of its columns are read. */
  record Input(Table.Snapshot table, Set<Integer> columns) {}

  private final QueryText query;
  private final List<Column> columns = new ArrayList<>();
  private final Map<String, Input> inputs = new LinkedHashMap<>();
  private final EvaluateQueryRequest evaluation;
  private final boolean rowByRow;
  private long limit = Long.MAX_VALUE;
  private Comparator<TableData.Row> order;

  QueryPlan(String sql, Parameters parameters, Catalog.Snapshot snapshot, String defaultDataset) {
    GoogleSql engine = GoogleSql.get();
    query = new QueryText(sql, parameters.positional());
    AnalyzerOptions options = engine.analyzerOptions();
    parameters.declare(options);

    Map<String, Table.Snapshot> tables = new LinkedHashMap<>();
    SimpleCatalog catalog = new SimpleCatalog("root");
    for (List<String> path : new LinkedHashSet<>(engine.tableNames(query))) {
      Table.Snapshot table = snapshot.resolve(path, defaultDataset);
      tables.put(table.dataset() + "." + table.name(), table);
      addTable(catalog, path, table);
    }
    AnalyzeResponse response = engine.analyze(query, options, catalog);
    ResolvedQueryStmtProto statement = response.getResolvedStatement().getResolvedQueryStmtNode();
    if (statement.getIsValueTable()) {
      throw Unsupported.VALUE_TABLE.error();
    }
    readColumns(statement);
    new PartitionFilter(tables, snapshot.project()).require(statement);

    List<Reference> references = new ArrayList<>();
    Map<String, Integer> withReferences = new HashMap<>();
    walk(statement, tables, references, withReferences);
    AnyResolvedScanProto root = statement.getQuery();
    if (root.hasResolvedLimitOffsetScanNode()) {
      limit = literalLimit(root.getResolvedLimitOffsetScanNode());
      root = limit < 0 ? root : root.getResolvedLimitOffsetScanNode().getInputScan();
    }
    if (root.hasResolvedOrderByScanNode()) {
      order =
          RowOrder.of(
              root.getResolvedOrderByScanNode(), statement.getOutputColumnListList(), columns);
      root = order == null ? root : root.getResolvedOrderByScanNode().getInputScan();
    }
    rowByRow = references.size() == 1 && treatsRowsSingly(root, new HashMap<>(), withReferences);

    SimpleCatalog flat = new SimpleCatalog("root");
    inputs.forEach((name, input) -> flat.addSimpleTable(simpleTable(name, input.table())));
    evaluation = engine.evaluation(rename(references), options, flat, parameters);
  }

  QueryText query() {
    return query;
  }

  List<Column> columns() {
    return columns;
  }

  Map<String, Input> inputs() {
    return inputs;
  }

  EvaluateQueryRequest evaluation() {
    return evaluation;
  }

  boolean rowByRow() {
    return rowByRow;
  }

  /** The order of a row-by-row query's rows; null for any. */
  Comparator<TableData.Row> order() {
    return order;
  }

  /** The most rows of a row-by-row query. */
  long limit() {
    return limit;
  }

  /** The logical size of the columns that are read, in bytes: what BigQuery's dry run answers. */
  long bytesProcessed() {
    long bytes = 0;
    for (Input input : inputs.values()) {
      for (int column : input.columns()) {
        bytes += input.table().columnBytes()[column];
      }
    }
    return bytes;
  }

  /** BigQuery bills whole mebibytes, and at least ten for each table; reading nothing is free. */
  long bytesBilled() {
    if (bytesProcessed() == 0) {
      return 0;
    }
    long mebibyte = 1024 * 1024;
    long rounded = (bytesProcessed() + mebibyte - 1) / mebibyte * mebibyte;
    return Math.max(rounded, inputs.size() * 10 * mebibyte);
  }

  private static void addTable(SimpleCatalog root, List<String> path, Table.Snapshot table) {
    SimpleCatalog catalog = root;
    for (String name : path.subList(0, path.size() - 1)) {
      SimpleCatalog next = catalog.getCatalog(name);
      catalog = next != null ? next : catalog.addNewSimpleCatalog(name);
    }
    SimpleTable simple = simpleTable(path.get(path.size() - 1), table);
    simple.setFullName(table.dataset() + "." + table.name());
    if (!catalog.getTableNameList().contains(simple.getName().toLowerCase(Locale.ROOT))) {
      catalog.addSimpleTable(simple);
    }
  }

  private static SimpleTable simpleTable(String name, Table.Snapshot table) {
    SimpleTable simple = new SimpleTable(name);
    table.columns().forEach(column -> simple.addSimpleColumn(column.name(), column.type()));
    return simple;
  }

  private void readColumns(ResolvedQueryStmtProto statement) {
    TypeFactory types = TypeFactory.nonUniqueNames();
    Set<String> seen = new TreeSet<>(String.CASE_INSENSITIVE_ORDER);
    int anonymous = 0;
    for (ResolvedOutputColumnProto output : statement.getOutputColumnListList()) {
      String name = output.getName();
      if (name.isEmpty() || name.startsWith("$")) {
        name = "f" + anonymous++ + "_";
      }
      if (!seen.add(name)) {
        throw ApiError.invalidQuery(
            "Duplicate column names in the result are not supported when a destination table is"
                + " present. Found duplicate(s): "
                + name);
      }
      columns.add(new Column(name, types.deserialize(output.getColumn().getType()), false));
    }
    // Refuses a type that cannot be answered before anything runs.
    Column.toSchema(columns);
  }

  /** Finds every table scan and every use of a WITH name, wherever in the query they stand. */
  private void walk(
      Message node,
      Map<String, Table.Snapshot> tables,
      List<Reference> references,
      Map<String, Integer> withReferences) {
    if (node instanceof ResolvedTableScanProto scan) {
      addReference(scan, tables, references);
    } else if (node instanceof ResolvedWithRefScanProto with) {
      withReferences.merge(with.getWithQueryName(), 1, Integer::sum);
    }
    node.getAllFields()
        .forEach(
            (field, value) -> {
              if (value instanceof List<?> list) {
                list.forEach(
                    item -> {
                      if (item instanceof Message message) {
                        walk(message, tables, references, withReferences);
                      }
                    });
              } else if (value instanceof Message message) {
                walk(message, tables, references, withReferences);
              }
            });
  }

  private void addReference(
      ResolvedTableScanProto scan, Map<String, Table.Snapshot> tables, List<Reference> references) {
    if (scan.hasForSystemTimeExpr()) {
      throw Unsupported.TIME_TRAVEL.error();
    }
    Table.Snapshot table = tables.get(scan.getTable().getFullName());
    String name = "table_" + scan.getTable().getFullName().replace('.', '_');
    Input input = inputs.computeIfAbsent(name, n -> new Input(table, new TreeSet<>()));
    scan.getColumnIndexListList().forEach(i -> input.columns().add(i.intValue()));
    ParseLocationRangeProto range = scan.getParent().getParent().getParseLocationRange();
    String alias = scan.getAlias().isEmpty() ? table.name() : null;
    references.add(new Reference(range.getStart(), range.getEnd(), name, alias));
  }

  /** Table contents are found by one plain name, so each path is replaced by one. */
  private String rename(List<Reference> references) {
    byte[] text = query.text().getBytes(StandardCharsets.UTF_8);
    ByteArrayOutputStream out = new ByteArrayOutputStream(text.length + 64);
    int done = 0;
    references.sort(Comparator.comparingInt(Reference::start));
    for (Reference reference : references) {
      if (reference.start() < done) {
        continue;
      }
      out.write(text, done, reference.start() - done);
      String alias = reference.alias() == null ? "" : " AS `" + reference.alias() + "`";
      out.writeBytes(("`" + reference.table() + "`" + alias).getBytes(StandardCharsets.UTF_8));
      done = reference.end();
    }
    out.write(text, done, text.length - done);
    return out.toString(StandardCharsets.UTF_8);
  }

  private static long literalLimit(ResolvedLimitOffsetScanProto scan) {
    boolean literal = scan.getLimit().hasResolvedLiteralNode() && !scan.hasOffset();
    return literal
        ? scan.getLimit().getResolvedLiteralNode().getValue().getValue().getInt64Value()
        : -1;
  }

  private static boolean treatsRowsSingly(
      AnyResolvedScanProto scan,
      Map<String, AnyResolvedScanProto> withQueries,
      Map<String, Integer> withReferences) {
    return switch (scan.getNodeCase()) {
      case RESOLVED_TABLE_SCAN_NODE -> true;
      case RESOLVED_PROJECT_SCAN_NODE ->
          treatsRowsSingly(
              scan.getResolvedProjectScanNode().getInputScan(), withQueries, withReferences);
      case RESOLVED_FILTER_SCAN_NODE ->
          treatsRowsSingly(
              scan.getResolvedFilterScanNode().getInputScan(), withQueries, withReferences);
      case RESOLVED_ARRAY_SCAN_NODE ->
          scan.getResolvedArrayScanNode().hasInputScan()
              && treatsRowsSingly(
                  scan.getResolvedArrayScanNode().getInputScan(), withQueries, withReferences);
      case RESOLVED_WITH_SCAN_NODE -> {
        if (scan.getResolvedWithScanNode().getRecursive()) {
          yield false;
        }
        scan.getResolvedWithScanNode()
            .getWithEntryListList()
            .forEach(e -> withQueries.put(e.getWithQueryName(), e.getWithSubquery()));
        yield treatsRowsSingly(
            scan.getResolvedWithScanNode().getQuery(), withQueries, withReferences);
      }
      case RESOLVED_WITH_REF_SCAN_NODE -> {
        String name = scan.getResolvedWithRefScanNode().getWithQueryName();
        yield withReferences.getOrDefault(name, 0) == 1
            && withQueries.containsKey(name)
            && treatsRowsSingly(withQueries.get(name), withQueries, withReferences);
      }
      default -> false;
    };
  }
}
