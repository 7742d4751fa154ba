package io.twinbox.pubsub;

/**
 * How many messages the next batch takes. Where messages want the same rows, large batches do
 * little but wait for one another: trouble halves the batches, down to one message, and they grow
 * again by one message after some without trouble. A deadlock costs a second, so each time that
 * this was too early, the next try comes after twice as many batches. Troubles in a row, as when
 * the server restarts, count as one.
 */
final class BatchLimit {

  /** Batches without trouble after which the next ones may be larger by one message, at first. */
  static final int CLEAN_BATCHES = 20;

  /** The same where larger ones have met trouble again and again: some seconds' worth. */
  static final int MOST_CLEAN_BATCHES = 2_000;

  private final int size;
  private int messages;
  private int clean;
  private int cleanNeeded = CLEAN_BATCHES;
  private boolean cleanSinceTrouble;
  private boolean grownSinceTrouble;

  /**
   * @param size the most messages of a batch, from 1
   */
  BatchLimit(int size) {
    this.size = size;
    this.messages = size;
  }

  /** From 1 to the size. */
  synchronized int messages() {
    return messages;
  }

  /** Takes note of a batch that has ended. */
  synchronized void learn(boolean trouble) {
    if (trouble) {
      messages = Math.max(1, messages / 2);
      if (cleanSinceTrouble) {
        cleanNeeded = Math.min(MOST_CLEAN_BATCHES, cleanNeeded * 2);
      }
      clean = 0;
      cleanSinceTrouble = false;
      grownSinceTrouble = false;
      return;
    }
    cleanSinceTrouble = true;
    if (messages < size && ++clean >= cleanNeeded) {
      messages++;
      clean = 0;
      if (grownSinceTrouble) {
        cleanNeeded = Math.max(CLEAN_BATCHES, cleanNeeded / 2);
      }
      grownSinceTrouble = true;
    }
  }
}
