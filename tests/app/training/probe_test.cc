// The probe's calls, sampled on an engine whose answers a test gives.
#include "app/training/probe.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <string>

namespace ingot::app {
namespace {

constexpr std::chrono::milliseconds kTimeout = std::chrono::hours(1);
const std::vector<std::vector<int32_t>> kContexts = {{1, 2}, {3}};

// Answers each request by `answer`, of the number of requests before it.
class FakeEngine final : public rollout::Client {
 public:
  using Answer = std::function<void(int number, const v1::GenerateRequest& request, const OnChunk& on_chunk)>;
  explicit FakeEngine(Answer answer) : answer_(std::move(answer)) {}
  std::unique_ptr<Request> Generate(v1::GenerateRequest request, OnChunk on_chunk) override {
    ids.push_back(request.request_id());
    answer_(static_cast<int>(ids.size()) - 1, request, on_chunk);
    return nullptr;
  }
  absl::StatusOr<v1::EngineStatusResponse> Status() override { return absl::UnimplementedError(""); }

  std::vector<std::string> ids;  // of the requests, in order

 private:
  const Answer answer_;
};

v1::GenerateChunk Chunk(int tokens, int64_t version, bool mixed = false) {
  v1::GenerateChunk chunk;
  for (int i = 0; i < tokens; ++i) {
    chunk.add_token_ids(i);
    chunk.add_logprobs(-1);
  }
  v1::VersionRun& run = *chunk.add_versions();
  run.set_count(tokens);
  run.set_version(version);
  run.set_kv_mixed(mixed);
  return chunk;
}

v1::GenerateChunk Last(v1::GenerateChunk chunk) {
  chunk.set_finish(v1::FINISH_LENGTH);
  return chunk;
}

// The answer of an engine at version 7.
void AnswerWhole(const v1::GenerateRequest& request, const rollout::Client::OnChunk& on_chunk) {
  const int tokens = request.sampling().max_new_tokens();
  on_chunk(Chunk(tokens - 1, 7));
  on_chunk(Last(Chunk(1, 7)));
}

// A clock that stands at the end of each wait at once.
class HastyClock final : public base::Clock {
 public:
  std::chrono::nanoseconds Now() const override { return now_; }
  int64_t UnixNanos() const override { return now_.count(); }
  bool WaitUntil(base::CondVar&, [[maybe_unused]] base::Mutex& mu, std::chrono::nanoseconds deadline) const override
      ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu) {
    now_ = std::max(now_, deadline);
    return false;
  }

 private:
  mutable std::chrono::nanoseconds now_{0};
};

absl::StatusOr<std::vector<tree::CallPath>> Sample(FakeEngine& engine, int64_t tokens = 9) {
  const HastyClock clock;
  return SampleProbe(engine, 7, tokens, kContexts, 0.5f, 11, kTimeout, clock);
}

TEST(ProbeTest, HasTheTokensInEqualShares) {
  FakeEngine engine([](int, const auto& request, const auto& on_chunk) { AnswerWhole(request, on_chunk); });
  const auto calls = Sample(engine);
  ASSERT_TRUE(calls.ok()) << calls.status();
  ASSERT_EQ(calls->size(), 2u);
  for (const tree::CallPath& call : *calls) {
    EXPECT_EQ(call.sampled.size(), 5u);
    EXPECT_EQ(call.logprobs.size(), 5u);
    EXPECT_EQ(call.versions, std::vector<int64_t>(5, 7));
    EXPECT_EQ(call.temperature, 0.5f);
  }
}

TEST(ProbeTest, ACallWhoseEngineEndsIsAskedAgain) {
  FakeEngine engine([](int number, const auto& request, const auto& on_chunk) {
    if (number != 1) return AnswerWhole(request, on_chunk);
    on_chunk(Chunk(2, 7));  // these tokens are forgotten
    on_chunk(absl::UnavailableError("the engine is gone"));
  });
  const auto calls = Sample(engine);
  ASSERT_TRUE(calls.ok()) << calls.status();
  ASSERT_EQ(calls->size(), 2u);
  EXPECT_EQ((*calls)[1].sampled.size(), 5u);
  EXPECT_THAT(engine.ids, ::testing::ElementsAre("probe-7-0", "probe-7-1", "probe-7-1-1"));
}

TEST(ProbeTest, ACallOfAnotherVersionIsAskedAgain) {
  FakeEngine engine([](int number, const auto& request, const auto& on_chunk) {
    if (number > 3) return AnswerWhole(request, on_chunk);
    const bool first = number % 2 == 0;  // of the two contexts
    on_chunk(first ? Last(Chunk(5, 6)) : Last(Chunk(5, 7, /*mixed=*/true)));
  });
  const auto calls = Sample(engine);
  ASSERT_TRUE(calls.ok()) << calls.status();
  EXPECT_EQ(calls->size(), 2u);
  EXPECT_EQ(engine.ids.size(), 6u);
}

TEST(ProbeTest, AnEngineThatStaysAwayGivesItsError) {
  FakeEngine engine([](int, const auto&, const auto& on_chunk) { on_chunk(absl::UnavailableError("gone")); });
  EXPECT_EQ(Sample(engine).status().code(), absl::StatusCode::kUnavailable);
  EXPECT_GT(engine.ids.size(), 2u);
}

TEST(ProbeTest, AVersionThatNoEngineHasGivesNoCalls) {
  FakeEngine engine([](int, const auto&, const auto& on_chunk) { on_chunk(Last(Chunk(5, 6))); });
  const auto calls = Sample(engine);
  ASSERT_TRUE(calls.ok()) << calls.status();
  EXPECT_TRUE(calls->empty());
}

TEST(ProbeTest, AnotherErrorIsGivenAtOnce) {
  FakeEngine engine([](int, const auto&, const auto& on_chunk) { on_chunk(absl::InvalidArgumentError("too long")); });
  EXPECT_EQ(Sample(engine).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(engine.ids.size(), 2u);
}

TEST(ProbeTest, AnErrorOfOneCallLosesNoOther) {
  FakeEngine engine([](int number, const auto& request, const auto& on_chunk) {
    if (number == 1) return AnswerWhole(request, on_chunk);
    on_chunk(number == 0 ? Last(Chunk(5, 6)) : absl::StatusOr<v1::GenerateChunk>(absl::ResourceExhaustedError("full")));
  });
  const auto calls = Sample(engine);
  ASSERT_TRUE(calls.ok()) << calls.status();
  EXPECT_EQ(calls->size(), 1u);
  EXPECT_EQ(engine.ids.size(), 3u);
}

TEST(ProbeTest, AnEngineThatSaysNothingIsNotWaitedForLongerThanTheTimeout) {
  FakeEngine engine([](int, const auto&, const auto&) {});
  EXPECT_EQ(Sample(engine).status().code(), absl::StatusCode::kDeadlineExceeded);
}

}  // namespace
}  // namespace ingot::app
