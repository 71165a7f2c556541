#include "rollout/engine/engine_memory.h"

#include <algorithm>

#include "model/layer_spec.h"
#include "rollout/engine/decode_graphs.h"
#include "rollout/engine/engine_core.h"
#include "rollout/engine/step_input.h"

namespace ingot::rollout {
namespace {

constexpr int64_t kWide = 4;  // bytes of an element in the accumulation type

// Returns the temporaries per row of ATen's expressions for a layer (kernels/torch/layers.cc): the layer's input and the
// residual, and the widest of attention's rows, the feed-forward block's, and a norm's in the accumulation type.
int64_t RowBytes(const model::LayerSpec& layer, int64_t hidden, int64_t element) {
  const model::AttentionSpec& a = layer.attention;
  const int64_t attention = element * 2 * (a.queries() + 2 * a.keys()) + kWide * 2 * a.queries();
  const int64_t feed_forward = element * 4 * layer.feed_forward.row_width();
  return element * 3 * hidden + std::max({attention, feed_forward, kWide * 3 * hidden});
}

}  // namespace

int64_t CacheBytes(const model::ModelConfig& config, const EngineOptions& options, int element_bytes) {
  const model::ModelSpec spec = model::SpecOf(config);
  return spec.cache_elements() * element_bytes * options.kv_cache_tokens +
         spec.state_bytes(element_bytes) * (options.kv_cache_tokens / options.kv_block_tokens);
}

int64_t ForwardBytes(const model::ModelConfig& config, const EngineOptions& options, int element_bytes) {
  constexpr int64_t kLogits = 4;  // kernels::Policy keeps the logits and makes three more tensors of their size
  int64_t row = 0;
  for (const model::LayerSpec& layer : model::SpecOf(config).layers) {
    row = std::max(row, RowBytes(layer, config.hidden_size, element_bytes));
  }
  const int64_t rows = options.max_batch_tokens;
  const int64_t drafts = options.speculation.drafters.empty() ? 0 : EngineCore::kDraftRows;
  const int64_t sampled = std::min(options.max_running + drafts + EngineCore::kScoredRows, rows);
  return std::max(row * rows,
                  sampled * config.vocab_size * kLogits * kWide + rows * config.hidden_size * element_bytes);
}

int64_t GraphBytes(const model::ModelConfig& config, const EngineOptions& options, int element_bytes, int64_t context) {
  if (!options.cuda_graphs || config.routes_per_token() > 0 || element_bytes != 2) return 0;
  const std::vector<model::LayerSpec> layers = model::SpecOf(config).layers;
  const int64_t blocks = options.kv_cache_tokens / options.kv_block_tokens;
  const StepInput step(layers, blocks, options.kv_block_tokens, at::Device(at::kCUDA, 0));
  if (!step.possible()) return 0;
  const int64_t drafts = options.speculation.drafters.empty() ? 0 : EngineCore::kDraftRows;
  const int64_t rows = std::min<int64_t>(options.max_running + drafts, DecodeGraphs::kMostRows);
  int64_t sum_bytes = 0;
  for (const model::LayerSpec& layer : layers) sum_bytes = std::max(sum_bytes, StepInput::SumBytes(layer.attention));
  const int64_t chunks = (context + kernels::cuda::kChunkKeys - 1) / kernels::cuda::kChunkKeys;
  const int64_t entries = std::min(rows * std::max<int64_t>(1, chunks), StepInput::kMostSumBytes / sum_bytes);
  const StepRoom room = DecodeGraphs::RoomFor({rows, entries});
  EngineOptions narrow = options;
  narrow.max_batch_tokens = static_cast<int32_t>(room.rows);
  return step.bytes(room) + room.entries * sum_bytes + ForwardBytes(config, narrow, element_bytes);
}

}  // namespace ingot::rollout
