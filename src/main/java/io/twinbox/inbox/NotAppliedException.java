package io.twinbox.inbox;

/**
 * A message did not take effect this time: nothing of it is in the database, and Pub/Sub delivers
 * it again.
 */
public class NotAppliedException extends RuntimeException {

  public NotAppliedException(String message) {
    super(message);
  }
}
