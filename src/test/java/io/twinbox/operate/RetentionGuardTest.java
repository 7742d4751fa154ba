package io.twinbox.operate;

import static org.assertj.core.api.Assertions.assertThat;
import static org.assertj.core.api.Assertions.assertThatThrownBy;

import io.twinbox.promises.PromiseTest;
import org.junit.jupiter.api.Test;

/** Payloads outlive what may still be asked for, or the process does not start. */
class RetentionGuardTest extends PromiseTest {

  private void refused(String sentence, String... settings) {
    assertThatThrownBy(() -> start("maintain", settings)).hasStackTraceContaining(sentence);
  }

  @Test
  void retentionShorterThanTheSubscriptionsIsRefused() {
    refused(
        "TWINBOX_MAINTAIN_PAYLOAD_RETENTION (6d) is shorter than TWINBOX_MAINTAIN_SUBSCRIPTION_RETENTION (7d)",
        "twinbox.maintain.payload-retention=6d");
    refused(
        "(31d) is shorter than TWINBOX_MAINTAIN_SUBSCRIPTION_RETENTION (32d)",
        "twinbox.maintain.subscription-retention=32d");
  }

  @Test
  void retentionShorterThanTheLookbackIsRefused() {
    for (String type : new String[] {"TIMESTAMP", "DATETIME", "DATE"}) {
      refused(
          "is shorter than TWINBOX_PRODUCE_LOOKBACK (40d)",
          "twinbox.produce.watermark-type=" + type,
          "twinbox.produce.lookback=40d");
    }
  }

  @Test
  void whatIsNotShorterOrNoTimeStarts() {
    assertThat(
            start(
                    "maintain",
                    "twinbox.maintain.payload-retention=7d",
                    "twinbox.produce.lookback=7d")
                .isRunning())
        .isTrue();
    assertThat(
            start(
                    "maintain",
                    "twinbox.produce.watermark-type=INT64",
                    "twinbox.produce.lookback=99999999999")
                .isRunning())
        .isTrue();
  }

  @Test
  void processThatDeletesNothingMindsNoRetention() {
    createTopicAndSubscription();
    assertThat(start("dispatch", "twinbox.maintain.payload-retention=1d").isRunning()).isTrue();
  }
}
