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
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.CsvSource;
import org.junit.jupiter.params.provider.ValueSource;
import org.springframework.boot.convert.DurationStyle;
import org.springframework.core.io.FileSystemResource;
import org.springframework.core.io.support.PropertiesLoaderUtils;

/** {@code deploy/provision.sh}: what it would tell Google Cloud, and that it tells just that. */
class ProvisionTest {

  private static final String[] INVOICES = {
    "--project=my-project",
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
            "topics add-iam-policy-binding invoices --project=my-project --role=roles/pubsub.publisher");
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
    assertThat(option(update, "dead-letter-topic"))
        .isEqualTo("projects/my-project/topics/invoices-dead");
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
      find(commands, "sql users create invoices-" + set + "@my-project.iam");
      find(commands, "serviceAccount:my-project.svc.id.goog\\[twinbox/invoices-" + set + "\\]");
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
    assertThat(refusal("--topic=invoices", "--project=my-project"))
        .contains("--subscription is missing");
    assertThat(refusal("--topics=invoices")).contains("--topics=invoices is no option");
    assertThat(refusal("--topic", "invoices")).contains("write --topic=..., with an equals sign");
    assertThat(refusal("--dataset=")).contains("--dataset= has no value");
    assertThat(told).doesNotExist();
  }

  @ParameterizedTest
  @CsvSource(
      delimiter = '|',
      textBlock =
          """
          project      | Invoices                    | write the project's id
          project      | 123456789012                | write the project's id
          project      | example.com:my-project      | are not supported
          project      | my-project-                 | write the project's id
          topic        | in                          | 3 to 21 lower-case letters
          topic        | Invoices                    | 3 to 21 lower-case letters
          topic        | invoices-of-all-the-world   | 3 to 21 lower-case letters
          topic        | google-bills                | Pub/Sub keeps names that start with goog
          subscription | ab                          | 3 to 255 letters
          subscription | 1-ledger                    | 3 to 255 letters
          subscription | ledger of invoices          | 3 to 255 letters
          subscription | projects/p/subscriptions/s  | without projects/.../subscriptions/
          subscription | goog-ledger                 | Pub/Sub keeps names that start with goog
          subscription | invoices-dead-kept          | subscription of the dead-letter topic
          instance     | my-project:europe-west1:db  | without project and region
          instance     | Twinbox                     | lower-case letters
          database     | twinbox?user=postgres       | up to 63 letters
          dataset      | my-project.billing          | without the project
          dataset      | billing` TO 'allUsers'; --  | letters, digits and underscores
          namespace    | twinbox]/other[             | lower-case letters
          namespace    | -twinbox                    | no dash first or last
          retention    | 7                           | such as 7d
          retention    | a[$(touch pwned)]d          | such as 7d
          retention    | 9m                          | 10m to 31d
          retention    | 32d                         | 10m to 31d
          retention    | 745h                        | 10m to 31d
          """)
  void valueThatGoogleWouldNotTakeIsRefusedWithWhatToWriteAndNothingIsDone(
      String option, String value, String words) throws Exception {
    Path told = standIns();
    List<String> arguments = new ArrayList<>(List.of(INVOICES));
    arguments.add("--" + option + "=" + value);

    assertThat(refusal(arguments.toArray(String[]::new)))
        .startsWith("provision.sh: --" + option + "=")
        .contains(words)
        .hasLineCount(1);
    assertThat(told).doesNotExist();
  }

  /** A value of two lines is one word of the message and no line of its own, in any locale. */
  @Test
  void valueOfTwoLinesWritesNoLineOfItsOwn() throws Exception {
    String refusal = refusal("--project=my-project", "--topic=invoices", "--subscription=a\nrm b");
    assertThat(refusal).contains("--instance is missing").hasLineCount(1);
    List<String> arguments = new ArrayList<>(List.of(INVOICES));
    arguments.add("--subscription=ledger\nrm -rf b");
    assertThat(refusal(arguments.toArray(String[]::new)))
        .contains("$'ledger\\nrm -rf b'")
        .hasLineCount(1);
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "--retention=600s",
        "--retention=10m",
        "--retention=744h",
        "--retention=31d",
        "--subscription=Ledger.of_all~the+world%-",
        "--instance=a",
        "--dataset=B_2",
        "--namespace=0",
        "--database=_x-1",
        "--topic=abc"
      })
  void valueAtGooglesLimitIsTaken(String argument) throws Exception {
    assertThat(run(List.of("--dry-run", argument))).isNotEmpty();
  }

  /** PostgreSQL cuts a name off after 63 bytes, and the user would be another one. */
  @Test
  void topicAndProjectWhoseDatabaseUserWouldBeCutOffAreRefused() throws Exception {
    String project = "--project=a-project-of-thirty-characters";
    List<String> fits = run(List.of("--dry-run", project, "--topic=nineteen-characters"));
    Matcher user = Pattern.compile("sql users create (\\S+-dispatch@\\S+)").matcher("" + fits);
    assertThat(user.find()).isTrue();
    assertThat(user.group(1)).hasSize(63);

    List<String> arguments = new ArrayList<>(List.of(INVOICES));
    arguments.addAll(List.of(project, "--topic=of-twenty-characters"));
    assertThat(refusal(arguments.toArray(String[]::new))).contains("a topic of at most 19 char");
  }

  @Test
  void subscriptionThatIsThereAndReadsAnotherTopicIsRefusedBeforeAnythingIsDone() throws Exception {
    Path told = standIns();
    there("projects/my-project/topics/orders ");
    assertThat(refusal(INVOICES)).contains("reads projects/my-project/topics/orders; write anoth");
    there("_deleted-topic_ True");
    assertThat(refusal(INVOICES)).contains("reads _deleted-topic_; write another");
    there("projects/my-project/topics/invoices ");
    List<String> ordered = new ArrayList<>(List.of(INVOICES));
    ordered.add("--ordered");
    assertThat(refusal(ordered.toArray(String[]::new))).contains("without message ordering");
    assertThat(told).doesNotExist();

    run(List.of());
    there("projects/my-project/topics/invoices True");
    run(List.of("--ordered"));
    assertThat(told).content().contains("subscriptions update invoices-ledger");
  }

  @Test
  void programThatIsMissingIsNamedBeforeAnythingIsDone() throws Exception {
    standIns();
    Files.delete(folder.resolve("bq"));
    assertThat(refusalWithPathOf(folder)).contains("bq is not on the path");
    Files.delete(folder.resolve("gcloud"));
    assertThat(refusalWithPathOf(folder)).contains("gcloud is not on the path");
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

  private String refusalWithPathOf(Path only) throws Exception {
    List<String> command = new ArrayList<>(List.of("/bin/bash", "deploy/provision.sh"));
    command.addAll(List.of(INVOICES));
    ProcessBuilder builder = new ProcessBuilder(command).redirectErrorStream(true);
    builder.environment().put("PATH", only.toString());
    Process process = builder.start();
    String output = new String(process.getInputStream().readAllBytes());
    assertThat(process.waitFor()).as(output).isEqualTo(2);
    return output;
  }

  /** What gcloud says of the subscription from now on. */
  private void there(String described) throws IOException {
    Files.writeString(folder.resolve("there"), described + "\n");
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
          [[ $* == *"describe invoices-ledger"*--format=* ]] && { cat '%s' 2>/dev/null; exit; }
          echo "%s $*" >> '%s'
          [[ $* == "projects describe"* ]] && echo 42 && exit 0
          [[ $* == *" list "* ]] && exit 0
          [[ $* != *" describe "* ]]
          """
              .formatted(folder.resolve("there"), name, told));
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
    String member =
        "--member=serviceAccount:invoices-" + set + "@my-project.iam.gserviceaccount.com";
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
