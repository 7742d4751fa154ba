package io.twinbox.bigquery;

import static org.assertj.core.api.Assertions.assertThat;

import java.util.Map;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;

class QueryParametersTest {

  @Test
  void eachStandsWithTheLineOnWhichItIsFirst() {
    assertThat(
            QueryParameters.lines(
                """
                -- @comment
                SELECT '@text', "@text", r'\\\\@text', '''
                @long''', `@name`, @@system.variable # @too
                FROM t /* @block
                @block */
                WHERE a >= @Watermark
                  AND b <= @ last AND c >= @watermark"""))
        .isEqualTo(Map.of("watermark", 6, "last", 7));
  }

  @ParameterizedTest
  @ValueSource(strings = {"", " \n\t", "-- nothing yet", "# nothing\n\n", "/* a\n b */ -- c\n"})
  void textOfBlanksAndCommentsIsEmpty(String sql) {
    assertThat(QueryParameters.empty(sql)).isTrue();
  }

  @ParameterizedTest
  @ValueSource(strings = {"SELECT 1", "-- a\nSELECT 1", "''", "@watermark", "/* a */;"})
  void anythingElseIsNot(String sql) {
    assertThat(QueryParameters.empty(sql)).isFalse();
  }
}
