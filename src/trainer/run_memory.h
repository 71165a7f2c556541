// Whether a trainer fits into memory: before its model is loaded, and before each step (pass/memory.h predicts both).
// CPU only; on devices every check passes.
#pragma once

#include <ATen/core/ScalarType.h>
#include <c10/core/Device.h>

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/status.h"
#include "model/config.h"
#include "trainer/metrics.h"
#include "trainer/options.h"
#include "trainer/parallel/ranks.h"
#include "trainer/policy/policy.h"
#include "tree/forest.h"

namespace ingot::trainer {

// The least memory of a trainer, in bytes: model, optimizer and one micro-batch.
struct TrainerBytes {
  std::vector<int64_t> ranks;  // of each
  int64_t version = 0;         // of the weights that an engine gets
};

// For a trainer that does not run yet.
TrainerBytes LeastBytes(const TrainerOptions& options, const model::ModelConfig& config, int ranks);

// RESOURCE_EXHAUSTED, with the numbers: the model of this shape, its optimizer and one micro-batch do not fit into
// memory. The type is options.dtype, or the config's torch_dtype. Call this before loading the weights, which may
// themselves not fit. With `ranks` all call it together.
absl::Status CheckFits(const TrainerOptions& options, const model::ModelConfig& config, at::Device device,
                       Ranks* ranks = nullptr);
// The same for the trainer that makes it: logs the need. `given`: type of the loaded weights; nullopt = not loaded yet.
// `held`: bytes of the model that are already allocated. Throws c10::Error.
absl::Status CheckRunFits(const TrainerOptions& options, const model::ModelConfig& config, at::Device device,
                          Ranks* ranks, std::optional<at::ScalarType> given = std::nullopt, int64_t held = 0);

// RESOURCE_EXHAUSTED, with the numbers: the step over this rank's `forest` needs more memory than is available. `step`
// names it. Reports perf/memory_*.
absl::Status CheckStepFits(const TrainerOptions& options, const Policy& policy, const Ranks* ranks,
                           const tree::PackedForest& forest, const std::string& step, StepMetrics& metrics);

}  // namespace ingot::trainer
