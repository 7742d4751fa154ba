package io.twinbox.local.pubsub;

import java.util.ArrayDeque;

/** The messages of one ordering key in one subscription. Guarded by its queue's lock. */
final class KeyRun {
  final String key;

  /** In publish order, the next to be delivered first. */
  final ArrayDeque<Entry> pending = new ArrayDeque<>();

  /** In publish order; LEASED ones and, after the first of those, RETAINED ones. */
  final ArrayDeque<Entry> outstanding = new ArrayDeque<>();

  /** Who has the outstanding ones, and so gets the next ones too. */
  Receiver receiver;

  KeyRun(String key) {
    this.key = key;
  }
}
