package io.twinbox.routes;

import java.util.Map;

/**
 * What may not stand around the steps: beside a route in its file, or as an option of a handler.
 */
final class FileTables {
  private FileTables() {}

  private static final String SWALLOWED = RuleTables.SWALLOWED;
  private static final String LET_IT_FAIL = RuleTables.LET_IT_FAIL;

  record Reason(String problem, String remedy) {}

  static final Map<String, Reason> HANDLER_ROUTE_REFUSED =
      Map.of(
          "errorHandler",
          new Reason(
              "an error handler of its own handles, or retries inside a transaction that is already"
                  + " aborted; then "
                  + SWALLOWED,
              LET_IT_FAIL),
          "errorHandlerRef",
          new Reason("an error handler of its own: " + SWALLOWED, LET_IT_FAIL),
          "routeConfigurationId",
          new Reason("a route configuration can handle errors: " + SWALLOWED, LET_IT_FAIL),
          "routePolicy",
          new Reason(
              "a policy can stop or suspend the handler; every message then fails",
              "Take it out; pause the consumer instead, by JMX."),
          "precondition",
          new Reason(
              "without its condition the handler is not there, and every message fails",
              "Take it out; write `choice` inside the handler."),
          "onException",
          new Reason(
              "an error that is handled or continued ends in the route: " + SWALLOWED, LET_IT_FAIL),
          "onCompletion",
          new Reason(
              "runs after the commit, on another thread: a crash in between loses it",
              "Write its steps in the route."),
          "autoStartup",
          new Reason(
              "a handler that is not started makes every message fail",
              "Take it out; pause the consumer instead, by JMX."));

  private static final String TAKE_OUT = "Take it out.";

  /** What may stand at the top of a YAML file beside {@code route}, and why it is refused. */
  static final Map<String, Reason> TOP_LEVEL =
      Map.ofEntries(
          Map.entry(
              "from",
              new Reason(
                  "a bare `from` has no description, and its id is made up at each start",
                  "Write `- route:` with `id:` and, below it, `from:`.")),
          Map.entry(
              "onException",
              new Reason(
                  "onException applies to all routes; with `handled` or `continued` " + SWALLOWED,
                  LET_IT_FAIL)),
          Map.entry(
              "errorHandler",
              new Reason(
                  "an error handler applies to all routes: it dead-letters or retries inside the"
                      + " transaction, and "
                      + SWALLOWED,
                  LET_IT_FAIL)),
          Map.entry(
              "onCompletion",
              new Reason(
                  "runs after the commit, on another thread: a crash in between loses it",
                  "Write its steps in the route.")),
          Map.entry("intercept", intercepts()),
          Map.entry("interceptFrom", intercepts()),
          Map.entry("interceptSendToEndpoint", intercepts()),
          Map.entry(
              "routeConfiguration",
              new Reason(
                  "applies to all routes, and can handle their errors: " + SWALLOWED, LET_IT_FAIL)),
          Map.entry(
              "beans",
              new Reason(
                  "a bean can replace the data source, the transaction manager or the inbox under"
                      + " their names",
                  "Take it out; beans are declared in Java, where they are tested.")),
          Map.entry(
              "dataFormats",
              new Reason(
                  "applies to all routes, so one topic's file changes another's",
                  "Write the options at the `marshal` or `unmarshal` step.")),
          Map.entry("rest", new Reason("opens a network port that nobody has secured", TAKE_OUT)),
          Map.entry(
              "restConfiguration",
              new Reason("opens a network port that nobody has secured", TAKE_OUT)),
          Map.entry(
              "routeTemplate",
              new Reason("what a template becomes is not in this file", "Write the route itself.")),
          Map.entry(
              "templatedRoute",
              new Reason(
                  "what a template becomes is not in this file", "Write the route itself.")));

  private static Reason intercepts() {
    return new Reason(
        "runs in all routes, and can skip their steps", "Write the steps where they belong.");
  }
}
