package io.twinbox.deploy;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import com.google.gson.JsonObject;
import io.twinbox.config.SettingsCheck;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.MethodSource;
import org.springframework.boot.convert.DurationStyle;
import org.springframework.core.io.FileSystemResource;
import org.springframework.core.io.support.PropertiesLoaderUtils;

/** The manifests: as the API takes them, and as we want them. */
class ManifestsTest {

  private static final Path K8S = Path.of("k8s");
  private static final Path TOPICS = Path.of("topics");

  private static final Properties SETTINGS = settings();

  private static Properties settings() {
    try {
      return PropertiesLoaderUtils.loadProperties(
          new FileSystemResource("src/main/resources/application.properties"));
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  /** Routes that stop, after the phase before them took all of its time. */
  private static Duration drain() {
    return DurationStyle.detectAndParse(
            SETTINGS.getProperty("spring.lifecycle.timeout-per-shutdown-phase"))
        .plusSeconds(Long.parseLong(SETTINGS.getProperty("camel.main.shutdown-timeout")));
  }

  private static Duration migrationsWait() {
    return DurationStyle.detectAndParse(SETTINGS.getProperty("twinbox.migrations-wait"));
  }

  static List<Path> overlays() throws IOException {
    try (Stream<Path> folders = Files.list(K8S.resolve("topics"))) {
      return Stream.concat(
              folders.sorted(), Stream.of(K8S.resolve("namespace"), K8S.resolve("alerts")))
          .toList();
    }
  }

  /** Files that are whole manifests: not kustomize's own, nor patches and values. */
  static List<Path> manifests() throws IOException {
    try (Stream<Path> files = Files.walk(K8S)) {
      return files
          .filter(file -> file.toString().endsWith(".yaml"))
          .filter(
              file ->
                  !List.of(
                          "kustomization.yaml",
                          "name-references.yaml",
                          "proxy.yaml",
                          "proxy-cronjob.yaml",
                          "identities.yaml")
                      .contains(file.getFileName().toString()))
          .sorted()
          .toList();
    }
  }

  private static List<JsonObject> rendered(Path overlay) {
    if (Kustomize.kubectl().isEmpty()) {
      System.out.println(
          "SKIPPED on kubectl: " + overlay + " is not rendered (no kubectl on the path)");
    }
    assumeTrue(Kustomize.kubectl().isPresent(), "no kubectl on the path");
    return Kustomize.render(overlay);
  }

  @ParameterizedTest
  @MethodSource("manifests")
  void everyManifestIsWhatTheApiTakes(Path file) {
    List<JsonObject> manifests = Kustomize.read(file);
    assertThat(manifests).isNotEmpty();
    assertThat(manifests).flatExtracting(ApiSchemas::faults).isEmpty();
  }

  @ParameterizedTest
  @MethodSource("overlays")
  void everyOverlayRendersToWhatTheApiTakes(Path overlay) {
    List<JsonObject> manifests = rendered(overlay);
    assertThat(manifests).isNotEmpty();
    assertThat(manifests).flatExtracting(ApiSchemas::faults).isEmpty();
  }

  @ParameterizedTest
  @MethodSource("overlays")
  void everyOverlayKeepsThePolicies(Path overlay) {
    assertThat(Policies.faults(rendered(overlay), drain(), migrationsWait())).isEmpty();
  }

  @ParameterizedTest
  @MethodSource("overlays")
  void everyOverlayIsInOneNamespaceAndLeavesNothingOpen(Path overlay) {
    for (JsonObject manifest : rendered(overlay)) {
      if (!Policies.text(manifest, "kind").equals("Namespace")) {
        assertThat(Policies.text(manifest, "metadata.namespace"))
            .as(Policies.text(manifest, "metadata.name"))
            .isEqualTo("twinbox");
      }
      assertThat(manifest.toString()).doesNotContain("set-by-the-overlay");
    }
  }

  @Test
  void topicsKeepApart() {
    List<JsonObject> manifests = rendered(K8S.resolve("topics/invoices"));
    for (JsonObject manifest : manifests) {
      assertThat(Policies.text(manifest, "metadata.name")).startsWith("invoices-");
      for (String selector :
          List.of(
              "spec.selector.matchLabels",
              "spec.podSelector.matchLabels",
              "spec.template.metadata.labels",
              "spec.jobTemplate.spec.template.metadata.labels")) {
        if (Policies.at(manifest, selector) instanceof JsonObject labels) {
          assertThat(labels.has("twinbox.io/topic"))
              .as(manifest.get("kind") + " " + selector)
              .isTrue();
        }
      }
    }
    // What scales must be found under the prefixed name.
    assertThat(
            manifests.stream()
                .filter(m -> m.getAsJsonObject("spec") != null)
                .map(m -> Policies.text(m, "spec.scaleTargetRef.name"))
                .filter(name -> !name.isEmpty()))
        .containsExactlyInAnyOrder("invoices-consume", "invoices-dispatch");
    assertThat(
            manifests.stream()
                .filter(m -> Policies.text(m, "kind").equals("ScaledObject"))
                .flatMap(m -> Policies.objects(m, "spec.triggers").stream())
                .map(trigger -> Policies.text(trigger, "authenticationRef.name")))
        .containsExactly("invoices-database-read");
  }

  /** A second topic as docs/deploy.md says: both folders copied, the name replaced. */
  @Test
  void twoTopicsOfANamespaceHaveNothingInCommonAndAlertOnce(@TempDir Path copy) throws IOException {
    for (Path tree : List.of(K8S, TOPICS)) {
      try (Stream<Path> files = Files.walk(tree)) {
        for (Path file : files.filter(Files::isRegularFile).toList()) {
          Path to = copy.resolve(file.toString().replace("invoices", "orders"));
          Files.createDirectories(to.getParent());
          Files.writeString(to, Files.readString(file).replace("invoices", "orders"));
        }
      }
    }
    List<JsonObject> invoices = rendered(K8S.resolve("topics/invoices"));
    List<JsonObject> orders = rendered(copy.resolve("k8s/topics/orders"));
    assertThat(orders).hasSameSizeAs(invoices);
    assertThat(orders).extracting(ManifestsTest::name).doesNotContainAnyElementsOf(names(invoices));
    // A rule sees the figures of all topics, so one per topic raises each alert for all of them.
    assertThat(Stream.of(invoices, orders, rendered(K8S.resolve("alerts"))).flatMap(List::stream))
        .filteredOn(m -> Policies.text(m, "kind").equals("PrometheusRule"))
        .extracting(ManifestsTest::name)
        .containsExactly("PrometheusRule twinbox/twinbox");
  }

  private static List<String> names(List<JsonObject> manifests) {
    return manifests.stream().map(ManifestsTest::name).toList();
  }

  private static String name(JsonObject manifest) {
    return "%s %s/%s"
        .formatted(
            Policies.text(manifest, "kind"),
            Policies.text(manifest, "metadata.namespace"),
            Policies.text(manifest, "metadata.name"));
  }

  @Test
  void changedQueryOrHandlerRollsThePodsOut() {
    List<JsonObject> manifests = rendered(K8S.resolve("topics/invoices"));
    JsonObject topic =
        manifests.stream()
            .filter(m -> Policies.text(m, "kind").equals("ConfigMap"))
            .filter(m -> Policies.text(m, "metadata.name").startsWith("invoices-topic-"))
            .findFirst()
            .orElseThrow();
    assertThat(Policies.text(topic, "metadata.name")).matches("invoices-topic-[0-9a-z]{10}");
    assertThat(topic.getAsJsonObject("data").get("query.sql").getAsString())
        .isEqualTo(read(TOPICS.resolve("invoices/query.sql")));
    // A ConfigMap holds 1 MiB.
    assertThat(topic.toString().length()).isLessThan(1_000_000);
  }

  /** A file that the topic's kustomization forgets would be missing in the pods. */
  @Test
  void everyFileOfATopicThatTheRouteSetsReadIsInItsConfigMap() throws IOException {
    try (Stream<Path> topics = Files.list(TOPICS)) {
      for (Path topic : topics.filter(Files::isDirectory).toList()) {
        JsonObject kustomization = Kustomize.read(topic.resolve("kustomization.yaml")).get(0);
        Set<String> listed = new TreeSet<>();
        Policies.objects(kustomization, "configMapGenerator")
            .get(0)
            .getAsJsonArray("files")
            .forEach(file -> listed.add(file.getAsString()));
        Set<String> there = new TreeSet<>();
        try (Stream<Path> files = Files.list(topic)) {
          files
              .filter(Files::isRegularFile)
              .map(file -> file.getFileName().toString())
              .filter(name -> !name.equals("kustomization.yaml") && !name.startsWith("business-"))
              .forEach(there::add);
        }
        assertThat(listed).as(topic.toString()).isEqualTo(there);
      }
    }
  }

  @Test
  void everySettingThatAManifestGivesExists() throws IOException {
    Set<String> known = new TreeSet<>();
    SETTINGS.stringPropertyNames().forEach(name -> known.add(SettingsCheck.variable(name)));
    Set<String> given = new TreeSet<>();
    for (Path file : manifests()) {
      for (JsonObject manifest : Kustomize.read(file)) {
        java.util.regex.Matcher name =
            java.util.regex.Pattern.compile("\"name\":\"(TWINBOX_[A-Z_]+)\"")
                .matcher(manifest.toString());
        while (name.find()) {
          given.add(name.group(1));
        }
      }
    }
    assertThat(given).contains("TWINBOX_ROUTES", "TWINBOX_MIGRATIONS", "TWINBOX_TOPIC_DIR");
    assertThat(known).containsAll(given);
  }

  /** Each line: a file, what stands there, what stands there instead, what is said about it. */
  @ParameterizedTest(name = "{0}: {2}")
  @CsvSource(
      delimiter = '|',
      quoteCharacter = '`',
      value = {
        "base/dispatch.yaml | replicas: 2 | replica: 2 | The field `replica` in the JSON string is not defined",
        "base/dispatch.yaml | replicas: 2 | replicas: two | NumberFormat",
        "base/dispatch.yaml | apps/v1 | apps/v1beta1 | no API apps/v1beta1 has this kind",
        "base/dispatch.yaml | periodSeconds: 5 | periodSecond: 5 | `periodSecond` in the JSON string is not defined",
        "base/dispatch.yaml | name: TWINBOX_ROUTES | nam: TWINBOX_ROUTES | `nam` in the JSON string is not defined",
        "base/dispatch.yaml | value: wait | value: true | value is true, which the API reads as \"true\"",
        "base/dispatch.yaml | image: twinbox | img: twinbox | `img` in the JSON string is not defined",
        "base/produce.yaml | concurrencyPolicy: Forbid | concurrency: Forbid | `concurrency` in the JSON string is not defined",
        "base/services.yaml | targetPort: management | target: management | `target` in the JSON string is not defined",
        "base/network-policies.yaml | cidr: 169.254.20.10/32 | cdr: 169.254.20.10/32 | `cdr` in the JSON string is not defined",
        "base/disruption-budgets.yaml | maxUnavailable: 1 | maxUnavail: 1 | `maxUnavail` in the JSON string is not defined",
        "components/hpa/consume.yaml | averageUtilization: 70 | averageUse: 70 | `averageUse` in the JSON string is not defined",
        "components/monitoring/pod-monitor.yaml | interval: 15s | intervall: 15s | Unrecognized field \"intervall\"",
        "alerts/rules.yaml | for: 2m | fore: 2m | Unrecognized field \"fore\"",
        "components/keda/dispatch.yaml | pollingInterval: 15 | pollInterval: 15 | spec.pollInterval is no field of it",
        "components/keda/dispatch.yaml | secretTargetRef | secretRef | spec.secretRef.parameter is no field of it",
        "cloud-run/produce-job.yaml | maxRetries: 1 | retries: 1 | spec.template.spec.template.spec.retries is no field of it",
      })
  void manifestWithAFaultIsRefused(String file, String there, String instead, String said)
      throws IOException {
    String text = Files.readString(K8S.resolve(file));
    assertThat(text).contains(there);
    List<String> faults = new ArrayList<>();
    Kustomize.read(text.replace(there, instead)).forEach(m -> faults.addAll(ApiSchemas.faults(m)));
    assertThat(faults).anyMatch(fault -> fault.contains(said));
  }

  @ParameterizedTest(name = "{0}: {2}")
  @CsvSource(
      delimiter = '|',
      value = {
        "dispatch | runAsNonRoot: true | runAsNonRoot: false | runAsNonRoot must be true",
        "dispatch | type: RuntimeDefault | type: Unconfined | seccompProfile.type must be RuntimeDefault",
        "dispatch | automountServiceAccountToken: false | automountServiceAccountToken: true | automountServiceAccountToken must be false",
        "dispatch | terminationGracePeriodSeconds: 70 | terminationGracePeriodSeconds: 30 | terminationGracePeriodSeconds must be at least 55",
        "dispatch | serviceAccountName: dispatch | serviceAccountName: default | must be a ServiceAccount of its own",
        "dispatch | readOnlyRootFilesystem: true | readOnlyRootFilesystem: false | readOnlyRootFilesystem must be true",
        "dispatch | allowPrivilegeEscalation: false | allowPrivilegeEscalation: true | allowPrivilegeEscalation must be false",
        "dispatch | - ALL | - NET_RAW | capabilities.drop must be [ALL]",
        "dispatch | image: twinbox:1 | image: twinbox:latest | must have a version or a digest",
        "dispatch | image: twinbox:1 | image: twinbox | must have a version or a digest",
        "dispatch | memory: 640Mi | ephemeral-storage: 1Gi | resources.limits.memory is missing",
        "dispatch | limits | claims | resources.limits.cpu is missing",
        "dispatch | readinessProbe | preStop | readinessProbe is missing",
        "dispatch | livenessProbe | preStop | livenessProbe is missing",
        "dispatch | failureThreshold: 210 | failureThreshold: 30 | startupProbe must give a start 360 s",
        "dispatch | maxUnavailable: 0 | maxUnavailable: 1 | maxUnavailable must be 0",
        "dispatch | topologySpreadConstraints | tolerations | topologySpreadConstraints is missing",
        "dispatch | sizeLimit: 64Mi | medium: Memory | an emptyDir needs a sizeLimit",
        "dispatch | name: environment | name: environ | there is no ConfigMap environ",
        "dispatch | app.kubernetes.io/component: dispatch | app.kubernetes.io/component: other | no PodDisruptionBudget selects its pods",
        "produce | runAsNonRoot: true | runAsNonRoot: false | CronJob produce: spec.securityContext.runAsNonRoot",
        "migrate | runAsNonRoot: true | runAsNonRoot: false | Job migrate: spec.securityContext.runAsNonRoot",
      })
  void workloadAgainstThePoliciesIsRefused(String name, String there, String instead, String said)
      throws IOException {
    String text =
        Files.readString(K8S.resolve("base/" + name + ".yaml"))
            .replace("image: twinbox", "image: twinbox:1");
    assertThat(text).contains(there);
    assertThat(policyFaults(text)).isEmpty();
    assertThat(policyFaults(text.replace(there, instead))).anyMatch(fault -> fault.contains(said));
  }

  @Test
  void passwordInAManifestIsRefused() throws IOException {
    String text =
        Files.readString(K8S.resolve("base/dispatch.yaml"))
            .replace("image: twinbox", "image: twinbox:1")
            .replace(
                "            - name: TWINBOX_ROUTES\n              value: dispatch",
                "            - name: SPRING_DATASOURCE_PASSWORD\n              value: secret");
    assertThat(policyFaults(text))
        .anyMatch(
            fault -> fault.contains("env SPRING_DATASOURCE_PASSWORD must come from a Secret"));
  }

  /** With what the base and an overlay bring beside it. */
  private static List<String> policyFaults(String workload) {
    List<JsonObject> all = new ArrayList<>(Kustomize.read(workload));
    for (String other :
        List.of("service-accounts.yaml", "disruption-budgets.yaml", "network-policies.yaml")) {
      all.addAll(Kustomize.read(K8S.resolve("base/" + other)));
    }
    all.addAll(
        Kustomize.read(
            """
            apiVersion: v1
            kind: ConfigMap
            metadata:
              name: topic
            ---
            apiVersion: v1
            kind: ConfigMap
            metadata:
              name: environment
            """));
    // What the base's kustomization adds to every pod.
    for (JsonObject manifest : all) {
      if (Policies.at(manifest, "spec.template.metadata.labels") instanceof JsonObject labels) {
        labels.addProperty("app.kubernetes.io/name", "twinbox");
      }
    }
    return Policies.faults(all, drain(), migrationsWait());
  }

  private static String read(Path file) {
    try {
      return Files.readString(file);
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }
}
