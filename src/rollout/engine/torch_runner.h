// Implements ModelRunner for real models: a model::Transformer over a Snapshot's bytes (not copied on the CPU), a paged
// KV cache per layer, and tree attention through block tables. Load is thread safe. Forward is called on the step
// thread. torch exceptions are converted to statuses, so c10::Error never escapes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "kernels/compute_share.h"
#include "model/config.h"
#include "rollout/engine/engine_options.h"
#include "rollout/engine/model_runner.h"

namespace ingot::rollout {

// Returns the KV cache size in bytes (engine_memory.h), with elements of 4 bytes (2 for bf16; fp16 models attend in
// fp32).
int64_t CacheBytes(const model::ModelConfig& config, const EngineOptions& options);
// Returns RESOURCE_EXHAUSTED with the sizes if the cache does not fit in the free memory of `device`, which is torch's
// name. Without this check, its allocation on the CPU would exhaust the machine's memory before any error. Throws
// c10::Error if the device does not exist.
absl::Status CheckCacheFits(const model::ModelConfig& config, const EngineOptions& options, const std::string& device);

// Returns ModelRunner::max_weight_bytes for this model, including a draft head.
int64_t MaxWeightBytes(const model::ModelConfig& config);

// Creates the runner and allocates the KV cache. `device` is a torch device name, such as "cpu" or "cuda:0". `compute`
// lends and borrows compute threads on the CPU; null = the runner always uses its own.
//   INVALID_ARGUMENT    the configuration does not describe a model
//   UNIMPLEMENTED       the device has no kernels for the model's family
//   UNAVAILABLE         the device does not exist or has too little memory
//   RESOURCE_EXHAUSTED  the cache exceeds the device's free memory; the error includes both sizes
absl::StatusOr<std::unique_ptr<ModelRunner>> NewTorchRunner(const model::ModelConfig& config,
                                                            const EngineOptions& options, const std::string& device,
                                                            std::shared_ptr<kernels::ComputeMember> compute = nullptr);

}  // namespace ingot::rollout
