package io.twinbox.local.pubsub;

import java.util.ArrayDeque;
import java.util.HashMap;
import java.util.LinkedHashSet;
import java.util.Map;
import java.util.function.Consumer;

/**
 * Which message is next. Guarded by its queue's lock.
 *
 * <p>Ordering keys follow cloud.google.com/pubsub/docs/ordering: consecutive messages of a key may
 * be out at one receiver at the same time, never at two; when one is redelivered, every later one
 * of its key is redelivered after it, acknowledged ones included.
 */
final class Backlog {
  private final ArrayDeque<Entry> fresh = new ArrayDeque<>();
  private final ArrayDeque<Entry> again = new ArrayDeque<>();
  private final Map<String, KeyRun> runs = new HashMap<>();

  /** Keys with a message to deliver and none out: any receiver may have them. */
  private final LinkedHashSet<KeyRun> openRuns = new LinkedHashSet<>();

  private int turn;

  KeyRun run(String key) {
    return runs.computeIfAbsent(key, KeyRun::new);
  }

  void add(Entry entry) {
    if (entry.run == null) {
      fresh.add(entry);
    } else {
      entry.run.pending.add(entry);
      enqueue(entry.run);
    }
  }

  /** Ahead of everything else, so that a twin is out while its original is. */
  void addTwin(Entry twin) {
    again.addFirst(twin);
  }

  /**
   * Takes the next message for a receiver; null when there is none.
   *
   * <p>New messages, returning ones and keys take turns: messages that are nacked over and over
   * must not keep the others waiting, nor the other way round.
   */
  Entry next(Receiver receiver) {
    for (int tries = 0; tries < 4; tries++) {
      Entry entry =
          switch (turn++ & 3) {
            case 0 -> fresh.poll();
            case 1 -> again.poll();
            case 2 -> nextOf(receiver.boundRuns, receiver);
            default -> nextOf(openRuns, receiver);
          };
      if (entry != null) {
        return entry;
      }
    }
    return null;
  }

  private Entry nextOf(LinkedHashSet<KeyRun> waiting, Receiver receiver) {
    if (waiting.isEmpty()) {
      return null;
    }
    KeyRun run = waiting.iterator().next();
    waiting.remove(run);
    Entry entry = run.pending.poll();
    run.receiver = receiver;
    run.outstanding.add(entry);
    enqueue(run);
    return entry;
  }

  /**
   * An acknowledged entry leaves.
   *
   * @param release what to do with each entry that is gone for good
   */
  void acknowledged(Entry entry, Consumer<Entry> release) {
    if (entry.run == null) {
      release.accept(entry);
      return;
    }
    entry.state = Entry.State.RETAINED;
    releaseHeads(entry.run, release);
  }

  /** An entry leaves at once and never returns, whatever becomes of earlier ones of its key. */
  void drop(Entry entry, Consumer<Entry> release) {
    release.accept(entry);
    if (entry.run != null) {
      entry.run.outstanding.remove(entry);
      releaseHeads(entry.run, release);
    }
  }

  private void releaseHeads(KeyRun run, Consumer<Entry> release) {
    while (!run.outstanding.isEmpty() && run.outstanding.peek().state == Entry.State.RETAINED) {
      release.accept(run.outstanding.poll());
    }
    enqueue(run);
  }

  /**
   * A delivered entry has to be delivered again: now when READY, or once {@link #ready} is called
   * when WAITING.
   *
   * @param follower what to do with each later entry of its key that has to come again as well
   */
  void giveBack(Entry entry, Consumer<Entry> follower) {
    KeyRun run = entry.run;
    if (run == null) {
      if (entry.state == Entry.State.READY) {
        again.add(entry);
      }
      return;
    }
    while (run.outstanding.peekLast() != entry) {
      Entry later = run.outstanding.pollLast();
      follower.accept(later);
      run.pending.addFirst(later);
    }
    run.outstanding.pollLast();
    run.pending.addFirst(entry);
    enqueue(run);
  }

  /** The entry's backoff is over. */
  void ready(Entry entry) {
    entry.state = Entry.State.READY;
    if (entry.run == null) {
      again.add(entry);
    } else {
      enqueue(entry.run);
    }
  }

  /** Puts a key where it belongs now. */
  private void enqueue(KeyRun run) {
    openRuns.remove(run);
    if (run.receiver != null) {
      run.receiver.boundRuns.remove(run);
    }
    if (run.outstanding.isEmpty()) {
      run.receiver = null;
    }
    if (run.pending.isEmpty()) {
      if (run.outstanding.isEmpty()) {
        runs.remove(run.key);
      }
    } else if (run.pending.peek().state == Entry.State.READY) {
      (run.receiver == null ? openRuns : run.receiver.boundRuns).add(run);
    }
  }
}
