// ProbeSource provides fresh tokens for measuring the mismatch between rollout and training (law 3 in
// docs/internals/architecture.md).
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/status.h"
#include "tree/forest.h"

namespace ingot::trainer {

// Called at the start of every step. Returns calls that were sampled at exactly `version` with unmixed KV and are not
// in the batch, with at least `tokens` sampled tokens in total. If this fails or returns too few tokens, it is logged,
// the probe is smaller (mismatch/probe_tokens is its size), and the step continues. Null = the batch's tokens from that
// version are used as the probe.
//
// With numerics fast, the trainer scores each call separately, as the engine ran it, so mismatch/* measures the
// numerics of the model and kernels. Additional rounding from merging is measured on the batch's own tokens
// (mismatch/packed_*). With numerics exact, the calls are merged as in training, and every mismatch is zero.
//
// Runs on a separate thread, in parallel with the gradient. The trainer waits for it before the optimizer changes the
// weights. May block until an engine has sampled the calls, but must finish on its own.
using ProbeSource = std::function<absl::StatusOr<std::vector<tree::CallPath>>(int64_t version, int64_t tokens)>;

}  // namespace ingot::trainer
