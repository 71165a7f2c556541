// Serves E2B's file API: the filesystem.Filesystem methods over the Connect protocol, and entire files over HTTP.
//
//   GET  /files?path=PATH    returns the bytes
//   POST /files?path=PATH    writes the body: octets, or multipart/form-data, which may include the paths
//   GET  /health             returns 204 while the sandbox is open
//
// A sandbox has only one user, so the user that a client specifies is ignored. Watches, file metadata, and compressed
// uploads are rejected.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <variant>

#include "base/json.h"
#include "base/status.h"
#include "execution/feed.h"
#include "execution/store.h"
#include "execution/target.h"
#include "http/handler.h"

namespace ingot::execution {

class E2bFiles {
 public:
  explicit E2bFiles(SessionStore& store) : store_(store) {}

  static bool Owns(const http::RequestHead& head, const std::string& path);
  std::variant<http::Reply, std::shared_ptr<Feed>> Open(const http::RequestHead& head, const Target& target,
                                                        const std::string& body, std::function<void()> wake);

 private:
  absl::StatusOr<base::json::object> Call(const http::RequestHead& head, const std::string& method,
                                          const std::string& body);
  http::Reply Upload(const http::RequestHead& head, const Target& target, const std::string& body);

  SessionStore& store_;
};

// A file in a multipart/form-data body.
struct FormFile {
  std::string name;  // filename sent by the client
  std::string_view bytes;
};
// Returns views into `body`. Returns INVALID_ARGUMENT if the body is incomplete, contains no file, or has more than
// kMaxParts parts. Takes linear time.
inline constexpr int kMaxParts = 4096;
absl::StatusOr<std::vector<FormFile>> ReadForm(std::string_view content_type, std::string_view body);

}  // namespace ingot::execution
