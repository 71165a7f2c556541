// HTTP/1.1 for the gateway: sockets, timeouts and limits around an HttpApi. Owns its threads; one coroutine per
// connection, which waits for the next request, for its answer and for the client going away, whichever is first. A
// client that closes its side while its answer is being made (a half-closed connection included: it cannot be told from
// a closed one) abandons it.
//
// Start fails with UNAVAILABLE, naming host:port, if it cannot listen there. Stop (and destruction) stops accepting,
// lets requests in flight finish for shutdown_grace_s, then abandons them; it may be called from any thread but the
// server's.
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
  std::string url() const;  // "http://host:port"
  int connections() const;  // open now

 private:
  class Impl;
  explicit HttpServer(std::shared_ptr<Impl> impl);
  std::shared_ptr<Impl> impl_;
};

}  // namespace ingot::gateway
