// E2B's code interpreter: Python cells in contexts, each with its own interpreter. Written against its Python SDK
// e2b-code-interpreter 2.11.5.
//
//   POST   /execute                 {"code", "context_id", "language", "env_vars"}: a stream of lines of JSON
//   GET    /contexts                POST adds one: {"language", "cwd"}
//   DELETE /contexts/ID             POST /contexts/ID/restart forgets its state
//
// A client that goes away interrupts its cell.
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
