package io.twinbox.pubsub;

import java.util.Locale;
import java.util.regex.Pattern;
import org.apache.camel.Exchange;
import org.apache.camel.spi.HeaderFilterStrategy;

/**
 * Which message attributes become Camel headers. A publisher chooses attribute names, and Camel
 * obeys some headers: with the component's own filter, which minds the case that headers do not, an
 * attribute {@code CAMELSqlQuery} replaced the SQL of a step (CVE-2026-40453). So names are allowed
 * by their form, and nothing that starts like a control header in any spelling.
 */
final class AttributeHeaders implements HeaderFilterStrategy {

  private static final Pattern ALLOWED = Pattern.compile("[A-Za-z_][A-Za-z0-9_.-]{0,255}");

  /** Whether an attribute of this name becomes a header. */
  static boolean allowed(String name) {
    String lower = name.toLowerCase(Locale.ROOT);
    return ALLOWED.matcher(name).matches()
        && !lower.startsWith("camel")
        && !lower.startsWith("org.apache.camel")
        && !lower.startsWith("goog")
        && !lower.startsWith("x-goog")
        && !lower.equals("breadcrumbid");
  }

  @Override
  public boolean applyFilterToExternalHeaders(
      String headerName, Object headerValue, Exchange exchange) {
    return !allowed(headerName);
  }

  /** Headers never become attributes: what is published is said by the message alone. */
  @Override
  public boolean applyFilterToCamelHeaders(
      String headerName, Object headerValue, Exchange exchange) {
    return true;
  }
}
