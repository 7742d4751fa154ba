package io.twinbox.config;

import java.util.Properties;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import org.postgresql.Driver;

/**
 * A database's JDBC URL, which often carries a password. The driver shows a URL that it cannot read
 * whole, in its exception and in its log, and pool and Flyway pass that on; so such a URL is
 * refused before any of them sees it.
 */
public final class DatabaseUrl {

  /** With hosts the part before the slash, which must hold no login; without, a database's name. */
  private static final Pattern FORM =
      Pattern.compile("jdbc:postgresql:(?://([^/?@]*)/)?[^/@?]*(?:\\?.*)?", Pattern.DOTALL);

  private static final Pattern PORT = Pattern.compile(".*\\]?:([^:\\]]*)");

  private static final int HIGHEST_PORT = 65_535;

  private DatabaseUrl() {}

  /**
   * Refuses a URL that the driver cannot read, without showing it.
   *
   * @param variable the setting's name in the environment
   * @throws StartupException naming the setting and the form it must have
   */
  public static void check(String variable, String url) {
    if (!url.startsWith("jdbc:postgresql:")) {
      throw refusal(
          variable, "is no JDBC URL of PostgreSQL: it does not begin with jdbc:postgresql:");
    }
    Matcher form = FORM.matcher(url);
    if (!form.matches()) {
      throw refusal(
          variable,
          "cannot be read: it has a user or password before the host, or no database behind it");
    }
    String hosts = form.group(1);
    if (hosts != null) {
      for (String host : hosts.split(",", -1)) {
        Matcher port = PORT.matcher(host);
        if (port.matches() && !isPort(port.group(1))) {
          throw refusal(variable, "cannot be read: a port is no number from 1 to 65535");
        }
      }
    }
    if (Driver.parseURL(url, new Properties()) == null) {
      throw refusal(
          variable, "cannot be read: a % in it is not followed by two hexadecimal digits");
    }
  }

  private static boolean isPort(String text) {
    return text.matches("[0-9]{1,5}")
        && Integer.parseInt(text) >= 1
        && Integer.parseInt(text) <= HIGHEST_PORT;
  }

  private static StartupException refusal(String variable, String what) {
    return new StartupException(
        "%s %s.".formatted(variable, what),
        "Write jdbc:postgresql://HOST:5432/DATABASE, and give user and password in settings of their own (%s)."
            .formatted(
                variable.replace("_URL", "_USERNAME")
                    + ", "
                    + variable.replace("_URL", "_PASSWORD")));
  }

  /** To be shown: where the database is, without the parameters, which may hold secrets. */
  static String shown(String url) {
    return url.replaceAll("//[^/]*@", "//***@")
        .replaceAll(
            "(?i)([?&][^=&]*(?:password|user|token|secret|key)[^=&]*)=.*?(?=&[\\w.-]+=|$)",
            "$1=***");
  }
}
