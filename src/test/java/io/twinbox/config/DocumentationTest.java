package io.twinbox.config;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
import java.util.Locale;
import java.util.Map;
import java.util.Properties;
import java.util.Set;
import java.util.TreeSet;
import java.util.regex.Matcher;
import java.util.regex.Pattern;
import java.util.stream.Collectors;
import java.util.stream.Stream;
import org.junit.jupiter.api.Test;
import org.springframework.core.io.FileSystemResource;
import org.springframework.core.io.support.PropertiesLoaderUtils;

/** Documentation says what the program says. */
class DocumentationTest {

  @Test
  void everySettingIsDocumentedWithItsEnvironmentNameAndDefault() throws IOException {
    Properties settings =
        PropertiesLoaderUtils.loadProperties(
            new FileSystemResource("src/main/resources/application.properties"));
    List<String> rows = Files.readAllLines(Path.of("docs/configuration.md"));
    for (Map.Entry<Object, Object> setting : settings.entrySet()) {
      String name = (String) setting.getKey();
      String value = (String) setting.getValue();
      if (name.startsWith("twinbox.")) {
        assertThat(rows)
            .as("docs/configuration.md has a row of %s with its variable and default", name)
            .anyMatch(
                row ->
                    row.startsWith("| `" + name + "` | `" + SettingsCheck.variable(name) + "` |")
                        && (value.isEmpty()
                            || value.contains("${")
                            || row.contains("`" + value + "`")));
      }
    }
  }

  @Test
  void everySettingThatIsDocumentedExists() throws IOException {
    Properties settings =
        PropertiesLoaderUtils.loadProperties(
            new FileSystemResource("src/main/resources/application.properties"));
    Matcher row =
        Pattern.compile("(?m)^\\| `(twinbox\\.[a-z.-]+)` ")
            .matcher(Files.readString(Path.of("docs/configuration.md")));
    List<String> documented = new ArrayList<>();
    while (row.find()) {
      documented.add(row.group(1));
    }
    assertThat(settings.stringPropertyNames()).containsAll(documented);
    assertThat(documented).isNotEmpty();
  }

  @Test
  void everyTestThatReadmeNamesExists() throws IOException {
    String tests;
    try (Stream<Path> files = Files.walk(Path.of("src/test/java"))) {
      tests =
          files
              .filter(file -> file.toString().endsWith(".java"))
              .map(DocumentationTest::read)
              .collect(Collectors.joining("\n"));
    }
    String readme = Files.readString(Path.of("README.md"));
    String promises =
        readme.substring(
            readme.indexOf("## What it guarantees"),
            readme.indexOf("## What it does not guarantee"));
    Set<String> named = new TreeSet<>();
    Matcher name = Pattern.compile("`(?:\\w+\\.)?([a-z][a-z]+[A-Z]\\w+)`").matcher(promises);
    while (name.find()) {
      named.add(name.group(1));
    }
    assertThat(named).hasSizeGreaterThan(30);
    assertThat(named).allSatisfy(test -> assertThat(tests).contains("void " + test + "("));
  }

  /** Where a row names class and method, the class has the method. */
  @Test
  void everyTestIsInTheClassThatReadmeSays() throws IOException {
    Matcher name =
        Pattern.compile("`(\\w+)\\.([a-z]+[A-Z]\\w+)`")
            .matcher(Files.readString(Path.of("README.md")));
    Map<String, Path> sources = sources();
    List<String> missing = new ArrayList<>();
    int found = 0;
    while (name.find()) {
      Path file = sources.get(name.group(1) + ".java");
      if (file == null || !read(file).contains("void " + name.group(2) + "(")) {
        missing.add(name.group());
      }
      found++;
    }
    assertThat(missing).isEmpty();
    assertThat(found).isGreaterThan(30);
  }

  @Test
  void everyLinkLeadsToAFileAndAHeadingThatAreThere() throws IOException {
    List<String> broken = new ArrayList<>();
    int found = 0;
    for (Path document : documents()) {
      Matcher link =
          Pattern.compile("\\]\\(([^)#\\s]*)(?:#([^)\\s]*))?\\)").matcher(read(document));
      while (link.find()) {
        if (link.group(1).startsWith("http")) {
          continue;
        }
        found++;
        Path target =
            link.group(1).isEmpty() ? document : document.resolveSibling(link.group(1)).normalize();
        boolean there =
            Files.exists(target)
                && (link.group(2) == null
                    || !target.toString().endsWith(".md")
                    || headings(target).contains(link.group(2)));
        if (!there) {
          broken.add(document + ": " + link.group());
        }
      }
    }
    assertThat(broken).isEmpty();
    assertThat(found).isGreaterThan(100);
  }

  /** Files, settings, variables, metrics and objects of the database that a document names. */
  @Test
  void everyNameInTheDocumentsExists() throws IOException {
    String settings = read(Path.of("src/main/resources/application.properties"));
    Set<String> letters =
        PropertiesLoaderUtils.loadProperties(
                new FileSystemResource("src/main/resources/application.properties"))
            .stringPropertyNames()
            .stream()
            .map(setting -> setting.replaceAll("[.-]", "").toUpperCase(Locale.ROOT))
            .collect(Collectors.toSet());
    String configuration = read(Path.of("docs/configuration.md"));
    String metrics = read(Path.of("docs/metrics.md"));
    StringBuilder sql = new StringBuilder();
    try (Stream<Path> files = Files.walk(Path.of("sql"))) {
      files
          .filter(file -> file.toString().endsWith(".sql"))
          .forEach(file -> sql.append(read(file)));
    }
    List<String> unknown = new ArrayList<>();
    int found = 0;
    for (Path document : documents()) {
      Matcher code = Pattern.compile("`([^`\n]+)`").matcher(read(document));
      while (code.find()) {
        String text = code.group(1);
        if (text.matches("(sql|src|docs|k8s|deploy|topics|\\.ci)/[\\w./-]+")) {
          found++;
          // Example topics that the reader makes.
          if (!text.contains("orders") && !Files.exists(Path.of(text))) {
            unknown.add(document + ": file " + text);
          }
        }
        Matcher variable = Pattern.compile("\\bTWINBOX_[A-Z0-9_]*[A-Z0-9]\\b").matcher(text);
        while (variable.find()) {
          found++;
          if (!letters.contains(variable.group().replace("_", ""))
              && !configuration.contains("`" + variable.group() + "`")) {
            unknown.add(document + ": variable " + variable.group());
          }
        }
        Matcher setting =
            Pattern.compile(
                    "(?<![\\w.])twinbox\\.(?:dispatch|consume|produce|maintain|operate|reconcile|traces)\\.[a-z.-]*[a-z]")
                .matcher(text);
        while (setting.find()) {
          found++;
          if (!settings.contains(setting.group())) {
            unknown.add(document + ": setting " + setting.group());
          }
        }
        Matcher object =
            Pattern.compile(
                    "\\b(?:outbox|inbox|produce|pubsub_outbox|transactional_inbox|twinbox)_[a-z_]*[a-z]\\b")
                .matcher(text);
        while (object.find()) {
          found++;
          if (!sql.toString().contains(object.group())
              && !metrics.contains(object.group())
              && !configuration.contains("`" + object.group() + "`")
              && !object.group().equals("outbox_id")) {
            unknown.add(document + ": " + object.group());
          }
        }
      }
    }
    assertThat(unknown).isEmpty();
    assertThat(found).isGreaterThan(500);
  }

  private static List<Path> documents() throws IOException {
    List<Path> documents =
        new ArrayList<>(
            List.of(
                Path.of("README.md"),
                Path.of("CHANGELOG.md"),
                Path.of("CONTRIBUTING.md"),
                Path.of("SECURITY.md")));
    try (Stream<Path> files = Files.walk(Path.of("docs"))) {
      files.filter(file -> file.toString().endsWith(".md")).forEach(documents::add);
    }
    return documents;
  }

  private static Map<String, Path> sources() throws IOException {
    try (Stream<Path> files = Files.walk(Path.of("src/test/java"))) {
      return files
          .filter(file -> file.toString().endsWith(".java"))
          .collect(
              Collectors.toMap(
                  file -> file.getFileName().toString(), file -> file, (one, other) -> one));
    }
  }

  /** The names by which GitHub lets a document's headings be linked to. */
  private static Set<String> headings(Path document) {
    return Pattern.compile("(?m)^#+ (.*)$")
        .matcher(read(document))
        .results()
        .map(heading -> heading.group(1).toLowerCase(Locale.ROOT))
        .map(heading -> heading.replaceAll("[^\\p{L}\\p{N}_ -]", "").replace(' ', '-'))
        .collect(Collectors.toSet());
  }

  private static String read(Path file) {
    try {
      return Files.readString(file);
    } catch (IOException e) {
      throw new IllegalStateException(e);
    }
  }
}
