package io.twinbox.operate;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.google.pubsub.v1.PubsubMessage;
import com.sun.net.httpserver.HttpServer;
import io.grpc.Status;
import io.opentelemetry.api.OpenTelemetry;
import io.opentelemetry.api.common.AttributeKey;
import io.opentelemetry.api.trace.SpanKind;
import io.opentelemetry.api.trace.StatusCode;
import io.opentelemetry.sdk.trace.data.LinkData;
import io.opentelemetry.sdk.trace.data.SpanData;
import io.twinbox.config.StartupException;
import io.twinbox.local.LocalPostgres;
import io.twinbox.process.TwinboxProcess;
import io.twinbox.promises.PromiseTest;
import java.io.IOException;
import java.net.InetAddress;
import java.net.InetSocketAddress;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.HexFormat;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.TreeMap;
import java.util.UUID;
import java.util.concurrent.ConcurrentLinkedQueue;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.extension.ExtendWith;
import org.springframework.beans.factory.ListableBeanFactory;
import org.springframework.boot.test.system.CapturedOutput;
import org.springframework.boot.test.system.OutputCaptureExtension;

/** Events keep the trace they bring, and get nothing they did not bring. */
@ExtendWith(OutputCaptureExtension.class)
class TracesTest extends PromiseTest {

  private static final String TRACE = "4bf92f3577b34da6a3ce929d0e0e4736";
  private static final String SPAN = "00f067aa0ba902b7";
  private static final String TRACEPARENT = "00-" + TRACE + "-" + SPAN + "-01";

  private static final AttributeKey<String> OUTBOX_ID = AttributeKey.stringKey("outbox_id");
  private static final AttributeKey<String> OUTCOME = AttributeKey.stringKey("outcome");
  private static final AttributeKey<String> ERROR_TYPE = AttributeKey.stringKey("error.type");

  private void startTraced(String routes, String... settings) {
    start(
        routes,
        Stream.concat(
                Stream.of(
                    "twinbox.traces.enabled=true",
                    "otel.traces.exporter=memory",
                    "otel.bsp.schedule.delay=20"),
                Stream.of(settings))
            .toArray(String[]::new));
  }

  private static List<SpanData> spans(SpanKind kind) {
    return SpansInMemory.newest().getFinishedSpanItems().stream()
        .filter(span -> span.getKind() == kind)
        .toList();
  }

  private static List<String> outcomes() {
    return spans(SpanKind.CONSUMER).stream()
        .map(span -> span.getAttributes().get(OUTCOME))
        .toList();
  }

  private static List<SpanData> awaitProcessed(int spans) {
    eventually().until(() -> spans(SpanKind.CONSUMER).size() == spans);
    return spans(SpanKind.CONSUMER);
  }

  /** A message may be applied before the publisher has its answer, and its span first. */
  private static SpanData awaitSent() {
    eventually().until(() -> !spans(SpanKind.PRODUCER).isEmpty());
    return spans(SpanKind.PRODUCER).get(0);
  }

  @Test
  void publishIsLinkedToAnEventsTraceAndApplyContinuesIt() {
    createTopicAndSubscription();
    UUID id =
        put(
            "a secret payload",
            "{\"traceparent\": \"" + TRACEPARENT + "\", \"kind\": \"x\"}",
            null);
    startTraced("dispatch,consume");

    SpanData process = awaitProcessed(1).get(0);
    assertThat(process.getName()).isEqualTo("process " + SUBSCRIPTION);
    assertThat(process.getTraceId()).isEqualTo(TRACE);
    assertThat(process.getParentSpanId()).isEqualTo(SPAN);
    assertThat(process.getLinks())
        .extracting(link -> link.getSpanContext().getSpanId())
        .containsExactly(SPAN);
    assertThat(text(process))
        .containsEntry("outbox_id", id.toString())
        .containsEntry("outcome", "applied")
        .containsEntry("messaging.system", "gcp_pubsub")
        .containsEntry("messaging.destination.subscription.name", SUBSCRIPTION)
        .containsKey("messaging.message.id");
    assertThat(process.getStatus().getStatusCode()).isEqualTo(StatusCode.UNSET);

    SpanData send = awaitSent();
    assertThat(send.getName()).isEqualTo("send " + TOPIC);
    assertThat(send.getTraceId()).isNotEqualTo(TRACE);
    LinkData link = send.getLinks().get(0);
    assertThat(link.getSpanContext().getTraceId()).isEqualTo(TRACE);
    assertThat(link.getSpanContext().getSpanId()).isEqualTo(SPAN);
    assertThat(link.getAttributes().get(OUTBOX_ID)).isEqualTo(id.toString());
    assertThat(text(send))
        .containsEntry("messaging.system", "gcp_pubsub")
        .containsEntry("messaging.destination.name", TOPIC)
        .containsEntry("messaging.batch.message_count", "1")
        .containsEntry("published", "1");

    assertThat(published())
        .extracting(PubsubMessage::getAttributesMap)
        .containsExactly(
            Map.of("traceparent", TRACEPARENT, "kind", "x", "outbox_id", id.toString()));
    for (SpanData span : SpansInMemory.newest().getFinishedSpanItems()) {
      assertThat(span.toString()).doesNotContain("a secret payload");
    }
  }

  @Test
  void withoutTheSettingNothingOfOpenTelemetryIsThereAndMessagesAreTheSame() {
    createTopicAndSubscription();
    UUID traced = put("one", "{\"traceparent\": \"" + TRACEPARENT + "\"}", null);
    UUID plain = put("two");
    ListableBeanFactory beans = start("dispatch,consume", "otel.traces.exporter=memory");

    eventually().until(() -> effects().equals(List.of("one", "two")));
    assertThat(published())
        .extracting(PubsubMessage::getAttributesMap)
        .containsExactlyInAnyOrder(
            Map.of("traceparent", TRACEPARENT, "outbox_id", traced.toString()),
            Map.of("outbox_id", plain.toString()));
    assertThat(beans.getBeansOfType(OpenTelemetry.class)).isEmpty();
    assertThat(beans.getBeanDefinitionNames())
        .noneMatch(name -> name.toLowerCase(Locale.ROOT).contains("traces"))
        .noneMatch(name -> name.toLowerCase(Locale.ROOT).contains("opentelemetry"));
  }

  @Test
  void withoutTheSettingTheSdkIsNotEvenLoaded() throws IOException {
    Path loaded = topicDir.resolve("loaded");
    TwinboxProcess.Launch pod =
        TwinboxProcess.atFullSpeed("traces-off")
            .with(
                "TWINBOX_ROUTES",
                "maintain",
                "TOPIC_NAME",
                TOPIC,
                "SPRING_DATASOURCE_URL",
                databaseUrl,
                "SPRING_DATASOURCE_USERNAME",
                LocalPostgres.USER,
                "SPRING_DATASOURCE_PASSWORD",
                LocalPostgres.PASSWORD,
                "JAVA_TOOL_OPTIONS",
                "-Xlog:class+load:file=" + loaded);
    try (TwinboxProcess process = pod.start().ready()) {
      assertThat(Files.readString(loaded)).contains("io.twinbox.operate.StepWatch ");
    }
    // Spring Boot looks for the API, which Google's client brings in any case.
    assertThat(Files.readAllLines(loaded))
        .filteredOn(
            line ->
                line.contains("] io.opentelemetry.sdk.")
                    || line.contains("] io.opentelemetry.exporter.")
                    || line.contains("] io.twinbox.operate.Traces"))
        .isEmpty();
  }

  @Test
  void eventsWithoutATraceGetNoneAndWhatIsNoTraceparentIsIgnored() {
    createTopicAndSubscription();
    List<String> none =
        List.of(
            "",
            "nonsense",
            "00-" + TRACE + "-" + SPAN,
            "00-00000000000000000000000000000000-" + SPAN + "-01",
            "00-" + TRACE + "-0000000000000000-01",
            "ff-" + TRACE + "-" + SPAN + "-01",
            "00-" + "x".repeat(32) + "-" + SPAN + "-01",
            TRACEPARENT.toUpperCase(Locale.ROOT) + "é");
    none.forEach(value -> put("odd", "{\"traceparent\": \"" + value + "\"}", null));
    put("plain");
    startTraced("dispatch,consume");

    List<SpanData> processed = awaitProcessed(none.size() + 1);
    assertThat(outcomes()).containsOnly("applied");
    assertThat(processed)
        .allSatisfy(
            span -> {
              assertThat(span.getParentSpanContext().isValid()).isFalse();
              assertThat(span.getLinks()).isEmpty();
              assertThat(span.getTraceId()).isNotEqualTo(TRACE);
            });
    awaitSent();
    assertThat(spans(SpanKind.PRODUCER)).allSatisfy(span -> assertThat(span.getLinks()).isEmpty());
    assertThat(published())
        .filteredOn(message -> message.getData().toStringUtf8().equals("odd"))
        .extracting(message -> message.getAttributesOrThrow("traceparent"))
        .containsExactlyInAnyOrderElementsOf(none);
    assertThat(published())
        .filteredOn(message -> message.getData().toStringUtf8().equals("plain"))
        .singleElement()
        .satisfies(message -> assertThat(message.getAttributesMap()).containsOnlyKeys("outbox_id"));
  }

  @Test
  void outcomeOfEveryDeliveryIsSaid() throws IOException {
    createTopicAndSubscription();
    topicFile(
        "post.sql",
        """
        -- Fails for one payload.
        INSERT INTO effect (what) VALUES (nullif(convert_from(:#${body}, 'UTF8'), 'bad'))
        """);
    startTraced(
        "consume", "twinbox.consume.max-attempts=2", "twinbox.consume.replay-interval=50ms");
    publish("good", Map.of("outbox_id", "a", "traceparent", TRACEPARENT));
    awaitProcessed(1);
    publish("good", Map.of("outbox_id", "a", "traceparent", TRACEPARENT));
    awaitProcessed(2);
    publish("bad", Map.of("outbox_id", "b", "traceparent", TRACEPARENT));
    awaitProcessed(4);
    publish("without a key", Map.of());
    awaitProcessed(5);
    assertThat(outcomes())
        .containsExactly("applied", "duplicate", "failed", "dead_letter", "dead_letter");
    assertThat(spans(SpanKind.CONSUMER))
        .extracting(span -> span.getAttributes().get(ERROR_TYPE))
        .containsExactly(null, null, "handler", "handler", "message");
    assertThat(spans(SpanKind.CONSUMER))
        .extracting(span -> span.getStatus().getStatusCode() == StatusCode.ERROR)
        .containsExactly(false, false, true, true, true);

    // The cause is gone: the letter keeps its trace.
    jdbc.execute("ALTER TABLE effect ALTER what DROP NOT NULL");
    jdbc.queryForList("SELECT requested FROM inbox_replay('ledger', 'mended')");
    SpanData replayed = awaitProcessed(6).get(5);
    assertThat(text(replayed)).containsEntry("outcome", "applied").containsEntry("outbox_id", "b");
    assertThat(replayed.getTraceId()).isEqualTo(TRACE);
  }

  @Test
  void linksOfAClaimAreBoundedAndItsFailuresSaid() {
    createTopicAndSubscription();
    for (int i = 0; i < 5; i++) {
      put("event " + i, "{\"traceparent\": \"" + TRACEPARENT + "\"}", null);
    }
    try (var refused =
        pubSub
            .faults()
            .failPublishWhen(
                m -> m.getData().toStringUtf8().equals("event 3"), Status.INVALID_ARGUMENT)) {
      startTraced("dispatch", "otel.span.link.count.limit=3", "twinbox.dispatch.max-attempts=1");
      SpanData send = awaitSent();
      assertThat(send.getLinks()).hasSize(3);
      assertThat(send.getTotalRecordedLinks()).isEqualTo(5);
      assertThat(text(send))
          .containsEntry("messaging.batch.message_count", "5")
          .containsEntry("published", "4")
          .containsEntry("error.type", "INVALID_ARGUMENT");
      assertThat(send.getStatus().getStatusCode()).isEqualTo(StatusCode.ERROR);
    }
  }

  @Test
  void spansGoToTheCollectorThatOpenTelemetrysOwnSettingNames() throws IOException {
    ConcurrentLinkedQueue<String> received = new ConcurrentLinkedQueue<>();
    HttpServer collector =
        HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
    collector.createContext(
        "/v1/traces",
        exchange -> {
          received.add(
              exchange.getRequestHeaders().getFirst("Content-Type")
                  + " "
                  + HexFormat.of().formatHex(exchange.getRequestBody().readAllBytes()));
          exchange.sendResponseHeaders(200, -1);
          exchange.close();
        });
    collector.start();
    try {
      createTopicAndSubscription();
      put("one", "{\"traceparent\": \"" + TRACEPARENT + "\"}", null);
      start(
          "dispatch,consume",
          "twinbox.traces.enabled=true",
          "otel.bsp.schedule.delay=20",
          "otel.exporter.otlp.endpoint=http://127.0.0.1:" + collector.getAddress().getPort());
      eventually().until(() -> count("effect") == 1);
      stopAll();
      // What was not sent before is sent when the process stops: of both spans, in one or two
      // posts.
      assertThat(received)
          .isNotEmpty()
          .allMatch(post -> post.startsWith("application/x-protobuf "));
      String all = String.join(" ", received);
      assertThat(all.split(TRACE, -1).length - 1).isGreaterThanOrEqualTo(3);
      assertThat(all)
          .contains(HexFormat.of().formatHex(("send " + TOPIC).getBytes()))
          .contains(HexFormat.of().formatHex(("process " + SUBSCRIPTION).getBytes()));
    } finally {
      collector.stop(0);
    }
  }

  /** Each claim and each message has a span, and every post of two of them fails. */
  @Test
  void collectorThatIsNotThereHoldsNothingUpAndIsSaidInOneLine(CapturedOutput output) {
    createTopicAndSubscription();
    for (int i = 0; i < 20; i++) {
      put("event " + i, "{\"traceparent\": \"" + TRACEPARENT + "\"}", null);
    }
    start(
        "dispatch,consume",
        "twinbox.traces.enabled=true",
        "otel.bsp.schedule.delay=20",
        "otel.bsp.max.queue.size=4",
        "otel.bsp.max.export.batch.size=2",
        // Else the end of this test waits for the tries that are left.
        "otel.java.exporter.otlp.retry.disabled=true",
        "otel.exporter.otlp.endpoint=http://127.0.0.1:1");
    eventually().until(() -> count("effect") == 20 && backlog() == 0);
    assertThat(count("pubsub_outbox_due")).isZero();
    stopAll();
    assertThat(output.toString().lines().filter(line -> line.contains("spans were lost")))
        .singleElement()
        .asString()
        .contains("WARN", "because the collector did not take them: it cannot be reached.");
    assertThat(output).doesNotContain("\tat ", "Failed to export");
  }

  @Test
  void collectorThatRefusesIsSaidWithItsAnswer(CapturedOutput output) throws IOException {
    HttpServer collector =
        HttpServer.create(new InetSocketAddress(InetAddress.getLoopbackAddress(), 0), 0);
    collector.createContext(
        "/v1/traces",
        exchange -> {
          exchange.getRequestBody().readAllBytes();
          exchange.sendResponseHeaders(401, -1);
          exchange.close();
        });
    collector.start();
    try {
      createTopicAndSubscription();
      put("one");
      start(
          "dispatch,consume",
          "twinbox.traces.enabled=true",
          "otel.bsp.schedule.delay=20",
          "otel.exporter.otlp.endpoint=http://127.0.0.1:" + collector.getAddress().getPort());
      eventually().until(() -> count("effect") == 1);
      eventually().until(() -> output.toString().contains("spans were lost"));
      assertThat(output).contains("did not take them: HTTP 401.").doesNotContain("\tat ");
    } finally {
      stopAll();
      collector.stop(0);
    }
  }

  @Test
  void settingThatOpenTelemetryRefusesEndsTheStartWithWhatToDo() {
    createTopicAndSubscription();
    assertThatThrownBy(
            () ->
                startTraced(
                    "consume", "otel.traces.exporter=otlp", "otel.exporter.otlp.protocol=grpc"))
        .rootCause()
        .isInstanceOfSatisfying(
            StartupException.class,
            refusal -> {
              assertThat(refusal).hasMessageContaining("TWINBOX_TRACES_ENABLED");
              assertThat(refusal.remedy()).contains("OTEL_EXPORTER_OTLP_PROTOCOL=grpc");
            });
  }

  private static Map<String, String> text(SpanData span) {
    Map<String, String> text = new TreeMap<>();
    span.getAttributes().forEach((key, value) -> text.put(key.getKey(), value.toString()));
    return text;
  }
}
