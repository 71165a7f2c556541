// An HTTP/1.1 server that manages sockets, threads, deadlines, and limits for a Handler. Each I/O thread runs its own
// loop, and each connection is a coroutine on one loop. The coroutine waits for the next request, for the response, or
// for the client to disconnect, whichever comes first.
//
// - A connection serves one request at a time, in order. Clients may pipeline requests.
// - A client that disconnects ends its exchange. A client that closes only its sending side still gets its response.
// - A send is attempted immediately on the connection's thread. Only the remaining bytes wait for the socket.
// - With a certificate, the server supports only TLS 1.2 and 1.3.
// - When the server is full, a source that opens many connections and sends little loses its own connections
//   (places.h).
// - The server rejects requests from web pages that use a foreign host name or have another origin (site_check.h).
// - With Options::unix_socket, it listens on a file that only this user can open. Stop removes the file.
//
// Listen fails with
//   UNAVAILABLE if it cannot listen on host:port, which the error contains,
//   RESOURCE_EXHAUSTED if max_connections needs more files than the system allows for this process,
//   FAILED_PRECONDITION for an address that other machines can reach without TLS, unless allow_plaintext is set.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "base/status.h"
#include "http/handler.h"
#include "http/options.h"

namespace ingot::http {

// Checks that a server is allowed to listen on the configured host. Returns INVALID_ARGUMENT if it is not an IP
// address, or FAILED_PRECONDITION if other machines can reach it without TLS.
absl::Status CheckHost(const Options& options);

class Server {
 public:
  // After this, connections wait in the system's queue until Serve is called. `handler` must outlive the server.
  static absl::StatusOr<std::unique_ptr<Server>> Listen(const Options& options, Handler& handler);
  ~Server();  // calls Stop
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Starts the threads that accept and serve connections. Must be called once.
  void Serve();

  // Runs `job` immediately, and then about once per `period` until Stop, on one of the server's threads. `job` must not
  // block.
  void Every(std::chrono::milliseconds period, std::function<void()> job);

  // Also accepts connections on another listening TCP socket until the returned object is destroyed. Connections stay
  // open after that. Takes ownership of the descriptor, even on error. Returns INVALID_ARGUMENT if it is not a
  // listening TCP socket. May be called on any thread after Serve.
  absl::StatusOr<std::shared_ptr<void>> AcceptOn(int listening_socket);

  // Stops accepting connections, lets requests in flight finish for up to shutdown_grace_s, and then closes their
  // connections. May be called repeatedly and on any thread except the server's own.
  void Stop();

  int port() const;         // the actual port, even if Options::port was 0; 0 = Unix socket
  std::string url() const;  // "http://host:port", "https://...", or "unix:PATH"
  int connections() const;  // currently open

 private:
  class Impl;
  explicit Server(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

}  // namespace ingot::http
