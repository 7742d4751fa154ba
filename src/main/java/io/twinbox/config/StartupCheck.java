package io.twinbox.config;

/**
 * Something that must hold before the routes of a set may run; checked after the migrations, before
 * the first route starts.
 */
public interface StartupCheck {

  /** The route set that needs it. */
  String routeSet();

  /**
   * @throws StartupException when it does not hold
   */
  void check();
}
