package io.twinbox.operate;

import static org.assertj.core.api.Assertions.assertThat;

import io.twinbox.promises.PromiseTest;
import java.io.IOException;
import java.net.URI;
import java.net.http.HttpClient;
import java.net.http.HttpRequest;
import java.net.http.HttpResponse;
import java.util.ArrayList;
import java.util.List;
import org.springframework.context.ConfigurableApplicationContext;

/** A test that asks Twinbox over its management port. */
abstract class ServingTest extends PromiseTest {

  int port;
  private final HttpClient http =
      HttpClient.newBuilder().followRedirects(HttpClient.Redirect.NEVER).build();

  /** Starts with ports of its own; the database is looked at all the time. */
  ConfigurableApplicationContext serve(String routes, String... settings) {
    List<String> all =
        new ArrayList<>(
            List.of(
                "server.port=0",
                "management.server.port=0",
                "spring.jmx.enabled=true",
                "twinbox.operate.sample-interval=100ms"));
    all.addAll(List.of(settings));
    ConfigurableApplicationContext context = start(routes, all.toArray(String[]::new));
    port = context.getEnvironment().getProperty("local.management.port", Integer.class);
    return context;
  }

  HttpRequest.Builder to(String path) {
    return HttpRequest.newBuilder(URI.create("http://127.0.0.1:" + port + path));
  }

  HttpResponse<String> send(HttpRequest.Builder request) {
    try {
      return http.send(request.build(), HttpResponse.BodyHandlers.ofString());
    } catch (IOException e) {
      throw new AssertionError(e);
    } catch (InterruptedException e) {
      Thread.currentThread().interrupt();
      throw new AssertionError(e);
    }
  }

  HttpResponse<String> get(String path, String... headers) {
    HttpRequest.Builder request = to(path);
    return send(headers.length == 0 ? request : request.headers(headers));
  }

  /** Needs {@code twinbox.operate.metrics-open=true}. */
  Scrape scrape() {
    HttpResponse<String> answer = get("/actuator/prometheus");
    assertThat(answer.statusCode()).isEqualTo(200);
    return Scrape.parse(answer.body());
  }

  /** Waits until a look at the database that began after this call has been taken. */
  void awaitLook(ConfigurableApplicationContext context) {
    long now = System.nanoTime();
    DatabaseSampler sampler = context.getBean(DatabaseSampler.class);
    eventually().until(() -> sampler.sample() != null && sampler.sample().takenAt() > now);
  }
}
