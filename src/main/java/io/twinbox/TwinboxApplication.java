package io.twinbox;

import io.twinbox.command.Commands;
import org.springframework.boot.ExitCodeGenerator;
import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;
import org.springframework.boot.context.properties.ConfigurationPropertiesScan;
import org.springframework.context.ConfigurableApplicationContext;

/**
 * Runs the route sets that {@code TWINBOX_ROUTES} names, until it is told to stop; {@code produce}
 * without a schedule runs once and ends the process with its exit code. With a command ({@code java
 * -jar twinbox.jar help}) it does that instead and starts nothing.
 */
@SpringBootApplication
@ConfigurationPropertiesScan
public class TwinboxApplication {

  public static void main(String[] args) {
    if (Commands.isFor(args)) {
      System.exit(Commands.run(args));
    }
    run(args);
  }

  /** Runs the route sets; returns while they run, or ends the process. */
  public static void run(String... args) {
    ConfigurableApplicationContext context;
    try {
      context = SpringApplication.run(TwinboxApplication.class, args);
    } catch (Throwable failure) {
      // Spring Boot has said why. Threads of clients already started must not keep a process alive
      // that does nothing.
      System.exit(1);
      return;
    }
    if (context.getBeanProvider(ExitCodeGenerator.class).stream().findAny().isPresent()) {
      System.exit(SpringApplication.exit(context));
    }
  }
}
