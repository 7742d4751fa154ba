package io.twinbox.command;

import java.util.List;
import java.util.stream.Collectors;
import picocli.CommandLine.Option;
import picocli.CommandLine.Parameters;

/** Options that several commands have, each under one name. */
final class Options {

  private Options() {}

  /** Which dead rows are meant. */
  static final class Filters {
    @Option(
        names = "--error-like",
        paramLabel = "TEXT",
        description = "Only those whose last error contains this text; %% and _ are wildcards.")
    String errorLike;

    @Option(
        names = "--older-than",
        paramLabel = "TIME",
        description = "Only those that died longer ago than this, for example '2 hours'.")
    String olderThan;

    boolean given() {
      return errorLike != null || olderThan != null;
    }
  }

  /** How many rows at most. */
  static final class MaxRows {
    @Option(names = "--max-rows", paramLabel = "N", description = "At most so many.")
    Integer maxRows;

    int or(int otherwise) {
      return maxRows == null ? otherwise : maxRows;
    }
  }

  /** What a change says of itself. */
  static final class Change {
    @Option(
        names = "--reason",
        required = true,
        paramLabel = "TEXT",
        description = "Why, for example the number of the incident; kept in twinbox_audit.")
    String reason;

    @Option(
        names = "--who",
        required = true,
        paramLabel = "NAME",
        description = "Your name; kept in twinbox_audit.")
    String who;

    @Option(
        names = "--yes",
        description =
            "Do it. Without it the change is tried and taken back, and you see what it would do.")
    boolean yes;
  }

  /** Ids as a person pastes them. */
  static final class Ids {
    @Parameters(
        arity = "0..*",
        paramLabel = "ID",
        description = "Ids, separated by commas or spaces. None: all that match the filters.")
    List<String> ids;

    boolean given() {
      return ids != null && !ids.isEmpty();
    }

    /** As a comma list. */
    String joined() {
      return ids == null
          ? ""
          : ids.stream().map(io.twinbox.operate.Repairs::ids).collect(Collectors.joining(","));
    }
  }

  /** How the result is written. */
  static final class Format {
    @Option(names = "--json", description = "Write JSON instead of a table.")
    boolean json;
  }
}
