package io.twinbox.reconcile;

/** What can be wrong with an event, in the order of the flow. */
public enum Kind {
  DOUBLED(
      "doubled",
      true,
      "BigQuery has several rows under one event key; only one of them is an event, the others are never sent"),
  NO_KEY("no-key", true, "BigQuery has rows without an event key; they are never sent"),
  COMING("coming", true, "still on its way; ask again later, or end the span earlier"),
  MISSING("missing", true, "in BigQuery, and produce has passed it, but not in the outbox"),
  REJECTED(
      "rejected",
      true,
      "in BigQuery, but the outbox refused it (produce_reject); correct the row at its source, then it is read again"),
  CHANGED(
      "changed",
      false,
      "known under its key with another payload, and put or read again with a changed one, which is not sent (produce_changed); a correction needs an event key of its own"),
  PAYLOAD_DIFFERS(
      "payload-differs",
      true,
      "BigQuery has another payload now than the outbox had under this key; what was first is what is sent, and a correction needs an event key of its own"),
  UNQUEUED("unqueued", true, "in the outbox, but neither queued nor published: nobody sends it"),
  DEAD("dead", true, "in the outbox, but Pub/Sub refuses it (dead)"),
  UNAPPLIED(
      "unapplied", true, "published, but the consumer has neither an effect nor a dead letter"),
  PAYLOAD_GONE(
      "payload-gone",
      true,
      "published and not applied, and its payload is deleted (retention): it cannot be republished; emit the event again under another event key"),
  LETTER("letter", true, "its handler failed too often: an open dead letter of the consumer"),
  LETTER_WITHOUT_KEY(
      "letter-without-key",
      true,
      "an open dead letter without a usable key: nobody can tell which event it is; give it its key"),
  DISCARDED("discarded", false, "given up by an operator (twinbox_audit says who and why)"),
  NOT_IN_BIGQUERY(
      "not-in-bigquery",
      true,
      "in the outbox as an event of this source, but BigQuery no longer has it; nothing here can repair that"),
  UNPROVEN(
      "unproven",
      true,
      "in the outbox as an event of this source, and not in BigQuery's span; the rest of BigQuery was too dear to look through"),
  UNKNOWN(
      "unknown",
      true,
      "applied by the consumer, or an open dead letter of it, but unknown to this outbox: another publisher's, or lost here");

  private final String label;
  private final boolean fault;
  private final String meaning;

  Kind(String label, boolean fault, String meaning) {
    this.label = label;
    this.fault = fault;
    this.meaning = meaning;
  }

  public String label() {
    return label;
  }

  /** Whether the sides differ because of it; what an operator gave up, they do not. */
  public boolean fault() {
    return fault;
  }

  public String meaning() {
    return meaning;
  }
}
