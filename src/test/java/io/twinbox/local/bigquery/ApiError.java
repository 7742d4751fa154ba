package io.twinbox.local.bigquery;

import com.fasterxml.jackson.databind.node.JsonNodeFactory;
import com.fasterxml.jackson.databind.node.ObjectNode;

/**
 * An error as BigQuery's REST API words it: an HTTP status, a reason from Google's error table
 * (cloud.google.com/bigquery/docs/error-messages) and a message. The Google client decides by the
 * reason whether to try again, so the pairs of status and reason matter.
 */
final class ApiError extends RuntimeException {
  private static final long serialVersionUID = 1L;

  private final int status;
  private final String reason;
  private final String location;

  ApiError(int status, String reason, String location, String message) {
    super(message, null, false, false);
    this.status = status;
    this.reason = reason;
    this.location = location;
  }

  static ApiError invalid(String message) {
    return new ApiError(400, "invalid", null, message);
  }

  static ApiError invalidQuery(String message) {
    return new ApiError(400, "invalidQuery", "query", message);
  }

  static ApiError notFound(String what) {
    return new ApiError(404, "notFound", null, "Not found: " + what);
  }

  int status() {
    return status;
  }

  String reason() {
    return reason;
  }

  /** The entry of a job's {@code errorResult} and of an error answer's {@code errors}. */
  ObjectNode toErrorProto() {
    ObjectNode error = JsonNodeFactory.instance.objectNode();
    error.put("reason", reason);
    if (location != null) {
      error.put("location", location);
    }
    return error.put("message", getMessage());
  }

  /** The body of an HTTP error answer. */
  ObjectNode toResponse() {
    ObjectNode response = JsonNodeFactory.instance.objectNode();
    ObjectNode error = response.putObject("error");
    error.put("code", status);
    error.put("message", getMessage());
    error.putArray("errors").add(toErrorProto().put("domain", "global"));
    error.put("status", canonicalStatus());
    return response;
  }

  private String canonicalStatus() {
    return switch (status) {
      case 400 -> "INVALID_ARGUMENT";
      case 401 -> "UNAUTHENTICATED";
      case 403 -> "PERMISSION_DENIED";
      case 404 -> "NOT_FOUND";
      case 409 -> "ALREADY_EXISTS";
      case 429 -> "RESOURCE_EXHAUSTED";
      case 499 -> "CANCELLED";
      case 501 -> "UNIMPLEMENTED";
      case 503 -> "UNAVAILABLE";
      default -> status >= 500 ? "INTERNAL" : "UNKNOWN";
    };
  }
}
