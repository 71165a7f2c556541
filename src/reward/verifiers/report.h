// Parses a reward that was reported as text by an agent or by a verifier's program.
#pragma once

#include <string>

#include "base/status.h"
#include "reward/verifier.h"

namespace ingot::reward {

// Reads the verdict in `text`: a number, or {"reward": number, "signals": {name: number}, "facts": {name: JSON},
// "detail": text}. The message of INVALID_ARGUMENT completes the sentence "the report is ..".
absl::StatusOr<Verdict> ParseReport(const std::string& text);

}  // namespace ingot::reward
