package io.twinbox.operate;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import io.twinbox.promises.PromiseTest;
import java.io.IOException;
import java.lang.management.ManagementFactory;
import java.time.Duration;
import java.util.Arrays;
import java.util.Map;
import java.util.UUID;
import java.util.stream.Collectors;
import javax.management.JMException;
import javax.management.MBeanAttributeInfo;
import javax.management.MBeanInfo;
import javax.management.MBeanOperationInfo;
import javax.management.MBeanParameterInfo;
import javax.management.MBeanServer;
import javax.management.ObjectName;
import org.junit.jupiter.api.Test;
import org.springframework.core.io.ClassPathResource;
import org.springframework.core.io.support.PropertiesLoaderUtils;

/** The repairs as a JMX console calls them. */
class RepairByJmxTest extends PromiseTest {

  private static final String OUTBOX = "io.twinbox:type=Outbox,topic=orders";
  private static final String INBOX = "io.twinbox:type=Inbox,consumer=ledger";
  private static final String PRODUCE = "io.twinbox:type=Produce,source=orders-source";
  private static final String MAINTAIN = "io.twinbox:type=Maintain";
  private static final ObjectMapper JSON = new ObjectMapper();

  private final MBeanServer server = ManagementFactory.getPlatformMBeanServer();

  private static final String[] ENABLED = {
    "spring.jmx.enabled=true",
    "twinbox.consume.max-attempts=1",
    "twinbox.consume.replay-interval=20ms"
  };

  /** Calls an operation with its parameters in order, as a console does. */
  private String call(String bean, String operation, Object... arguments) throws JMException {
    ObjectName name = new ObjectName(bean);
    MBeanOperationInfo info =
        Arrays.stream(server.getMBeanInfo(name).getOperations())
            .filter(o -> o.getName().equals(operation))
            .findFirst()
            .orElseThrow(() -> new AssertionError(bean + " has no operation " + operation));
    String[] types =
        Arrays.stream(info.getSignature()).map(MBeanParameterInfo::getType).toArray(String[]::new);
    return (String) server.invoke(name, operation, arguments, types);
  }

  private JsonNode list(String bean, String operation, Object... arguments) throws Exception {
    return JSON.readTree(call(bean, operation, arguments));
  }

  private void die(UUID id) {
    jdbc.update(
        """
        UPDATE pubsub_outbox_due
        SET dead_at = clock_timestamp(), attempts = 10, last_error = 'refused', claim_token = NULL, lock_id = NULL, locked_at = NULL
        WHERE seq = (SELECT seq FROM pubsub_outbox WHERE id = ?)
        """,
        id);
  }

  private String state(UUID id) {
    return jdbc.queryForObject(
        "SELECT state FROM pubsub_outbox_status WHERE id = ?", String.class, id);
  }

  @Test
  void beansAreThereWhereTheirRouteSetRunsAndNowhereElse() throws Exception {
    createTopicAndSubscription();
    start("maintain", ENABLED[0]);
    assertThat(server.queryNames(new ObjectName("io.twinbox:*"), null))
        .containsExactly(new ObjectName(MAINTAIN));
    start(
        "dispatch", ENABLED[0], "spring.jmx.unique-names=true", "spring.jmx.default-domain=second");
    assertThat(server.queryNames(new ObjectName("io.twinbox:*"), null))
        .containsExactlyInAnyOrder(
            new ObjectName(MAINTAIN), new ObjectName(OUTBOX), new ObjectName(PRODUCE));
  }

  @Test
  void beanOfAConsumerWithAnyNameIsThere() throws Exception {
    createTopicAndSubscription();
    start("consume", ENABLED[0], "twinbox.consumer=led,ger: \"a=b*\"");
    assertThat(server.queryNames(new ObjectName("io.twinbox:*"), null))
        .singleElement()
        .satisfies(
            name ->
                assertThat(ObjectName.unquote(name.getKeyProperty("consumer")))
                    .isEqualTo("led,ger: \"a=b*\""));
  }

  @Test
  void jmxIsOnByDefault() throws IOException {
    assertThat(
            PropertiesLoaderUtils.loadProperties(new ClassPathResource("application.properties"))
                .getProperty("spring.jmx.enabled"))
        .isEqualTo("true");
  }

  @Test
  void everyOperationAndParameterIsDescribed() throws Exception {
    createTopicAndSubscription();
    start("dispatch,consume,maintain", ENABLED);
    for (String bean : new String[] {OUTBOX, INBOX, PRODUCE, MAINTAIN}) {
      MBeanInfo info = server.getMBeanInfo(new ObjectName(bean));
      assertThat(info.getDescription()).contains("twinbox_audit");
      for (MBeanAttributeInfo attribute : info.getAttributes()) {
        assertThat(attribute.isWritable()).as(attribute.getName()).isFalse();
        assertThat(attribute.getDescription()).as(attribute.getName()).hasSizeGreaterThan(30);
      }
      assertThat(info.getOperations()).isNotEmpty();
      for (MBeanOperationInfo operation : info.getOperations()) {
        if ("getter".equals(operation.getDescriptor().getFieldValue("role"))) {
          continue;
        }
        assertThat(operation.getDescription()).as(operation.getName()).hasSizeGreaterThan(60);
        for (MBeanParameterInfo parameter : operation.getSignature()) {
          assertThat(parameter.getName()).as(operation.getName()).doesNotMatch("p[0-9]+");
          assertThat(parameter.getDescription())
              .as(operation.getName() + " " + parameter.getName())
              .hasSizeGreaterThan(15);
        }
        boolean changes =
            !operation.getName().startsWith("list") && !operation.getName().equals("backlog");
        assertThat(
                Arrays.stream(operation.getSignature())
                    .map(MBeanParameterInfo::getName)
                    .collect(Collectors.toSet())
                    .contains("who"))
            .as(operation.getName())
            .isEqualTo(changes);
      }
    }
  }

  @Test
  void outboxIsRepaired() throws Exception {
    // Events are held back while the topic has no subscription.
    pubSub.createTopic(PROJECT, TOPIC);
    start("dispatch", ENABLED[0]);
    UUID one = put("one", "{\"type\": \"a\"}", null);
    UUID two = put("two");
    UUID three = put("three");
    UUID four = put("four");
    for (UUID id : new UUID[] {one, two, three, four}) {
      eventually()
          .until(
              () -> {
                die(id);
                return "dead".equals(state(id));
              });
    }
    JsonNode dead = list(OUTBOX, "listDead", "REFUSED", "0 seconds", 0);
    assertThat(dead).hasSize(4);
    assertThat(dead.get(0).get("id").asText()).isEqualTo(one.toString());
    assertThat(dead.get(0).get("last_error").asText()).isEqualTo("refused");
    assertThat(dead.get(0).get("dead_at").asText()).matches("\\d{4}-\\d\\d-\\d\\dT.*");
    assertThat(list(OUTBOX, "listDead", "", "", 3)).hasSize(3);
    assertThat(list(OUTBOX, "listDead", "other", null, 0)).isEmpty();
    JsonNode backlog = list(OUTBOX, "backlog");
    assertThat(backlog.get(0).get("topic_name").asText()).isEqualTo(TOPIC);
    assertThat(backlog.get(0).get("dead").asInt()).isEqualTo(4);

    assertThat(call(OUTBOX, "discardIds", " " + one + "\n" + two + ", ", "unwanted", "mia"))
        .isEqualTo("Discarded: 2.");
    assertThat(call(OUTBOX, "replayIds", three.toString(), "mended", "mia"))
        .isEqualTo("Queued again: 1.");
    assertThat(call(OUTBOX, "replayMatching", "", "", 0, 0, "", "mended", "mia"))
        .startsWith("Queued again: 1. The last one is due at 2")
        .endsWith("No other dead event matches.");
    assertThat(state(one)).isEqualTo("discarded");
    pubSub.createSubscription(PROJECT, SUBSCRIPTION, TOPIC);
    eventually().until(() -> "published".equals(state(four)) && "published".equals(state(three)));

    assertThat(
            call(
                OUTBOX,
                "republish",
                "2020-01-01T00:00:00Z",
                "2100-01-01 00:00:00+01:00",
                0,
                0,
                "",
                "lost",
                "mia"))
        .startsWith("Queued again: 2. Were queued already: 0. Had no payload any more: 0. The last")
        .endsWith("The span is done.");
    assertThat(call(OUTBOX, "republishIds", two.toString(), "by mistake", "mia"))
        .startsWith("Queued again: 1.");
    eventually().until(() -> published().size() == 5 && count("pubsub_outbox_due") == 0);
    assertThat(publishedTexts()).containsExactlyInAnyOrder("three", "four", "three", "four", "two");

    JsonNode repairs = list(OUTBOX, "listRepairs", 0);
    assertThat(repairs).hasSize(5).allMatch(r -> r.get("who").asText().equals("mia"));
    assertThat(repairs.get(0).get("action").asText()).isEqualTo("outbox_republish_ids");
    assertThat(repairs.get(4).get("reason").asText()).isEqualTo("unwanted");
  }

  @Test
  void discardingByFilterTellsHowMany() throws Exception {
    createTopicAndSubscription();
    UUID one = put("one");
    UUID two = put("two");
    die(one);
    die(two);
    start("dispatch", ENABLED[0]);
    assertThat(call(OUTBOX, "discardMatching", "refused", "", 1, "r", "mia"))
        .isEqualTo("Discarded: 1. More events match: call again.");
    assertThat(call(OUTBOX, "discardMatching", "refused", "", 0, "r", "mia"))
        .isEqualTo("Discarded: 1. No other dead event matches.");
    assertThat(state(two)).isEqualTo("discarded");
  }

  @Test
  void inboxIsRepaired() throws Exception {
    createTopicAndSubscription();
    topicFile(
        "post.sql",
        """
        -- Posts, which fails while the table is another one.
        INSERT INTO effect (what) VALUES (convert_from(:#${body}, 'UTF8'))
        """);
    jdbc.execute("ALTER TABLE effect RENAME TO hidden");
    start("consume", ENABLED);
    publish("one", Map.of("outbox_id", "k1"));
    publish("two", Map.of("outbox_id", "k2"));
    publish("three", Map.of("outbox_id", "k3"));
    publish("keyless", Map.of());
    eventually().until(() -> count("transactional_inbox_dead_letter") == 4 && backlog() == 0);
    jdbc.execute("ALTER TABLE hidden RENAME TO effect");

    JsonNode dead = list(INBOX, "listDead", "effect", "", 0);
    assertThat(dead).hasSize(3);
    assertThat(dead.get(0).get("reason").asText()).contains("effect");
    assertThat(dead.get(0).get("applied").asBoolean()).isFalse();
    long discarded = idOf("k1");
    assertThat(call(INBOX, "discardIds", String.valueOf(discarded), "unwanted", "mia"))
        .isEqualTo("Discarded: 1.");
    assertThat(call(INBOX, "replayIds", String.valueOf(idOf("k2")), "mended", "mia"))
        .isEqualTo("Replays asked for: 1.");
    eventually().until(() -> count("effect") == 1);
    long keyless =
        jdbc.queryForObject(
            "SELECT id FROM transactional_inbox_dead_letter WHERE idempotency_key IS NULL",
            Long.class);
    assertThat(call(INBOX, "assignKey", keyless, "k4", "from its sender", "mia"))
        .contains("has its key");
    assertThat(call(INBOX, "replayMatching", "", "", 0, "mended", "mia"))
        .isEqualTo("Replays asked for: 2. No other letter matches.");
    eventually().until(() -> list(INBOX, "listDead", "", "", 0).isEmpty());
    assertThat(effects()).containsExactly("keyless", "three", "two");

    JsonNode repairs = list(INBOX, "listRepairs", 0);
    assertThat(repairs).hasSize(4).allMatch(r -> r.get("who").asText().equals("mia"));
    assertThat(repairs.get(0).get("action").asText()).isEqualTo("inbox_replay");
  }

  private long idOf(String key) {
    return jdbc.queryForObject(
        "SELECT id FROM transactional_inbox_dead_letter WHERE idempotency_key = ?",
        Long.class,
        key);
  }

  /** The exception is the JDK's own: a console has none of our classes. */
  @Test
  void wrongCallsAnswerWithASentence() {
    createTopicAndSubscription();
    start("dispatch,consume", ENABLED);
    UUID unknown = UUID.randomUUID();
    refused("who is missing", OUTBOX, "replayIds", unknown.toString(), "r", " ");
    refused("reason is missing", OUTBOX, "replayIds", unknown.toString(), "", "mia");
    refused(
        unknown + " is unknown. Only dead", OUTBOX, "replayIds", unknown.toString(), "r", "mia");
    refused("no ids given", OUTBOX, "discardIds", " ", "r", "mia");
    refused("invalid input syntax for type uuid", OUTBOX, "discardIds", "4711", "r", "mia");
    refused("no dead event that matches", OUTBOX, "replayMatching", "", "", 0, 0, "", "r", "mia");
    refused("invalid input syntax for type interval", OUTBOX, "listDead", "", "yesterday", 0);
    refused(
        "from 'yesterday' is no time with a zone",
        OUTBOX,
        "republish",
        "yesterday",
        "2026-01-01T00:00:00Z",
        0,
        0,
        "",
        "r",
        "mia");
    refused(
        "no span of time", OUTBOX, "republish", "", "2026-01-01T00:00:00Z", 0, 0, "", "r", "mia");
    refused("4711 is unknown", INBOX, "replayIds", "4711", "r", "mia");
    refused("4711 is unknown", INBOX, "assignKey", 4711L, "k", "r", "mia");
    assertThat(count("twinbox_audit")).isZero();
  }

  private void refused(String sentence, String bean, String operation, Object... arguments) {
    assertThatThrownBy(() -> call(bean, operation, arguments))
        .as(operation)
        .cause()
        .isExactlyInstanceOf(IllegalArgumentException.class)
        .hasNoCause()
        .hasMessageContaining(sentence)
        .extracting(Throwable::getMessage)
        .asString()
        .doesNotContain("PL/pgSQL")
        .doesNotContain("SELECT ");
  }

  private Object attribute(String bean, String name) throws JMException {
    return server.getAttribute(new ObjectName(bean), name);
  }

  @Test
  void figuresAreShownPerTopicAndConsumer() throws Exception {
    pubSub.createTopic(PROJECT, TOPIC);
    start("dispatch,consume", ENABLED[0], ENABLED[1], "twinbox.operate.sample-interval=50ms");
    UUID dead = put("dead");
    put("due");
    put("due too");
    eventually()
        .until(
            () -> {
              die(dead);
              return Long.valueOf(2).equals(attribute(OUTBOX, "Due"))
                  && Long.valueOf(1).equals(attribute(OUTBOX, "Dead"));
            });
    assertThat(attribute(OUTBOX, "Trouble")).asString().contains("no subscription");
    assertThat(attribute(OUTBOX, "Waiting")).isEqualTo(0L);
    assertThat(attribute(OUTBOX, "InFlight")).isEqualTo(0L);
    eventually().until(() -> (long) attribute(OUTBOX, "OldestDueSeconds") >= 1);
    pubSub.createSubscription(PROJECT, SUBSCRIPTION, TOPIC);
    eventually().until(() -> count("effect") == 2);
    eventually().until(() -> Long.valueOf(0).equals(attribute(OUTBOX, "Due")));
    assertThat(attribute(OUTBOX, "Trouble")).isNull();

    assertThat(attribute(INBOX, "Dead")).isEqualTo(0L);
    publish("keyless", Map.of());
    eventually().until(() -> Long.valueOf(1).equals(attribute(INBOX, "Dead")));
    assertThat(attribute(INBOX, "LastError")).asString().contains("outbox_id");
    assertThat((double) attribute(INBOX, "SampleAgeSeconds")).isBetween(0.0, 30.0);
  }

  @Test
  void aPodIsPausedAndResumed() throws Exception {
    createTopicAndSubscription();
    start("dispatch,consume", ENABLED);
    refused("who is missing", OUTBOX, "pause", "r", "");
    refused("reason is missing", INBOX, "pause", "", "mia");
    assertThat(call(OUTBOX, "pause", "INC-1", "mia"))
        .startsWith("Paused in pod pod-0: dispatch, dispatch-ordered, dispatch-suspects.");
    assertThat(attribute(OUTBOX, "Paused")).isEqualTo(true);
    assertThat(call(INBOX, "pause", "INC-1", "mia")).startsWith("Paused in pod pod-0: consume.");
    put("one");
    put("two", "{}", "key");
    publish("three", Map.of("outbox_id", "k3"));
    assertThat(call(INBOX, "pause", "INC-1", "mia")).contains("nothing, it was so already");
    eventually()
        .during(Duration.ofMillis(600))
        .until(() -> published().size() == 1 && count("effect") == 0);
    assertThat(count("pubsub_outbox_due")).isEqualTo(2);

    assertThat(call(OUTBOX, "resume", "INC-1 is over", "mia"))
        .startsWith("Resumed in pod pod-0: dispatch, dispatch-ordered, dispatch-suspects.");
    eventually().until(() -> published().size() == 3);
    assertThat(count("effect")).isZero();
    assertThat(call(INBOX, "resume", "INC-1 is over", "mia"))
        .startsWith("Resumed in pod pod-0: consume.");
    eventually().until(() -> count("effect") == 3);
    assertThat(attribute(INBOX, "Paused")).isEqualTo(false);
    assertThat(
            jdbc.queryForList(
                "SELECT action || ' ' || who || ' ' || (detail ->> 'pod') FROM twinbox_audit ORDER BY id",
                String.class))
        .containsExactly(
            "pause mia pod-0",
            "pause mia pod-0",
            "pause mia pod-0",
            "resume mia pod-0",
            "resume mia pod-0");
  }

  @Test
  void claimsOfAPodThatIsGoneAreReleased() throws Exception {
    createTopicAndSubscription();
    UUID one = put("one");
    put("two");
    jdbc.update(
        "UPDATE pubsub_outbox_due SET lock_id = 'gone', claim_token = gen_random_uuid(), locked_at = now(), next_retry_at = now() + interval '1 day'");
    start("dispatch", ENABLED[0]);
    refused("pod other holds no event", OUTBOX, "releaseClaims", "other", "r", "mia");
    refused("pod is missing", OUTBOX, "releaseClaims", " ", "r", "mia");
    assertThat(state(one)).isEqualTo("claimed");
    assertThat(call(OUTBOX, "releaseClaims", "gone", "its node died", "mia"))
        .isEqualTo("Due again: 2.");
    eventually().until(() -> published().size() == 2);
    assertThat(list(OUTBOX, "listRepairs", 0).get(0).get("detail").toString()).contains("gone");
    MBeanOperationInfo release =
        Arrays.stream(server.getMBeanInfo(new ObjectName(OUTBOX)).getOperations())
            .filter(o -> o.getName().equals("releaseClaims"))
            .findFirst()
            .orElseThrow();
    assertThat(release.getDescription()).contains("published TWICE");
  }

  @Test
  void aWatermarkIsSet() throws Exception {
    createTopicAndSubscription();
    start("dispatch", ENABLED[0]);
    assertThat(call(PRODUCE, "setWatermark", "2026-01-31T09:00:00Z", "late rows", "mia"))
        .isEqualTo("The watermark was not set and is 2026-01-31T09:00:00Z now.");
    assertThat(call(PRODUCE, "setWatermark", "2026-01-30T09:00:00Z", "later rows", "mia"))
        .isEqualTo("The watermark was 2026-01-31T09:00:00Z and is 2026-01-30T09:00:00Z now.");
    refused("is no TIMESTAMP", PRODUCE, "setWatermark", "yesterday", "r", "mia");
    refused("who is missing", PRODUCE, "setWatermark", "2026-01-30T09:00:00Z", "r", "");
    JsonNode watermark = list(PRODUCE, "listWatermark").get(0);
    assertThat(watermark.get("value").asText()).isEqualTo("2026-01-30T09:00:00Z");
    assertThat(watermark.get("set_by").asText()).isEqualTo("mia");
    assertThat(list(PRODUCE, "listRuns", 0)).isEmpty();
  }

  @Test
  void retentionRunsNow() throws Exception {
    put("old");
    put("young");
    jdbc.update("DELETE FROM pubsub_outbox_due");
    start("maintain", ENABLED[0], "twinbox.maintain.interval=1d");
    // Only now: the first clean-up runs by itself at the start.
    jdbc.update(
        "UPDATE pubsub_outbox SET created_at = now() - interval '60 days' WHERE payload = 'old'");
    jdbc.update(
        "INSERT INTO pubsub_outbox_published SELECT id, topic_name, created_at, '1', payload_hash FROM pubsub_outbox");
    refused("reason is missing", MAINTAIN, "runRetention", "", "mia");
    assertThat(call(MAINTAIN, "runRetention", "disk is full", "mia"))
        .isEqualTo("Deleted: 1. Nothing else is old enough.");
    assertThat(count("pubsub_outbox")).isEqualTo(1);
    assertThat(
            jdbc.queryForObject(
                "SELECT action || ' ' || rows || ' ' || reason FROM twinbox_audit", String.class))
        .isEqualTo("run_retention 1 disk is full");
  }
}
