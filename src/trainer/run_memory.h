// Checks whether a trainer fits into memory, before its model is loaded and before each step, using the predictions of
// pass/memory.h. The prediction was compared with measurements on the CPU only. On devices, therefore, a run is
// rejected only if its weights, optimizer, gradients, and reference policy do not fit. A trainer that is likely too
// large gets a warning, and steps are not checked.
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

// The minimum memory of a trainer, in bytes: model, optimizer, and one micro-batch.
struct TrainerBytes {
  std::vector<int64_t> ranks;  // per rank
  int64_t version = 0;         // size of the weights that an engine gets
  // Per rank: its weights, optimizer, gradients, and reference policy, which its device holds.
  std::vector<int64_t> on_devices;
};

// Returns the minimum for a trainer that is not running yet.
TrainerBytes LeastBytes(const TrainerOptions& options, const model::ModelConfig& config, int ranks);

// Returns RESOURCE_EXHAUSTED, with the numbers, if a model of this shape, its optimizer, and one micro-batch do not fit
// in memory. The type is options.dtype, or the config's torch_dtype. Call this before loading the weights, because
// loading may already run out of memory. With `ranks`, all ranks call it together.
absl::Status CheckFits(const TrainerOptions& options, const model::ModelConfig& config, at::Device device,
                       Ranks* ranks = nullptr);
// Same as CheckFits, but for the trainer that is being created. Logs the memory needed. `given` is the type of the
// loaded weights; nullopt = not loaded yet. `held` is the size of the model memory that is already allocated, in bytes.
// Throws c10::Error.
absl::Status CheckRunFits(const TrainerOptions& options, const model::ModelConfig& config, at::Device device,
                          Ranks* ranks, std::optional<at::ScalarType> given = std::nullopt, int64_t held = 0);

// Returns RESOURCE_EXHAUSTED, with the numbers, if the step over this rank's `forest` needs more memory than is
// available. `step` is the step's name. Reports perf/memory_*.
absl::Status CheckStepFits(const TrainerOptions& options, const Policy& policy, const Ranks* ranks,
                           const tree::PackedForest& forest, const std::string& step, StepMetrics& metrics);

}  // namespace ingot::trainer
