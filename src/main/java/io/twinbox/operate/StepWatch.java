package io.twinbox.operate;

import java.util.List;
import org.apache.camel.AsyncCallback;
import org.apache.camel.CamelContext;
import org.apache.camel.Exchange;
import org.apache.camel.NamedNode;
import org.apache.camel.Processor;
import org.apache.camel.spi.InterceptStrategy;
import org.apache.camel.support.processor.DelegateAsyncProcessor;
import org.springframework.stereotype.Component;

/**
 * Measures steps where Camel runs them, so that the routes need no steps that only count. Steps
 * that nobody observes are left as they are.
 */
@Component
class StepWatch implements InterceptStrategy {

  private final List<StepObserver> observers;

  StepWatch(List<StepObserver> observers) {
    this.observers = observers;
  }

  @Override
  public Processor wrapProcessorInInterceptors(
      CamelContext context, NamedNode definition, Processor target, Processor nextTarget) {
    String id = definition.getId();
    List<StepObserver> interested =
        id == null ? List.of() : observers.stream().filter(o -> o.observes(id)).toList();
    return interested.isEmpty() ? target : new Watched(id, target, interested);
  }

  private static final class Watched extends DelegateAsyncProcessor {
    private final String id;
    private final List<StepObserver> observers;

    Watched(String id, Processor target, List<StepObserver> observers) {
      super(target);
      this.id = id;
      this.observers = observers;
    }

    @Override
    public boolean process(Exchange exchange, AsyncCallback callback) {
      for (StepObserver observer : observers) {
        observer.before(id, exchange);
      }
      long started = System.nanoTime();
      return super.process(
          exchange,
          synchronously -> {
            long nanos = System.nanoTime() - started;
            for (StepObserver observer : observers) {
              observer.after(id, exchange, nanos);
            }
            callback.done(synchronously);
          });
    }
  }
}
