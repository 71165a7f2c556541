// Benchmarks the full training step (forward, loss, backward) on merged trees against two baselines: one sample per
// request, and chain merging (tree/documents.h). All three are packed without padding, split to the same token budget,
// and run by the same kernels. They alternate within one run, so other load on the machine affects all of them equally.
// The rates for the bound (step_bound.h) are measured the same way.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/status.h"

namespace ingot::trainer {

struct TreeBenchOptions {
  std::vector<std::string> shapes;  // names from tree/shapes.h; empty = all of WorkloadShapes
  double scale = 0;                 // factor for the shapes' lengths; 0 = the largest power of 1/2 that fits `seconds`
  double seconds = 60;              // predicted time per shape, for scale 0
  int rounds = 3;                   // every figure is a median over this many rounds
  std::string dtype = "fp32";       // the model's type: fp32 or bf16
  int64_t hidden = 256, intermediate = 1024, layers = 2, heads = 4, kv_heads = 2, head_dim = 64, vocab = 4096;
  int64_t micro_batch_tokens = 8192;
  bool checkpoint_layers = false;
  bool recompute_prefix = false;
  bool baselines = true;  // false = only the tree, for shapes whose baselines would take too long

  absl::Status Validate() const;
};

// Calls emit with one JSON object per result. "bench" is always "tree", and every object names its shape, scale, model,
// and settings. Nothing is extrapolated. For each shape:
// - "step" per variant (tree, chained, separate): "tokens", "parts", "visible_pairs"; wall times "seconds" (median),
//   "seconds_min", "seconds_max", "bound_seconds", "of_bound" (bound divided by seconds); the same for CPU time
//   ("cpu_..."); "tokens_per_second", "peak_bytes" (resident, above the memory before the step), "predicted_bytes".
// - "speedup" per baseline: "speedup" (its seconds divided by the tree's), "cpu_speedup", "speedup_bound" (its seconds
//   divided by the tree's bound), "loss_difference" (relative, between it and the tree).
// - "least_speedup" without baselines: the bound of one sample per request divided by the tree's seconds.
//
// Returns INVALID_ARGUMENT if an option or shape is wrong, and RESOURCE_EXHAUSTED before a shape's first step if it
// needs more memory than is available. Throws c10::Error.
absl::Status RunTreeBench(const TreeBenchOptions& options, const std::function<void(const std::string&)>& emit);

}  // namespace ingot::trainer
