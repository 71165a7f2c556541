// An HTTP/1.1 server: sockets, threads, deadlines and limits around a Handler. Each io thread runs a loop of its own;
// each connection is one coroutine on one loop. It waits for the next request, for its answer and for the client to go,
// whichever comes first.
//
//   - A connection serves one request at a time, in order; requests may be sent ahead.
//   - A client that goes away ends its exchange. A client that closes its sending side only still gets its answer.
//   - A send is tried at once, on the connection's thread; only the rest waits for the socket.
//   - With a certificate the server speaks TLS 1.2 and 1.3 only.
//   - Where all places are taken, whoever opens many connections and sends little loses its own ones (places.h).
//   - A web page that comes under a foreign name, or from another origin, is refused (site_check.h).
//   - With Options::unix_socket it listens on a file that only this user can open; Stop removes it.
//
// Listen fails with
//   UNAVAILABLE, naming host:port, if it cannot listen there,
//   RESOURCE_EXHAUSTED if max_connections are more files than the system allows this process,
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

class Server {
 public:
  // From here on connections wait in the system's queue. `handler` outlives the server.
  static absl::StatusOr<std::unique_ptr<Server>> Listen(const Options& options, Handler& handler);
  ~Server();  // Stop
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Starts the threads, which accept connections and answer them. Called once.
  void Serve();

  // Runs `job` now and then about every `period` until Stop, on a thread of the server's. `job` must not block.
  void Every(std::chrono::milliseconds period, std::function<void()> job);

  // Accepts connections on a listening TCP socket beside the server's own, until the returned object goes; connections that
  // it brought stay. Takes the descriptor over, also on an error. INVALID_ARGUMENT: it is no such socket. After Serve; any thread.
  absl::StatusOr<std::shared_ptr<void>> AcceptOn(int listening_socket);

  // Stops accepting, lets the requests in flight finish for shutdown_grace_s, then closes their connections. Any thread
  // but the server's may call it, more than once.
  void Stop();

  int port() const;         // listened on, also where Options::port was 0; 0 = on a unix socket
  std::string url() const;  // "http://host:port", "https://..." or "unix:PATH"
  int connections() const;  // open now

 private:
  class Impl;
  explicit Server(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

}  // namespace ingot::http
