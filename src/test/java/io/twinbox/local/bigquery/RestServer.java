package io.twinbox.local.bigquery;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.sun.net.httpserver.HttpExchange;
import com.sun.net.httpserver.HttpServer;
import java.io.IOException;
import java.io.InputStream;
import java.io.OutputStream;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.net.URI;
import java.net.URLDecoder;
import java.nio.charset.StandardCharsets;
import java.util.HashMap;
import java.util.Map;
import java.util.concurrent.ExecutorService;
import java.util.concurrent.Executors;
import java.util.concurrent.locks.LockSupport;
import java.util.zip.GZIPInputStream;

/** HTTP on the loopback interface: bodies, errors in Google's shape, and the injected faults. */
final class RestServer implements AutoCloseable {
  private static final int THREADS = 8;

  static {
    // Without it every answer on a kept connection waits 40 ms for a delayed acknowledgement.
    System.setProperty("sun.net.httpserver.nodelay", "true");
  }

  /** A request, decoded. */
  record Request(String method, String path, Map<String, String> parameters, JsonNode body) {}

  /** What answers requests. */
  interface Handler {
    Faults.Call callOf(Request request);

    /** The answer's JSON. */
    byte[] answer(Request request) throws IOException;
  }

  private final HttpServer server;
  private final ExecutorService threads =
      Executors.newFixedThreadPool(THREADS, Threads.named("local-bigquery-http"));
  private final Handler handler;
  private final Faults faults;

  RestServer(int port, Handler handler, Faults faults) throws IOException {
    this.handler = handler;
    this.faults = faults;
    server = HttpServer.create(new InetSocketAddress(InetAddress.getByName("127.0.0.1"), port), 64);
    server.setExecutor(threads);
    server.createContext("/", this::handle);
    server.start();
  }

  int port() {
    return server.getAddress().getPort();
  }

  private void handle(HttpExchange exchange) throws IOException {
    int status = 200;
    byte[] body;
    Faults.Fault fault = null;
    try {
      Request request = read(exchange);
      pause(faults.latency().toNanos());
      fault = faults.take(handler.callOf(request));
      if (fault instanceof Faults.Fault.Answer answer) {
        throw answer.error();
      }
      body = handler.answer(request);
    } catch (ApiError e) {
      status = e.status();
      body = Json.MAPPER.writeValueAsBytes(e.toResponse());
    } catch (RuntimeException e) {
      ApiError error = new ApiError(500, "internalError", null, "The local BigQuery failed: " + e);
      status = 500;
      body = Json.MAPPER.writeValueAsBytes(error.toResponse());
    }
    exchange.getResponseHeaders().set("Content-Type", "application/json; charset=UTF-8");
    exchange.sendResponseHeaders(status, body.length);
    OutputStream out = exchange.getResponseBody();
    if (fault instanceof Faults.Fault.CutConnection) {
      out.write(body, 0, body.length / 2);
      out.flush();
      // Closing before the promised length ends the connection, not only the answer.
      exchange.close();
      return;
    }
    out.write(body);
    exchange.close();
  }

  private static void pause(long nanos) {
    long end = System.nanoTime() + nanos;
    for (long left = nanos; left > 0; left = end - System.nanoTime()) {
      LockSupport.parkNanos(left);
    }
  }

  private static Request read(HttpExchange exchange) throws IOException {
    byte[] bytes;
    boolean gzip = "gzip".equals(exchange.getRequestHeaders().getFirst("Content-Encoding"));
    try (InputStream in =
        gzip ? new GZIPInputStream(exchange.getRequestBody()) : exchange.getRequestBody()) {
      bytes = in.readAllBytes();
    }
    JsonNode body =
        bytes.length == 0
            ? JsonNodeFactory.instance.objectNode()
            : Json.parse(new String(bytes, StandardCharsets.UTF_8));
    URI uri = exchange.getRequestURI();
    return new Request(
        exchange.getRequestMethod(), uri.getPath(), parameters(uri.getRawQuery()), body);
  }

  private static Map<String, String> parameters(String query) {
    Map<String, String> parameters = new HashMap<>();
    if (query != null) {
      for (String pair : query.split("&")) {
        int equals = pair.indexOf('=');
        String name = equals < 0 ? pair : pair.substring(0, equals);
        String value = equals < 0 ? "" : pair.substring(equals + 1);
        parameters.put(
            URLDecoder.decode(name, StandardCharsets.UTF_8),
            URLDecoder.decode(value, StandardCharsets.UTF_8));
      }
    }
    return parameters;
  }

  @Override
  public void close() {
    server.stop(0);
    threads.shutdownNow();
  }
}
