package io.twinbox.config;

import static org.assertj.core.api.Assertions.assertThat;

import java.io.IOException;
import java.nio.file.Files;
import java.nio.file.Path;
import java.util.ArrayList;
import java.util.List;
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

  private static String read(Path file) {
    try {
      return Files.readString(file);
    } catch (IOException e) {
      throw new IllegalStateException(e);
    }
  }
}
