package io.twinbox.deploy;

import static org.assertj.core.api.Assertions.assertThat;
import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.io.File;
import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.ArrayList;
import java.util.List;
import java.util.Properties;
import java.util.concurrent.TimeUnit;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.api.io.TempDir;
import org.springframework.boot.convert.DurationStyle;
import org.springframework.core.io.FileSystemResource;
import org.springframework.core.io.support.PropertiesLoaderUtils;

/** {@code deploy/provision.sh}: what it would tell Google Cloud, and that it tells just that. */
class ProvisionTest {

  private static final String[] INVOICES = {
    "--project=p1",
    "--topic=invoices",
    "--subscription=invoices-ledger",
    "--instance=twinbox",
    "--database=twinbox",
    "--dataset=billing"
  };

  @TempDir Path folder;

  @Test
  void subscriptionsAreThereBeforeAnybodyMayPublish() throws Exception {
    List<String> commands = dryRun();

    int deadLetters = find(commands, "subscriptions create invoices-dead-kept");
    int topic = find(commands, "topics create invoices ");
    int subscription = find(commands, "subscriptions create invoices-ledger");
    int publisher =
        find(
            commands,
            "topics add-iam-policy-binding invoices --project=p1 --role=roles/pubsub.publisher");
    assertThat(List.of(deadLetters, topic, subscription, publisher)).isSorted();
    assertThat(subscription)
        .as("nothing comes between topic and subscription")
        .isEqualTo(topic + 1);
  }

  /** What SubscriptionWatch would warn of at the first start of consume. */
  @Test
  void subscriptionIsAsConsumeWantsIt() throws Exception {
    Properties settings =
        PropertiesLoaderUtils.loadProperties(
            new FileSystemResource("src/main/resources/application.properties"));
    List<String> commands = dryRun();
    String update = commands.get(find(commands, "subscriptions update invoices-ledger"));

    assertThat(option(update, "expiration-period")).isEqualTo("never");
    assertThat(option(update, "min-retry-delay")).isEqualTo("10s");
    assertThat(option(update, "max-retry-delay")).isEqualTo("600s");
    assertThat(option(update, "dead-letter-topic")).isEqualTo("projects/p1/topics/invoices-dead");
    int attempts = Integer.parseInt(option(update, "max-delivery-attempts"));
    assertThat(attempts)
        .isGreaterThan(Integer.parseInt(settings.getProperty("twinbox.consume.max-attempts")))
        .isGreaterThan(Integer.parseInt(settings.getProperty("twinbox.consume.max-deliveries")))
        .isLessThanOrEqualTo(100);
    Duration retention = DurationStyle.detectAndParse(option(update, "message-retention-duration"));
    assertThat(retention)
        .isLessThanOrEqualTo(
            DurationStyle.detectAndParse(
                settings.getProperty("twinbox.maintain.payload-retention")))
        .isEqualTo(
            DurationStyle.detectAndParse(
                settings.getProperty("twinbox.maintain.subscription-retention")));
    String dead = commands.get(find(commands, "subscriptions create invoices-dead-kept"));
    assertThat(option(dead, "expiration-period")).isEqualTo("never");
  }

  @Test
  void everyRouteSetHasItsOwnAccountAndDispatchMayNotConsume() throws Exception {
    List<String> commands = dryRun();

    for (String set : List.of("produce", "dispatch", "consume", "maintain", "migrate")) {
      find(commands, "service-accounts create invoices-" + set);
      find(commands, "sql users create invoices-" + set + "@p1.iam");
      find(commands, "serviceAccount:p1.svc.id.goog\\[twinbox/invoices-" + set + "\\]");
    }
    assertThat(rolesOf(commands, "dispatch"))
        .containsExactlyInAnyOrder(
            "topics roles/pubsub.publisher",
            "topics roles/pubsub.viewer",
            "projects roles/cloudsql.client",
            "projects roles/cloudsql.instanceUser");
    assertThat(rolesOf(commands, "consume"))
        .containsExactlyInAnyOrder(
            "subscriptions roles/pubsub.subscriber",
            "subscriptions roles/pubsub.viewer",
            "topics roles/pubsub.viewer",
            "projects roles/cloudsql.client",
            "projects roles/cloudsql.instanceUser");
    assertThat(rolesOf(commands, "maintain"))
        .containsExactlyInAnyOrder(
            "projects roles/cloudsql.client", "projects roles/cloudsql.instanceUser");
  }

  /** The accounts of the script are those of the manifests. */
  @Test
  void manifestsAndScriptNameTheSameAccounts() throws Exception {
    String identities = Files.readString(Path.of("k8s/topics/invoices/identities.yaml"));
    for (String set : List.of("produce", "dispatch", "consume", "maintain", "migrate")) {
      assertThat(identities)
          .contains("invoices-" + set + "@my-project.iam.gserviceaccount.com")
          .contains("value: invoices-" + set + "@my-project.iam\n");
    }
  }

  @Test
  void dryRunTellsGoogleNothingAndARunTellsItWhatWasPrinted() throws Exception {
    Path told = standIns();

    List<String> printed = run(List.of("--dry-run"));
    assertThat(told).doesNotExist();

    run(List.of());
    List<String> commands = new ArrayList<>(Files.readAllLines(told));
    commands.removeIf(command -> command.matches(".* (describe|list) .*|.*config get-value.*"));
    assertThat(commands)
        .isEqualTo(
            printed.stream()
                .filter(line -> !line.startsWith("#"))
                .map(line -> line.replace("PROJECT_NUMBER", "42").replace("\\", ""))
                .toList());
  }

  @Test
  void missingOrMisspeltOptionIsNamedAndNothingIsDone() throws Exception {
    Path told = standIns();
    assertThat(refusal("--topic=invoices", "--project=p1")).contains("--subscription is missing");
    assertThat(refusal("--topics=invoices")).contains("--topics=invoices is no option");
    assertThat(
            refusal(
                "--project=p1", "--topic=in", "--subscription=s", "--instance=i", "--database=d"))
        .contains("--topic=in: the service accounts are named after it");
    assertThat(told).doesNotExist();
  }

  @Test
  void shellcheckFindsNothing() throws Exception {
    boolean there =
        Stream.of(System.getenv("PATH").split(File.pathSeparator))
            .anyMatch(path -> Files.isExecutable(Path.of(path, "shellcheck")));
    if (!there) {
      System.out.println("SKIPPED on shellcheck: deploy/*.sh (no shellcheck on the path)");
    }
    assumeTrue(there, "no shellcheck on the path");
    List<String> command = new ArrayList<>(List.of("shellcheck"));
    try (Stream<Path> scripts = Files.list(Path.of("deploy"))) {
      scripts.map(Path::toString).filter(name -> name.endsWith(".sh")).forEach(command::add);
    }
    Process process = new ProcessBuilder(command).redirectErrorStream(true).start();
    String output = new String(process.getInputStream().readAllBytes());
    assertThat(process.waitFor()).as(output).isZero();
  }

  private List<String> dryRun() throws Exception {
    return run(List.of("--dry-run")).stream().filter(line -> !line.startsWith("#")).toList();
  }

  private List<String> run(List<String> further) throws Exception {
    List<String> arguments = new ArrayList<>(List.of(INVOICES));
    arguments.addAll(further);
    Process process = start(arguments);
    String output = new String(process.getInputStream().readAllBytes());
    assertThat(process.waitFor(60, TimeUnit.SECONDS)).isTrue();
    assertThat(process.exitValue()).as(output).isZero();
    return output.lines().filter(line -> !line.isBlank()).toList();
  }

  private String refusal(String... arguments) throws Exception {
    Process process = start(List.of(arguments));
    String output = new String(process.getInputStream().readAllBytes());
    assertThat(process.waitFor()).as(output).isEqualTo(2);
    return output;
  }

  private Process start(List<String> arguments) throws IOException {
    List<String> command = new ArrayList<>(List.of("bash", "deploy/provision.sh"));
    command.addAll(arguments);
    ProcessBuilder builder = new ProcessBuilder(command).redirectErrorStream(true);
    // Never the real one, whatever this machine has and is logged in to.
    builder.environment().put("PATH", folder + File.pathSeparator + System.getenv("PATH"));
    if (!Files.exists(folder.resolve("gcloud"))) {
      standIns();
    }
    return builder.start();
  }

  /** gcloud and bq that write down what they are told, find nothing there, and know one number. */
  private Path standIns() throws IOException {
    Path told = folder.resolve("told");
    for (String name : List.of("gcloud", "bq")) {
      Path program = folder.resolve(name);
      Files.writeString(
          program,
          """
          #!/usr/bin/env bash
          [[ $* == "config get-value"* ]] && exit 1
          echo "%s $*" >> '%s'
          [[ $* == "projects describe"* ]] && echo 42 && exit 0
          [[ $* == *" list "* ]] && exit 0
          [[ $* != *" describe "* ]]
          """
              .formatted(name, told));
      assertThat(program.toFile().setExecutable(true)).isTrue();
    }
    return told;
  }

  private static int find(List<String> commands, String part) {
    for (int i = 0; i < commands.size(); i++) {
      if (commands.get(i).contains(part)) {
        return i;
      }
    }
    throw new AssertionError("No command has " + part + " among " + String.join("\n", commands));
  }

  private static List<String> rolesOf(List<String> commands, String set) {
    String member = "--member=serviceAccount:invoices-" + set + "@p1.iam.gserviceaccount.com";
    Pattern granted =
        Pattern.compile("gcloud (?:pubsub )?(\\w+) add-iam-policy-binding .*--role=(\\S+)");
    List<String> roles = new ArrayList<>();
    for (String command : commands) {
      Matcher matcher = granted.matcher(command);
      if (command.contains(member) && matcher.find()) {
        roles.add(matcher.group(1) + " " + matcher.group(2));
      }
    }
    return roles;
  }

  private static String option(String command, String name) {
    Matcher matcher = Pattern.compile("--" + name + "=(\\S+)").matcher(command);
    assertThat(matcher.find()).as("%s has --%s", command, name).isTrue();
    return matcher.group(1);
  }
}
