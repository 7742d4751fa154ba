package io.twinbox.local.pubsub;

import io.grpc.Status;
import io.grpc.StatusRuntimeException;

/** The service's refusals, in its own status codes and as near to its wording as is known. */
final class Errors {
  private Errors() {}

  static StatusRuntimeException notFound(String name) {
    return Status.NOT_FOUND
        .withDescription("Resource not found (resource=" + shortName(name) + ").")
        .asRuntimeException();
  }

  static StatusRuntimeException alreadyExists(String name) {
    return Status.ALREADY_EXISTS
        .withDescription(
            "Resource already exists in the project (resource=" + shortName(name) + ").")
        .asRuntimeException();
  }

  static StatusRuntimeException invalid(String message) {
    return Status.INVALID_ARGUMENT.withDescription(message).asRuntimeException();
  }

  static StatusRuntimeException failedPrecondition(String message) {
    return Status.FAILED_PRECONDITION.withDescription(message).asRuntimeException();
  }

  /** For what the service has and this one has not: refused aloud rather than ignored. */
  static StatusRuntimeException unsupported(String what) {
    return Status.UNIMPLEMENTED
        .withDescription("The local Pub/Sub does not do " + what + ".")
        .asRuntimeException();
  }

  private static String shortName(String name) {
    return name.substring(name.lastIndexOf('/') + 1);
  }
}
