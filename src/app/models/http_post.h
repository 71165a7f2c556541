// A POST of JSON to a server, and its answer. Thread safe: every call has its own connection. It suits rare and slow
// requests, such as a reward term's. It uses the proxies that the environment names, but never for this machine.
#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "base/status.h"

namespace ingot::app {

struct HttpPost {
  std::string url;        // http:// or https://; certificates are verified (http/client.h)
  std::string body;       // JSON
  std::string key;        // bearer key; empty = none
  double timeout_s = 30;  // of connecting, sending and reading one request together
  // A server that answers 429 or 503 is asked again for so long: after its Retry-After, or else after 1, 2, 4, ... s.
  double limited_s = 600;
  int64_t max_answer_bytes = 16 * 1024 * 1024;
  std::function<bool()> cancelled = nullptr;  // true = the caller gave up waiting; checked several times a second
};

// The body of an answer with status 200. INVALID_ARGUMENT: no such URL. UNAVAILABLE: the server cannot be reached or
// trusted, still answers 429 or 503, answered another 5xx, or too much. DEADLINE_EXCEEDED: it took too long. CANCELLED. FAILED_PRECONDITION: any
// other answer, with its beginning. No error contains the key, even if the answer repeats it.
absl::StatusOr<std::string> Post(const HttpPost& post);

// `base`: "https://host/v1", with or without a slash at its end.
std::string ChatCompletionsUrl(const std::string& base);

}  // namespace ingot::app
