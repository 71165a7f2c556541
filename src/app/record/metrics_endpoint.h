// Serves GET /metrics over HTTP, either on a Unix socket that only this user can open or at a TCP address for clients
// with a key. The socket also serves GET /waits. Agents must not see the run's metrics and can use neither.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/status.h"
#include "http/server.h"

namespace ingot::app {

class MetricsEndpoint final : public http::Handler {
 public:
  using Text = std::function<std::string()>;  // produces the response in Prometheus format; called on any thread

  // Listens on the Unix socket `path` with mode 0600. `waits` produces the response to /waits (role_waits.h); null =
  // /waits is not served. Returns UNAVAILABLE if the socket cannot be created.
  static absl::StatusOr<std::unique_ptr<MetricsEndpoint>> OnSocket(const std::string& path, Text text,
                                                                   Text waits = nullptr);
  // Listens at options.host (one of this machine's addresses or names) and options.port, with the TLS settings in
  // `options`. Requests must present `key` as Authorization: Bearer or x-api-key. Returns the errors of
  // http::Server::Listen. REQUIRES: `key` is not empty.
  static absl::StatusOr<std::unique_ptr<MetricsEndpoint>> AtAddress(http::Options options, std::string key, Text text);

  int port() const { return server_->port(); }
  std::string url() const { return server_->url(); }

  // http::Handler
  http::Opening Head(http::RequestHead head) override;

 private:
  MetricsEndpoint(std::string key, Text text, Text waits)
      : key_(std::move(key)), text_(std::move(text)), waits_(std::move(waits)) {}
  static absl::StatusOr<std::unique_ptr<MetricsEndpoint>> Start(http::Options options, std::string key, Text text,
                                                                Text waits);

  const std::string key_;  // empty = no key is required, because the socket's mode restricts access
  const Text text_;
  const Text waits_;                      // null = /waits is not served
  std::unique_ptr<http::Server> server_;  // declared last because it must stop first
};

}  // namespace ingot::app
