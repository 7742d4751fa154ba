package io.twinbox.promises;

import java.io.IOException;
import java.io.UncheckedIOException;
import java.net.InetAddress;
import java.net.ServerSocket;
import java.net.Socket;
import java.util.Set;
import java.util.concurrent.ConcurrentHashMap;
import java.util.concurrent.atomic.AtomicInteger;

/** A line to a server that can be cut: connections end, and new ones end at once. */
final class TcpSwitch implements AutoCloseable {

  private final ServerSocket server;
  private final int target;
  private final Set<Socket> open = ConcurrentHashMap.newKeySet();
  private final AtomicInteger attempts = new AtomicInteger();
  private volatile boolean cut;

  /**
   * @param target port on this machine that connections go to
   */
  TcpSwitch(int target) throws IOException {
    this.target = target;
    this.server = new ServerSocket(0, 50, InetAddress.getLoopbackAddress());
    new Thread(this::accept, "tcp-switch").start();
  }

  int port() {
    return server.getLocalPort();
  }

  /** How many connections were asked for so far. */
  int attempts() {
    return attempts.get();
  }

  void cut(boolean cut) {
    this.cut = cut;
    if (cut) {
      open.forEach(TcpSwitch::end);
    }
  }

  private void accept() {
    while (!server.isClosed()) {
      try {
        Socket client = server.accept();
        attempts.incrementAndGet();
        if (cut) {
          client.close();
          continue;
        }
        Socket further = new Socket(InetAddress.getLoopbackAddress(), target);
        open.add(client);
        open.add(further);
        pump(client, further);
        pump(further, client);
        if (cut) {
          open.forEach(TcpSwitch::end);
        }
      } catch (IOException e) {
        // Closed, or one connection that did not come about.
      }
    }
  }

  private void pump(Socket from, Socket to) {
    Thread thread =
        new Thread(
            () -> {
              try {
                from.getInputStream().transferTo(to.getOutputStream());
              } catch (IOException e) {
                // It was ended.
              }
              end(from);
              end(to);
              open.remove(from);
              open.remove(to);
            },
            "tcp-switch-pump");
    thread.setDaemon(true);
    thread.start();
  }

  private static void end(Socket socket) {
    try {
      socket.close();
    } catch (IOException e) {
      throw new UncheckedIOException(e);
    }
  }

  @Override
  public void close() throws IOException {
    server.close();
    open.forEach(TcpSwitch::end);
  }
}
