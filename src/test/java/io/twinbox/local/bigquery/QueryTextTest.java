package io.twinbox.local.bigquery;

import static org.assertj.core.api.Assertions.assertThat;

import org.junit.jupiter.api.Test;

/** What is rewritten in a query, what is left alone, and where messages point. */
class QueryTextTest {
  @Test
  void onlyQuotedPathsAndPositionalParametersAreRewritten() {
    String sql =
        """
        SELECT '`a.b` ?', "it's `a.b`", r'\\'`a.b`', '''x'`a.b` ?''' -- `a.b` ?
        # `a.b` ?
        /* `a.b` ? */ FROM `p-q.a.b` WHERE x = ? AND y = ?""";
    assertThat(new QueryText(sql, true).text())
        .isEqualTo(
            sql.replace("`p-q.a.b`", "`p-q`.`a`.`b`")
                .replace("x = ? AND y = ?", "x = @position_1 AND y = @position_2"));
  }

  @Test
  void unfinishedLiteralsAndCommentsAreLeftForTheParserToRefuse() {
    for (String sql : new String[] {"SELECT '", "SELECT `a.", "/* x", "'''x''", "SELECT '\\"}) {
      assertThat(new QueryText(sql, false).text().replace("`.`", ".")).isEqualTo(sql);
    }
  }

  @Test
  void positionsAreThoseOfTheQueryAsItWasWritten() {
    QueryText query = new QueryText("SELECT 1\nFROM `a.b.c` WHERE ? = nope", true);
    int written = "FROM `a.b.c` WHERE ? = ".length() + 1;
    int rewritten = "FROM `a`.`b`.`c` WHERE @position_1 = ".length() + 1;
    assertThat(query.message("No [at 2:" + rewritten + "]")).isEqualTo("No at [2:" + written + "]");
    assertThat(query.message("No [at 1:8]")).isEqualTo("No at [1:8]");
  }
}
