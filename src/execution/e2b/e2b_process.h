// E2B's process service: the methods of process.Process over the Connect protocol. Start and Connect stream;
// StreamInput takes its messages when the client has sent the last one. A program that starts with the field
// Connect-Timeout-Ms is killed at that time. A client that goes away leaves its program running, as E2B does. There are
// no terminals (PTY).
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
