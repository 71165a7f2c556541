// The ModelRunner of real models: a model::Transformer over the bytes of a Snapshot (not copied on the CPU), a paged KV
// cache per layer, tree attention through block tables. Load is thread safe; Forward belongs to the step thread. No
// c10::Error leaves it: what torch throws comes back as a status.
#pragma once

#include <memory>
#include <string>

#include "model/config.h"
#include "rollout/engine_options.h"
#include "rollout/model_runner.h"

namespace ingot::rollout {

// `device` is torch's name, "cpu" or "cuda:0". Allocates the KV cache: layers * 2 * kv_cache_tokens * kv_heads *
// head_dim * 4 bytes (2 of bf16; what computes in fp16 attends in fp32). INVALID_ARGUMENT: the configuration is not a
// model; UNAVAILABLE: no such device, or not enough memory on it; RESOURCE_EXHAUSTED, with the numbers: more than this
// machine's memory that is free (CPU).
absl::StatusOr<std::unique_ptr<ModelRunner>> NewTorchRunner(const model::ModelConfig& config,
                                                            const EngineOptions& options, const std::string& device);

}  // namespace ingot::rollout
