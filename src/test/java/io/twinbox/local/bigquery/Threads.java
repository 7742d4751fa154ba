package io.twinbox.local.bigquery;

import java.util.concurrent.ThreadFactory;
import java.util.concurrent.atomic.AtomicInteger;

/** Daemon threads with names that a thread dump explains itself by. */
final class Threads {
  private Threads() {}

  static ThreadFactory named(String prefix) {
    AtomicInteger number = new AtomicInteger();
    return task -> {
      Thread thread = new Thread(task, prefix + "-" + number.incrementAndGet());
      thread.setDaemon(true);
      return thread;
    };
  }
}
