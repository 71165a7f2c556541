// The answer to POST /api/end_uncalled?id=E, or ?all=1. It blocks for the run's gateways.
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "view/run_source.h"

namespace ingot::view {

using EndUncalled = decltype(RunSource::end_uncalled);

// {"ended": n}. `key`: what the browser's user entered. INVALID_ARGUMENT: a parameter is missing or malformed. NOT_FOUND:
// `end` is null, or there is no such episode. UNAUTHENTICATED: no key. Other errors are end's.
absl::StatusOr<std::string> AnswerEnd(const EndUncalled& end, std::string_view target, const std::string& key);

}  // namespace ingot::view
