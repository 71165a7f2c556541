// Reads traces, which are JSON lines in one of two formats.
//
// An episode of an RL run. A turn's numbers are its new prompt tokens, the answer's tokens, and the milliseconds since
// the previous turn's end. Episodes in a group have the same prompt, which begins with the shared_tokens[0] scaffold
// tokens that all episodes share.
//
//   {"group": 3, "shared_tokens": [2048, 950], "turns": [[0, 120, 0], [431, 96, 2140], ...]}
//
// A request in a Mooncake trace (github.com/kvcache-ai/Mooncake, FAST25-release/traces). Each hash id except the last
// represents 512 tokens. Requests that begin with the same ids share a prefix.
//
//   {"timestamp": 27482, "input_length": 6955, "output_length": 52, "hash_ids": [46, 47, 48]}
#pragma once

#include <string>
#include <string_view>

#include "base/status.h"
#include "rollout/simulation/trace.h"

namespace ingot::rollout {

// Returns INVALID_ARGUMENT, naming the line and the field, if a line has neither format, a number is out of range, or
// there are no lines.
absl::StatusOr<Trace> ParseTrace(std::string_view text);

// Same as ParseTrace, but reads a file. Returns the errors of base::ReadFile. Errors include the path.
absl::StatusOr<Trace> ReadTrace(const std::string& path);

}  // namespace ingot::rollout
