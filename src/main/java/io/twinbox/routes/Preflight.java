package io.twinbox.routes;

import io.twinbox.config.GoogleCredentialsCheck;
import io.twinbox.config.SettingsCheck;
import io.twinbox.config.StartupLog;
import io.twinbox.config.TwinboxProperties;
import java.util.List;
import java.util.Optional;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.beans.factory.config.BeanFactoryPostProcessor;
import org.springframework.beans.factory.config.ConfigurableListableBeanFactory;
import org.springframework.context.EnvironmentAware;
import org.springframework.core.env.ConfigurableEnvironment;
import org.springframework.core.env.Environment;
import org.springframework.stereotype.Component;

/**
 * Checks settings and route files before the first bean is made: no port is open yet and the
 * database has not been touched, so a process that cannot do its work changes nothing.
 */
@Component
class Preflight implements BeanFactoryPostProcessor, EnvironmentAware {

  private static final Logger log = LoggerFactory.getLogger("io.twinbox.startup");

  private ConfigurableEnvironment environment;

  @Override
  public void setEnvironment(Environment environment) {
    this.environment = (ConfigurableEnvironment) environment;
  }

  @Override
  public void postProcessBeanFactory(ConfigurableListableBeanFactory beans) {
    StartupLog.sayFailuresOnce();
    TwinboxProperties properties = new SettingsCheck(environment).check();
    RouteFiles routes = RouteFiles.read(properties);
    List<Finding> findings =
        RouteRules.check(
            routes.files(),
            Surroundings.here(property -> Optional.ofNullable(environment.getProperty(property))));
    if (!findings.isEmpty()) {
      throw new InvalidRoutesException(findings);
    }
    GoogleCredentialsCheck.check(properties.routeSets(), environment);
    beans.registerSingleton("routeFiles", routes);
    log.info(
        "Runs {} of topic folder {}, routes from {}, as {}",
        String.join(", ", properties.routeSets()),
        properties.topicDir().toAbsolutePath().normalize(),
        properties.routesLocation(),
        properties.pod());
  }
}
