package io.twinbox.bench;

import java.util.List;
import java.util.Set;
import java.util.stream.Stream;

/**
 * What the benchmark is told: {@code --rows=100000 --rounds=3 --only=drain,latency --pubsub=local}.
 *
 * @param rows rows of each measured drain
 * @param rounds how often each is repeated
 * @param only which parts run
 * @param google whether Google's emulator is used where it is found
 * @param seconds of each measurement that is bounded by time
 * @param history rows that were published before a drain begins, in the tables of all that drain
 * @param claims rows of a claim with which one pod is compared with two
 * @param keys ordering keys of the rows that go by under the pin; 0 for rows without
 * @param scale share of the claim's 5,600,000 rows that are loaded
 */
record Options(
    int rows,
    int rounds,
    Set<String> only,
    boolean google,
    int seconds,
    double scale,
    int history,
    List<Integer> claims,
    int keys) {

  static final List<String> PARTS =
      List.of("drain", "twinbox", "latency", "pods", "idle", "pin", "ordered", "claims");

  /** All parts by default; Twinbox's drain alone is a share of one of them. */
  boolean runs(String part) {
    return only.isEmpty() ? !part.equals("twinbox") : only.contains(part);
  }

  static Options parse(String[] arguments) {
    int rows = 100_000;
    int rounds = 3;
    int seconds = 20;
    double scale = 1;
    int history = 0;
    int keys = 0;
    List<Integer> claims = List.of(10, 20, 50);
    boolean google = true;
    Set<String> only = Set.of();
    for (String argument : arguments) {
      String[] option = argument.split("=", 2);
      String value = option.length == 2 ? option[1] : "";
      switch (option[0]) {
        case "--rows" -> rows = Integer.parseInt(value);
        case "--rounds" -> rounds = Integer.parseInt(value);
        case "--seconds" -> seconds = Integer.parseInt(value);
        case "--scale" -> scale = Double.parseDouble(value);
        case "--history" -> history = Integer.parseInt(value);
        case "--keys" -> keys = Integer.parseInt(value);
        case "--claims" -> claims = Stream.of(value.split(",")).map(Integer::valueOf).toList();
        case "--pubsub" -> google = !value.equals("local");
        case "--only" -> only = Set.of(value.split(","));
        default -> throw new IllegalArgumentException("Unknown option " + option[0]);
      }
    }
    if (!PARTS.containsAll(only)) {
      throw new IllegalArgumentException("--only takes some of " + PARTS);
    }
    return new Options(rows, rounds, only, google, seconds, scale, history, claims, keys);
  }
}
