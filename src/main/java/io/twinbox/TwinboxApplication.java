package io.twinbox;

import org.springframework.boot.SpringApplication;
import org.springframework.boot.autoconfigure.SpringBootApplication;

@SpringBootApplication
public class TwinboxApplication {
  public static void main(String[] args) {
    SpringApplication.run(TwinboxApplication.class, args);
  }
}
