package io.twinbox.local.bigquery;

import com.google.zetasql.AnalyzerOptions;
import com.google.zetasql.FileDescriptorSetsBuilder;
import com.google.zetasql.JniChannelProvider;
import com.google.zetasql.LanguageOptions;
import com.google.zetasql.LocalService.AnalyzeRequest;
import com.google.zetasql.LocalService.AnalyzeResponse;
import com.google.zetasql.LocalService.EvaluateQueryRequest;
import com.google.zetasql.LocalService.ExtractTableNamesFromStatementRequest;
import com.google.zetasql.LocalService.TableContent;
import com.google.zetasql.LocalService.TableData;
import com.google.zetasql.SimpleCatalog;
import com.google.zetasql.SimpleCatalogProtos.SimpleCatalogProto;
import com.google.zetasql.ZetaSQLOptions.ErrorMessageMode;
import com.google.zetasql.ZetaSQLOptions.LanguageFeature;
import com.google.zetasql.ZetaSQLOptions.ParseLocationRecordType;
import com.google.zetasql.ZetaSQLOptions.ProductMode;
import com.google.zetasql.ZetaSqlLocalServiceGrpc;
import com.google.zetasql.ZetaSqlLocalServiceGrpc.ZetaSqlLocalServiceBlockingStub;
import com.google.zetasql.io.grpc.Status;
import com.google.zetasql.io.grpc.StatusRuntimeException;
import java.util.HashSet;
import java.util.List;
import java.util.Map;
import java.util.Set;
import java.util.logging.Level;
import java.util.logging.Logger;

/**
 * ZetaSQL, Google's own reference engine, asked over its in-process gRPC service.
 *
 * <p>The service is called directly and not through {@code PreparedQuery}: that class keeps gRPC's
 * 4 MB cap on answers, which a stub of our own can lift. The cap on <em>requests</em> is the native
 * server's and fixed ({@link #MAX_REQUEST_BYTES}); {@link QueryPlan} deals with it.
 */
final class GoogleSql {
  /** gRPC's default limit of a message to the server, in bytes; compression does not help. */
  static final int MAX_REQUEST_BYTES = 4 * 1024 * 1024;

  /** What BigQuery has and {@code enableMaximumLanguageFeatures} leaves out. */
  private static final List<LanguageFeature> MORE_FEATURES =
      List.of(
          LanguageFeature.FEATURE_INTERVAL_TYPE,
          LanguageFeature.FEATURE_RANGE_TYPE,
          LanguageFeature.FEATURE_V_1_3_ALLOW_DASHES_IN_TABLE_NAME,
          LanguageFeature.FEATURE_ENFORCE_MICROS_MODE_IN_INTERVAL_TYPE);

  /** TIMESTAMP has microseconds in BigQuery. */
  private static final List<LanguageFeature> LESS_FEATURES =
      List.of(LanguageFeature.FEATURE_TIMESTAMP_NANOS);

  /** It warns at each start that it knows no DNS; the service is in this process and needs none. */
  private static final Logger NAME_RESOLVERS =
      Logger.getLogger("com.google.zetasql.io.grpc.NameResolverRegistry");

  private static GoogleSql instance;

  private final ZetaSqlLocalServiceBlockingStub stub;
  private final LanguageOptions language;

  private GoogleSql() {
    NAME_RESOLVERS.setLevel(Level.SEVERE);
    stub =
        ZetaSqlLocalServiceGrpc.newBlockingStub(new JniChannelProvider().newChannel())
            .withMaxInboundMessageSize(Integer.MAX_VALUE);
    LanguageOptions options = new LanguageOptions();
    options.enableMaximumLanguageFeatures();
    Set<LanguageFeature> features = new HashSet<>(enabled(options));
    features.addAll(MORE_FEATURES);
    LESS_FEATURES.forEach(features::remove);
    options.setEnabledLanguageFeatures(features);
    options.setProductMode(ProductMode.PRODUCT_EXTERNAL);
    language = options;
  }

  /** One native library per JVM, loaded at first use (a second or two). */
  static synchronized GoogleSql get() {
    if (instance == null) {
      instance = new GoogleSql();
    }
    return instance;
  }

  private static List<LanguageFeature> enabled(LanguageOptions options) {
    return options.serialize().getEnabledLanguageFeaturesList();
  }

  AnalyzerOptions analyzerOptions() {
    AnalyzerOptions options = new AnalyzerOptions();
    options.setLanguageOptions(language);
    options.setDefaultTimezone("UTC");
    options.setErrorMessageMode(ErrorMessageMode.ERROR_MESSAGE_ONE_LINE);
    // The columns that are left are those that are read: what BigQuery bills.
    options.setPruneUnusedColumns(true);
    options.setParseLocationRecordType(ParseLocationRecordType.PARSE_LOCATION_RECORD_CODE_SEARCH);
    return options;
  }

  /**
   * The catalog as the service takes it, with the built-in functions named only by the options:
   * {@code addZetaSQLFunctions} would fetch all their definitions for every query.
   */
  private SimpleCatalogProto serialise(SimpleCatalog catalog, FileDescriptorSetsBuilder files) {
    SimpleCatalogProto.Builder proto = catalog.serialize(files).toBuilder();
    proto.getBuiltinFunctionOptionsBuilder().setLanguageOptions(language.serialize());
    return proto.build();
  }

  /** Every table path of the query, in order, without the names of its WITH clauses. */
  List<List<String>> tableNames(QueryText query) {
    try {
      return stub
          .extractTableNamesFromStatement(
              ExtractTableNamesFromStatementRequest.newBuilder()
                  .setSqlStatement(query.text())
                  .setOptions(language.serialize())
                  .build())
          .getTableNameList()
          .stream()
          .map(name -> List.copyOf(name.getTableNameSegmentList()))
          .toList();
    } catch (StatusRuntimeException e) {
      throw translate(e, query);
    }
  }

  AnalyzeResponse analyze(QueryText query, AnalyzerOptions options, SimpleCatalog catalog) {
    FileDescriptorSetsBuilder files = new FileDescriptorSetsBuilder();
    AnalyzeRequest.Builder request =
        AnalyzeRequest.newBuilder()
            .setSqlStatement(query.text())
            .setOptions(options.serialize(files))
            .setSimpleCatalog(serialise(catalog, files));
    request.getDescriptorPoolListBuilder().addDefinitionsBuilder().getBuiltinBuilder();
    try {
      return stub.analyze(request.build());
    } catch (StatusRuntimeException e) {
      throw translate(e, query);
    }
  }

  /** What all evaluations of one query have in common: built once, it is most of their cost. */
  EvaluateQueryRequest evaluation(
      String sql, AnalyzerOptions options, SimpleCatalog catalog, Parameters parameters) {
    FileDescriptorSetsBuilder files = new FileDescriptorSetsBuilder();
    EvaluateQueryRequest.Builder request =
        EvaluateQueryRequest.newBuilder()
            .setSql(sql)
            .setOptions(options.serialize(files))
            .setSimpleCatalog(serialise(catalog, files))
            .addAllParams(parameters.serialise());
    request.getDescriptorPoolListBuilder().addDefinitionsBuilder().getBuiltinBuilder();
    return request.build();
  }

  TableData evaluate(
      EvaluateQueryRequest evaluation, Map<String, TableData> tables, QueryText query) {
    EvaluateQueryRequest.Builder request = evaluation.toBuilder();
    tables.forEach(
        (name, data) ->
            request.putTableContent(name, TableContent.newBuilder().setTableData(data).build()));
    try {
      return stub.evaluateQuery(request.build()).getContent().getTableData();
    } catch (StatusRuntimeException e) {
      throw translate(e, query);
    }
  }

  private static ApiError translate(StatusRuntimeException e, QueryText query) {
    String description = e.getStatus().getDescription();
    String message = query.message(description == null ? e.getMessage() : description);
    Status.Code code = e.getStatus().getCode();
    if (code == Status.Code.UNIMPLEMENTED) {
      return Unsupported.FUNCTION.error(message);
    }
    if (code == Status.Code.RESOURCE_EXHAUSTED) {
      return tooBig(message);
    }
    if (message.startsWith("Statement not supported")) {
      return Unsupported.STATEMENT.error(message);
    }
    return ApiError.invalidQuery(message);
  }

  static ApiError tooBig(String detail) {
    return new ApiError(
        400,
        "resourcesExceeded",
        null,
        "The local BigQuery cannot run this query over so many rows: ZetaSQL's local service takes "
            + MAX_REQUEST_BYTES
            + " bytes at a time, and only a query that treats each row of one table by itself"
            + " (SELECT, WHERE, UNNEST, ORDER BY of result columns; no join, grouping or window) can be run in parts ("
            + detail
            + ")");
  }
}
