// An external engine in front of a fake server, for its tests.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "engines/external/external_engine.h"
#include "engines/fake_server.h"
#include "rollout/collect.h"
#include "rollout/fake_tokenizer.h"

namespace ingot::engines::testing {

inline std::string ExchangeRoot() { return ::testing::TempDir() + "ingot-exchange"; }

inline constexpr char kKey[] = "0123456789abcdefghij";

inline rollout::EngineOptions Options() {
  rollout::EngineOptions options;
  options.context_length = 200;
  options.max_running = 64;
  return options;
}

// A test that runs with a server of each kind.
class OnEachServer : public ::testing::TestWithParam<EngineKind> {
 protected:
  void SetUp() override { Kind() = GetParam(); }
  void TearDown() override { Kind() = EngineKind::kVllm; }
};
inline std::string KindName(const ::testing::TestParamInfo<EngineKind>& info) {
  return info.param == EngineKind::kVllm ? "Vllm" : "Sglang";
}
inline const auto kEachServer = ::testing::Values(EngineKind::kVllm, EngineKind::kSglang);

struct Rig {
  explicit Rig(ExternalOptions external = {}, rollout::EngineOptions options = Options(), std::string url = "",
               bool adapters = false, ExchangeFolder::WriteModel write = WriteSeed) {
    if (!url.empty()) external.url = url;
    external.idle_health_s = 0.02;
    external.exchange = ExchangeRoot();
    std::vector<std::string> pieces;
    for (int i = 0; i < kVocab; ++i) pieces.push_back(std::string(1, static_cast<char>('a' + i)));
    ExternalEngine::Parts parts;
    parts.api = NewEngineApi(Kind());
    parts.model = {.vocab_size = kVocab, .context_length = 200, .eos_ids = {23}};
    parts.max_weight_bytes = 1 << 20;
    parts.tokenizer = std::make_shared<rollout::PieceTokenizer>(pieces);
    parts.exchange = *ExchangeFolder::Open(external.exchange, "test", std::move(write));
    parts.start_model = adapters ? nullptr : Seeded(0, 7);
    parts.adapters = adapters;
    parts.reference = std::make_unique<SeededReference>();
    parts.key = kKey;
    parts.log_path = ::testing::TempDir() + "fake-server.log";
    engine = *ExternalEngine::Create(options, external, std::move(parts));
  }

  absl::StatusOr<v1::UpdateWeightsResponse> Share(int64_t version, uint32_t seed) {
    return engine->Share(Seeded(version, seed), weights::Place::kLive);
  }

  std::unique_ptr<ExternalEngine> engine;
};

// A rig at a server whose weights are version 1, seed 101.
struct Served {
  explicit Served(ExternalOptions external = {}, rollout::EngineOptions options = Options())
      : rig(std::move(external), options, server.url()) {
    EXPECT_EQ(rig.Share(1, 101).status(), absl::OkStatus());
  }
  FakeServer server;
  Rig rig;
};

inline v1::GenerateRequest Ask(int32_t max_new, int prompt = 3) {
  v1::GenerateRequest request;
  request.set_request_id("r");
  for (int i = 0; i < prompt; ++i) request.add_prompt_ids(i);
  request.mutable_sampling()->set_temperature(1);
  request.mutable_sampling()->set_max_new_tokens(max_new);
  request.mutable_sampling()->set_ignore_eos(true);
  request.set_pinned_version(-1);
  return request;
}

// Each token's log-prob is that of the version which the answer names.
inline void CheckAnswer(const rollout::Collect& answer, int prompt,
                        const std::function<uint64_t(int64_t version)>& seed_of) {
  size_t at = 0;
  for (const v1::VersionRun& run : answer.last.answer_versions()) {
    for (int i = 0; i < run.count(); ++i, ++at) {
      ASSERT_LT(at, answer.logprobs.size());
      EXPECT_FLOAT_EQ(answer.logprobs[at], LogprobOf(seed_of(run.version()), prompt + static_cast<int64_t>(at)))
          << "token " << at << " of version " << run.version();
    }
  }
  EXPECT_EQ(at, answer.ids.size());
}

inline uint64_t SeedOf(int64_t version) { return 100 + static_cast<uint64_t>(version); }

}  // namespace ingot::engines::testing
