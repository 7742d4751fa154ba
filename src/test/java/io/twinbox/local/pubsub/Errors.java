package io.twinbox.local.pubsub;

import com.google.protobuf.Any;
import com.google.rpc.Code;
import com.google.rpc.ErrorInfo;
import io.grpc.Status;
import io.grpc.StatusRuntimeException;
import io.grpc.protobuf.StatusProto;
import java.util.List;

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

  /** What Google's client looks for to tell each acknowledgement its own outcome. */
  static StatusRuntimeException leasesAreOver(List<String> ackIds) {
    ErrorInfo.Builder info = ErrorInfo.newBuilder().setDomain("pubsub.googleapis.com");
    ackIds.forEach(id -> info.putMetadata(id, "PERMANENT_FAILURE_INVALID_ACK_ID"));
    return StatusProto.toStatusRuntimeException(
        com.google.rpc.Status.newBuilder()
            .setCode(Code.FAILED_PRECONDITION_VALUE)
            .setMessage("Some acknowledgement ids in the request were out of date.")
            .addDetails(Any.pack(info.build()))
            .build());
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
