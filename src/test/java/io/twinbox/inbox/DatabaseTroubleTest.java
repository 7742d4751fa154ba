package io.twinbox.inbox;

import static org.assertj.core.api.Assertions.assertThat;

import java.sql.SQLException;
import java.sql.SQLTransientConnectionException;
import java.time.Duration;
import org.apache.camel.CamelExecutionException;
import org.apache.camel.Exchange;
import org.apache.camel.impl.DefaultCamelContext;
import org.apache.camel.support.DefaultExchange;
import org.junit.jupiter.api.Test;
import org.junit.jupiter.params.ParameterizedTest;
import org.junit.jupiter.params.provider.ValueSource;
import org.springframework.transaction.CannotCreateTransactionException;

class DatabaseTroubleTest {

  private final DatabaseTrouble trouble = new DatabaseTrouble(null, Duration.ZERO);
  private final Exchange exchange = new DefaultExchange(new DefaultCamelContext());

  private boolean caused(Exception failure) {
    exchange.setProperty(Exchange.EXCEPTION_CAUGHT, failure);
    return trouble.caused(exchange);
  }

  @Test
  void transactionThatCannotBeginForWantOfAConnectionIsTrouble() {
    // As the transaction manager throws it, before any handler has run.
    assertThat(
            caused(
                new CannotCreateTransactionException(
                    "Could not open JDBC Connection",
                    new SQLTransientConnectionException("no connection in time"))))
        .isTrue();
  }

  @Test
  void connectionThatThePoolHasClosedIsTrouble() {
    assertThat(caused(new SQLException("Connection is closed"))).isTrue();
  }

  @ParameterizedTest
  @ValueSource(
      strings = {
        "08006", "08001", "40001", "40P01", "55P03", "57P01", "57P02", "57P03", "25006", "53100",
        "53300"
      })
  void theseStatesAreTroubleHoweverDeepTheyAreWrapped(String state) {
    assertThat(
            caused(
                new CamelExecutionException(
                    "step", exchange, new RuntimeException(new SQLException("x", state)))))
        .isTrue();
  }

  @ParameterizedTest
  @ValueSource(strings = {"22012", "23505", "42P01", "P0001", "57014", "22P02"})
  void theseStatesAreTheMessagesOwn(String state) {
    assertThat(caused(new RuntimeException(new SQLException("x", state)))).isFalse();
  }
}
