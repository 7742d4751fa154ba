package io.twinbox.sql;

import io.twinbox.local.LocalPostgres;

/** The PostgreSQL 14 that tests and the local run bring along. */
final class EmbeddedServer implements PostgresServer {

  private static EmbeddedServer running;

  private final LocalPostgres postgres = LocalPostgres.start();

  private EmbeddedServer() {
    Runtime.getRuntime().addShutdownHook(new Thread(postgres::close));
  }

  static synchronized PostgresServer get() {
    if (running == null) {
      running = new EmbeddedServer();
    }
    return running;
  }

  @Override
  public String createDatabase() {
    return postgres.createDatabase();
  }
}
