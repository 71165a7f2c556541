// Predicts an engine's memory from shapes alone, in bytes, without the weights. Pure functions. `element_bytes` is the
// size of an element of the weights: 2 (bf16) or 4.
#pragma once

#include <cstdint>

#include "model/config.h"
#include "rollout/engine/engine_options.h"

namespace ingot::rollout {

// Returns the KV cache's size: kv_cache_tokens times ModelSpec::cache_elements elements of `element_bytes`, plus each
// block's recurrent layer states (ModelSpec::state_bytes).
int64_t CacheBytes(const model::ModelConfig& config, const EngineOptions& options, int element_bytes);

// Returns the temporaries of the widest forward pass on a GPU: one layer over max_batch_tokens rows, or the logits of
// max_running rows and of the drafts and scored rows of a step.
int64_t ForwardBytes(const model::ModelConfig& config, const EngineOptions& options, int element_bytes);

// Returns what decode steps with CUDA graphs need besides, with cuda_graphs: the inputs of the widest step, the sums of
// its attention's chunks, and the graphs' own memory, which is that of a pass over its rows. `context`: the longest
// sequence. 0 = the options or the model have no graphs.
int64_t GraphBytes(const model::ModelConfig& config, const EngineOptions& options, int element_bytes, int64_t context);

}  // namespace ingot::rollout
