// E2B's files: the methods of filesystem.Filesystem over the Connect protocol, and whole files over HTTP.
//
//   GET  /files?path=PATH    the bytes
//   POST /files?path=PATH    the body: octets, or multipart/form-data, whose parts name paths if the query does not
//   GET  /health             204 while the sandbox lives
//
// The user that a client names is ignored: a sandbox has only one. Watches, file metadata and compressed uploads are
// rejected.
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

// A file of a multipart/form-data body.
struct FormFile {
  std::string name;  // its filename
  std::string_view bytes;
};
// INVALID_ARGUMENT: the body is incomplete, has no file, or has more than kMostParts parts. The views point into
// `body`. Takes linear time.
inline constexpr int kMostParts = 4096;
absl::StatusOr<std::vector<FormFile>> ReadForm(std::string_view content_type, std::string_view body);

}  // namespace ingot::execution
