package io.twinbox.routes;

/** What a route file is for, and so which rules it must keep. */
public enum Kind {
  /** One of Twinbox's own routes, or a mounted file that replaces one. */
  ROUTE,
  /**
   * A topic's {@code handle.camel.yaml}: runs inside the consumer's transaction, so it is guarded.
   */
  HANDLER
}
