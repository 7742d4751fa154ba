package io.twinbox.local.pubsub;

import static org.junit.jupiter.api.Assumptions.assumeTrue;

import java.nio.file.Path;
import java.util.Optional;
import org.junit.jupiter.api.BeforeEach;
import org.junit.jupiter.api.TestInfo;

/**
 * The contract, kept by Google's emulator but for its {@link KnownEmulatorFault}s. It shows that
 * the contract is not just what our own server happens to do.
 */
class GooglePubSubEmulatorContractTest extends PubSubContractTest {
  private GooglePubSubEmulator emulator;

  @Override
  String startBackend() {
    Optional<Path> jar = GooglePubSubEmulator.find();
    skipUnless(jar.isPresent(), "GooglePubSubEmulatorContractTest", GooglePubSubEmulator.NOT_FOUND);
    emulator = GooglePubSubEmulator.start(jar.orElseThrow());
    return emulator.endpoint();
  }

  @Override
  void stopBackend() {
    if (emulator != null) {
      emulator.close();
    }
  }

  @BeforeEach
  void skipWhereTheEmulatorIsKnownToBeWrong(TestInfo test) {
    test.getTestMethod()
        .map(method -> method.getAnnotation(KnownEmulatorFault.Affects.class))
        .ifPresent(
            known ->
                skipUnless(
                    false,
                    test.getTestMethod().orElseThrow().getName(),
                    known.value() + ": " + known.value().reason()));
  }

  private static void skipUnless(boolean condition, String what, String reason) {
    if (!condition) {
      System.out.println("SKIPPED on Google's Pub/Sub emulator: " + what + " (" + reason + ")");
    }
    assumeTrue(condition, reason);
  }
}
