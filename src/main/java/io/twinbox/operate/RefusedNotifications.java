package io.twinbox.operate;

import org.jolokia.server.core.request.JolokiaRequest;
import org.jolokia.server.core.service.request.AbstractRequestHandler;
import org.jolokia.server.core.util.RequestType;

/**
 * Refuses Jolokia's requests about notifications, which no page of Hawtio needs: Jolokia asks its
 * policy (jolokia-access.xml) about every other command, but not about these, and keeps each client
 * that registers in memory. Jolokia finds this class in META-INF/jolokia/services, before its own.
 */
public class RefusedNotifications extends AbstractRequestHandler {

  public RefusedNotifications(int order) {
    super("refused", order);
  }

  @Override
  public boolean canHandle(JolokiaRequest request) {
    return request.getType() == RequestType.NOTIFICATION;
  }

  @Override
  public <R extends JolokiaRequest> Object handleRequest(R request, Object previousResult) {
    throw new SecurityException("Notifications are not served here.");
  }
}
