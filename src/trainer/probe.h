// Where the trainer gets tokens to measure rollout against training on (law 3 of docs/architecture.md).
#pragma once

#include <cstdint>
#include <functional>
#include <vector>

#include "base/status.h"
#include "tree/forest.h"

namespace ingot::trainer {

// Asked at the start of a step at `version` when the batch holds fewer tokens sampled at exactly that version, with
// unmixed KV, than the probe needs: at least `tokens` more of them, in fresh calls that are not in the batch. Runs on a
// thread of its own beside the gradient's computation, and is waited for before the optimizer moves the weights; may
// block until an engine has drawn them, and must end by itself. An error, or fewer tokens, makes the probe smaller
// (mismatch/probe_tokens says how large it was) and is logged; it does not stop the step. Null: only the batch is used.
using ProbeSource = std::function<absl::StatusOr<std::vector<tree::FlatCall>>(int64_t version, int64_t tokens)>;

}  // namespace ingot::trainer
