package io.twinbox.operate;

import io.twinbox.config.TwinboxProperties;
import jakarta.servlet.http.HttpServletRequest;
import java.net.InetAddress;
import java.net.UnknownHostException;
import java.util.Locale;
import java.util.Set;
import org.slf4j.Logger;
import org.slf4j.LoggerFactory;
import org.springframework.boot.autoconfigure.condition.ConditionalOnWebApplication;
import org.springframework.boot.autoconfigure.security.SecurityProperties;
import org.springframework.context.annotation.Bean;
import org.springframework.context.annotation.Configuration;
import org.springframework.core.annotation.Order;
import org.springframework.core.env.Environment;
import org.springframework.http.HttpHeaders;
import org.springframework.http.HttpMethod;
import org.springframework.security.authorization.AuthorizationDecision;
import org.springframework.security.config.Customizer;
import org.springframework.security.config.annotation.web.builders.HttpSecurity;
import org.springframework.security.config.annotation.web.configuration.EnableWebSecurity;
import org.springframework.security.core.userdetails.User;
import org.springframework.security.core.userdetails.UserDetailsService;
import org.springframework.security.crypto.factory.PasswordEncoderFactories;
import org.springframework.security.provisioning.InMemoryUserDetailsManager;
import org.springframework.security.web.SecurityFilterChain;
import org.springframework.security.web.csrf.CookieCsrfTokenRepository;
import org.springframework.security.web.csrf.CsrfTokenRequestAttributeHandler;
import org.springframework.security.web.servlet.util.matcher.PathPatternRequestMatcher;
import org.springframework.security.web.util.matcher.OrRequestMatcher;
import org.springframework.security.web.util.matcher.RequestMatcher;

/**
 * Who may do what over HTTP. On the management port the two probes are open, without details; the
 * rest needs the login of {@code spring.security.user}, and without one configured nobody comes in.
 * The other port serves nothing to anybody.
 */
@Configuration(proxyBeanMethods = false)
@ConditionalOnWebApplication(type = ConditionalOnWebApplication.Type.SERVLET)
@EnableWebSecurity
class ManagementSecurity {

  private static final Logger log = LoggerFactory.getLogger("io.twinbox.operate");

  private static final String[] PROBES = {
    "/actuator/health/liveness", "/actuator/health/readiness"
  };

  private static final Set<String> LOOPBACK_NAMES = Set.of("localhost", "127.0.0.1", "[::1]");

  /**
   * The one login. In place of Spring Boot's own, which makes up a password and writes it into the
   * log when none is set.
   */
  @Bean
  UserDetailsService operators(SecurityProperties security, TwinboxProperties properties) {
    SecurityProperties.User user = security.getUser();
    InMemoryUserDetailsManager operators = new InMemoryUserDetailsManager();
    if (!user.isPasswordGenerated()) {
      String password = user.getPassword();
      operators.createUser(
          User.withUsername(user.getName())
              .password(password.matches("(?s)\\{[^}]+}.+") ? password : encode(password))
              .roles("OPERATOR")
              .build());
    } else if (properties.operate().loginRequired()) {
      log.info(
          "Nobody can log in on the management port: only the probes answer. Set SPRING_SECURITY_USER_NAME and SPRING_SECURITY_USER_PASSWORD for Hawtio, health details and metrics.");
    }
    return operators;
  }

  private static String encode(String password) {
    return PasswordEncoderFactories.createDelegatingPasswordEncoder().encode(password);
  }

  @Bean
  @Order(1)
  SecurityFilterChain managementChain(
      HttpSecurity http, Environment environment, TwinboxProperties properties) throws Exception {
    http.securityMatcher(request -> isManagementPort(request, environment));
    http.authorizeHttpRequests(
        requests -> {
          // Hawtio can pass requests on to other machines: not from here.
          requests.requestMatchers(anyOf("/proxy/**", "/actuator/hawtio/proxy/**")).denyAll();
          requests.requestMatchers(anyOf(PROBES)).permitAll();
          if (properties.operate().metricsOpen()) {
            requests
                .requestMatchers(
                    PathPatternRequestMatcher.withDefaults()
                        .matcher(HttpMethod.GET, "/actuator/prometheus"))
                .permitAll();
          }
          if (properties.operate().loginRequired()) {
            requests.anyRequest().authenticated();
          } else {
            requests
                .anyRequest()
                .access((who, context) -> new AuthorizationDecision(isLocal(context.getRequest())));
          }
        });
    if (properties.operate().loginRequired()) {
      http.formLogin(login -> login.defaultSuccessUrl("/actuator/hawtio"));
      http.httpBasic(Customizer.withDefaults());
    }
    CsrfTokenRequestAttributeHandler token = new CsrfTokenRequestAttributeHandler();
    // Not deferred: Hawtio reads the token from its cookie before it sends anything.
    token.setCsrfRequestAttributeName(null);
    http.csrf(
        csrf ->
            csrf.csrfTokenRepository(CookieCsrfTokenRepository.withHttpOnlyFalse())
                .csrfTokenRequestHandler(token)
                .ignoringRequestMatchers(ManagementSecurity::isProgram));
    http.headers(headers -> headers.frameOptions(frames -> frames.deny()));
    return http.build();
  }

  /** Nothing is served there, not even a page to log in. */
  @Bean
  @Order(2)
  SecurityFilterChain otherPortChain(HttpSecurity http) throws Exception {
    http.authorizeHttpRequests(requests -> requests.anyRequest().denyAll());
    http.exceptionHandling(
        faults ->
            faults.authenticationEntryPoint((request, response, fault) -> response.setStatus(403)));
    http.csrf(csrf -> csrf.disable());
    http.logout(logout -> logout.disable());
    return http.build();
  }

  private static RequestMatcher anyOf(String... patterns) {
    RequestMatcher[] matchers = new RequestMatcher[patterns.length];
    for (int i = 0; i < patterns.length; i++) {
      matchers[i] = PathPatternRequestMatcher.withDefaults().matcher(patterns[i]);
    }
    return new OrRequestMatcher(matchers);
  }

  private static boolean isManagementPort(HttpServletRequest request, Environment environment) {
    return request.getLocalPort()
        == environment.getProperty("local.management.port", Integer.class, -1);
  }

  /**
   * A request of this machine to itself. The name is looked at too: a page of the open web can make
   * its own name lead to 127.0.0.1, but cannot call itself localhost.
   */
  static boolean isLocal(HttpServletRequest request) {
    try {
      String host = request.getHeader(HttpHeaders.HOST);
      return host != null
          && LOOPBACK_NAMES.contains(host.toLowerCase(Locale.ROOT).replaceFirst(":[0-9]+$", ""))
          && InetAddress.getByName(request.getRemoteAddr()).isLoopbackAddress();
    } catch (UnknownHostException e) {
      return false;
    }
  }

  /**
   * A program that sends the password with the request, and no browser, which another site could
   * make send it: a browser says where a request comes from.
   */
  static boolean isProgram(HttpServletRequest request) {
    return request.getHeader(HttpHeaders.AUTHORIZATION) != null
        && request.getHeader(HttpHeaders.ORIGIN) == null
        && request.getHeader("Sec-Fetch-Site") == null
        && request.getCookies() == null;
  }
}
