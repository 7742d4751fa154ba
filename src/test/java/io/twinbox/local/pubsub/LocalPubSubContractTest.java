package io.twinbox.local.pubsub;

/** The contract, kept by our own server. */
class LocalPubSubContractTest extends PubSubContractTest {
  private LocalPubSub pubSub;

  @Override
  String startBackend() {
    pubSub = LocalPubSub.start();
    return pubSub.endpoint();
  }

  @Override
  void stopBackend() {
    pubSub.close();
  }
}
