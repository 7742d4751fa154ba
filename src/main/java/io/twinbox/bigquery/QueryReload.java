package io.twinbox.bigquery;

import io.twinbox.config.TwinboxProperties;
import io.twinbox.routes.Finding;
import io.twinbox.routes.RouteReload;
import io.twinbox.routes.RouteReload.Verdict;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.List;
import org.springframework.beans.factory.annotation.Value;
import org.springframework.boot.autoconfigure.condition.ConditionalOnProperty;
import org.springframework.stereotype.Component;

/** The topic's query as it was when it was last right: an edit counts once a dry run took it. */
@Component
@ConditionalOnProperty(name = "twinbox.reload", havingValue = "true")
class QueryReload implements RouteReload.Check {

  private static final String FILE = "query.sql";

  private final TwinboxProperties properties;
  private final String project;
  private final String emulatorHost;
  private final String topic;
  private volatile String good;

  QueryReload(
      TwinboxProperties properties,
      @Value("${google.cloud.project}") String project,
      @Value("${bigquery.emulator.host}") String emulatorHost,
      @Value("${topic.name}") String topic) {
    this.properties = properties;
    this.project = project;
    this.emulatorHost = emulatorHost;
    this.topic = topic;
    this.good = readOrNull();
  }

  private Path path() {
    return properties.topicDir().resolve(FILE);
  }

  private String readOrNull() {
    try {
      return Files.readString(path());
    } catch (IOException e) {
      return null;
    }
  }

  /** The query that runs take. */
  String text() throws IOException {
    return good == null ? Files.readString(path()) : good;
  }

  @Override
  public String file() {
    // Nobody runs it here otherwise.
    return properties.routeSets().contains("produce") ? FILE : "";
  }

  @Override
  public Verdict check(String edited) {
    if (edited == null || edited.isBlank()) {
      return wrong(
          edited == null ? "the file is missing" : "the file is empty",
          "Write one SELECT that returns event_key and payload.");
    }
    if (edited.equals(good)) {
      return new Verdict(List.of(), false);
    }
    try {
      Finding fault = QueryCheck.fault(project, emulatorHost, properties, topic, edited);
      if (fault != null) {
        return new Verdict(List.of(fault), false);
      }
      good = edited;
      return new Verdict(List.of(), true);
    } catch (QueryCheck.Unreachable | IOException e) {
      return wrong(
          "BigQuery could not be asked about it: " + QueryFault.words(path(), e.getMessage()),
          "Save it again when BigQuery answers.");
    }
  }

  private Verdict wrong(String problem, String remedy) {
    return new Verdict(
        List.of(
            new Finding(
                path().toString(), 1, null, null, problem.replaceFirst("\\.$", ""), remedy)),
        false);
  }
}
