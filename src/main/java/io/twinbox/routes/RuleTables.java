package io.twinbox.routes;

import static io.twinbox.routes.Rule.Scope.ALWAYS;
import static io.twinbox.routes.Rule.Scope.HANDLER;
import static io.twinbox.routes.Rule.Scope.TRANSACTION;

import java.util.List;
import java.util.Set;

/**
 * What may stand in a route, as tables.
 *
 * <p>Each refusal was seen in a run, or read in the source, of Camel 4.17.0. For a new version of
 * Camel a test names the steps that no table decides on; until one does, handlers cannot use them.
 */
final class RuleTables {
  private RuleTables() {}

  static final String SWALLOWED =
      "what was done before the error is committed (after a failed statement: rolled back, silently)"
          + " and the message is acked, so its effect is lost";
  private static final String OTHER_THREAD =
      "runs on a thread outside the transaction: its rows stay when the message is rolled back, and"
          + " are written again when it is redelivered";
  private static final String UNBOUND =
      "the message's own headers or body choose the endpoint, so whoever publishes chooses what this"
          + " process calls";
  private static final String OWN_COMMIT =
      "commits on a connection of its own: its rows stay when the message is rolled back, and are"
          + " written again when it is redelivered";
  private static final String NOT_ROLLED_BACK =
      "an effect outside the database is not rolled back with the message, and happens again when it"
          + " is redelivered";
  private static final String USE_OUTBOX =
      "Put the event into the outbox with a `sql` step that selects outbox_put(…); dispatch publishes"
          + " it after the commit.";
  static final String LET_IT_FAIL =
      "Take it out: a step that throws makes Twinbox roll back, count the attempt and redeliver.";

  /** Steps that are known to stay on the thread, in the transaction, and to let errors through. */
  static final Set<String> HANDLER_STEPS =
      Rule.words(
          "bean choice claimCheck convertBodyTo convertHeaderTo convertVariableTo delay doTry enrich"
              + " filter loadBalance log loop marshal multicast pipeline process removeHeader"
              + " removeHeaders removeProperties removeProperty removeVariable rollback script setBody"
              + " setExchangePattern setHeader setHeaders setProperty setVariable setVariables sort"
              + " split step stop throttle throwException to toD transform transformDataType unmarshal"
              + " validate");

  /** Endpoints of the image that join the transaction or have no effect. */
  static final Set<String> HANDLER_SCHEMES = Rule.words("sql spring-jdbc bean class log");

  /** Steps that change the message and nothing else: what a doTry may catch without rethrowing. */
  static final Set<String> PURE_STEPS =
      Rule.words(
          "choice convertBodyTo convertHeaderTo convertVariableTo doTry filter log loop marshal"
              + " otherwise doCatch doFinally onWhen pipeline removeHeader removeHeaders removeVariable"
              + " setBody setHeader setHeaders setVariable setVariables sort split step"
              + " throwException transform transformDataType unmarshal validate when");

  static final List<Rule> RULES =
      List.of(
          // Threads (trap 8)
          Rule.step(
              TRANSACTION,
              "wireTap",
              "wireTap " + OTHER_THREAD,
              "Write a plain `to`; to tell another system, call outbox_put in a `sql` step."),
          Rule.step(
              TRANSACTION,
              "threads",
              "threads does nothing in a transaction that Camel knows of; elsewhere the rest "
                  + OTHER_THREAD,
              "Take it out; messages are handled in parallel already."),
          Rule.step(
                  TRANSACTION,
                  "split multicast recipientList",
                  "the parallel part " + OTHER_THREAD,
                  "Take the option out; the parts then run one after the other in the transaction.")
              .only("parallelProcessing", "false"),
          Rule.step(
                  TRANSACTION,
                  "split multicast recipientList",
                  "results are aggregated by a thread outside the transaction",
                  "Take the option out.")
              .only("parallelAggregate", "false"),
          Rule.step(
                  TRANSACTION,
                  "split multicast recipientList",
                  "a thread pool turns parallel processing on, and the part " + OTHER_THREAD,
                  "Take the option out.")
              .only("executorService", ""),
          Rule.step(
                  TRANSACTION,
                  "split multicast recipientList",
                  "a time-out needs parallel processing, and leaves late parts behind: the rest is committed and the message is acked",
                  "Take it out; limit statements with statement_timeout instead.")
              .only("timeout", "0"),
          Rule.step(
              TRANSACTION,
              "aggregate resequence",
              "holds the message in memory and lets the route end: it is committed and acked before"
                  + " its effect, which is lost when the process ends",
              "Write what belongs together by SQL, or choose batch mode for the consumer."),
          Rule.scheme(
              TRANSACTION,
              "seda stub disruptor disruptor-vm vm",
              "is a queue in memory: the message is committed and acked before its effect, which is"
                  + " lost when the process ends",
              "Write the steps here, in the handler."),
          Rule.step(
                  HANDLER,
                  "delay",
                  "delay is asynchronous by default; outside a transaction that Camel knows of, the rest then "
                      + OTHER_THREAD,
                  "Write `asyncDelayed: false`, and mind that the wait holds a connection.")
              .needs("asyncDelayed", "false"),
          Rule.step(
                  HANDLER,
                  "throttle",
                  "an asynchronous throttle hands over to a pool; the rest " + OTHER_THREAD,
                  "Take the option out; the default waits on this thread.")
              .only("asyncDelayed", "false"),

          // Errors (traps 2 to 6)
          Rule.step(
                  TRANSACTION,
                  "rollback",
                  "rolls back without an exception, so Camel takes the message for done and acks it:"
                      + " it is lost",
                  "Write `throwException`, or `rollback` with a `message` only.")
              .only("markRollbackOnly", "false"),
          Rule.step(
                  TRANSACTION,
                  "rollback",
                  "rolls back without an exception, so Camel takes the message for done and acks it:"
                      + " it is lost",
                  "Write `throwException`, or `rollback` with a `message` only.")
              .only("markRollbackOnlyLast", "false"),
          Rule.step(
              HANDLER,
              "circuitBreaker",
              "a fallback swallows the error, or the open circuit skips the step: " + SWALLOWED,
              LET_IT_FAIL),
          Rule.step(
              HANDLER,
              "saga",
              "compensates instead of rolling back, in transactions and on threads of its own",
              LET_IT_FAIL),
          Rule.step(
                  HANDLER,
                  "loadBalance",
                  "fails over to the next endpoint, inside a transaction that the first error may have"
                      + " aborted: "
                      + SWALLOWED,
                  LET_IT_FAIL)
              .only("failoverLoadBalancer", ""),
          Rule.step(
                  HANDLER,
                  "loadBalance",
                  "nobody can tell whether this load balancer lets errors through",
                  "Write `choice`.")
              .only("customLoadBalancer", ""),
          Rule.step(
                  HANDLER,
                  "enrich",
                  "the aggregation decides what becomes of an exception: " + SWALLOWED,
                  "Take the option out.")
              .only("aggregateOnException", "false"),
          Rule.step(
                  HANDLER,
                  "enrich toD",
                  "an endpoint that cannot be resolved is skipped: " + SWALLOWED,
                  "Take the option out.")
              .only("ignoreInvalidEndpoint", "false"),
          Rule.step(
                  HANDLER,
                  "loop",
                  "at shutdown the loop ends midway; the part done is committed and acked",
                  "Take the option out; the consumer finishes what it has begun.")
              .only("breakOnShutdown", "false"),
          Rule.step(
              HANDLER,
              "sample",
              "drops messages silently: they are acked and have no effect",
              "Take it out, or write `filter` with a condition that the data decides."),

          // The transaction itself (traps 7, 12, 15)
          Rule.step(
              HANDLER,
              "transacted policy",
              "the consumer's transaction is already open; a second one can commit by itself, and its"
                  + " rows then stay when the message is rolled back",
              "Take it out and keep its steps: they run in the consumer's transaction."),
          Rule.step(
              HANDLER,
              "idempotentConsumer",
              "the inbox has recorded the message already; a second key can outlive a rollback, and"
                  + " the redelivered message is then skipped",
              "Take it out; for keys of your own use INSERT … ON CONFLICT DO NOTHING."),
          Rule.step(
                  ALWAYS,
                  "idempotentConsumer",
                  "on failure Camel deletes the key after the rollback, and so a key that another pod"
                      + " has committed meanwhile: the message takes effect twice",
                  "Write `removeOnFailure: false`.")
              .needs("removeOnFailure", "false"),
          Rule.step(
                  ALWAYS,
                  "idempotentConsumer",
                  "the key is added after the commit: a crash in between makes the message take effect"
                      + " twice",
                  "Take the option out; the default adds the key first.")
              .only("eager", "true"),
          Rule.step(
                  ALWAYS,
                  "idempotentConsumer",
                  "the key is settled inside the route, in a transaction that may still fail",
                  "Take the option out.")
              .only("completionEager", "false"),

          // Hidden content
          Rule.step(
              HANDLER,
              "kamelet",
              "what a kamelet does is not in this file, so nobody has checked that it stays in the"
                  + " transaction",
              "Write its steps here."),
          Rule.step(
              HANDLER,
              "recipientList routingSlip dynamicRouter",
              UNBOUND,
              "Write `choice` with one `to` for each endpoint."),
          Rule.step(
              HANDLER,
              "poll pollEnrich",
              "reads with a consumer of its own, outside the transaction, and waits for ever by default",
              "Write `enrich` or `to` with a `sql` endpoint."),
          Rule.step(HANDLER, "serviceCall", NOT_ROLLED_BACK, USE_OUTBOX),
          Rule.step(
              HANDLER,
              "tokenizer",
              "tokenizer needs camel-langchain4j-tokenizer, which Twinbox does not hold",
              "Write `split`."),
          Rule.step(
              HANDLER,
              "pausable resumable",
              "pauses the consumer or keeps an offset of its own; the inbox is what makes redelivery"
                  + " harmless",
              "Take it out."),
          Rule.step(
              HANDLER,
              "doCatch doFinally",
              "stands outside of a doTry",
              "Indent it below `doTry:`."),

          // Endpoints (traps 9, 10, 20, 33, 34)
          Rule.scheme(
              HANDLER,
              "google-pubsub grpc http https kafka jms amqp rabbitmq spring-rabbitmq mail smtp smtps"
                  + " file ftp sftp exec google-bigquery google-storage",
              NOT_ROLLED_BACK,
              USE_OUTBOX),
          Rule.scheme(
              HANDLER,
              "direct kamelet",
              "what the other route does is not in this file, so nobody has checked that it stays in"
                  + " the transaction",
              "Write its steps here."),
          Rule.scheme(
              HANDLER,
              "timer scheduler quartz cron",
              "is asynchronous and can only start a route",
              "Take it out; the consumer starts the handler."),
          // Seen with 4.17.0 and PostgreSQL 15: a row written by jdbc survives the rollback, with
          // resetAutoCommit=false too (JdbcEndpoint:71, DefaultConnectionStrategy: it takes its own
          // connection); with spring-jdbc and resetAutoCommit=false it does not.
          Rule.scheme(TRANSACTION, "jdbc", "jdbc " + OWN_COMMIT, "Write a `sql` step."),
          Rule.scheme(
                  TRANSACTION,
                  "spring-jdbc",
                  "spring-jdbc commits the transaction of the message, with all rows so far: a failure"
                      + " after it leaves them, and the redelivery writes them again",
                  "Write a `sql` step, or `resetAutoCommit: false` under `parameters`.")
              .needs("resetAutoCommit", "false"),
          Rule.scheme(
                  TRANSACTION,
                  "spring-jdbc",
                  "another connection strategy " + OWN_COMMIT,
                  "Take the option out.")
              .only("connectionStrategy", ""),
          Rule.scheme(
                  TRANSACTION,
                  "sql",
                  "a stream reads on a second connection, outside the transaction: it does not see what"
                      + " this message has written",
                  "Take the option out (a list), or write `SelectOne`.")
              .only("outputType", "selectlist selectone"),
          Rule.scheme(
                  HANDLER,
                  "sql",
                  "another data source " + OWN_COMMIT,
                  "Take the option out; the transaction's own data source is used.")
              .only("dataSource", ""),
          Rule.scheme(
                  ALWAYS,
                  "sql",
                  "the message's body is run as SQL, so whoever publishes runs statements here",
                  "Take the option out; statements come from files, values through `:#name`.")
              .only("useMessageBodyForSql", "false"),
          Rule.scheme(
                  ALWAYS,
                  "sql",
                  "statement files write parameters as `:#name`; another placeholder, or none, makes"
                      + " the same file mean something else here",
                  "Take the option out.")
              .only("placeholder", "#"),
          Rule.scheme(
                  ALWAYS,
                  "sql",
                  "`usePlaceholder` is read too late for the statement, which is already changed",
                  "Take the option out.")
              .only("usePlaceholder", "true"),
          Rule.scheme(
                  ALWAYS,
                  "google-pubsub",
                  "synchronous pull dies silently on an error that is not retried, extends no lease,"
                      + " and takes the ack id from an attribute",
                  "Take the option out.")
              .only("synchronousPull", "false"));
}
