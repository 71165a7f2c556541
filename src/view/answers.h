// The interface behind a page's /api targets. RunView implements it for one run, and RunIndex for a folder of runs.
//
// Methods are called on the page's thread and may block. Thread safe.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace ingot::view {

class Answers {
 public:
  virtual ~Answers() = default;

  // Returns the JSON for a target, such as "/api/window". Returns NOT_FOUND if there is no such target or no such
  // stored object. Returns INVALID_ARGUMENT if a parameter is missing or malformed. Other errors come from the run's
  // files.
  virtual absl::StatusOr<std::string> Answer(std::string_view target) = 0;

  // Answers POST /api/end_uncalled (end_uncalled.h).
  virtual absl::StatusOr<std::string> EndUncalled(std::string_view target, const std::string& key) = 0;
};

}  // namespace ingot::view
