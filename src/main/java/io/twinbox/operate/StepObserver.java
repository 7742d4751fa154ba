package io.twinbox.operate;

import org.apache.camel.Exchange;

/**
 * Is told of every run of some steps of the routes, by their ids. It runs on the step's thread: it
 * counts, and neither waits nor throws.
 */
interface StepObserver {

  /** Whether it wants to be told of this step. */
  boolean observes(String stepId);

  /** Just before the step. */
  default void before(String stepId, Exchange exchange) {}

  /**
   * Just after the step, which has failed when the exchange holds an exception.
   *
   * @param nanos how long the step took
   */
  void after(String stepId, Exchange exchange, long nanos);
}
