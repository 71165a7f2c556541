// Forward passes of a small model in bf16 on a device, made by hand.
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "model/parameters.h"
#include "rollout/engine/torch_runner.h"

namespace ingot::rollout {

inline model::ModelConfig ConfigOf(int64_t layers, int64_t window = 0) {
  model::ModelConfig config;
  config.vocab_size = 61;
  config.hidden_size = 32;
  config.intermediate_size = 48;
  config.num_hidden_layers = layers;
  config.num_attention_heads = 4;
  config.num_key_value_heads = 2;
  config.head_dim = 8;
  config.max_position_embeddings = 1024;
  config.qk_norm = true;
  config.sliding_window = window;
  return config;
}

inline std::shared_ptr<const weights::Snapshot> WeightsOf(const model::ModelConfig& config, int64_t version) {
  const auto parameters = model::Parameters::Init(config, static_cast<uint64_t>(version), at::kBFloat16);
  std::vector<weights::TensorView> views;
  for (const auto& [name, tensor] : parameters.tensors()) {
    if (tensor.dim() == 2) at::Tensor(tensor).mul_(6);
    views.push_back({name,
                     "BF16",
                     tensor.sizes().vec(),
                     {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()}});
  }
  return *weights::Snapshot::Copy(version, views);
}

// Sequences whose prompts have a prefix of two blocks in common, and one of more than a chunk of keys.
class Steps {
 public:
  static constexpr int64_t kBlock = 16;

  explicit Steps(const model::ModelConfig& config, const EngineOptions& options = Options()) {
    runner = *NewTorchRunner(config, options, "cuda:0", nullptr);
    model = *runner->Load(WeightsOf(config, 1));
    for (const int64_t length : {35, 40, 33, 515}) lengths.push_back(length);
    int32_t next = 2;
    for (const int64_t length : lengths) {
      std::vector<int32_t>& table = tables.emplace_back();
      for (int64_t block = 0; block < length / kBlock + 3; ++block) {
        table.push_back(block < 2 && length < 100 ? static_cast<int32_t>(block) : next++);
      }
    }
  }

  static EngineOptions Options() {
    EngineOptions options;
    options.kv_block_tokens = kBlock;
    options.kv_cache_tokens = 64 * kBlock;
    options.max_batch_tokens = 1024;
    options.max_running = 8;
    return options;
  }

  int32_t Token(int64_t sequence, int64_t at) const {
    return static_cast<int32_t>(
        (at < 32 && lengths[static_cast<size_t>(sequence)] < 100 ? at * 7 : at * 11 + sequence * 5) % 61);
  }

  // Rows [first, first + count) of a sequence.
  void Add(ForwardBatch& batch, int64_t sequence, int64_t first, int64_t count, bool samples) const {
    const std::vector<int32_t>& table = tables[static_cast<size_t>(sequence)];
    kernels::AttentionSequence s;
    s.q_begin = static_cast<int64_t>(batch.token_ids.size());
    s.q_count = count;
    s.q_offset = first;
    s.key_count = first + count;
    s.block_table = table.data();
    batch.sequences.push_back(s);
    for (int64_t at = first; at < first + count; ++at) {
      batch.token_ids.push_back(Token(sequence, at));
      batch.positions.push_back(at);
      batch.slots.push_back(int64_t{table[static_cast<size_t>(at / kBlock)]} * kBlock + at % kBlock);
      if (!samples) continue;
      batch.sampled_rows.push_back(static_cast<int64_t>(batch.token_ids.size()) - 1);
      batch.temperatures.push_back(sequence == 0 ? 0.7f : 1.0f);
      batch.races.push_back({.whole = false, .seed = static_cast<uint64_t>(sequence * 1000 + at)});
    }
  }

  void Prefill() const {
    ForwardBatch batch;
    for (size_t i = 0; i < lengths.size(); ++i) {
      const int64_t first = i == 1 || i == 2 ? 2 * kBlock : 0;  // the first sequence writes the common blocks
      Add(batch, static_cast<int64_t>(i), first, lengths[i] - first, false);
    }
    Run(batch);
  }

  // The next row of the first `count` sequences, `step` rows after the prompts.
  ForwardBatch Decode(int64_t step, int64_t count) const {
    ForwardBatch batch;
    for (int64_t i = 0; i < count; ++i) Add(batch, i, lengths[static_cast<size_t>(i)] + step, 1, true);
    return batch;
  }

  std::vector<float> Run(const ForwardBatch& batch) const {
    const absl::StatusOr<std::span<const float>> rows = runner->Forward(*model, batch);
    EXPECT_TRUE(rows.ok()) << rows.status();
    return rows.ok() ? std::vector<float>(rows->begin(), rows->end()) : std::vector<float>();
  }

  std::unique_ptr<ModelRunner> runner;
  std::shared_ptr<const RunnableModel> model;
  std::vector<int64_t> lengths;
  std::vector<std::vector<int32_t>> tables;
};

}  // namespace ingot::rollout
