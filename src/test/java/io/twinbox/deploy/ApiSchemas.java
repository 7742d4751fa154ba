package io.twinbox.deploy;

import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.MapperFeature;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.introspect.Annotated;
import com.fasterxml.jackson.databind.introspect.JacksonAnnotationIntrospector;
import com.fasterxml.jackson.databind.json.JsonMapper;
import com.google.gson.JsonElement;
import com.google.gson.JsonObject;
import com.google.gson.JsonParser;
import io.fabric8.openshift.api.model.monitoring.v1.PodMonitor;
import io.fabric8.openshift.api.model.monitoring.v1.PrometheusRule;
import io.kubernetes.client.openapi.JSON;
import java.util.ArrayList;
import java.util.List;
import java.util.Map;

/**
 * Whether a manifest is what its API takes, field by field: an unknown field, a missing one and a
 * value of another type are faults.
 *
 * <p>Kubernetes' own kinds by the models that its Java client generates from the API's OpenAPI
 * document (1.33), the Prometheus Operator's by those generated from its CRDs. No such models are
 * published for KEDA's and Cloud Run's kinds: of those the fields that we use are written down
 * here.
 */
final class ApiSchemas {

  private static final Map<String, String> KUBERNETES =
      Map.ofEntries(
          Map.entry("Namespace", "v1"),
          Map.entry("ServiceAccount", "v1"),
          Map.entry("Service", "v1"),
          Map.entry("ConfigMap", "v1"),
          Map.entry("Secret", "v1"),
          Map.entry("Deployment", "apps/v1"),
          Map.entry("Job", "batch/v1"),
          Map.entry("CronJob", "batch/v1"),
          Map.entry("PodDisruptionBudget", "policy/v1"),
          Map.entry("NetworkPolicy", "networking.k8s.io/v1"),
          Map.entry("HorizontalPodAutoscaler", "autoscaling/v2"));

  private static final Map<String, Class<?>> MONITORING =
      Map.of("PodMonitor", PodMonitor.class, "PrometheusRule", PrometheusRule.class);

  /** The models take unknown fields into a map of their own, unless told not to. */
  private static final ObjectMapper STRICT =
      JsonMapper.builder()
          .annotationIntrospector(
              new JacksonAnnotationIntrospector() {
                @Override
                public Boolean hasAnySetter(Annotated annotated) {
                  return false;
                }
              })
          .enable(DeserializationFeature.FAIL_ON_UNKNOWN_PROPERTIES)
          .disable(MapperFeature.ALLOW_COERCION_OF_SCALARS)
          .build();

  /**
   * Fields of KEDA's kinds (keda.sh/v1alpha1, KEDA 2.16's documentation), as far as we use them.
   */
  private static final Map<String, List<String>> KEDA =
      Map.of(
          "ScaledObject",
          List.of(
              "spec.scaleTargetRef.name",
              "spec.minReplicaCount",
              "spec.maxReplicaCount",
              "spec.pollingInterval",
              "spec.cooldownPeriod",
              "spec.fallback.failureThreshold",
              "spec.fallback.replicas",
              "spec.advanced.horizontalPodAutoscalerConfig.behavior.scaleDown.stabilizationWindowSeconds",
              "spec.triggers.type",
              "spec.triggers.metadata.targetQueryValue",
              "spec.triggers.metadata.query",
              "spec.triggers.authenticationRef.name"),
          "TriggerAuthentication",
          List.of(
              "spec.secretTargetRef.parameter",
              "spec.secretTargetRef.name",
              "spec.secretTargetRef.key"));

  /** Fields of a Cloud Run job (run.googleapis.com/v1, Job), as far as we use them. */
  private static final List<String> CLOUD_RUN =
      List.of(
          "spec.template.metadata.annotations.run.googleapis.com/network-interfaces",
          "spec.template.metadata.annotations.run.googleapis.com/vpc-access-egress",
          "spec.template.metadata.annotations.run.googleapis.com/execution-environment",
          "spec.template.spec.taskCount",
          "spec.template.spec.parallelism",
          "spec.template.spec.template.spec.serviceAccountName",
          "spec.template.spec.template.spec.maxRetries",
          "spec.template.spec.template.spec.timeoutSeconds",
          "spec.template.spec.template.spec.containers.name",
          "spec.template.spec.template.spec.containers.image",
          "spec.template.spec.template.spec.containers.env.name",
          "spec.template.spec.template.spec.containers.env.value",
          "spec.template.spec.template.spec.containers.env.valueFrom.secretKeyRef.name",
          "spec.template.spec.template.spec.containers.env.valueFrom.secretKeyRef.key",
          "spec.template.spec.template.spec.containers.resources.limits.cpu",
          "spec.template.spec.template.spec.containers.resources.limits.memory",
          "spec.template.spec.template.spec.containers.volumeMounts.name",
          "spec.template.spec.template.spec.containers.volumeMounts.mountPath",
          "spec.template.spec.template.spec.volumes.name",
          "spec.template.spec.template.spec.volumes.csi.driver",
          "spec.template.spec.template.spec.volumes.csi.readOnly",
          "spec.template.spec.template.spec.volumes.csi.volumeAttributes.bucketName");

  private ApiSchemas() {}

  /** What the API would refuse, each with the kind and name of the manifest. */
  static List<String> faults(JsonObject manifest) {
    String kind = text(manifest, "kind");
    String api = text(manifest, "apiVersion");
    String what = kind + " " + text(manifest.getAsJsonObject("metadata"), "name") + ": ";
    List<String> faults = new ArrayList<>();
    if (api.equals(KUBERNETES.get(kind))) {
      kubernetes(manifest, kind, api).forEach(fault -> faults.add(what + fault));
    } else if (api.equals("monitoring.coreos.com/v1") && MONITORING.containsKey(kind)) {
      monitoring(manifest, kind).forEach(fault -> faults.add(what + fault));
    } else if (api.equals("keda.sh/v1alpha1") && KEDA.containsKey(kind)) {
      fields(manifest, KEDA.get(kind)).forEach(fault -> faults.add(what + fault));
    } else if (api.equals("run.googleapis.com/v1") && kind.equals("Job")) {
      fields(manifest, CLOUD_RUN).forEach(fault -> faults.add(what + fault));
    } else {
      faults.add(what + "no API " + api + " has this kind");
    }
    return faults;
  }

  private static List<String> kubernetes(JsonObject manifest, String kind, String api) {
    String version = api.substring(api.indexOf('/') + 1);
    try {
      Class<?> model =
          Class.forName(
              "io.kubernetes.client.openapi.models."
                  + version.substring(0, 1).toUpperCase()
                  + version.substring(1)
                  + kind);
      Object read = JSON.deserialize(manifest.toString(), model);
      List<String> faults = new ArrayList<>();
      differences(manifest, JsonParser.parseString(JSON.serialize(read)), kind, faults);
      return faults;
    } catch (ClassNotFoundException e) {
      throw new IllegalStateException(e);
    } catch (RuntimeException e) {
      return List.of(e.getMessage());
    }
  }

  private static List<String> monitoring(JsonObject manifest, String kind) {
    try {
      STRICT.readValue(manifest.toString(), MONITORING.get(kind));
      return List.of();
    } catch (Exception e) {
      return List.of(e.getMessage());
    }
  }

  /**
   * What is not there any more, or is another value, after a model has read it: a number where the
   * API wants a text, for example, which the model turns into one and the API does not.
   */
  private static void differences(
      JsonElement given, JsonElement read, String path, List<String> faults) {
    if (given.isJsonObject() && read != null && read.isJsonObject()) {
      given
          .getAsJsonObject()
          .entrySet()
          .forEach(
              field ->
                  differences(
                      field.getValue(),
                      read.getAsJsonObject().get(field.getKey()),
                      path + "." + field.getKey(),
                      faults));
    } else if (given.isJsonArray()
        && read != null
        && read.isJsonArray()
        && given.getAsJsonArray().size() == read.getAsJsonArray().size()) {
      for (int i = 0; i < given.getAsJsonArray().size(); i++) {
        differences(
            given.getAsJsonArray().get(i),
            read.getAsJsonArray().get(i),
            path + "[" + i + "]",
            faults);
      }
    } else if (!given.equals(read)) {
      faults.add(path + " is " + given + ", which the API reads as " + read);
    }
  }

  private static List<String> fields(JsonObject manifest, List<String> known) {
    List<String> faults = new ArrayList<>();
    manifest
        .entrySet()
        .forEach(
            field -> {
              if (field.getKey().equals("spec")) {
                fields(field.getValue(), "spec", known, faults);
              } else if (!List.of("apiVersion", "kind", "metadata").contains(field.getKey())) {
                faults.add(field.getKey() + " is no field of it");
              }
            });
    return faults;
  }

  private static void fields(
      JsonElement value, String path, List<String> known, List<String> faults) {
    if (value.isJsonObject()) {
      value
          .getAsJsonObject()
          .entrySet()
          .forEach(field -> fields(field.getValue(), path + "." + field.getKey(), known, faults));
    } else if (value.isJsonArray()) {
      value.getAsJsonArray().forEach(item -> fields(item, path, known, faults));
    } else if (!known.contains(path)) {
      faults.add(path + " is no field of it");
    }
  }

  private static String text(JsonObject object, String name) {
    return object == null || !object.has(name) ? "(none)" : object.get(name).getAsString();
  }
}
