// The ModelRunner of real models: a model::Transformer over the bytes of a Snapshot (not copied on the CPU), a paged KV
// cache per layer, and tree attention through block tables. Load is thread safe; Forward belongs to the step thread.
// torch's exceptions come back as statuses: no c10::Error escapes.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "model/config.h"
#include "rollout/engine_options.h"
#include "rollout/model_runner.h"

namespace ingot::rollout {

// Bytes of the KV cache: kv_cache_tokens times ModelSpec::cache_elements numbers of 4 bytes (2 for bf16; fp16 models
// attend in fp32), and the states that recurrent layers hold per block (ModelSpec::state_bytes).
int64_t CacheBytes(const model::ModelConfig& config, const EngineOptions& options);
// RESOURCE_EXHAUSTED, with the numbers: the cache does not fit into the memory that is free. It is allocated at once, and
// would use up the machine's memory before any error. `device` is torch's name; for others than the CPU it is OK, since
// their allocation fails by itself.
absl::Status CheckCacheFits(const model::ModelConfig& config, const EngineOptions& options, const std::string& device);

// `device` is torch's name, "cpu" or "cuda:0". Allocates the KV cache.
//   INVALID_ARGUMENT    the configuration does not describe a model
//   UNIMPLEMENTED       the device has no kernels for its family
//   UNAVAILABLE         the device does not exist, or has too little memory
//   RESOURCE_EXHAUSTED  the cache needs more than this machine's free memory (CPU); names both numbers
absl::StatusOr<std::unique_ptr<ModelRunner>> NewTorchRunner(const model::ModelConfig& config,
                                                            const EngineOptions& options, const std::string& device);

}  // namespace ingot::rollout
