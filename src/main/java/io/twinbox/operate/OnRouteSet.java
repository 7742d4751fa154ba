package io.twinbox.operate;

import java.util.List;
import org.springframework.boot.context.properties.bind.Bindable;
import org.springframework.boot.context.properties.bind.Binder;
import org.springframework.context.annotation.Condition;
import org.springframework.context.annotation.ConditionContext;
import org.springframework.core.type.AnnotatedTypeMetadata;

/** Whether this process runs a route set: operations of another one would act on nothing here. */
abstract class OnRouteSet implements Condition {

  private final String set;

  OnRouteSet(String set) {
    this.set = set;
  }

  @Override
  public boolean matches(ConditionContext context, AnnotatedTypeMetadata metadata) {
    return Binder.get(context.getEnvironment())
        .bind("twinbox.routes", Bindable.listOf(String.class))
        .orElse(List.of())
        .stream()
        .anyMatch(name -> name.strip().equals(set));
  }

  static final class Dispatch extends OnRouteSet {
    Dispatch() {
      super("dispatch");
    }
  }

  static final class Consume extends OnRouteSet {
    Consume() {
      super("consume");
    }
  }

  static final class Produce extends OnRouteSet {
    Produce() {
      super("produce");
    }
  }

  static final class Maintain extends OnRouteSet {
    Maintain() {
      super("maintain");
    }
  }
}
