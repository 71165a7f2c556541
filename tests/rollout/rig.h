// An engine with its threads on the model of plain code (fake_model.h). Its 24 ids decode to 'a' to 'x'.
#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "rollout/collect.h"
#include "rollout/engine/engine.h"
#include "rollout/fake_model.h"
#include "rollout/fake_tokenizer.h"

namespace ingot::rollout {

inline constexpr int64_t kVocab = 24;

inline EngineOptions Options() {
  EngineOptions options;
  options.kv_block_tokens = 4;
  options.kv_cache_tokens = 400;
  options.max_running = 8;
  options.max_batch_tokens = 32;
  options.context_length = 200;
  return options;
}

struct Rig {
  explicit Rig(const EngineOptions& options = Options(), std::shared_ptr<const weights::Snapshot> initial = nullptr,
               std::vector<int32_t> eos = {}, const base::Clock& clock = base::Clock::Real(),
               std::vector<std::unique_ptr<Drafter>> drafters = {}, bool can_take_back = true,
               std::shared_ptr<kv::Store> store = nullptr) {
    auto owned = std::make_unique<FakeRunner>(kVocab, 8192, options.kv_cache_tokens, options.kv_block_tokens);
    owned->eos = std::move(eos);
    owned->takes_back = can_take_back;
    owned->before_forward = [this](const ForwardBatch&) { gate.Pass(); };
    runner = owned.get();
    Engine::Parts parts;
    parts.runner = std::move(owned);
    std::vector<std::string> pieces;
    for (int i = 0; i < kVocab; ++i) pieces.push_back(std::string(1, static_cast<char>('a' + i)));
    parts.tokenizer = std::make_shared<PieceTokenizer>(pieces);
    parts.clock = &clock;
    parts.drafters = std::move(drafters);
    parts.store = std::move(store);
    engine = *Engine::Create(options, std::move(parts), std::move(initial));
  }
  ~Rig() { gate.Open(); }

  absl::StatusOr<v1::UpdateWeightsResponse> Update(int64_t version, bool retain = false) {
    return engine->Update(*weights::Encode(engine->newest().get(), *FakeSnapshot(version, 1000 + version), retain));
  }

  StepGate gate;  // lets forward passes through; tests close it to stop the step thread at a known place
  FakeRunner* runner = nullptr;
  std::unique_ptr<Engine> engine;
};

inline v1::GenerateRequest Ask(std::vector<int32_t> prompt, int32_t max_new, uint64_t seed = 1, int64_t pinned = -1) {
  v1::GenerateRequest request;
  request.set_request_id("r");
  request.mutable_prompt_ids()->Add(prompt.begin(), prompt.end());
  request.mutable_sampling()->set_temperature(1);
  request.mutable_sampling()->set_seed(seed);
  request.mutable_sampling()->set_max_new_tokens(max_new);
  request.set_pinned_version(pinned);
  return request;
}

}  // namespace ingot::rollout
