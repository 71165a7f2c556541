// HTTP/1.1 for the gateway: sockets, timeouts and limits around an HttpApi. Owns its threads; one coroutine per
// connection, which waits for the next request, for its answer and for the client going away, whichever is first. A
// client that goes away while its answer is being made abandons it; one that only closes its sending side gets it.
//
// With a certificate it speaks TLS 1.2 and 1.3 only. Start fails with UNAVAILABLE, naming host:port, if it cannot
// listen there; RESOURCE_EXHAUSTED if max_connections are more files than the system allows this process;
// FAILED_PRECONDITION for an address that other machines reach without TLS, unless allow_plaintext says so. Stop (and
// destruction) stops accepting, lets requests in flight finish for shutdown_grace_s, then abandons them; it may be
// called from any thread but the server's.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/status.h"
#include "gateway/gateway.h"
#include "gateway/options.h"

namespace ingot::gateway {

class HttpServer {
 public:
  // Listens and serves at once; tells the gateway its address (unless public_url names one) and ticks it every second.
  // `metrics` gives the text of /metrics; null: the gateway's own metrics. `gateway` outlives the server.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(const HttpServerOptions& options, Gateway& gateway,
                                                           std::function<std::string()> metrics = nullptr);
  ~HttpServer();
  HttpServer(const HttpServer&) = delete;
  HttpServer& operator=(const HttpServer&) = delete;

  void Stop();
  int port() const;         // the one listened on, also where the options said 0
  std::string url() const;  // "http://host:port", or "https://..."
  int connections() const;  // open now

 private:
  class Impl;
  explicit HttpServer(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

}  // namespace ingot::gateway
