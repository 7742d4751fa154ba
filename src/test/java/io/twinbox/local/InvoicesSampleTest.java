package io.twinbox.local;

import static org.assertj.core.api.Assertions.assertThat;

import com.fasterxml.jackson.databind.DeserializationFeature;
import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.json.JsonMapper;
import java.math.BigDecimal;
import java.nio.charset.StandardCharsets;
import java.security.MessageDigest;
import java.time.Instant;
import java.time.temporal.ChronoUnit;
import java.util.HashSet;
import java.util.HexFormat;
import java.util.List;
import java.util.Locale;
import java.util.Set;
import java.util.TimeZone;
import java.util.TreeMap;
import org.junit.jupiter.api.Test;

/** What everyone who builds on the sample rows relies on. */
class InvoicesSampleTest {
  private static final JsonMapper JSON =
      JsonMapper.builder().enable(DeserializationFeature.USE_BIG_DECIMAL_FOR_FLOATS).build();

  @Test
  void theRowsAreTheSameForEveryone() throws Exception {
    Locale locale = Locale.getDefault();
    TimeZone zone = TimeZone.getDefault();
    try {
      Locale.setDefault(Locale.forLanguageTag("ar-EG-u-nu-arab"));
      TimeZone.setDefault(TimeZone.getTimeZone("Pacific/Auckland"));
      MessageDigest digest = MessageDigest.getInstance("SHA-256");
      for (String row : InvoicesSample.rows(InvoicesSample.DEFAULT_ROWS)) {
        digest.update(row.getBytes(StandardCharsets.UTF_8));
      }
      assertThat(HexFormat.of().formatHex(digest.digest()))
          .isEqualTo("ef704787db1d9581b80514c081c66f6a68df56e6c31e15b6a5e449746abe2341");
    } finally {
      Locale.setDefault(locale);
      TimeZone.setDefault(zone);
    }
  }

  @Test
  void anyRangeIsAPartOfTheWhole() {
    List<String> all = InvoicesSample.rows(1_000);
    assertThat(InvoicesSample.rows(437, 612)).isEqualTo(all.subList(437, 612));
  }

  @Test
  void theRowsAreBelievableAndHoldWhatSurprises() throws Exception {
    Set<String> events = new HashSet<>();
    Set<String> invoices = new HashSet<>();
    TreeMap<Instant, Integer> times = new TreeMap<>();
    int nameless = 0;
    int notDue = 0;
    int foreign = 0;
    int beyondDouble = 0;
    for (String line : InvoicesSample.rows(InvoicesSample.DEFAULT_ROWS)) {
      JsonNode row = JSON.readTree(line);
      assertThat(events.add(row.get("event_id").asText())).isTrue();
      invoices.add(row.get("invoice_id").asText());
      times.merge(Instant.parse(row.get("updated_at").asText()), 1, Integer::sum);
      nameless += row.get("customer_name").isNull() ? 1 : 0;
      notDue += row.get("due_on").isNull() ? 1 : 0;
      foreign += row.get("customer_name").asText().chars().anyMatch(c -> c > 127) ? 1 : 0;
      BigDecimal total = row.get("total").decimalValue();
      beyondDouble += new BigDecimal(total.doubleValue()).compareTo(total) != 0 ? 1 : 0;
      BigDecimal sum = row.get("tax").decimalValue();
      for (JsonNode item : row.get("line_items")) {
        sum = sum.add(item.get("amount").decimalValue());
      }
      assertThat(total).isEqualByComparingTo(sum);
    }
    assertThat(invoices).hasSize(InvoicesSample.DEFAULT_ROWS / 2);
    assertThat(nameless).isBetween(300, 1_000);
    assertThat(notDue).isBetween(500, 1_500);
    assertThat(foreign).isGreaterThan(5_000);
    assertThat(beyondDouble).isGreaterThan(5_000);
    assertThat(times.firstKey()).isAfter("2026-01-01T00:00:00Z");
    assertThat(times.lastKey()).isBefore("2026-07-01T00:00:00Z");
    assertThat(times.values().stream().filter(n -> n > 1).count()).isGreaterThan(200);
    long neighbours =
        times.keySet().stream()
            .filter(t -> times.containsKey(t.plus(1, ChronoUnit.MICROS)))
            .count();
    assertThat(neighbours).isGreaterThan(1_000);
  }
}
