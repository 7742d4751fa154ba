package io.twinbox.config;

/**
 * Twinbox cannot start as it is configured. Carries what is wrong and what to do about it; {@link
 * StartupFailureAnalyzer} prints both instead of a stack trace.
 */
public class StartupException extends RuntimeException {

  private final String remedy;

  /**
   * @param problem what is wrong, naming the file, property or address
   * @param remedy what to do
   */
  public StartupException(String problem, String remedy) {
    super(problem);
    this.remedy = remedy;
  }

  /** What to do about it. */
  public String remedy() {
    return remedy;
  }
}
