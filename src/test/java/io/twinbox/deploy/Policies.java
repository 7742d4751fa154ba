package io.twinbox.deploy;

import com.google.gson.JsonArray;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Objects;
import java.util.Set;
import java.util.TreeSet;
import java.util.stream.Stream;

/** What the API would take and we do not: each fault names kind, name and field. */
final class Policies {

  private static final Set<String> WORKLOADS = Set.of("Deployment", "Job", "CronJob");

  private final List<JsonObject> manifests;
  private final Duration drain;
  private final Duration migrationsWait;
  private final List<String> faults = new ArrayList<>();

  private Policies(List<JsonObject> manifests, Duration drain, Duration migrationsWait) {
    this.manifests = manifests;
    this.drain = drain;
    this.migrationsWait = migrationsWait;
  }

  /**
   * @param manifests what is applied together
   * @param drain what a stop of Twinbox may take, by its settings
   * @param migrationsWait how long a start may wait for the migration job, by its settings
   */
  static List<String> faults(List<JsonObject> manifests, Duration drain, Duration migrationsWait) {
    Policies policies = new Policies(manifests, drain, migrationsWait);
    manifests.stream()
        .filter(manifest -> WORKLOADS.contains(text(manifest, "kind")))
        .forEach(policies::workload);
    return policies.faults;
  }

  private void workload(JsonObject manifest) {
    String what = text(manifest, "kind") + " " + text(manifest, "metadata.name") + ": ";
    JsonObject template =
        object(
            manifest,
            text(manifest, "kind").equals("CronJob")
                ? "spec.jobTemplate.spec.template"
                : "spec.template");
    JsonObject pod = object(template, "spec");
    refuse(
        !text(pod, "securityContext.runAsNonRoot").equals("true"),
        what + "spec.securityContext.runAsNonRoot must be true");
    refuse(
        !text(pod, "securityContext.seccompProfile.type").equals("RuntimeDefault"),
        what + "spec.securityContext.seccompProfile.type must be RuntimeDefault");
    refuse(
        !text(pod, "automountServiceAccountToken").equals("false"),
        what + "spec.automountServiceAccountToken must be false: nothing here calls Kubernetes");
    refuse(
        number(pod, "terminationGracePeriodSeconds") < drain.toSeconds(),
        what
            + "spec.terminationGracePeriodSeconds must be at least "
            + drain.toSeconds()
            + ", which a stop may take");
    refuse(
        !names("ServiceAccount").contains(text(pod, "serviceAccountName")),
        what + "spec.serviceAccountName must be a ServiceAccount of its own");
    Set<String> volumes = new TreeSet<>();
    for (JsonObject volume : objects(pod, "volumes")) {
      volumes.add(text(volume, "name"));
      String configMap = text(volume, "configMap.name");
      refuse(
          volume.has("configMap") && !names("ConfigMap").contains(configMap),
          what + "volume " + text(volume, "name") + ": there is no ConfigMap " + configMap);
      refuse(
          volume.has("emptyDir") && text(volume, "emptyDir.sizeLimit").isEmpty(),
          what + "volume " + text(volume, "name") + ": an emptyDir needs a sizeLimit");
      refuse(volume.has("hostPath"), what + "volume " + text(volume, "name") + ": no hostPath");
    }
    List<JsonObject> containers =
        Stream.concat(objects(pod, "initContainers").stream(), objects(pod, "containers").stream())
            .toList();
    for (JsonObject container : containers) {
      container(what + "container " + text(container, "name") + ": ", container, volumes);
    }
    if (text(manifest, "kind").equals("Deployment")) {
      deployment(what, manifest, template);
    }
  }

  private void container(String what, JsonObject container, Set<String> volumes) {
    String image = text(container, "image");
    refuse(
        !image.matches(".+(:(?!latest$)[\\w][\\w.-]*|@sha256:[0-9a-f]{64})"),
        what + "image " + image + " must have a version or a digest, and not latest");
    for (String resource :
        List.of("requests.cpu", "requests.memory", "limits.cpu", "limits.memory")) {
      refuse(
          text(container, "resources." + resource).isEmpty(),
          what + "resources." + resource + " is missing");
    }
    refuse(
        !text(container, "securityContext.readOnlyRootFilesystem").equals("true"),
        what + "securityContext.readOnlyRootFilesystem must be true");
    refuse(
        !text(container, "securityContext.allowPrivilegeEscalation").equals("false"),
        what + "securityContext.allowPrivilegeEscalation must be false");
    refuse(
        text(container, "securityContext.privileged").equals("true"),
        what + "must not be privileged");
    JsonElement drop = at(container, "securityContext.capabilities.drop");
    refuse(
        drop == null || !drop.toString().equals("[\"ALL\"]"),
        what + "securityContext.capabilities.drop must be [ALL]");
    refuse(
        at(container, "securityContext.capabilities.add") != null,
        what + "securityContext.capabilities.add must not be there");
    for (JsonObject variable : objects(container, "env")) {
      refuse(
          text(variable, "name").matches(".*(PASSWORD|SECRET|TOKEN|_KEY)") && variable.has("value"),
          what + "env " + text(variable, "name") + " must come from a Secret");
      String configMap = text(variable, "valueFrom.configMapKeyRef.name");
      refuse(
          !configMap.isEmpty() && !names("ConfigMap").contains(configMap),
          what + "env " + text(variable, "name") + ": there is no ConfigMap " + configMap);
    }
    for (JsonObject source : objects(container, "envFrom")) {
      refuse(
          !names("ConfigMap").contains(text(source, "configMapRef.name")),
          what + "envFrom: there is no ConfigMap " + text(source, "configMapRef.name"));
    }
    for (JsonObject mount : objects(container, "volumeMounts")) {
      refuse(
          !volumes.contains(text(mount, "name")),
          what + "volumeMounts: there is no volume " + text(mount, "name"));
    }
  }

  private void deployment(String what, JsonObject manifest, JsonObject template) {
    JsonObject main = objects(object(template, "spec"), "containers").get(0);
    for (String probe : List.of("startupProbe", "readinessProbe", "livenessProbe")) {
      refuse(
          !text(main, probe + ".httpGet.path").startsWith("/actuator/health/"),
          what + probe + " is missing or does not ask for the health");
    }
    refuse(
        number(main, "startupProbe.periodSeconds") * number(main, "startupProbe.failureThreshold")
            < migrationsWait.toSeconds() + 60,
        what
            + "startupProbe must give a start "
            + (migrationsWait.toSeconds() + 60)
            + " s: it may wait for the migration job");
    JsonObject labels = object(template, "metadata.labels");
    refuse(
        !text(manifest, "spec.strategy.rollingUpdate.maxUnavailable").equals("0"),
        what + "spec.strategy.rollingUpdate.maxUnavailable must be 0");
    refuse(
        !selected("NetworkPolicy", "spec.podSelector.matchLabels", labels),
        what + "no NetworkPolicy selects its pods");
    boolean several =
        !manifest.getAsJsonObject("spec").has("replicas") || number(manifest, "spec.replicas") > 1;
    if (several) {
      refuse(
          !selected("PodDisruptionBudget", "spec.selector.matchLabels", labels),
          what + "no PodDisruptionBudget selects its pods");
      refuse(
          objects(template, "spec.topologySpreadConstraints").isEmpty(),
          what + "spec.topologySpreadConstraints is missing");
    }
  }

  private boolean selected(String kind, String path, JsonObject labels) {
    return manifests.stream()
        .filter(manifest -> text(manifest, "kind").equals(kind))
        .map(manifest -> at(manifest, path))
        .filter(Objects::nonNull)
        .map(JsonElement::getAsJsonObject)
        .anyMatch(
            wanted ->
                wanted.size() > 0
                    && wanted.entrySet().stream()
                        .allMatch(label -> label.getValue().equals(labels.get(label.getKey()))));
  }

  private Set<String> names(String kind) {
    Set<String> names = new TreeSet<>();
    manifests.stream()
        .filter(manifest -> text(manifest, "kind").equals(kind))
        .forEach(manifest -> names.add(text(manifest, "metadata.name")));
    return names;
  }

  private void refuse(boolean wrong, String fault) {
    if (wrong) {
      faults.add(fault);
    }
  }

  /** A field by its path; null when it is not there. */
  static JsonElement at(JsonObject object, String path) {
    JsonElement value = object;
    for (String field : path.split("\\.")) {
      if (value == null || !value.isJsonObject()) {
        return null;
      }
      value = value.getAsJsonObject().get(field);
    }
    return value;
  }

  /** A field as text; empty when it is not there. */
  static String text(JsonObject object, String path) {
    JsonElement value = at(object, path);
    return value == null || !value.isJsonPrimitive() ? "" : value.getAsString();
  }

  private static long number(JsonObject object, String path) {
    String value = text(object, path);
    return value.matches("[0-9]+") ? Long.parseLong(value) : 0;
  }

  private static JsonObject object(JsonObject object, String path) {
    JsonElement value = at(object, path);
    return value == null ? new JsonObject() : value.getAsJsonObject();
  }

  static List<JsonObject> objects(JsonObject object, String path) {
    JsonElement value = at(object, path);
    List<JsonObject> objects = new ArrayList<>();
    if (value instanceof JsonArray array) {
      array.forEach(item -> objects.add(item.getAsJsonObject()));
    }
    return objects;
  }
}
