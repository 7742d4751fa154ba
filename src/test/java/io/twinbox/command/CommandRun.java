package io.twinbox.command;

import java.io.PrintWriter;
import java.io.StringWriter;

/** What a command line answers. */
public record CommandRun(int exitCode, String out, String err) {

  public static CommandRun of(String... args) {
    StringWriter out = new StringWriter();
    StringWriter err = new StringWriter();
    int exitCode = Commands.run(new PrintWriter(out, true), new PrintWriter(err, true), args);
    return new CommandRun(exitCode, out.toString(), err.toString());
  }
}
