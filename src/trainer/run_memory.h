// Checks whether a trainer fits into memory, before its model is loaded and before each step, using the predictions of
// pass/memory.h. On a GPU, the prediction was compared with the memory that the stand-in of the CUDA runtime counts, not
// with a GPU's. A trainer on a GPU is therefore rejected here only if its weights, optimizer, gradients, and reference
// policy do not fit. A trainer that is likely too large gets a warning, and steps are not checked. A run's plan for a
// GPU (app/checks/memory_plan.h), which includes the engine, is stricter.
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
#include "trainer/parallel/rank_memory.h"
#include "trainer/parallel/ranks.h"
#include "trainer/policy/policy.h"
#include "tree/forest.h"

namespace ingot::trainer {

// The minimum memory of a trainer, in bytes: model, optimizer, and one micro-batch.
struct TrainerBytes {
  std::vector<int64_t> ranks;  // per rank
  int64_t version = 0;         // size of the weights that an engine gets
};

// Returns the minimum for a trainer that is not running yet.
TrainerBytes LeastBytes(const TrainerOptions& options, const model::ModelConfig& config, int ranks);

// Predicts the GPU memory of one rank that is not running yet, for the larger of two steps: a full micro-batch, and a
// single sequence of `context` tokens, whose parts wait for each other. `copies` has the reference policy and what the
// trust region compares with. Published versions are in the host's memory and do not count.
MemoryNeed PredictDeviceMemory(const TrainerOptions& options, const model::ModelConfig& config,
                               const std::optional<RankPlace>& place, int64_t context);

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

// Reports perf/device_memory_peak_bytes after a step on a GPU. Throws c10::Error.
void ReportDevicePeak(at::Device device, StepMetrics& metrics);

}  // namespace ingot::trainer
