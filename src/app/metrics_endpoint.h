// An HTTP server that serves GET /metrics and nothing else: on a socket file of this user's, or at an address, to whoever
// shows a key. Agents reach neither: the names and numbers in it are the run's, not theirs.
#pragma once

#include <functional>
#include <memory>
#include <string>

#include "base/status.h"
#include "http/server.h"

namespace ingot::app {

class MetricsEndpoint final : public http::Handler {
 public:
  using Text = std::function<std::string()>;  // makes the answer, in Prometheus' format; called on any thread

  // On the socket file `path`, of mode 0600. UNAVAILABLE: the file cannot be made.
  static absl::StatusOr<std::unique_ptr<MetricsEndpoint>> OnSocket(const std::string& path, Text text);
  // At options.host, an address or a name of this machine, and options.port; with options' TLS. Requests show `key` as
  // Authorization: Bearer, or as x-api-key. Errors are those of http::Server::Listen. REQUIRES: `key` is not empty.
  static absl::StatusOr<std::unique_ptr<MetricsEndpoint>> AtAddress(http::Options options, std::string key, Text text);

  int port() const { return server_->port(); }
  std::string url() const { return server_->url(); }

  // http::Handler
  http::Opening Head(http::RequestHead head) override;

 private:
  MetricsEndpoint(std::string key, Text text) : key_(std::move(key)), text_(std::move(text)) {}
  static absl::StatusOr<std::unique_ptr<MetricsEndpoint>> Start(http::Options options, std::string key, Text text);

  const std::string key_;  // empty = none is asked for: the socket file's mode decides
  const Text text_;
  std::unique_ptr<http::Server> server_;  // last: it is stopped first
};

}  // namespace ingot::app
