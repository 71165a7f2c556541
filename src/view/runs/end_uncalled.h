// Answers POST /api/end_uncalled?id=E or ?all=1.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "view/runs/run_source.h"

namespace ingot::view {

using EndUncalled = decltype(RunSource::end_uncalled);

// Returns {"ended": n}. `key` is the key that the user entered. Blocks on the run's gateways. Returns INVALID_ARGUMENT
// if a parameter is missing or malformed, NOT_FOUND if `end` is null or there is no such episode, and UNAUTHENTICATED
// if there is no key. Also returns the errors of `end`.
absl::StatusOr<std::string> AnswerEnd(const EndUncalled& end, std::string_view target, const std::string& key);

}  // namespace ingot::view
