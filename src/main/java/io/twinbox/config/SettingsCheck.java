package io.twinbox.config;

import jakarta.validation.Validation;
import jakarta.validation.ValidatorFactory;
import java.io.IOException;
import java.io.UncheckedIOException;
import java.nio.file.Files;
import java.time.Duration;
import java.util.ArrayList;
import java.util.Comparator;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Set;
import java.util.TreeMap;
import java.util.TreeSet;
import java.util.regex.Pattern;
import org.hibernate.validator.messageinterpolation.ParameterMessageInterpolator;
import org.springframework.boot.context.properties.bind.BindException;
import org.springframework.boot.context.properties.bind.Bindable;
import org.springframework.boot.context.properties.bind.Binder;
import org.springframework.boot.context.properties.bind.validation.ValidationBindHandler;
import org.springframework.boot.convert.DurationStyle;
import org.springframework.core.env.ConfigurableEnvironment;
import org.springframework.core.env.EnumerablePropertySource;
import org.springframework.core.env.PropertySource;
import org.springframework.core.env.StandardEnvironment;
import org.springframework.core.io.ClassPathResource;
import org.springframework.core.io.support.PropertiesLoaderUtils;
import org.springframework.scheduling.support.CronExpression;
import org.springframework.validation.beanvalidation.SpringValidatorAdapter;

/**
 * Checks what this process was told before anything is built on it: a wrong setting is a message
 * about that setting, and nothing is touched, the database least of all.
 */
public final class SettingsCheck {

  /** Every route set, in the order of the flow. */
  public static final List<String> ROUTE_SETS =
      List.of("produce", "dispatch", "consume", "maintain");

  private static final String PREFIX = "twinbox.";
  private static final String VARIABLE_PREFIX = "TWINBOX_";

  private static final Pattern DURATION = Pattern.compile("[0-9]+(ms|s|m|h|d)");
  private static final Pattern NAME = Pattern.compile("(?!goog)[A-Za-z][A-Za-z0-9._~+%-]{2,254}");

  /**
   * What Kubernetes adds to every pod of a namespace that has a Service called {@code twinbox} or
   * {@code twinbox-…}: no setting of ours, and no reason to refuse.
   */
  private static final Pattern SERVICE_LINK =
      Pattern.compile(
          ".*_(SERVICE_HOST|SERVICE_PORT|SERVICE_PORT_.*|PORT|PORT_[0-9]+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)");

  private final ConfigurableEnvironment environment;
  private final Set<String> known = new TreeSet<>();
  private TwinboxProperties properties;

  public SettingsCheck(ConfigurableEnvironment environment) {
    this.environment = environment;
    try {
      // It documents every setting, so what is not in it is none.
      PropertiesLoaderUtils.loadProperties(new ClassPathResource("application.properties"))
          .stringPropertyNames()
          .stream()
          .filter(name -> name.startsWith(PREFIX))
          .forEach(known::add);
    } catch (IOException e) {
      throw new UncheckedIOException("application.properties is not on the classpath", e);
    }
  }

  /**
   * @throws StartupException for the first kind of fault found, naming all of that kind
   * @throws BindException for a value that is none of its setting's
   */
  public TwinboxProperties check() {
    refuseUnknownSettings();
    properties = bind();
    Set<String> sets = properties.routeSets();
    if (properties.migratesOnly()) {
      refuseRoutesBesideMigrations(sets);
      requireDatabase();
      checkDurations();
      return properties;
    }
    requireTopicDir();
    refuseUnknownSets(sets);
    requireSettings(sets, true);
    requireDatabase();
    checkDurations();
    checkDispatch(sets);
    checkConsume(sets);
    checkProduce(sets);
    RetentionCheck.check(properties, sets);
    checkOperate();
    return properties;
  }

  /**
   * Each setting by itself, without what a route set would need beside it.
   *
   * @throws StartupException for a name that is no setting
   * @throws BindException for a value that is none of its setting's
   */
  public TwinboxProperties bindAlone() {
    refuseUnknownSettings();
    return bind();
  }

  /**
   * What {@link #check()} would refuse in a topic's folder, all of it, whatever belongs to a
   * deployment (project, database) left out.
   *
   * @param sets the route sets that the folder is for
   * @throws BindException for a value that is none of its setting's
   */
  public List<StartupException> checkFolder(Set<String> sets) {
    List<StartupException> found = new ArrayList<>();
    collect(found, this::refuseUnknownSettings);
    properties = bind();
    collect(found, () -> refuseUnknownSets(sets));
    collect(found, () -> requireSettings(sets, false));
    collect(found, this::checkDurations);
    collect(found, () -> checkDispatch(sets));
    collect(found, () -> checkConsume(sets));
    if (sets.contains("produce")) {
      collect(found, () -> checkProduce(Set.of("produce")));
    }
    collect(found, () -> RetentionCheck.check(properties, sets));
    return found;
  }

  /** As {@link #checkFolder} has read them. */
  public TwinboxProperties bound() {
    return properties;
  }

  private static void collect(List<StartupException> found, Runnable check) {
    try {
      check.run();
    } catch (StartupException e) {
      found.add(e);
    }
  }

  /** As Spring Boot will bind it, which is too late here: it makes beans first. */
  private TwinboxProperties bind() {
    try (ValidatorFactory validators =
        Validation.byDefaultProvider()
            .configure()
            .messageInterpolator(new ParameterMessageInterpolator())
            .buildValidatorFactory()) {
      return Binder.get(environment)
          .bind(
              "twinbox",
              Bindable.of(TwinboxProperties.class),
              new ValidationBindHandler(new SpringValidatorAdapter(validators.getValidator())))
          .get();
    }
  }

  /**
   * A misspelt setting would run with the default, and nobody would know. Only names that begin
   * with twinbox: a topic may have values of its own for its handler.
   */
  private void refuseUnknownSettings() {
    Map<String, String> unknown = new TreeMap<>();
    for (PropertySource<?> source : environment.getPropertySources()) {
      if (source instanceof EnumerablePropertySource<?> names) {
        boolean variables =
            source.getName().endsWith(StandardEnvironment.SYSTEM_ENVIRONMENT_PROPERTY_SOURCE_NAME);
        for (String name : names.getPropertyNames()) {
          boolean ours =
              variables
                  ? name.toUpperCase(Locale.ROOT).startsWith(VARIABLE_PREFIX)
                      && !SERVICE_LINK.matcher(name.toUpperCase(Locale.ROOT)).matches()
                  : name.startsWith(PREFIX);
          if (ours && known.stream().noneMatch(k -> bare(k).equals(bare(name)))) {
            unknown.putIfAbsent(
                name,
                variables
                    ? "Environment variable " + name
                    : "%s (in %s)"
                        .formatted(name, source.getName().replaceAll("^.*resource ", "")));
          }
        }
      }
    }
    if (unknown.isEmpty()) {
      return;
    }
    String first = unknown.keySet().iterator().next();
    String nearest =
        known.stream()
            .min(Comparator.comparingInt(k -> distance(bare(k), bare(first))))
            .orElseThrow();
    throw new StartupException(
        "%s: no setting of Twinbox has this name.".formatted(String.join(", ", unknown.values())),
        "Correct the name or take it away. Nearest to %s is %s, in the environment %s."
            .formatted(first, nearest, variable(nearest)));
  }

  private void requireTopicDir() {
    if (!Files.isDirectory(properties.topicDir()) || !Files.isReadable(properties.topicDir())) {
      throw new StartupException(
          "TWINBOX_TOPIC_DIR is '%s', which is no folder that this process can read."
              .formatted(properties.topicDir()),
          "Set it to the topic's folder, which holds query.sql, handle.camel.yaml and topic.properties as far as the route sets need them.");
    }
  }

  private static void refuseRoutesBesideMigrations(Set<String> sets) {
    if (!sets.isEmpty()) {
      throw new StartupException(
          "TWINBOX_MIGRATIONS is 'only', which ends after the migrations, but TWINBOX_ROUTES asks for %s."
              .formatted(String.join(", ", sets)),
          "Take TWINBOX_ROUTES away for a migration job; for a process that migrates and then works set TWINBOX_MIGRATIONS=run.");
    }
  }

  private static void refuseUnknownSets(Set<String> sets) {
    for (String name : sets) {
      if (!ROUTE_SETS.contains(name)) {
        throw new StartupException(
            "TWINBOX_ROUTES names the unknown route set '%s'.".formatted(name),
            "Use a comma list of " + String.join(", ", ROUTE_SETS) + ".");
      }
    }
    if (sets.isEmpty()) {
      throw new StartupException(
          "TWINBOX_ROUTES is not set, so there is nothing to run.",
          "Set it to a comma list of " + String.join(", ", ROUTE_SETS) + ".");
    }
  }

  private void requireSettings(Set<String> sets, boolean deployed) {
    List<String> missing = new ArrayList<>();
    if (sets.contains("dispatch") || sets.contains("produce")) {
      require(missing, "topic.name");
    }
    if (sets.contains("consume")) {
      require(missing, "subscription.name");
      require(missing, "twinbox.consumer");
    }
    if (sets.contains("produce")) {
      require(missing, "twinbox.source");
    }
    if (deployed && !sets.equals(Set.of("maintain"))) {
      require(missing, "google.cloud.project");
    }
    if (!missing.isEmpty()) {
      throw new StartupException(
          "%s %s missing; the route set%s %s %s."
              .formatted(
                  String.join(", ", missing),
                  missing.size() == 1 ? "is" : "are",
                  sets.size() == 1 ? "" : "s",
                  String.join(", ", sets),
                  (sets.size() == 1 ? "needs " : "need ") + (missing.size() == 1 ? "it" : "them")),
          "Set %s in the environment or in %s; is TWINBOX_TOPIC_DIR (%s) the topic's folder?"
              .formatted(
                  missing.size() == 1 ? "it" : "them",
                  properties.topicDir().resolve("topic.properties"),
                  properties.topicDir()));
    }
    checkName("topic.name", "invoices");
    checkName("subscription.name", "invoices-ledger");
  }

  /** By Pub/Sub's rule for names (cloud.google.com/pubsub/docs/pubsub-basics#resource_names). */
  private void checkName(String property, String example) {
    String value = environment.getProperty(property, "");
    if (!value.isBlank() && !NAME.matcher(value).matches()) {
      throw new StartupException(
          "%s is '%s', which is no name in Pub/Sub.".formatted(variable(property), value),
          "Write the short name, as %s: a letter first, then 2 to 254 letters, digits and - . _ ~ + %%; no quotes, no spaces, no projects/…, and not goog at its beginning."
              .formatted(example));
    }
  }

  private void require(List<String> missing, String property) {
    String value = environment.getProperty(property);
    if (value == null || value.isBlank()) {
      missing.add(variable(property));
    }
  }

  private void requireDatabase() {
    String url = environment.getProperty("spring.datasource.url");
    if (url == null || url.isBlank()) {
      throw new StartupException(
          "SPRING_DATASOURCE_URL is missing; every route set needs the database.",
          "Set it to jdbc:postgresql://HOST:5432/DATABASE, with SPRING_DATASOURCE_USERNAME and SPRING_DATASOURCE_PASSWORD beside it.");
    }
    DatabaseUrl.check("SPRING_DATASOURCE_URL", url);
  }

  /**
   * Java and PostgreSQL both read some of these, and not alike: 60000 is a minute for one and
   * sixteen hours for the other. What the two read alike is allowed.
   */
  private void checkDurations() {
    for (String name : known) {
      if (name.equals("twinbox.produce.lookback") || !isDuration(name)) {
        continue;
      }
      String value = environment.getProperty(name, "").strip();
      if (!DURATION.matcher(value).matches() || value.matches("0+[a-z]+")) {
        throw new StartupException(
            "%s (%s) is '%s', which is no duration above zero with a unit."
                .formatted(variable(name), name, value),
            "Write a number and ms, s, m, h or d, for example 500ms, 30s, 15m.");
      }
    }
    String lockTimeout = environment.getRequiredProperty("twinbox.consume.lock-timeout").strip();
    if (lockTimeout.matches("[0-9]+m")) {
      throw new StartupException(
          "TWINBOX_CONSUME_LOCK_TIMEOUT is '%s'; PostgreSQL, which reads it, knows no unit m."
              .formatted(lockTimeout),
          "Write it in seconds.");
    }
  }

  private static boolean isTime(String text) {
    try {
      return !DurationStyle.detectAndParse(text).isNegative();
    } catch (IllegalArgumentException | ArithmeticException e) {
      return false;
    }
  }

  /** Without a login the management port must not be reachable from elsewhere. */
  private void checkOperate() {
    String address = environment.getProperty("management.server.address", "").strip();
    if (!properties.operate().loginRequired()
        && !List.of("127.0.0.1", "localhost", "::1").contains(address)) {
      throw new StartupException(
          "TWINBOX_OPERATE_LOGIN_REQUIRED is false, and the management port would be open to other machines (MANAGEMENT_SERVER_ADDRESS is %s)."
              .formatted(address.isEmpty() ? "not set" : "'" + address + "'"),
          "Leave it true and set SPRING_SECURITY_USER_NAME and SPRING_SECURITY_USER_PASSWORD, or set MANAGEMENT_SERVER_ADDRESS to 127.0.0.1.");
    }
    if (properties.operate().stuckAfter().compareTo(Duration.ofMinutes(1)) < 0) {
      throw new StartupException(
          "TWINBOX_OPERATE_STUCK_AFTER (twinbox.operate.stuck-after) is less than a minute: a slow call would restart the process.",
          "Set it to 1m or more.");
    }
  }

  private static boolean isDuration(String name) {
    Class<?> type = TwinboxProperties.class;
    for (String part : name.substring(PREFIX.length()).split("\\.")) {
      Class<?> owner = type;
      type = null;
      for (var component :
          owner.isRecord()
              ? owner.getRecordComponents()
              : new java.lang.reflect.RecordComponent[0]) {
        if (bare(component.getName()).equals(bare(part))) {
          type = component.getType();
        }
      }
      if (type == null) {
        return false;
      }
    }
    return type == Duration.class;
  }

  private void checkDispatch(Set<String> sets) {
    var dispatch = properties.dispatch();
    if (sets.contains("dispatch")
        && dispatch.publishTimeout().multipliedBy(2).compareTo(dispatch.lease()) > 0) {
      throw new StartupException(
          "TWINBOX_DISPATCH_PUBLISH_TIMEOUT (%s) is more than half of TWINBOX_DISPATCH_LEASE (%s): a claim that waits for a publisher would have to be given up, and another pod would claim rows that are still being published."
              .formatted(
                  environment.getProperty("twinbox.dispatch.publish-timeout"),
                  environment.getProperty("twinbox.dispatch.lease")),
          "Make the lease at least twice the publish timeout.");
    }
  }

  private void checkConsume(Set<String> sets) {
    String name = "spring.datasource.hikari.maximum-pool-size";
    int pool;
    try {
      pool = environment.getRequiredProperty(name, Integer.class);
    } catch (RuntimeException e) {
      throw new StartupException(
          "%s is '%s', which is no number."
              .formatted(variable(name), environment.getProperty(name)),
          "Write how many database connections this process may have.");
    }
    int concurrency = properties.consume().concurrency();
    if (sets.contains("consume") && pool < concurrency + 2) {
      throw new StartupException(
          "%s (%d) is too small for TWINBOX_CONSUME_CONCURRENCY (%d): handlers would wait for connections while their messages' leases run."
              .formatted(variable(name), pool, concurrency),
          "Make the pool at least %d.".formatted(concurrency + 2));
    }
  }

  private void checkProduce(Set<String> sets) {
    if (!sets.contains("produce")) {
      return;
    }
    if (properties.produce().check() && sets.size() > 1) {
      throw new StartupException(
          "TWINBOX_PRODUCE_CHECK checks produce and ends the process, and TWINBOX_ROUTES names %s too."
              .formatted(
                  String.join(", ", sets.stream().filter(s -> !s.equals("produce")).toList())),
          "Set TWINBOX_ROUTES to produce for the check.");
    }
    checkBackfill(sets);
    String schedule = properties.produce().schedule();
    if (!properties.produce().scheduled() && sets.size() > 1) {
      throw new StartupException(
          "produce has no schedule, so it would run once and end the process, and with it %s."
              .formatted(
                  String.join(", ", sets.stream().filter(s -> !s.equals("produce")).toList())),
          "Set TWINBOX_PRODUCE_SCHEDULE to a cron expression, or run produce as a process of its own.");
    }
    String lookback = properties.produce().lookback();
    if (properties.produce().watermarkType().equals("INT64")
        && lookback != null
        && !lookback.isBlank()
        && !lookback.strip().matches("[0-9]+")) {
      throw new StartupException(
          "TWINBOX_PRODUCE_LOOKBACK is '%s'; an INT64 watermark goes back by a number."
              .formatted(lookback),
          "Write a whole number, 0 for none.");
    }
    if (RetentionCheck.TIMED.contains(properties.produce().watermarkType())
        && lookback != null
        && !lookback.isBlank()
        && !isTime(lookback.strip())) {
      throw new StartupException(
          "TWINBOX_PRODUCE_LOOKBACK is '%s', which is no duration.".formatted(lookback),
          "Write it as 1h, 0 for none; one below zero would leave rows out.");
    }
    if (!schedule.strip().equals("-") && !CronExpression.isValidExpression(schedule)) {
      throw new StartupException(
          "TWINBOX_PRODUCE_SCHEDULE is '%s', which is no cron expression.".formatted(schedule),
          "Write six fields, second minute hour day month weekday, for example '0 */5 * * * *' for every five minutes; '-' runs once and exits.");
    }
  }

  private void checkBackfill(Set<String> sets) {
    var backfill = properties.produce().backfill();
    if (!backfill.asked()) {
      return;
    }
    if (sets.size() > 1) {
      throw new StartupException(
          "TWINBOX_PRODUCE_BACKFILL_FROM asks for a backfill, which ends the process, and TWINBOX_ROUTES names %s too."
              .formatted(
                  String.join(", ", sets.stream().filter(s -> !s.equals("produce")).toList())),
          "Set TWINBOX_ROUTES to produce for the backfill.");
    }
    for (String end : List.of("from", "until")) {
      String property = "twinbox.produce.backfill." + end;
      if (environment.getProperty(property, "").isBlank()) {
        throw new StartupException(
            "%s is missing; a backfill has two ends.".formatted(variable(property)),
            "Set it, in the notation of %s; it is the first position %s the window."
                .formatted(
                    properties.produce().watermarkType(), end.equals("from") ? "in" : "behind"));
      }
    }
    if (backfill.lease().toSeconds() < 3) {
      throw new StartupException(
          "TWINBOX_PRODUCE_BACKFILL_LEASE is less than 3 s, and is renewed every second.",
          "Make it longer; 30s is the default.");
    }
  }

  /** The environment variable of a property. */
  public static String variable(String property) {
    return property.replace('.', '_').replace('-', '_').toUpperCase(Locale.ROOT);
  }

  /** Spring takes several spellings of a name for the same one; this takes them together. */
  private static String bare(String name) {
    return name.replaceAll("[^A-Za-z0-9]", "").toLowerCase(Locale.ROOT);
  }

  /** Levenshtein's. */
  public static int distance(String a, String b) {
    int[] row = new int[b.length() + 1];
    for (int j = 0; j < row.length; j++) {
      row[j] = j;
    }
    for (int i = 1; i <= a.length(); i++) {
      int diagonal = row[0];
      row[0] = i;
      for (int j = 1; j < row.length; j++) {
        int change = diagonal + (a.charAt(i - 1) == b.charAt(j - 1) ? 0 : 1);
        diagonal = row[j];
        row[j] = Math.min(change, Math.min(row[j], row[j - 1]) + 1);
      }
    }
    return row[b.length()];
  }
}
