// Serves E2B's code interpreter API, which runs Python cells in contexts, each with its own interpreter. Based on the
// Python SDK e2b-code-interpreter 2.11.5.
//
//   POST   /execute                 {"code", "context_id", "language", "env_vars"}: streams lines of JSON
//   GET    /contexts                lists contexts; POST adds one: {"language", "cwd"}
//   DELETE /contexts/ID             removes one; POST /contexts/ID/restart clears its state
//
// If a client disconnects, its cell is interrupted.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <variant>

#include "base/status.h"
#include "execution/feed.h"
#include "execution/store.h"
#include "http/handler.h"

namespace ingot::execution {

class E2bCode {
 public:
  explicit E2bCode(SessionStore& store) : store_(store) {}

  static bool Owns(const std::string& path) {
    return path == "/execute" || path == "/contexts" || path.starts_with("/contexts/");
  }
  std::variant<http::Reply, std::shared_ptr<Feed>> Open(const http::RequestHead& head, const std::string& path,
                                                        const std::string& body, std::function<void()> wake);

 private:
  SessionStore& store_;
};

}  // namespace ingot::execution
