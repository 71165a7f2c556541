// Interface to an external term's scorer, which is the user's HTTP server. Implemented in src/app and by functions in
// tests.
#pragma once

#include <string>

#include "base/status.h"

namespace ingot::reward {

class ExternalScorer {
 public:
  virtual ~ExternalScorer() = default;

  // Posts `json` and returns the body of a response with status 200. Blocks up to `timeout_s`. Thread safe. Every error
  // names the URL and means that there is no usable response. Retry only after UNAVAILABLE or DEADLINE_EXCEEDED.
  virtual absl::StatusOr<std::string> Post(const std::string& url, const std::string& json, double timeout_s) const = 0;
};

}  // namespace ingot::reward
