package io.twinbox.command;

/** A command ends here, with one sentence for whoever typed it. */
class Refused extends RuntimeException {

  private final int exitCode;

  private Refused(int exitCode, String message) {
    super(message);
    this.exitCode = exitCode;
  }

  /** The line or a setting is wrong. */
  static Refused usage(String message) {
    return new Refused(Commands.USAGE, message);
  }

  /** The database says no. */
  static Refused byTheDatabase(String message) {
    return new Refused(Commands.FINDINGS, message);
  }

  /** Something cannot be reached. */
  static Refused couldNotLook(String message) {
    return new Refused(Commands.COULD_NOT_LOOK, message);
  }

  int exitCode() {
    return exitCode;
  }
}
