package io.twinbox.outbox;

import java.util.Map;

/** Lets tests of other packages tell the keys what time it is. */
public final class OrderedKeysByHand {

  private final OrderedKeys keys = new OrderedKeys();

  /** The floor of a claim sent at a time of {@link System#nanoTime}'s kind. */
  public String floorAt(long nanoTime) {
    return keys.floorAt(nanoTime);
  }

  public String cursor() {
    return keys.cursor();
  }

  public String held() {
    return keys.held();
  }

  /** Takes what a claim said of itself. */
  public void learnAt(Map<String, Object> claim, long nanoTime) {
    keys.learnAt(claim, nanoTime);
  }
}
