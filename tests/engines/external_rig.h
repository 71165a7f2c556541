// An external engine in front of a fake server, for its tests.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
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

// The ids of the rig's model. By default, its 24 ids decode to 'a' to 'x', and the last one ends a turn.
struct Ids {
  int32_t count = kVocab;
  std::vector<int32_t> ends = {23};
  std::shared_ptr<const text::Tokenizer> tokenizer = nullptr;
};

struct Rig {
  explicit Rig(ExternalOptions external = {}, rollout::EngineOptions options = Options(), std::string url = "",
               bool adapters = false, ExchangeFolder::WriteModel write = WriteSeed, const Ids& ids = {}) {
    if (!url.empty()) external.url = url;
    external.idle_health_s = 0.02;
    external.exchange = ExchangeRoot();
    std::vector<std::string> pieces;
    for (int i = 0; i < kVocab; ++i) pieces.push_back(std::string(1, static_cast<char>('a' + i)));
    ExternalEngine::Parts parts;
    parts.api = NewEngineApi(Kind());
    parts.model = {.vocab_size = ids.count, .context_length = options.context_length, .eos_ids = ids.ends};
    parts.max_weight_bytes = 1 << 20;
    parts.tokenizer = ids.tokenizer != nullptr ? ids.tokenizer : std::make_shared<rollout::PieceTokenizer>(pieces);
    parts.exchange = *ExchangeFolder::Open(external.exchange, "test", std::move(write));
    parts.start_model = adapters ? nullptr : Seeded(0, 7);
    parts.adapters = adapters;
    parts.reference = std::make_unique<SeededReference>(ids.count);
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

// Asks for answers until it is stopped, each of at least the version that was live before it was asked for, and checks
// that each token is of the version which the answer names.
class Load {
 public:
  explicit Load(ExternalEngine& engine) {
    for (int i = 0; i < 4; ++i) threads_.emplace_back([this, &engine] { Run(engine); });
  }
  ~Load() { Stop(); }
  void Stop() {
    stopped_ = true;
    for (std::thread& thread : threads_) {
      if (thread.joinable()) thread.join();
    }
  }
  int good() const { return good_; }
  // Waits for more answers than there are now.
  void AwaitMore(int more) {
    const int now = good_;
    EXPECT_TRUE(Await([&] { return good_ >= now + more; }));
  }

 private:
  void Run(ExternalEngine& engine) {
    while (!stopped_) {
      const int64_t least = std::max<int64_t>(*engine.LiveVersion(), 0);
      v1::GenerateRequest ask = Ask(12);
      ask.set_min_version(least);
      rollout::Collect answer;
      const auto request = engine.Generate(ask, answer.OnChunk());
      const absl::Status end = answer.Wait();
      if (!end.ok()) {
        EXPECT_TRUE(absl::IsUnavailable(end)) << end;
        std::this_thread::sleep_for(std::chrono::milliseconds(absl::IsUnavailable(end) ? 5 : 1000));
        continue;
      }
      CheckAnswer(answer, 3, SeedOf);
      for (const v1::VersionRun& run : answer.last.answer_versions()) EXPECT_GE(run.version(), least);
      ++good_;
    }
  }

  std::atomic<bool> stopped_{false};
  std::atomic<int> good_{0};
  std::vector<std::thread> threads_;
};

}  // namespace ingot::engines::testing
