package io.twinbox.config;

import java.net.ConnectException;
import java.net.UnknownHostException;
import java.sql.SQLException;
import org.apache.camel.FailedToCreateRouteException;
import org.apache.camel.FailedToStartRouteException;
import org.springframework.boot.diagnostics.FailureAnalysis;
import org.springframework.boot.diagnostics.FailureAnalyzer;
import org.springframework.core.env.Environment;

/**
 * Says what keeps Twinbox from starting and what to do, instead of a stack trace. Registered in
 * {@code META-INF/spring.factories}.
 */
class StartupFailureAnalyzer implements FailureAnalyzer {

  private final Environment environment;

  StartupFailureAnalyzer(Environment environment) {
    this.environment = environment;
  }

  @Override
  public FailureAnalysis analyze(Throwable failure) {
    for (Throwable cause = failure; cause != null; cause = cause.getCause()) {
      FailureAnalysis analysis = analyzeCause(cause);
      if (analysis != null) {
        return analysis;
      }
    }
    return null;
  }

  private FailureAnalysis analyzeCause(Throwable cause) {
    if (cause instanceof StartupException e) {
      return new FailureAnalysis(e.getMessage(), e.remedy(), e);
    }
    if (cause instanceof FailedToCreateRouteException
        || cause instanceof FailedToStartRouteException) {
      return new FailureAnalysis(
          "A route cannot be built: %s".formatted(cause.getMessage()),
          "The cause is: %s. Correct the route or the setting that it names."
              .formatted(Causes.describe(cause)),
          cause);
    }
    if (cause instanceof SQLException e && e.getSQLState() != null) {
      return database(e);
    }
    return null;
  }

  private FailureAnalysis database(SQLException e) {
    String url = environment == null ? null : environment.getProperty("spring.datasource.url");
    String where =
        "the database at %s"
            .formatted(url == null ? "(no SPRING_DATASOURCE_URL)" : withoutSecrets(url));
    if (e.getSQLState().startsWith("08")
        || Causes.any(e, c -> c instanceof ConnectException || c instanceof UnknownHostException)) {
      return new FailureAnalysis(
          "Cannot reach %s: %s".formatted(where, Causes.describe(e)),
          "Check that it runs, that SPRING_DATASOURCE_URL is right and that the network lets this process through.",
          e);
    }
    if (e.getSQLState().startsWith("28") || e.getSQLState().equals("3D000")) {
      return new FailureAnalysis(
          "%s lets nobody in as configured: %s".formatted(where, Causes.describe(e)),
          "Check SPRING_DATASOURCE_USERNAME, SPRING_DATASOURCE_PASSWORD and the database's name.",
          e);
    }
    return new FailureAnalysis(
        "%s answered: %s (SQLSTATE %s)".formatted(where, Causes.describe(e), e.getSQLState()),
        "Check the migrations in sql/schema and the rights of SPRING_DATASOURCE_USERNAME.",
        e);
  }

  /** A JDBC URL may carry a password as a parameter. */
  static String withoutSecrets(String url) {
    return url.replaceAll("(?i)(password|user|token|secret)=[^&;]*", "$1=***")
        .replaceAll("//[^/@]*@", "//***@");
  }
}
