// The gateway's HTTP server: an http::Server with HttpApi as its handler. It sets the gateway's base URL unless
// public_url is configured, and calls Gateway::Tick every second.
//
// Stop and the destructor let requests in flight finish for up to shutdown_grace_s, then abort them.
#pragma once

#include <memory>
#include <string>

#include "base/status.h"
#include "gateway/gateway.h"
#include "gateway/http/http_api.h"
#include "http/server.h"

namespace ingot::gateway {

// Checks that the gateway is allowed to listen as configured. Errors name the configuration keys.
absl::Status CheckListening(const http::Options& options);
// Returns OK if the certificate and key can be read and match. Returns the errors of HttpServer::Start.
absl::Status CheckTlsFiles(const http::Options& options);

class HttpServer {
 public:
  // Listens and starts serving. Returns the same errors as http::Server::Listen. `gateway` must outlive the server.
  // `own_host` is this machine's name or address, used in base_url() if the server listens on all addresses. If it is
  // empty, base_url() contains 0.0.0.0.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(const http::Options& options, Gateway& gateway,
                                                           const std::string& own_host = "");

  // See http::Server::AcceptOn. Sandboxes pass the listening sockets that their agents use to reach the gateway.
  absl::StatusOr<std::shared_ptr<void>> AcceptOn(int listening_socket) { return server_->AcceptOn(listening_socket); }
  void Stop() { server_->Stop(); }
  int port() const { return server_->port(); }
  std::string url() const { return server_->url(); }  // the address that it listens on
  // Returns the URL for agents: public_url, or the address where the server listens.
  const std::string& base_url() const { return base_url_; }
  int connections() const { return server_->connections(); }

 private:
  explicit HttpServer(Gateway& gateway) : api_(gateway) {}

  HttpApi api_;
  std::string base_url_;                  // constant once the server is serving
  std::unique_ptr<http::Server> server_;  // declared last, so it is stopped first
};

}  // namespace ingot::gateway
