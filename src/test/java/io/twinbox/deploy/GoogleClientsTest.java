package io.twinbox.deploy;

import static org.assertj.core.api.Assertions.assertThat;

import com.google.api.gax.core.NoCredentialsProvider;
import com.google.cloud.NoCredentials;
import com.google.cloud.bigquery.BigQueryOptions;
import com.google.cloud.pubsub.v1.SubscriptionAdminClient;
import com.google.cloud.pubsub.v1.SubscriptionAdminSettings;
import com.google.cloud.pubsub.v1.TopicAdminClient;
import com.google.cloud.pubsub.v1.TopicAdminSettings;
import org.junit.jupiter.api.Test;

/**
 * Google's clients, told to reach Google itself, need nothing of what pom.xml leaves out. The local
 * backends would not show it: they are reached by another way.
 */
class GoogleClientsTest {

  @Test
  void clientsForGooglesOwnServiceAreBuilt() throws Exception {
    try (TopicAdminClient topics =
            TopicAdminClient.create(
                TopicAdminSettings.newBuilder()
                    .setCredentialsProvider(NoCredentialsProvider.create())
                    .build());
        SubscriptionAdminClient subscriptions =
            SubscriptionAdminClient.create(
                SubscriptionAdminSettings.newBuilder()
                    .setCredentialsProvider(NoCredentialsProvider.create())
                    .build())) {
      assertThat(topics.getSettings().getEndpoint()).isEqualTo("pubsub.googleapis.com:443");
      assertThat(subscriptions.isShutdown()).isFalse();
    }
    assertThat(
            BigQueryOptions.newBuilder()
                .setProjectId("project")
                .setCredentials(NoCredentials.getInstance())
                .build()
                .getService()
                .getOptions()
                .getHost())
        .isEqualTo("https://www.googleapis.com");
  }
}
