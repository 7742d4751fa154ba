package io.twinbox.local.pubsub;

import com.google.pubsub.v1.ReceivedMessage;
import com.google.pubsub.v1.StreamingPullRequest;
import com.google.pubsub.v1.StreamingPullResponse;
import io.grpc.Status;
import io.grpc.stub.ClientCallStreamObserver;
import io.grpc.stub.ClientResponseObserver;
import java.util.List;
import java.util.concurrent.CopyOnWriteArrayList;

/**
 * A streaming pull without the client library, which acknowledges, extends and reconnects by
 * itself: here a test sees what the server sends, and nothing else.
 */
final class RawStream
    implements ClientResponseObserver<StreamingPullRequest, StreamingPullResponse> {
  final List<ReceivedMessage> received = new CopyOnWriteArrayList<>();
  final List<StreamingPullResponse> responses = new CopyOnWriteArrayList<>();
  private ClientCallStreamObserver<StreamingPullRequest> requests;
  private volatile Status end;

  static RawStream open(PubSubClient client, StreamingPullRequest.Builder opening) {
    RawStream stream = new RawStream();
    client.streamingStub().streamingPull(stream);
    stream.send(opening);
    return stream;
  }

  static RawStream open(PubSubClient client, String subscription) {
    return open(client, opening(subscription));
  }

  /** With the shortest lease there is, 10 s. */
  static StreamingPullRequest.Builder opening(String subscription) {
    return StreamingPullRequest.newBuilder()
        .setSubscription(subscription)
        .setStreamAckDeadlineSeconds(10);
  }

  void send(StreamingPullRequest.Builder request) {
    requests.onNext(request.build());
  }

  void acknowledge(String ackId) {
    send(StreamingPullRequest.newBuilder().addAckIds(ackId));
  }

  void modifyAckDeadline(String ackId, int seconds) {
    send(
        StreamingPullRequest.newBuilder()
            .addModifyDeadlineAckIds(ackId)
            .addModifyDeadlineSeconds(seconds));
  }

  /** Drops the stream without a word, as a client that goes away. */
  void cancel() {
    requests.cancel("test", null);
  }

  /** The data of what came, in order. */
  List<String> texts() {
    return received.stream().map(message -> message.getMessage().getData().toStringUtf8()).toList();
  }

  String ackIdOf(String text) {
    return received.stream()
        .filter(message -> message.getMessage().getData().toStringUtf8().equals(text))
        .reduce((earlier, later) -> later)
        .orElseThrow()
        .getAckId();
  }

  /** Null while the stream is open. */
  Status end() {
    return end;
  }

  @Override
  public void beforeStart(ClientCallStreamObserver<StreamingPullRequest> requestStream) {
    requests = requestStream;
  }

  @Override
  public void onNext(StreamingPullResponse response) {
    responses.add(response);
    received.addAll(response.getReceivedMessagesList());
  }

  @Override
  public void onError(Throwable problem) {
    end = Status.fromThrowable(problem);
  }

  @Override
  public void onCompleted() {
    end = Status.OK;
  }
}
