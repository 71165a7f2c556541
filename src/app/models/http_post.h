// Posts JSON to a server and returns the response. Intended for rare, slow requests, such as those from reward terms,
// because every call opens its own connection. Uses the proxies set in the environment, except for this machine's own
// addresses. Thread safe.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/status.h"

namespace ingot::app {

struct HttpPost {
  std::string url;        // http:// or https://, with verified certificates (http/client.h)
  std::string body;       // JSON
  std::string key;        // bearer token; empty = none
  double timeout_s = 30;  // total time to connect, send, and read, per request
  // How long to retry while the server returns 429 or 503. Waits for its Retry-After, or else 1, 2, 4, ... s.
  double limited_s = 600;
  int64_t max_answer_bytes = 16 * 1024 * 1024;
  std::function<bool()> cancelled = nullptr;  // true = the caller has stopped waiting; checked several times a second
};

// Returns the body of a response with status 200. Errors never contain the key, even if the response repeats it.
// Errors:
// - INVALID_ARGUMENT: the URL is invalid.
// - UNAVAILABLE: the server cannot be reached or trusted, still returns 429 or 503, returned another 5xx, or sent too
//   many bytes.
// - DEADLINE_EXCEEDED: the request timed out.
// - CANCELLED: `cancelled` returned true.
// - FAILED_PRECONDITION: any other status. The error message includes the beginning of the response.
absl::StatusOr<std::string> Post(const HttpPost& post);

// `base` is a URL such as "https://host/v1", with or without a trailing slash.
std::string ChatCompletionsUrl(const std::string& base);

}  // namespace ingot::app
