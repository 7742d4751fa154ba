package io.twinbox.config;

import java.util.List;
import org.springframework.boot.context.config.ConfigDataEnvironmentPostProcessor;
import org.springframework.boot.context.properties.source.ConfigurationPropertySources;
import org.springframework.core.env.ConfigurableEnvironment;
import org.springframework.core.env.SimpleCommandLinePropertySource;
import org.springframework.core.env.StandardEnvironment;

/**
 * The settings as a process of Twinbox would have them (command line, environment, {@code
 * topic.properties}, {@code application.properties}), read without starting one.
 */
public final class LoadedSettings {

  private LoadedSettings() {}

  /**
   * Reads them; a file that cannot be read is Spring Boot's exception.
   *
   * @param arguments {@code --name=value}, as on a process's command line
   */
  public static ConfigurableEnvironment of(List<String> arguments) {
    StandardEnvironment environment = new StandardEnvironment();
    environment
        .getPropertySources()
        .addFirst(new SimpleCommandLinePropertySource(arguments.toArray(String[]::new)));
    ConfigDataEnvironmentPostProcessor.applyTo(environment);
    ConfigurationPropertySources.attach(environment);
    return environment;
  }
}
