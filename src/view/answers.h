// What a page answers below /api. RunView answers for one run, and RunIndex for the runs of a folder.
//
// Called on the page's thread; methods may block. Thread safe.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"

namespace ingot::view {

class Answers {
 public:
  virtual ~Answers() = default;

  // The printed JSON for a target, such as "/api/window". NOT_FOUND: no such target, or what it names is not stored.
  // INVALID_ARGUMENT: a parameter is missing or malformed. Other errors come from the run's files.
  virtual absl::StatusOr<std::string> Answer(std::string_view target) = 0;

  // The answer to POST /api/end_uncalled (end_uncalled.h).
  virtual absl::StatusOr<std::string> EndUncalled(std::string_view target, const std::string& key) = 0;
};

}  // namespace ingot::view
