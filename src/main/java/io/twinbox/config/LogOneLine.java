package io.twinbox.config;

import org.apache.camel.Exchange;
import org.apache.camel.spi.ExceptionHandler;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.stereotype.Component;

/**
 * Logs what a route's consumer could not get done as one line: the route tries again by itself, and a stack trace with every
 * try hides what happened. The trace is there at level DEBUG.
 */
@Component("logOneLine")
public class LogOneLine implements ExceptionHandler {

  private static final Logger log = LoggerFactory.getLogger("io.twinbox.routes");

  @Override
  public void handleException(Throwable exception) {
    handleException(null, null, exception);
  }

  @Override
  public void handleException(String message, Throwable exception) {
    handleException(message, null, exception);
  }

  @Override
  public void handleException(String message, Exchange exchange, Throwable exception) {
    String route = exchange == null ? null : exchange.getFromRouteId();
    log.warn(
        "{}{}; it is tried again.",
        route == null ? "" : "Route " + route + ": ",
        Causes.describe(exception));
    log.debug("The failure in full", exception);
  }
}
