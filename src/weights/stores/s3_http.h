// Signed HTTP requests to a bucket.
#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <utility>

#include "base/status.h"
#include "http/client.h"
#include "weights/stores/s3_answer.h"

namespace ingot::weights {

struct S3Request {
  std::string method;  // GET, PUT, POST, DELETE
  std::string path;    // below the bucket, without a leading slash; empty = the bucket
  std::string query;   // encoded, its parameters in alphabetical order, as they are signed
  std::string_view body = {};
  std::map<std::string, std::string> headers = {};
  int64_t max_answer = 1 << 20;  // bytes
  bool error_in_body = false;    // the server answers 200 before its work is done: an upload's completion
};

// Thread safe: each thread's requests use a separate connection, which stays open.
class S3Http {
 public:
  S3Http(const S3Options& options, S3Credentials credentials)
      : options_(options), credentials_(std::move(credentials)) {}

  using TimePoint = std::chrono::steady_clock::time_point;
  // The server's response, with any status. UNAVAILABLE and DEADLINE_EXCEEDED: no response by `deadline`.
  // RESOURCE_EXHAUSTED: the response has more bytes than the request expects. PERMISSION_DENIED: the server's
  // certificate is not trusted. Retries temporary errors.
  absl::StatusOr<S3Answer> Send(const S3Request& request, TimePoint deadline);

  // A query value, encoded for a URL.
  static std::string Encode(std::string_view value);

 private:
  absl::StatusOr<S3Answer> SendOnce(const S3Request& request, TimePoint deadline);

  const S3Options options_;
  const S3Credentials credentials_;
  http::Client client_;
};

}  // namespace ingot::weights
