package io.twinbox.operate;

import java.util.function.DoubleSupplier;

/** How much a counter grew per second between the last two looks. */
final class Rate {

  private final DoubleSupplier counter;
  private double before;
  private long lookedAt;
  private volatile double perSecond;

  Rate(DoubleSupplier counter) {
    this.counter = counter;
  }

  synchronized void look(long nanoTime) {
    double now = counter.getAsDouble();
    if (lookedAt != 0 && nanoTime > lookedAt) {
      perSecond = (now - before) * 1e9 / (nanoTime - lookedAt);
    }
    before = now;
    lookedAt = nanoTime;
  }

  double perSecond() {
    return perSecond;
  }
}
