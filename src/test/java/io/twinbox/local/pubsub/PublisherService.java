package io.twinbox.local.pubsub;

import com.google.protobuf.Empty;
import com.google.pubsub.v1.DeleteTopicRequest;
import com.google.pubsub.v1.GetTopicRequest;
import com.google.pubsub.v1.ListTopicSubscriptionsRequest;
import com.google.pubsub.v1.ListTopicSubscriptionsResponse;
import com.google.pubsub.v1.ListTopicsRequest;
import com.google.pubsub.v1.ListTopicsResponse;
import com.google.pubsub.v1.PublishRequest;
import com.google.pubsub.v1.PublishResponse;
import com.google.pubsub.v1.PublisherGrpc;
import com.google.pubsub.v1.Topic;
import io.grpc.stub.StreamObserver;
import java.util.List;
import java.util.function.Function;

/** google.pubsub.v1.Publisher; calls that are not here answer UNIMPLEMENTED. */
final class PublisherService extends PublisherGrpc.PublisherImplBase {
  private final Registry registry;
  private final Calls calls;

  PublisherService(Registry registry, Calls calls) {
    this.registry = registry;
    this.calls = calls;
  }

  @Override
  public void createTopic(Topic request, StreamObserver<Topic> caller) {
    calls.answer(PubSubCall.ADMIN, request, caller, () -> registry.createTopic(request));
  }

  @Override
  public void getTopic(GetTopicRequest request, StreamObserver<Topic> caller) {
    calls.answer(
        PubSubCall.ADMIN, request, caller, () -> registry.topic(request.getTopic()).settings());
  }

  @Override
  public void listTopics(ListTopicsRequest request, StreamObserver<ListTopicsResponse> caller) {
    calls.answer(
        PubSubCall.ADMIN,
        request,
        caller,
        () -> {
          Page<Topic> page =
              Page.of(
                  registry.topicsOf(request.getProject()),
                  request.getPageSize(),
                  request.getPageToken(),
                  Topic::getName);
          return ListTopicsResponse.newBuilder()
              .addAllTopics(page.items())
              .setNextPageToken(page.nextToken())
              .build();
        });
  }

  @Override
  public void deleteTopic(DeleteTopicRequest request, StreamObserver<Empty> caller) {
    calls.answer(
        PubSubCall.ADMIN,
        request,
        caller,
        () -> {
          registry.deleteTopic(request.getTopic());
          return Empty.getDefaultInstance();
        });
  }

  @Override
  public void listTopicSubscriptions(
      ListTopicSubscriptionsRequest request,
      StreamObserver<ListTopicSubscriptionsResponse> caller) {
    calls.answer(
        PubSubCall.ADMIN,
        request,
        caller,
        () -> {
          List<String> names =
              registry.topic(request.getTopic()).subscriptions().stream()
                  .map(subscription -> subscription.settings().getName())
                  .sorted()
                  .toList();
          Page<String> page =
              Page.of(names, request.getPageSize(), request.getPageToken(), Function.identity());
          return ListTopicSubscriptionsResponse.newBuilder()
              .addAllSubscriptions(page.items())
              .setNextPageToken(page.nextToken())
              .build();
        });
  }

  @Override
  public void publish(PublishRequest request, StreamObserver<PublishResponse> caller) {
    calls.answer(
        PubSubCall.PUBLISH,
        request,
        caller,
        () -> {
          MessageLimits.check(request);
          return PublishResponse.newBuilder()
              .addAllMessageIds(registry.publish(request.getTopic(), request.getMessagesList()))
              .build();
        });
  }
}
