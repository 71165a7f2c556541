// Serves E2B's process API: the process.Process methods over the Connect protocol. Start and Connect are streams.
// StreamInput processes its messages after the client has sent the last message. A program that is started with the
// Connect-Timeout-Ms header is killed after that time. If a client disconnects, its program keeps running, as with E2B.
// Terminals (PTY) are not supported.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <variant>

#include "base/json.h"
#include "base/status.h"
#include "execution/feed.h"
#include "execution/store.h"
#include "http/handler.h"

namespace ingot::execution {

class E2bProcess {
 public:
  explicit E2bProcess(SessionStore& store) : store_(store) {}

  // "/process.Process/METHOD"
  static bool Owns(const std::string& path) { return path.starts_with("/process.Process/"); }
  std::variant<http::Reply, std::shared_ptr<Feed>> Open(const http::RequestHead& head, const std::string& path,
                                                        const std::string& body, std::function<void()> wake);

 private:
  absl::StatusOr<std::shared_ptr<Feed>> Stream(const http::RequestHead& head, const std::string& method,
                                               const std::string& body, std::function<void()> wake);
  absl::StatusOr<base::json::object> Unary(const http::RequestHead& head, const std::string& method,
                                           const std::string& body);

  SessionStore& store_;
};

}  // namespace ingot::execution
