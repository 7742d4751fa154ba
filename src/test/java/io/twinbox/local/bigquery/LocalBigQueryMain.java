package io.twinbox.local.bigquery;

import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.Iterator;
import java.util.List;

/** The local BigQuery as a process of its own, so that tests can kill its clients around it. */
public final class LocalBigQueryMain {
  private static final String USAGE =
      """
      Usage: LocalBigQueryMain [options]
        --port N                                 port on 127.0.0.1; default any free one
        --project ID                             default twinbox-local
        --location NAME                          where the datasets are; default EU
        --table dataset.table=schema.json[,rows.ndjson]
                                                 a table, its BigQuery schema and its rows; repeatable
        --invoices N                             the table billing.invoices with N sample rows
      """;

  private record TableFile(String dataset, String table, Path schema, Path rows) {}

  private int port;
  private String project = "twinbox-local";
  private String location = LocalBigQuery.DEFAULT_LOCATION;
  private int invoices = -1;
  private final List<TableFile> tables = new ArrayList<>();

  private LocalBigQueryMain() {}

  /** Runs until it is ended; a wrong argument ends it with exit code 2, a wrong file with 1. */
  public static void main(String[] arguments) {
    LocalBigQueryMain main = new LocalBigQueryMain();
    try {
      main.parse(List.of(arguments).iterator());
    } catch (IllegalArgumentException e) {
      System.err.println(e.getMessage());
      System.err.print(USAGE);
      System.exit(2);
    }
    try {
      main.run();
    } catch (ApiError | UncheckedIOException e) {
      System.err.println(e.getMessage());
      System.exit(1);
    }
  }

  private void parse(Iterator<String> arguments) {
    while (arguments.hasNext()) {
      String option = arguments.next();
      switch (option) {
        case "--port" -> port = number(option, value(option, arguments), 65_535);
        case "--project" -> project = value(option, arguments);
        case "--location" -> location = value(option, arguments);
        case "--invoices" -> invoices = number(option, value(option, arguments), 100_000_000);
        case "--table" -> tables.add(table(value(option, arguments)));
        default -> throw new IllegalArgumentException("Unknown option: " + option);
      }
    }
  }

  private static String value(String option, Iterator<String> arguments) {
    if (!arguments.hasNext()) {
      throw new IllegalArgumentException(option + " needs a value");
    }
    return arguments.next();
  }

  private static int number(String option, String text, int most) {
    try {
      int number = Integer.parseInt(text);
      if (number >= 0 && number <= most) {
        return number;
      }
    } catch (NumberFormatException e) {
      // Said below, as for a number out of range.
    }
    throw new IllegalArgumentException(
        option + " needs a whole number from 0 to " + most + ", not " + text);
  }

  private static TableFile table(String text) {
    String[] sides = text.split("=", 2);
    String[] name = sides[0].split("\\.");
    if (sides.length != 2 || name.length != 2 || name[0].isEmpty() || name[1].isEmpty()) {
      throw new IllegalArgumentException(
          "--table needs dataset.table=schema.json[,rows.ndjson], not " + text);
    }
    String[] files = sides[1].split(",", 2);
    Path schema = readable(files[0]);
    return new TableFile(name[0], name[1], schema, files.length == 1 ? null : readable(files[1]));
  }

  private static Path readable(String file) {
    Path path = Path.of(file);
    if (!Files.isReadable(path)) {
      throw new IllegalArgumentException("--table: cannot read the file " + file);
    }
    return path;
  }

  private void run() {
    LocalBigQuery local = LocalBigQuery.start(project, location, port);
    for (TableFile file : tables) {
      local.createTable(file.dataset(), file.table(), file.schema());
      if (file.rows() != null) {
        local.load(file.dataset(), file.table(), file.rows());
      }
    }
    if (invoices >= 0) {
      local.addInvoices(invoices);
    }
    System.out.println("Local BigQuery listening on " + local.url());
  }
}
