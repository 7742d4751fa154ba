package io.twinbox.bench;

/** To come. */
final class ClaimCost {
  ClaimCost(BenchServer server, double scale) {}

  void measure() {}
}
