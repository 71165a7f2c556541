// The scorer that an external term asks: the user's HTTP server. An interface: src/app implements it; tests use a
// function.
#pragma once

#include <string>

#include "base/status.h"

namespace ingot::reward {

class ExternalScorer {
 public:
  virtual ~ExternalScorer() = default;

  // The body of the answer to a POST of `json`, which had the status 200. Blocks up to `timeout_s`; thread safe. Any
  // error means that there is no answer, and names the URL; a retry may help only after UNAVAILABLE and
  // DEADLINE_EXCEEDED.
  virtual absl::StatusOr<std::string> Post(const std::string& url, const std::string& json, double timeout_s) const = 0;
};

}  // namespace ingot::reward
