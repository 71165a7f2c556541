// Sends signed HTTP requests to a bucket.
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
  std::string path;    // relative to the bucket, without a leading slash; empty = the bucket
  std::string query;   // encoded, with its parameters in alphabetical order, because they are signed
  std::string_view body = {};
  std::map<std::string, std::string> headers = {};
  int64_t max_answer = 1 << 20;  // maximum size of the response in bytes
  bool error_in_body = false;    // the server may send 200 before it is done, for example when completing an upload
};

// Thread safe. Each thread uses its own connection, which stays open.
class S3Http {
 public:
  S3Http(const S3Options& options, S3Credentials credentials)
      : options_(options), credentials_(std::move(credentials)) {}

  using TimePoint = std::chrono::steady_clock::time_point;
  // Returns the server's response, whatever its status. Returns UNAVAILABLE or DEADLINE_EXCEEDED if there is no
  // response by `deadline`, RESOURCE_EXHAUSTED if the response is larger than the request allows, and PERMISSION_DENIED
  // if the server's certificate is not trusted. Retries temporary errors.
  absl::StatusOr<S3Answer> Send(const S3Request& request, TimePoint deadline);

  // Encodes a query value for a URL.
  static std::string Encode(std::string_view value);

 private:
  absl::StatusOr<S3Answer> SendOnce(const S3Request& request, TimePoint deadline);

  const S3Options options_;
  const S3Credentials credentials_;
  http::Client client_;
};

}  // namespace ingot::weights
