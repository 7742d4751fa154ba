package io.twinbox.outbox;

import io.twinbox.pubsub.PublishOutcome;
import io.twinbox.pubsub.PublishOutcome.Kind;
import java.util.Collections;
import java.util.List;
import java.util.Map;
import java.util.stream.Collectors;
import java.util.stream.IntStream;
import org.springframework.stereotype.Component;

/**
 * Turns the outcomes of a claim into the arrays that {@code settle.sql} takes, so that one
 * statement settles it.
 */
@Component("outboxSettlement")
public class OutboxSettlement {

  private static final int LONGEST_ERROR = 1000;

  /**
   * @param rows the claimed rows
   * @param outcomes what became of each, in the order of the rows
   * @return per kind of outcome the rows' numbers, and message ids or errors in their order
   */
  public Map<String, Object> of(List<Map<String, Object>> rows, List<PublishOutcome> outcomes) {
    Map<Kind, List<Integer>> byKind =
        IntStream.range(0, rows.size())
            .boxed()
            .collect(Collectors.groupingBy(i -> outcomes.get(i).kind()));
    List<Integer> published = byKind.getOrDefault(Kind.PUBLISHED, List.of());
    List<Integer> refused = byKind.getOrDefault(Kind.REFUSED, List.of());
    List<Integer> released = byKind.getOrDefault(Kind.RELEASED, List.of());
    return Map.of(
        "publishedSeqs", seqs(rows, published),
        "messageIds",
            published.stream().map(i -> outcomes.get(i).messageId()).toArray(String[]::new),
        "refusedSeqs", seqs(rows, refused),
        "refusedErrors", errors(outcomes, refused),
        "releasedSeqs", seqs(rows, released),
        "releasedErrors", errors(outcomes, released));
  }

  private static Long[] seqs(List<Map<String, Object>> rows, List<Integer> which) {
    return which.stream()
        .map(i -> ((Number) rows.get(i).get("seq")).longValue())
        .toArray(Long[]::new);
  }

  private static String[] errors(List<PublishOutcome> outcomes, List<Integer> which) {
    return which.stream().map(i -> storable(outcomes.get(i).error())).toArray(String[]::new);
  }

  /** One outcome per row, for rows that were not given to Pub/Sub at all. */
  public List<PublishOutcome> releaseAll(List<Map<String, Object>> rows) {
    return Collections.nCopies(rows.size(), PublishOutcome.released(null));
  }

  private static String storable(String error) {
    if (error == null) {
      return null;
    }
    String clean = error.replace('\0', '\u2400');
    return clean.length() <= LONGEST_ERROR ? clean : clean.substring(0, LONGEST_ERROR);
  }
}
