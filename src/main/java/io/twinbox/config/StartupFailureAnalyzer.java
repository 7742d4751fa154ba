package io.twinbox.config;

import java.net.ConnectException;
import java.net.UnknownHostException;
import java.sql.SQLException;
import java.time.Duration;
import java.util.stream.Collectors;
import org.apache.camel.FailedToCreateRouteException;
import org.apache.camel.FailedToStartRouteException;
import org.flywaydb.core.api.FlywayException;
import org.springframework.boot.context.properties.bind.BindException;
import org.springframework.boot.context.properties.bind.validation.BindValidationException;
import org.springframework.boot.context.properties.source.ConfigurationPropertyName;
import org.springframework.boot.diagnostics.FailureAnalysis;
import org.springframework.boot.diagnostics.FailureAnalyzer;
import org.springframework.boot.origin.Origin;
import org.springframework.boot.origin.OriginProvider;
import org.springframework.boot.origin.TextResourceOrigin;
import org.springframework.boot.web.server.PortInUseException;
import org.springframework.core.Ordered;
import org.springframework.core.annotation.Order;
import org.springframework.core.env.Environment;
import org.springframework.util.ClassUtils;
import org.springframework.validation.FieldError;
import org.springframework.validation.ObjectError;

/**
 * Says what keeps Twinbox from starting and what to do, instead of a stack trace. Registered in
 * {@code META-INF/spring.factories}. What it does not know keeps its stack trace: that is a fault
 * of Twinbox, not of its settings.
 */
@Order(Ordered.HIGHEST_PRECEDENCE)
public class StartupFailureAnalyzer implements FailureAnalyzer {

  private final Environment environment;

  public StartupFailureAnalyzer(Environment environment) {
    this.environment = environment;
  }

  @Override
  public FailureAnalysis analyze(Throwable failure) {
    // The inner cause says more than what it was wrapped in, with one exception: our own words.
    FailureAnalysis analysis = null;
    for (Throwable cause = failure; cause != null; cause = cause.getCause()) {
      FailureAnalysis found = analyzeCause(cause);
      if (found != null) {
        analysis = found;
      }
      if (cause instanceof StartupException || cause.getCause() == cause) {
        break;
      }
    }
    return analysis;
  }

  private FailureAnalysis analyzeCause(Throwable cause) {
    if (cause instanceof StartupException e) {
      return new FailureAnalysis(e.getMessage(), e.remedy(), e);
    }
    if (cause instanceof BindValidationException e) {
      return outOfRange(e);
    }
    if (cause instanceof BindException e && e.getProperty() != null) {
      return new FailureAnalysis(
          "%s is '%s', which cannot be used: %s."
              .formatted(
                  named(e.getName()), e.getProperty().getValue(), withoutStop(Causes.describe(e))),
          "%s%s; application.properties in the jar documents each setting with its unit and default."
              .formatted(form(e.getTarget().getType().resolve()), stands(e)),
          e);
    }
    if (cause instanceof PortInUseException e) {
      return new FailureAnalysis(
          "Port %d is in use by another process.".formatted(e.getPort()),
          "Set SERVER_PORT (web) or MANAGEMENT_SERVER_PORT (health) to a free port, or stop the other process.",
          e);
    }
    if (cause instanceof SQLException e && e.getSQLState() != null) {
      return database(e);
    }
    if (cause instanceof FlywayException e && !Causes.any(e, SQLException.class::isInstance)) {
      return new FailureAnalysis(
          "The tables of %s cannot be brought up to date: %s"
              .formatted(where(), Causes.describe(e)),
          "Look at its table twinbox_schema_history; this jar may be older than the database, or a migration may have been edited.",
          e);
    }
    if (cause instanceof FailedToCreateRouteException
        || cause instanceof FailedToStartRouteException) {
      return new FailureAnalysis(
          "A route cannot be built: %s".formatted(cause.getMessage()),
          "The cause is: %s. Correct the route or the setting that it names."
              .formatted(withoutStop(Causes.describe(cause))),
          cause);
    }
    return null;
  }

  /** What to write in its place. */
  private static String form(Class<?> type) {
    if (type == Duration.class) {
      return "Write a number and ms, s, m, h or d, for example 500ms, 30s, 15m";
    }
    if (type == boolean.class || type == Boolean.class) {
      return "Write true or false";
    }
    boolean number =
        type != null && Number.class.isAssignableFrom(ClassUtils.resolvePrimitiveIfNecessary(type));
    return number ? "Write a number" : "Correct it";
  }

  private static String stands(BindException e) {
    Origin origin = e.getProperty().getOrigin();
    if (origin instanceof OriginProvider wrapped && wrapped.getOrigin() != null) {
      origin = wrapped.getOrigin();
    }
    if (origin instanceof TextResourceOrigin text
        && text.getLocation() != null
        && text.getResource() != null) {
      return ", in line %d of %s"
          .formatted(text.getLocation().getLine() + 1, text.getResource().getFilename());
    }
    return origin == null ? "" : ", in " + origin;
  }

  private static FailureAnalysis outOfRange(BindValidationException e) {
    String faults =
        e.getValidationErrors().getAllErrors().stream()
            .map(error -> fault(e.getValidationErrors().getName().toString(), error))
            .sorted()
            .collect(Collectors.joining("; "));
    return new FailureAnalysis(
        faults + ".",
        "Correct it in the environment or in topic.properties; application.properties in the jar documents each setting with its range.",
        e);
  }

  private static String fault(String prefix, ObjectError error) {
    if (!(error instanceof FieldError field)) {
      return error.getDefaultMessage();
    }
    String dashed =
        prefix + "." + field.getField().replaceAll("([a-z0-9])([A-Z])", "$1-$2").toLowerCase();
    return "%s (%s) is '%s': %s"
        .formatted(
            SettingsCheck.variable(dashed),
            dashed,
            field.getRejectedValue(),
            field.getDefaultMessage());
  }

  private static String named(ConfigurationPropertyName name) {
    return "%s (%s)".formatted(SettingsCheck.variable(name.toString()), name);
  }

  private FailureAnalysis database(SQLException e) {
    if (e.getSQLState().startsWith("08")
        || Causes.any(e, c -> c instanceof ConnectException || c instanceof UnknownHostException)) {
      return new FailureAnalysis(
          "%s cannot be reached: %s.".formatted(where(), withoutStop(reason(e))),
          "Check that it runs, that SPRING_DATASOURCE_URL is right and that the network lets this process through.",
          e);
    }
    if (e.getSQLState().startsWith("28") || e.getSQLState().equals("3D000")) {
      return new FailureAnalysis(
          "%s lets nobody in as configured: %s.".formatted(where(), withoutStop(reason(e))),
          "Check SPRING_DATASOURCE_USERNAME, SPRING_DATASOURCE_PASSWORD and the database that SPRING_DATASOURCE_URL names.",
          e);
    }
    return new FailureAnalysis(
        "%s answered: %s (SQLSTATE %s)."
            .formatted(where(), withoutStop(reason(e)), e.getSQLState()),
        "Check the migrations in sql/schema and the rights of SPRING_DATASOURCE_USERNAME.",
        e);
  }

  private static String reason(SQLException e) {
    String reason =
        Causes.any(e, UnknownHostException.class::isInstance)
            ? "unknown host " + Causes.describe(e)
            : Causes.describe(e);
    return reason.replaceFirst("^FATAL: ", "");
  }

  private String where() {
    String url = environment == null ? null : environment.getProperty("spring.datasource.url");
    return "The database at %s"
        .formatted(url == null ? "(no SPRING_DATASOURCE_URL)" : withoutSecrets(url));
  }

  private static String withoutStop(String text) {
    return text.replaceAll("[.\\s]+$", "");
  }

  /** A JDBC URL may carry a password as a parameter. */
  static String withoutSecrets(String url) {
    return DatabaseUrl.shown(url);
  }
}
