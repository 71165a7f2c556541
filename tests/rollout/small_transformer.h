// Engines on a real (small, random) transformer, and what they answer.
#pragma once

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "model/draft_head.h"
#include "model/parameters.h"
#include "rollout/collect.h"
#include "rollout/engine/engine.h"
#include "rollout/engine/torch_runner.h"
#include "rollout/fake_tokenizer.h"
#include "rollout/speculation/mtp_drafter.h"

namespace ingot::rollout {

inline constexpr int32_t kIds = 61;
inline model::ModelConfig Shape() {
  model::ModelConfig config;
  config.vocab_size = kIds;
  config.hidden_size = 32;
  config.intermediate_size = 48;
  config.num_hidden_layers = 2;
  config.num_attention_heads = 4;
  config.num_key_value_heads = 2;
  config.head_dim = 8;
  config.max_position_embeddings = 256;
  config.qk_norm = true;
  return config;
}

// With a random draft head over `draft_ids` ids; -1 = without one.
inline std::shared_ptr<const weights::Snapshot> RandomWeights(int64_t version, at::ScalarType dtype,
                                                              int64_t draft_ids = -1) {
  const auto seed = static_cast<uint64_t>(version);
  std::map<std::string, at::Tensor> tensors = model::Parameters::Init(Shape(), seed, dtype).tensors();
  if (draft_ids >= 0) tensors.merge(model::DraftHead::Init(Shape(), draft_ids, seed, dtype));
  std::vector<weights::TensorView> views;
  for (auto& [name, tensor] : tensors) {
    if (tensor.dim() == 2) tensor.mul_(6);  // likely and unlikely tokens
    views.push_back({name,
                     tensor.scalar_type() == at::kBFloat16 ? "BF16" : "F32",
                     tensor.sizes().vec(),
                     {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()}});
    if (name.starts_with(model::kDraftPrefix)) views.back().role = v1::TENSOR_DRAFT;
  }
  return *weights::Snapshot::Copy(version, views);
}

// `mtp`: with another drafter, the weights' draft heads, which two of the three versions have.
inline std::unique_ptr<Engine> EngineOf(EngineOptions options, at::ScalarType dtype,
                                        std::vector<std::unique_ptr<Drafter>> drafters, bool mtp = false) {
  if (drafters.empty()) options.speculation.drafters = {};
  options.speculation.min_gain = -1;
  Engine::Parts parts;
  parts.runner = *NewTorchRunner(Shape(), options, "cpu");
  if (mtp) drafters.push_back(std::make_unique<MtpDrafter>(options.speculation, *parts.runner));
  parts.drafters = std::move(drafters);
  std::vector<std::string> pieces;
  for (int32_t id = 0; id < kIds; ++id) pieces.push_back(std::string(1, static_cast<char>('A' + id)));
  parts.tokenizer = std::make_shared<PieceTokenizer>(pieces);
  auto engine = *Engine::Create(options, std::move(parts), RandomWeights(1, dtype));
  const auto second = RandomWeights(2, dtype, mtp ? 40 : -1), third = RandomWeights(3, dtype, mtp ? 0 : -1);
  EXPECT_TRUE(engine->Update(*weights::Encode(engine->newest().get(), *second, true)).ok());
  EXPECT_TRUE(engine->Update(*weights::Encode(engine->newest().get(), *third, false)).ok());
  return engine;
}

struct Outcome {
  absl::Status status;
  std::vector<int32_t> ids;
  std::vector<float> logprobs;
  std::vector<std::pair<int64_t, bool>> versions;
  std::string tops, stop;
  v1::FinishReason finish = v1::FINISH_UNSPECIFIED;
  bool operator==(const Outcome&) const = default;
};

inline std::vector<Outcome> Outcomes(Engine& engine, std::span<const v1::GenerateRequest> asks) {
  std::deque<Collect> results(asks.size());
  std::vector<std::unique_ptr<Client::Request>> requests;
  for (size_t i = 0; i < asks.size(); ++i) requests.push_back(engine.Generate(asks[i], results[i].OnChunk()));
  std::vector<Outcome> outcomes;
  for (Collect& result : results) {
    Outcome& outcome = outcomes.emplace_back();
    outcome.status = result.Wait();
    outcome.ids = result.ids;
    outcome.logprobs = result.logprobs;
    for (const v1::VersionRun& run : result.versions) {
      for (int i = 0; i < run.count(); ++i) outcome.versions.emplace_back(run.version(), run.kv_mixed());
    }
    for (const v1::TopLogprobs& top : result.top) outcome.tops += top.SerializeAsString();
    outcome.stop = result.last.stop_string();
    outcome.finish = result.last.finish();
  }
  return outcomes;
}

}  // namespace ingot::rollout
