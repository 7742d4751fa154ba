package io.twinbox.sql;

/** A PostgreSQL server on which the suite runs. It lives as long as the JVM. */
interface PostgresServer {

  String USER = "postgres";
  String PASSWORD = "postgres";

  /** A new, empty database; returns its JDBC URL. */
  String createDatabase();
}
