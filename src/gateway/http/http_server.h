// The gateway's HTTP server: an http::Server whose handler is HttpApi. It reports its address to the gateway, unless
// public_url names one, and ticks it every second.
//
// Stop (and destruction) lets the requests in flight finish for shutdown_grace_s, then aborts them.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "gateway/gateway.h"
#include "gateway/http/http_api.h"
#include "http/server.h"

namespace ingot::gateway {

// Whether the gateway may listen as the options say. Errors name the configuration's keys.
absl::Status CheckListening(const http::Options& options);
// Whether its certificate and key can be read, and belong together. Errors are those of HttpServer::Start.
absl::Status CheckTlsFiles(const http::Options& options);

class HttpServer {
 public:
  // Listens and serves at once; errors: http::Server::Listen's. `gateway` outlives the server. `own_host`: this
  // machine's name or address in base_url() if the server listens on every address; empty = base_url() has 0.0.0.0.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(const http::Options& options, Gateway& gateway,
                                                           const std::string& own_host = "");

  // As http::Server::AcceptOn: sandboxes pass in listening sockets, through which their agents reach the gateway.
  absl::StatusOr<std::shared_ptr<void>> AcceptOn(int listening_socket) { return server_->AcceptOn(listening_socket); }
  void Stop() { server_->Stop(); }
  int port() const { return server_->port(); }
  std::string url() const { return server_->url(); }  // listened on
  // For agents: public_url, or the address it listens on.
  const std::string& base_url() const { return base_url_; }
  int connections() const { return server_->connections(); }

 private:
  explicit HttpServer(Gateway& gateway) : api_(gateway) {}

  HttpApi api_;
  std::string base_url_;                  // constant once it serves
  std::unique_ptr<http::Server> server_;  // last: it is stopped first
};

}  // namespace ingot::gateway
