// ProbeSource gives the trainer fresh tokens, with which it measures rollout against training (law 3 of
// docs/internals/architecture.md).
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/status.h"
#include "tree/forest.h"

namespace ingot::trainer {

// Called at the start of every step for calls that were sampled at exactly `version` with unmixed KV and are not in the
// batch; together they hold at least `tokens` sampled tokens. An error, or fewer tokens, is logged and makes the probe
// smaller (mismatch/probe_tokens is its size); the step continues. Null = the batch's tokens of that version stand in
// for the probe.
//
// numerics fast: the trainer scores each call separately, as the engine ran it, so that mismatch/* measures the
// numerics of model and kernels. The rounding that merging adds is measured on the batch's own tokens
// (mismatch/packed_*). numerics exact: the calls are merged as in training, and every mismatch is zero.
//
// Runs on a separate thread, in parallel with the gradient; the trainer waits for it before the optimizer moves the
// weights. It may block until an engine has sampled the calls, and must end by itself.
using ProbeSource = std::function<absl::StatusOr<std::vector<tree::CallPath>>(int64_t version, int64_t tokens)>;

}  // namespace ingot::trainer
