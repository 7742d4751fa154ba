package io.twinbox.config;

import java.time.Duration;
import java.util.LinkedHashMap;
import java.util.Map;
import org.apache.camel.Exchange;
import org.apache.camel.spi.ExceptionHandler;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.stereotype.Component;

/**
 * Logs what a route's consumer could not get done as one line: the route tries again by itself, and
 * a stack trace with every try hides what happened. The trace is there at level DEBUG.
 */
@Component("logOneLine")
public class LogOneLine implements ExceptionHandler {

  private static final Logger log = LoggerFactory.getLogger("io.twinbox.routes");

  private static final Duration SAME_LINE_PAUSE = Duration.ofSeconds(10);
  private static final int REMEMBERED_LINES = 100;

  private final Map<String, Long> recentlySaid =
      new LinkedHashMap<>() {
        @Override
        protected boolean removeEldestEntry(Map.Entry<String, Long> eldest) {
          return size() > REMEMBERED_LINES;
        }
      };

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
    String line = (route == null ? "" : "Route " + route + ": ") + Causes.describe(exception);
    if (news(line)) {
      log.warn("{}; it is tried again.", line);
    }
    log.debug("The failure in full", exception);
    LogContext.end();
  }

  /** The same line is worth saying once in a while, not with every poll. */
  private synchronized boolean news(String line) {
    long now = System.nanoTime();
    Long said = recentlySaid.get(line);
    if (said != null && now - said < SAME_LINE_PAUSE.toNanos()) {
      return false;
    }
    recentlySaid.put(line, now);
    return true;
  }
}
