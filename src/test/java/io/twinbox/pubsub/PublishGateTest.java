package io.twinbox.pubsub;

import static org.assertj.core.api.Assertions.assertThat;

import io.twinbox.config.TwinboxProperties.Dispatch;
import java.time.Clock;
import java.time.Duration;
import java.time.Instant;
import java.time.ZoneId;
import java.time.ZoneOffset;
import java.util.List;
import org.junit.jupiter.api.Test;

/** The circuit before the topic, by a clock of the test's. */
class PublishGateTest {

  private static final List<PublishOutcome> AWAY = List.of(PublishOutcome.released("UNAVAILABLE"));
  private static final List<PublishOutcome> TAKEN = List.of(PublishOutcome.published("1"));

  private final TestClock clock = new TestClock();
  private final PublishGate gate = new PublishGate(settings(), null, clock);

  private static final class TestClock extends Clock {
    private Instant now = Instant.parse("2026-01-01T12:00:00Z");

    void forward(Duration time) {
      now = now.plus(time);
    }

    @Override
    public Instant instant() {
      return now;
    }

    @Override
    public ZoneId getZone() {
      return ZoneOffset.UTC;
    }

    @Override
    public Clock withZone(ZoneId zone) {
      return this;
    }
  }

  private static Dispatch settings() {
    Duration second = Duration.ofSeconds(1);
    return new Dispatch(
        500,
        1_000,
        2,
        second,
        second,
        Duration.ofSeconds(60),
        Duration.ofSeconds(30),
        10,
        5,
        second,
        second,
        false,
        Duration.ofSeconds(30));
  }

  private void openAndWait() {
    gate.learn(AWAY);
    assertThat(gate.claimLimit()).isZero();
    clock.forward(Duration.ofSeconds(1));
  }

  @Test
  void oneProbeIsOutAtATimeWhicheverRoutesAsk() {
    openAndWait();

    assertThat(gate.claimLimit()).isEqualTo(1);
    assertThat(gate.claimLimit()).isZero();
    assertThat(gate.claimLimit()).isZero();
  }

  @Test
  void probeThatIsTakenClosesTheCircuitAtOnce() {
    openAndWait();
    gate.claimLimit();

    gate.learn(TAKEN);

    assertThat(gate.claimLimit()).isEqualTo(500);
    assertThat(gate.claimLimit()).isEqualTo(500);
    assertThat(gate.trouble()).isNull();
  }

  @Test
  void probeThatFoundNothingGoesToTheNextThatAsks() {
    openAndWait();
    gate.claimLimit();

    gate.claimed(List.of("row"));
    assertThat(gate.claimLimit()).isZero();
    gate.claimed(List.of());
    assertThat(gate.claimLimit()).isEqualTo(1);
  }

  @Test
  void probeOfWhichNobodyHearsIsNotWaitedForForEver() {
    openAndWait();
    gate.claimLimit();

    clock.forward(Duration.ofSeconds(29));
    assertThat(gate.claimLimit()).isZero();
    clock.forward(Duration.ofSeconds(1));
    assertThat(gate.claimLimit()).isEqualTo(1);
  }

  @Test
  void pausesBetweenProbesGrowToTheCap() {
    Duration longest = Duration.ZERO;
    for (int probe = 0; probe < 10; probe++) {
      gate.learn(AWAY);
      Duration pause = Duration.ZERO;
      while (gate.claimLimit() == 0) {
        clock.forward(Duration.ofMillis(100));
        pause = pause.plusMillis(100);
      }
      longest = pause;
    }
    // Half of a pause is random.
    assertThat(longest).isBetween(Duration.ofSeconds(15), Duration.ofSeconds(30));
  }
}
