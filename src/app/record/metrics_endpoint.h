// An HTTP server for GET /metrics: on a socket file of this user, or at an address for clients with a key. The socket
// file also serves GET /waits. Agents can reach neither: the metrics belong to the run.
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

  // On the socket file `path`, of mode 0600. `waits` makes the answer to /waits (role_waits.h); null = /waits is not
  // served. UNAVAILABLE: the file cannot be made.
  static absl::StatusOr<std::unique_ptr<MetricsEndpoint>> OnSocket(const std::string& path, Text text,
                                                                   Text waits = nullptr);
  // At options.host, an address or a name of this machine, and options.port; with options' TLS. Requests show `key` as
  // Authorization: Bearer, or as x-api-key. Errors are those of http::Server::Listen. REQUIRES: `key` is not empty.
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

  const std::string key_;  // empty = no key is required: the socket file's mode decides
  const Text text_;
  const Text waits_;                      // null = /waits is not served
  std::unique_ptr<http::Server> server_;  // last: it is stopped first
};

}  // namespace ingot::app
