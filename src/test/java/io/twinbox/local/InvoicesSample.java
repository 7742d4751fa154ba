package io.twinbox.local;

import java.math.BigDecimal;
import java.math.RoundingMode;
import java.nio.file.Path;
import java.time.Instant;
import java.time.LocalDate;
import java.time.ZoneOffset;
import java.time.format.DateTimeFormatter;
import java.time.temporal.ChronoUnit;
import java.util.AbstractList;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.SplittableRandom;

/**
 * The rows of the sample table {@code billing.invoices}, as newline-delimited JSON: the same for
 * everyone, on every JDK, in every time zone. A row depends on its index only, so any range of them
 * can be had without the others, and more rows begin with the same ones.
 *
 * <p>Rows come in blocks of eight events of four invoices. In them is what real tables surprise
 * with: names that are not ASCII or missing, notes with quotes and line breaks, amounts that a
 * double cannot hold, equal {@code updated_at} values and ones a microsecond apart.
 */
public final class InvoicesSample {
  public static final String DATASET = "billing";
  public static final String TABLE = "invoices";

  /** The table's schema, seen from the project's folder. */
  public static final Path SCHEMA = Path.of("topics", "invoices", "sample", "schema.json");

  /** How many rows the local run starts with. */
  public static final int DEFAULT_ROWS = 10_000;

  private static final long SEED = 20_260_101L;
  private static final Instant START = Instant.parse("2026-01-01T06:00:00Z");

  /** From the first to the last updated_at: to the end of June 2026, in microseconds. */
  private static final long WINDOW_MICROS = 180L * 24 * 3600 * 1_000_000;

  /** Fills the window with the default rows; more rows fall between these. */
  private static final long BLOCK_STEP_MICROS = 12_441_600_000L + 7_919_331L;

  /** One invoice has amounts of more digits than a double keeps. */
  private static final long HUGE_INVOICE = 2_222;

  private static final BigDecimal HUGE_PRICE = new BigDecimal("90071992547409.93");

  private static final long EVENT_STEP_MICROS = 1_000_000_000L;

  private static final int[] INVOICE_OF_POSITION = {0, 0, 1, 2, 2, 2, 3, 3};
  private static final String[] EVENT_OF_POSITION = {
    "issued", "paid", "issued", "issued", "corrected", "paid", "issued", "reminded"
  };

  private static final String[] NAMES = {
    "Müller & Söhne GmbH",
    "Société d'Électricité du Nord",
    "Łódź Żagle Sp. z o.o.",
    "Ægir Ólafsson ehf.",
    "Αφοί Παπαδόπουλοι Α.Ε.",
    "株式会社さくら",
    "Čokoláda Říp, s.r.o.",
    "İstanbul Çay Ltd. Şti.",
    "Smith, Jones & Partners",
    "Bäckerei \"Zum Löwen\"",
    "ООО Берёза",
    "Cafè Niçois 🥐"
  };

  private static final String[] ARTICLES = {
    "Paper A4, 500 sheets",
    "Espresso beans 1 kg",
    "Schraube M4 × 20 mm",
    "Câble USB-C 2 m",
    "Desk lamp",
    "Wartung (Std.)",
    "Toner \"XL\" black",
    "緑茶 100 g"
  };

  /** What an article costs about, in ten-thousandths of a euro. */
  private static final long[] PRICES = {
    49_900, 185_000, 375, 99_000, 390_000, 950_000, 749_000, 72_500
  };

  private static final String[] NOTES = {
    "Please quote the invoice number.",
    "Lieferung frei Haus,\nbitte an Tor 3 melden.",
    "Customer asked: \"why two parcels?\"",
    "C:\\archive\\2026",
    "Danke 🙏"
  };

  private InvoicesSample() {}

  /** The first rows. */
  public static List<String> rows(int count) {
    return rows(0, count);
  }

  /** The rows from one index to another, that one excluded; made one by one as they are read. */
  public static List<String> rows(int from, int to) {
    if (from < 0 || to < from) {
      throw new IllegalArgumentException("No rows from " + from + " to " + to);
    }
    return new AbstractList<>() {
      @Override
      public String get(int index) {
        if (index < 0 || index >= size()) {
          throw new IndexOutOfBoundsException(index);
        }
        return json(from + index);
      }

      @Override
      public int size() {
        return to - from;
      }
    };
  }

  /** The sum of the totals of the first rows: what every stage must still have. */
  public static BigDecimal sumOfTotals(int count) {
    BigDecimal sum = BigDecimal.ZERO;
    for (int i = 0; i < count; i++) {
      sum = sum.add(Invoice.of(i).total());
    }
    return sum;
  }

  private record LineItem(String sku, String description, int quantity, BigDecimal unitPrice) {
    BigDecimal amount() {
      return unitPrice.multiply(BigDecimal.valueOf(quantity)).setScale(2, RoundingMode.HALF_UP);
    }
  }

  /** What an event says about its invoice; a correction changes the quantity of the first item. */
  private record Invoice(long number, SplittableRandom random, List<LineItem> items) {

    static Invoice of(int row) {
      int position = row % 8;
      long number = row / 8 * 4L + INVOICE_OF_POSITION[position];
      SplittableRandom random = new SplittableRandom(SEED + number * 7_919);
      // The three events of the block's third invoice: the correction and what follows it.
      boolean corrected = position == 4 || position == 5;
      List<LineItem> items = new ArrayList<>();
      int count = 1 + random.nextInt(4);
      for (int i = 0; i < count; i++) {
        int article = random.nextInt(ARTICLES.length);
        int quantity = 1 + random.nextInt(40);
        BigDecimal price = price(random, article);
        if (number == HUGE_INVOICE) {
          quantity = 1;
          price = HUGE_PRICE;
        }
        items.add(
            new LineItem(
                String.format(Locale.ROOT, "SKU-%04d", 1000 + article * 37),
                ARTICLES[article],
                corrected && i == 0 ? quantity + 1 : quantity,
                price));
      }
      return new Invoice(number, random, items);
    }

    /** Within a tenth of the list price; to the cent, and finer for what costs less than that. */
    private static BigDecimal price(SplittableRandom random, int article) {
      long price = PRICES[article] * (90 + random.nextInt(21)) / 100;
      return PRICES[article] < 10_000
          ? BigDecimal.valueOf(price, 4)
          : BigDecimal.valueOf(price / 100, 2);
    }

    BigDecimal net() {
      return items.stream().map(LineItem::amount).reduce(BigDecimal.ZERO, BigDecimal::add);
    }

    BigDecimal tax() {
      return net().multiply(new BigDecimal("0.19")).setScale(2, RoundingMode.HALF_UP);
    }

    BigDecimal total() {
      return net().add(tax());
    }
  }

  private static String json(int row) {
    int position = row % 8;
    Invoice invoice = Invoice.of(row);
    SplittableRandom random = invoice.random();
    int customer = random.nextInt(500);
    boolean nameless = random.nextInt(16) == 0;
    int terms = random.nextInt(10);
    int note = random.nextInt(NOTES.length * 4);
    LocalDate issued =
        LocalDate.ofInstant(instant(row - position + firstPosition(position)), ZoneOffset.UTC);
    String id = String.format(Locale.ROOT, "INV-2026-%07d", invoice.number() + 1);

    StringBuilder out = new StringBuilder(700);
    out.append("{\"invoice_id\":");
    quote(out, id);
    out.append(",\"event_id\":");
    quote(out, id + "/" + EVENT_OF_POSITION[position]);
    out.append(",\"event_type\":");
    quote(out, EVENT_OF_POSITION[position]);
    out.append(",\"customer_id\":");
    quote(out, String.format(Locale.ROOT, "C-%05d", customer));
    out.append(",\"customer_name\":");
    quote(out, nameless ? null : NAMES[customer % NAMES.length]);
    out.append(",\"currency\":\"EUR\"");
    out.append(",\"total\":").append(invoice.total().toPlainString());
    out.append(",\"tax\":").append(invoice.tax().toPlainString());
    out.append(",\"issued_on\":");
    quote(out, issued.toString());
    out.append(",\"due_on\":");
    quote(out, terms == 0 ? null : issued.plusDays(terms < 5 ? 14 : 30).toString());
    out.append(",\"note\":");
    quote(out, note < NOTES.length ? NOTES[note] : null);
    out.append(",\"line_items\":[");
    for (LineItem item : invoice.items()) {
      out.append("{\"sku\":");
      quote(out, item.sku());
      out.append(",\"description\":");
      quote(out, item.description());
      out.append(",\"quantity\":").append(item.quantity());
      out.append(",\"unit_price\":").append(item.unitPrice().toPlainString());
      out.append(",\"amount\":").append(item.amount().toPlainString()).append("},");
    }
    out.setLength(out.length() - 1);
    out.append("],\"updated_at\":");
    quote(out, DateTimeFormatter.ISO_INSTANT.format(instant(row)));
    return out.append('}').toString();
  }

  private static int firstPosition(int position) {
    int first = position;
    while (first > 0 && INVOICE_OF_POSITION[first - 1] == INVOICE_OF_POSITION[position]) {
      first--;
    }
    return first;
  }

  /** When a row became visible, to the microsecond. */
  private static Instant instant(int row) {
    int block = row / 8;
    int position = row % 8;
    SplittableRandom random = new SplittableRandom(SEED ^ (block * 31L));
    long jitter = random.nextLong(EVENT_STEP_MICROS / 2);
    long offset =
        switch (position) {
          // The correction comes one microsecond after the invoice it corrects.
          case 4 -> 3 * EVENT_STEP_MICROS + jitter + 1;
          // In every fifth block the last two rows are of the same microsecond.
          case 7 -> (block % 5 == 0 ? 6 : 7) * EVENT_STEP_MICROS + jitter;
          default -> position * EVENT_STEP_MICROS + jitter;
        };
    return START.plus(block * BLOCK_STEP_MICROS % WINDOW_MICROS + offset, ChronoUnit.MICROS);
  }

  private static void quote(StringBuilder out, String text) {
    if (text == null) {
      out.append("null");
      return;
    }
    out.append('"');
    for (int i = 0; i < text.length(); i++) {
      char c = text.charAt(i);
      switch (c) {
        case '"' -> out.append("\\\"");
        case '\\' -> out.append("\\\\");
        case '\n' -> out.append("\\n");
        default -> out.append(c);
      }
    }
    out.append('"');
  }
}
