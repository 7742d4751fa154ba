package io.twinbox.operate;

import jakarta.servlet.FilterChain;
import jakarta.servlet.ServletException;
import jakarta.servlet.http.HttpServletRequest;
import jakarta.servlet.http.HttpServletResponse;
import java.io.IOException;
import org.springframework.boot.actuate.autoconfigure.web.ManagementContextConfiguration;
import org.springframework.boot.actuate.autoconfigure.web.ManagementContextType;
import org.springframework.boot.web.servlet.FilterRegistrationBean;
import org.springframework.context.annotation.Bean;
import org.springframework.core.Ordered;
import org.springframework.security.web.firewall.RequestRejectedException;
import org.springframework.security.web.firewall.StrictHttpFirewall;
import org.springframework.web.filter.OncePerRequestFilter;

/**
 * Spring's firewall, before anything else on both ports: on the management port by the list of
 * management configurations, on the other because it is scanned. In its usual place it comes after
 * a filter that fails on paths such as {@code /actuator/jolokia;/version}, and the server logs the
 * trace of each: a stranger could fill the log.
 */
@ManagementContextConfiguration(value = ManagementContextType.CHILD, proxyBeanMethods = false)
public class ManagementFirewall {

  @Bean
  FilterRegistrationBean<OncePerRequestFilter> firewallFirst() {
    StrictHttpFirewall firewall = new StrictHttpFirewall();
    FilterRegistrationBean<OncePerRequestFilter> registration =
        new FilterRegistrationBean<>(
            new OncePerRequestFilter() {
              @Override
              protected void doFilterInternal(
                  HttpServletRequest request, HttpServletResponse response, FilterChain chain)
                  throws ServletException, IOException {
                try {
                  firewall.getFirewalledRequest(request);
                } catch (RequestRejectedException e) {
                  response.setStatus(HttpServletResponse.SC_BAD_REQUEST);
                  return;
                }
                chain.doFilter(request, response);
              }
            });
    registration.setOrder(Ordered.HIGHEST_PRECEDENCE);
    return registration;
  }
}
