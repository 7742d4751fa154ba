package io.twinbox.local.pubsub;

import java.util.List;
import java.util.function.Function;

/**
 * One page of a list sorted by name; the token of the next page is the last name of this one.
 *
 * @param nextToken empty on the last page
 */
record Page<T>(List<T> items, String nextToken) {
  private static final int DEFAULT_SIZE = 100;
  private static final int MAX_SIZE = 1_000;

  static <T> Page<T> of(List<T> all, int size, String token, Function<T, String> name) {
    if (size < 0 || size > MAX_SIZE) {
      throw Errors.invalid("Invalid page_size given: " + size + ". Must be 0 to " + MAX_SIZE + ".");
    }
    List<T> rest = all.stream().filter(item -> name.apply(item).compareTo(token) > 0).toList();
    int end = size == 0 ? DEFAULT_SIZE : size;
    if (rest.size() <= end) {
      return new Page<>(rest, "");
    }
    List<T> items = rest.subList(0, end);
    return new Page<>(items, name.apply(items.get(end - 1)));
  }
}
