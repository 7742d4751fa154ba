package io.twinbox.pubsub;

import com.google.cloud.pubsub.v1.TopicAdminClient;
import com.google.pubsub.v1.PubsubMessage;
import java.time.Duration;
import java.util.List;
import org.apache.camel.Exchange;
import org.apache.camel.component.google.pubsub.GooglePubsubEndpoint;
import org.apache.camel.support.DefaultProducer;

/**
 * Publishes the body, a list of {@link PubsubMessage}, at once; the body becomes the list of their
 * outcomes. Nothing else is published: a body of another kind is an error, because Camel's producer
 * would send it Java-serialised and every header with it as an attribute.
 */
class BatchProducer extends DefaultProducer {

  private final TopicAdminClient client;
  private final Duration publishTimeout;
  private final String topic;

  /**
   * @param publishTimeout how long one list may take, retries included
   */
  BatchProducer(GooglePubsubEndpoint endpoint, TopicAdminClient client, Duration publishTimeout) {
    super(endpoint);
    this.client = client;
    this.publishTimeout = publishTimeout;
    this.topic =
        "projects/%s/topics/%s".formatted(endpoint.getProjectId(), endpoint.getDestinationName());
  }

  @Override
  public void process(Exchange exchange) throws InterruptedException {
    Object body = exchange.getMessage().getBody();
    if (!(body instanceof List<?> list)
        || !list.stream().allMatch(PubsubMessage.class::isInstance)) {
      throw new IllegalArgumentException(
          "google-pubsub publishes a list of PubsubMessage here; the body is %s. Put the step that makes the messages (outboxMessages) before it."
              .formatted(body == null ? "empty" : body.getClass().getName()));
    }
    List<PubsubMessage> messages = list.stream().map(PubsubMessage.class::cast).toList();
    exchange
        .getMessage()
        .setBody(new BatchPublisher(client, topic, messages, publishTimeout).publish());
  }
}
