// A benchmark of the whole training step (forward, loss, backward) on merged trees, compared with two baselines: one
// sample per request, and chain-merged (tree/documents.h). All three are packed without padding, cut by the same token
// budget and run by the same kernels. They alternate within one run, so that other load of the machine affects all of
// them alike; so do the rates of the bound (step_bound.h).
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"

namespace ingot::trainer {

struct TreeBenchOptions {
  std::vector<std::string> shapes;  // tree/shapes.h; empty = all of WorkloadShapes
  double scale = 0;                 // factor of the shapes' lengths; 0 = the largest power of 1/2 that fits `seconds`
  double seconds = 60;              // predicted time of a shape, with scale 0
  int rounds = 3;                   // every figure is the median of this many
  std::string dtype = "fp32";       // of the model: fp32 or bf16
  int64_t hidden = 256, intermediate = 1024, layers = 2, heads = 4, kv_heads = 2, head_dim = 64, vocab = 4096;
  int64_t micro_batch_tokens = 8192;
  bool checkpoint_layers = false;
  bool recompute_prefix = false;
  bool baselines = true;  // false = only the tree, for shapes whose baselines would take too long

  absl::Status Validate() const;
};

// Calls emit with one JSON object per figure; "bench" is "tree" in all of them, and all name shape, scale, model and
// settings. Nothing is extrapolated. For each shape:
// - "step" per variant (tree, chained, separate): "tokens", "parts", "visible_pairs"; wall times "seconds" (median),
//   "seconds_min", "seconds_max", "bound_seconds", "of_bound" (bound over seconds); the same by processor time
//   ("cpu_..."); "tokens_per_second", "peak_bytes" (resident, above the memory before the step), "predicted_bytes".
// - "speedup" per baseline: "speedup" (its seconds over the tree's), "cpu_speedup", "speedup_bound" (its seconds over
//   the tree's bound), "loss_difference" (relative, between it and the tree).
// - "least_speedup" without baselines: the bound of one sample per request over the tree's seconds.
//
// INVALID_ARGUMENT: an option or shape is wrong. RESOURCE_EXHAUSTED, before its first step: a shape needs more memory
// than there is. Throws c10::Error.
absl::Status RunTreeBench(const TreeBenchOptions& options, const std::function<void(const std::string&)>& emit);

}  // namespace ingot::trainer
