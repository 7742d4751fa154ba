package io.twinbox.config;

import ch.qos.logback.classic.Level;
import ch.qos.logback.classic.Logger;
import ch.qos.logback.classic.LoggerContext;
import ch.qos.logback.classic.turbo.TurboFilter;
import ch.qos.logback.core.spi.FilterReply;
import org.slf4j.LoggerFactory;
import org.slf4j.Marker;

/**
 * Keeps Camel from logging, with a stack trace, the failure that it then throws: {@link
 * StartupFailureAnalyzer} says it. Only that record; its logger says other things too.
 */
public final class StartupLog {

  private static final String CAMEL = "org.apache.camel.impl.engine.AbstractCamelContext";
  private static final String THROWN_ANYWAY = "Error starting CamelContext";

  private StartupLog() {}

  public static void sayFailuresOnce() {
    if (LoggerFactory.getILoggerFactory() instanceof LoggerContext context
        && context.getTurboFilterList().stream().noneMatch(SaidElsewhere.class::isInstance)) {
      context.addTurboFilter(new SaidElsewhere());
    }
  }

  private static final class SaidElsewhere extends TurboFilter {
    @Override
    public FilterReply decide(
        Marker marker,
        Logger logger,
        Level level,
        String format,
        Object[] parameters,
        Throwable thrown) {
      return level == Level.ERROR
              && format != null
              && format.startsWith(THROWN_ANYWAY)
              && logger.getName().equals(CAMEL)
          ? FilterReply.DENY
          : FilterReply.NEUTRAL;
    }
  }
}
