// An HTTP/1.1 server: sockets, threads, deadlines and limits around a Handler. Each io thread runs its own loop; each
// connection is one coroutine on one loop. It waits for the next request, its answer or the client's departure,
// whichever comes first.
//
//   - A connection serves one request at a time, in order; requests may be sent ahead.
//   - A client that goes away ends its exchange. A client that closes only its sending side still gets its answer.
//   - A send is tried at once, on the connection's thread; only the rest waits for the socket.
//   - With a certificate the server speaks only TLS 1.2 and 1.3.
//   - On a full server, a source that opens many connections and sends little loses its own connections (places.h).
//   - The server rejects a web page's request under a foreign name or from another origin (site_check.h).
//   - With Options::unix_socket it listens on a file that only this user can open; Stop removes it.
//
// Listen fails with
//   UNAVAILABLE, naming host:port, if it cannot listen there,
//   RESOURCE_EXHAUSTED if max_connections needs more files than the system allows this process,
//   FAILED_PRECONDITION for an address that other machines reach without TLS, unless allow_plaintext is set.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>

#include "base/status.h"
#include "http/handler.h"
#include "http/options.h"

namespace ingot::http {

// Whether a server may listen at the options' host. INVALID_ARGUMENT: it is no IP address. FAILED_PRECONDITION: other
// machines reach it, without TLS.
absl::Status CheckHost(const Options& options);

class Server {
 public:
  // From here on connections wait in the system's queue. `handler` outlives the server.
  static absl::StatusOr<std::unique_ptr<Server>> Listen(const Options& options, Handler& handler);
  ~Server();  // Stop
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Starts the threads, which accept connections and answer them. Called once.
  void Serve();

  // Runs `job` now, then about every `period` until Stop, on one of the server's threads. `job` must not block.
  void Every(std::chrono::milliseconds period, std::function<void()> job);

  // Also accepts connections on another listening TCP socket, until the returned object is destroyed; its connections
  // stay. Takes the descriptor over, also on an error. INVALID_ARGUMENT: not a listening TCP socket. Call after Serve;
  // any thread.
  absl::StatusOr<std::shared_ptr<void>> AcceptOn(int listening_socket);

  // Stops accepting, lets the requests in flight finish for shutdown_grace_s, then closes their connections. Any thread
  // but the server's may call it, more than once.
  void Stop();

  int port() const;         // the actual port, also if Options::port was 0; 0 = a unix socket
  std::string url() const;  // "http://host:port", "https://..." or "unix:PATH"
  int connections() const;  // open now

 private:
  class Impl;
  explicit Server(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

}  // namespace ingot::http
