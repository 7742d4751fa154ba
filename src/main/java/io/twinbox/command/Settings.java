package io.twinbox.command;

import io.twinbox.config.LoadedSettings;
import io.twinbox.config.SettingsCheck;
import io.twinbox.config.TwinboxProperties;
import java.util.ArrayList;
import java.util.List;
import org.springframework.core.env.ConfigurableEnvironment;

/**
 * The {@linkplain LoadedSettings settings} of one command line, with its options laid over them.
 */
final class Settings {

  private final List<String> given;
  private ConfigurableEnvironment environment;

  /**
   * @param given {@code --name=value}, as on a process's command line
   */
  Settings(List<String> given) {
    this.given = new ArrayList<>(given);
  }

  /** An option of a command is a setting under another name; null leaves it as it is. */
  Settings with(String property, Object value) {
    if (value != null) {
      String name = "--" + property + "=";
      given.removeIf(argument -> argument.startsWith(name));
      given.add(name + value);
      environment = null;
    }
    return this;
  }

  List<String> arguments() {
    return List.copyOf(given);
  }

  /** Reads them; a file that cannot be read is Spring Boot's exception. */
  ConfigurableEnvironment environment() {
    if (environment == null) {
      environment = LoadedSettings.of(given);
    }
    return environment;
  }

  ConfigurableEnvironment loadedOrNull() {
    return environment;
  }

  /** The value, or empty text. */
  String get(String property) {
    return environment().getProperty(property, "").strip();
  }

  /**
   * The value of a setting that the command cannot do without.
   *
   * @throws Refused when it is not set, naming option and setting
   */
  String require(String property, String option) {
    String value = get(property);
    if (value.isEmpty()) {
      throw Refused.usage(
          "%s is missing. Give %s, or set %s in the environment or in topic.properties (the folder is TWINBOX_TOPIC_DIR, '%s' now)."
              .formatted(
                  SettingsCheck.variable(property),
                  option,
                  SettingsCheck.variable(property),
                  get("twinbox.topic-dir")));
    }
    return value;
  }

  /** Bound and checked, each by itself; not whether they suit the route sets. */
  TwinboxProperties properties() {
    return new SettingsCheck(environment()).bindAlone();
  }
}
