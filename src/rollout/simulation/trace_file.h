// Reads traces: JSON lines in one of two formats.
//
// An episode of an RL run. The first number of a turn is its new prompt tokens, then the answer's tokens, and then the
// milliseconds since the previous turn's end. Episodes of a group have the same prompt, which begins with
// shared_tokens[0] tokens of a scaffold that all episodes have.
//
//   {"group": 3, "shared_tokens": [2048, 950], "turns": [[0, 120, 0], [431, 96, 2140], ...]}
//
// A request of Mooncake's traces (github.com/kvcache-ai/Mooncake, FAST25-release/traces). A hash id stands for 512
// tokens, except for the last one, and requests that begin with the same ids share a prefix.
//
//   {"timestamp": 27482, "input_length": 6955, "output_length": 52, "hash_ids": [46, 47, 48]}
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "rollout/simulation/trace.h"

namespace ingot::rollout {

// Returns INVALID_ARGUMENT with the line and the field if a line is not in one of the formats, a number is out of
// range, or there is no line.
absl::StatusOr<Trace> ParseTrace(std::string_view text);

// Same as ParseTrace, but reads a file. Returns the errors of base::ReadFile. Errors include the path.
absl::StatusOr<Trace> ReadTrace(const std::string& path);

}  // namespace ingot::rollout
