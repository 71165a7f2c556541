// Where the trainer gets tokens to measure rollout against training on (law 3 of docs/architecture.md).
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/status.h"
#include "tree/forest.h"

namespace ingot::trainer {

// Asked at the start of every step, at `version`, for at least `tokens` tokens sampled at exactly that version with
// unmixed KV, in fresh calls that are not in the batch. With numerics fast the trainer scores each call by itself, as
// the engine ran it, so that mismatch/* measures the numerics of model and kernels; what merging adds by rounding is
// measured on the batch's own tokens of that version (mismatch/packed_*). With numerics exact the calls are merged as
// in training, and every mismatch is zero. Runs on a thread of its own beside the gradient's computation, and is waited
// for before the optimizer moves the weights; may block until an engine has drawn them, and must end by itself. An
// error, or fewer tokens, makes the probe smaller (mismatch/probe_tokens says how large it was) and is logged; it does
// not stop the step. Null: the batch's tokens of that version stand in for the probe.
using ProbeSource = std::function<absl::StatusOr<std::vector<tree::CallPath>>(int64_t version, int64_t tokens)>;

}  // namespace ingot::trainer
