package io.twinbox.pubsub;

import static io.twinbox.pubsub.BatchLimit.CLEAN_BATCHES;
import static io.twinbox.pubsub.BatchLimit.MOST_CLEAN_BATCHES;
import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;

class BatchLimitTest {

  private final BatchLimit limit = new BatchLimit(40);

  @Test
  void troubleHalvesTheBatchesDownToOneMessage() {
    limit.learn(true);
    assertThat(limit.messages()).isEqualTo(20);

    for (int i = 0; i < 10; i++) {
      limit.learn(true);
    }
    assertThat(limit.messages()).isEqualTo(1);
  }

  @Test
  void batchesGrowToTheirSizeAgainAndNoFurther() {
    limit.learn(true);

    clean(CLEAN_BATCHES - 1);
    assertThat(limit.messages()).isEqualTo(20);
    clean(1);
    assertThat(limit.messages()).isEqualTo(21);
    clean(19 * CLEAN_BATCHES + 1);
    assertThat(limit.messages()).isEqualTo(40);
  }

  @Test
  void growingTooEarlyAgainAndAgainComesLaterEachTime() {
    limit.learn(true);
    assertThat(batchesUntilItGrows()).isEqualTo(CLEAN_BATCHES);
    limit.learn(true);
    assertThat(batchesUntilItGrows()).isEqualTo(2 * CLEAN_BATCHES);
    limit.learn(true);
    assertThat(batchesUntilItGrows()).isEqualTo(4 * CLEAN_BATCHES);

    for (int i = 0; i < 10; i++) {
      clean(1);
      limit.learn(true);
    }
    assertThat(batchesUntilItGrows()).isEqualTo(MOST_CLEAN_BATCHES);
  }

  @Test
  void troublesInARowCountAsOne() {
    for (int i = 0; i < 5; i++) {
      limit.learn(true);
    }
    assertThat(batchesUntilItGrows()).isEqualTo(CLEAN_BATCHES);
  }

  @Test
  void growthThatHoldsComesSoonerAgain() {
    limit.learn(true);
    clean(1);
    limit.learn(true);
    clean(1);
    limit.learn(true);
    assertThat(batchesUntilItGrows()).isEqualTo(4 * CLEAN_BATCHES);

    assertThat(batchesUntilItGrows()).isEqualTo(4 * CLEAN_BATCHES);
    assertThat(batchesUntilItGrows()).isEqualTo(2 * CLEAN_BATCHES);
    assertThat(batchesUntilItGrows()).isEqualTo(CLEAN_BATCHES);
  }

  private void clean(int batches) {
    for (int i = 0; i < batches; i++) {
      limit.learn(false);
    }
  }

  private int batchesUntilItGrows() {
    int before = limit.messages();
    for (int batches = 1; batches <= MOST_CLEAN_BATCHES; batches++) {
      limit.learn(false);
      if (limit.messages() > before) {
        return batches;
      }
    }
    throw new AssertionError("No growth in " + MOST_CLEAN_BATCHES + " batches");
  }
}
