// Requests that ask for more than draws from the policy: scripts, penalties, biases.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <deque>

#include "base/rng.h"
#include "rollout/rig.h"

namespace ingot::rollout {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// The policy's row after `tokens`, by definition.
std::vector<float> PolicyRow(const std::vector<int32_t>& tokens, uint64_t weights, float* normalizer = nullptr) {
  std::vector<uint64_t> entries;
  for (size_t i = 0; i < tokens.size(); ++i) {
    entries.push_back(FakeRunner::Entry(weights, tokens[i], static_cast<int64_t>(i)));
  }
  return FakeRunner::Row(entries, weights, kVocab, 1, normalizer);
}

void ExpectLogprobsAreThePolicys(const v1::GenerateRequest& ask, const Collect& result, uint64_t weights) {
  std::vector<int32_t> tokens(ask.prompt_ids().begin(), ask.prompt_ids().end());
  ASSERT_EQ(result.logprobs.size(), result.ids.size());
  for (size_t n = 0; n < result.ids.size(); ++n) {
    const std::vector<float> row = PolicyRow(tokens, weights);
    ASSERT_EQ(result.logprobs[n], row[result.ids[n]]) << "token " << n;
    if (ask.top_logprobs() > 0) {
      const v1::TopLogprobs expected = TopOf(row, ask.top_logprobs());
      ASSERT_EQ(result.top[n].SerializeAsString(), expected.SerializeAsString()) << "token " << n;
    }
    tokens.push_back(result.ids[n]);
  }
}

v1::GenerateRequest Forced(std::vector<int32_t> prompt, std::vector<int32_t> script, int32_t max_new = 100) {
  v1::GenerateRequest request = Ask(std::move(prompt), max_new);
  request.mutable_forced_ids()->Add(script.begin(), script.end());
  return request;
}

TEST(ForcedIdsTest, AreTakenInOrderWithThePolicysLogprobsAndEndAsStop) {
  Rig rig(Options(), FakeSnapshot(1, 1001));
  v1::GenerateRequest ask = Forced({1, 2, 3}, {7, 7, 0, 23, 5});
  ask.set_top_logprobs(3);
  Collect result;
  auto request = rig.engine->Generate(ask, result.OnChunk());
  ASSERT_EQ(result.Wait(), absl::OkStatus());
  EXPECT_THAT(result.ids, ElementsAre(7, 7, 0, 23, 5));
  EXPECT_EQ(result.last.finish(), v1::FINISH_STOP);
  ExpectLogprobsAreThePolicys(ask, result, 1001);
}

TEST(ForcedIdsTest, EndAtLimitsAndStopsLikeDrawnIds) {
  Rig rig(Options(), FakeSnapshot(1, 1), /*eos=*/{9});
  const auto run = [&](const v1::GenerateRequest& ask) {
    auto result = std::make_unique<Collect>();
    auto request = rig.engine->Generate(ask, result->OnChunk());
    EXPECT_EQ(result->Wait(), absl::OkStatus());
    return result;
  };
  auto cut = run(Forced({1}, {4, 5, 6}, 2));
  EXPECT_THAT(cut->ids, ElementsAre(4, 5));
  EXPECT_EQ(cut->last.finish(), v1::FINISH_LENGTH);
  auto exact = run(Forced({1}, {4, 5, 6}, 3));
  EXPECT_EQ(exact->last.finish(), v1::FINISH_STOP) << "the script is complete";
  auto ended = run(Forced({1}, {4, 9, 6}));
  EXPECT_THAT(ended->ids, ElementsAre(4, 9));
  EXPECT_EQ(ended->last.finish(), v1::FINISH_STOP);
  v1::GenerateRequest ask = Forced({1}, {4, 5, 6, 7});
  ask.mutable_sampling()->add_stop("fg");  // ids 5, 6
  auto stopped = run(ask);
  EXPECT_THAT(stopped->ids, ElementsAre(4, 5, 6));
  EXPECT_EQ(stopped->last.stop_string(), "fg");
}

TEST(ForcedIdsTest, UnknownIdsAreRefused) {
  Rig rig(Options(), FakeSnapshot(1, 1));
  for (const int32_t id : {-1, 24}) {
    Collect result;
    auto request = rig.engine->Generate(Forced({1}, {3, id}), result.OnChunk());
    EXPECT_EQ(result.Wait().code(), absl::StatusCode::kInvalidArgument);
    EXPECT_THAT(std::string(result.Wait().message()), HasSubstr("forced_ids"));
  }
}

// Scripts of many lengths among drawn requests. Neither the batch nor the cache has room for all.
TEST(ForcedIdsTest, StayExactAmongDrawnRequestsAndPreemptions) {
  EngineOptions options = Options();
  options.kv_cache_tokens = 120;
  Rig rig(options, FakeSnapshot(1, 1001));
  std::deque<Collect> results(24);
  std::vector<v1::GenerateRequest> asks;
  std::vector<std::unique_ptr<Client::Request>> requests;
  for (int i = 0; i < 24; ++i) {
    std::vector<int32_t> script;
    for (int n = 0; n < 1 + (i * 7) % 40; ++n) script.push_back(static_cast<int32_t>(base::DeriveSeed(i, n) % kVocab));
    asks.push_back(i % 3 == 2 ? Ask({1, 2, 3, i}, 30, 50 + i) : Forced({1, 2, 3, i}, script, 60));
    requests.push_back(rig.engine->Generate(asks.back(), results[i].OnChunk()));
  }
  for (int i = 0; i < 24; ++i) {
    ASSERT_EQ(results[i].Wait(), absl::OkStatus());
    if (asks[i].forced_ids_size() > 0) {
      EXPECT_EQ(results[i].ids, std::vector<int32_t>(asks[i].forced_ids().begin(), asks[i].forced_ids().end()));
      EXPECT_EQ(results[i].last.finish(), v1::FINISH_STOP);
    }
    ExpectLogprobsAreThePolicys(asks[i], results[i], 1001);
  }
}

TEST(ForcedIdsTest, ContinueAcrossASwapOfWeights) {
  Rig rig(Options(), FakeSnapshot(1, 1001));
  const std::vector<int32_t> script(60, 4);
  Collect result;
  rig.gate.Close();
  auto request = rig.engine->Generate(Forced({1, 2}, script), result.OnChunk());
  rig.gate.Let(5);
  result.WaitForTokens(4);
  std::thread sender([&] { EXPECT_EQ(rig.Update(2).status(), absl::OkStatus()); });
  rig.gate.Open();
  sender.join();
  ASSERT_EQ(result.Wait(), absl::OkStatus());
  EXPECT_EQ(result.ids, script);
  EXPECT_EQ(result.versions.front().version(), 1);
  for (const v1::VersionRun& run : result.versions) EXPECT_EQ(run.kv_mixed(), run.version() == 2);
}

TEST(ShapedRequestTest, LogprobsAndAlternativesAreThePolicys) {
  Rig rig(Options(), FakeSnapshot(1, 1001));
  v1::GenerateRequest ask = Ask({1, 2, 3}, 40);
  ask.mutable_sampling()->set_frequency_penalty(1.5f);
  ask.mutable_sampling()->set_repetition_penalty(1.3f);
  (*ask.mutable_sampling()->mutable_logit_bias())[6] = 4;
  ask.set_top_logprobs(20);
  Collect result;
  auto request = rig.engine->Generate(ask, result.OnChunk());
  ASSERT_EQ(result.Wait(), absl::OkStatus());
  ExpectLogprobsAreThePolicys(ask, result, 1001);
  EXPECT_TRUE(result.last.penalty_acted());
  EXPECT_TRUE(result.last.bias_acted());
  EXPECT_FALSE(result.last.grammar_acted());
}

// Greedy: each token is the largest shaped logit, computed here from the raw logits.
TEST(ShapedRequestTest, DrawsFromThePenalisedLogits) {
  Rig rig(Options(), FakeSnapshot(1, 1001));
  v1::GenerateRequest ask = Ask({1, 2, 3}, 40);
  v1::SamplingParams& sampling = *ask.mutable_sampling();
  sampling.set_temperature(0);
  sampling.set_frequency_penalty(0.3f);
  sampling.set_presence_penalty(0.4f);
  sampling.set_repetition_penalty(1.2f);
  (*sampling.mutable_logit_bias())[8] = 0.7f;
  (*sampling.mutable_logit_bias())[9] = -100;
  Collect result;
  auto request = rig.engine->Generate(ask, result.OnChunk());
  ASSERT_EQ(result.Wait(), absl::OkStatus());
  std::vector<int32_t> tokens = {1, 2, 3};
  for (const int32_t id : result.ids) {
    float normalizer = 0;
    std::vector<float> logits = PolicyRow(tokens, 1001, &normalizer);
    int32_t best = 0;
    for (int32_t i = 0; i < kVocab; ++i) {
      float& logit = logits[i] += normalizer;
      if (std::count(tokens.begin(), tokens.end(), i) > 0) logit = logit > 0 ? logit / 1.2f : logit * 1.2f;
      const auto count = static_cast<float>(std::count(tokens.begin() + 3, tokens.end(), i));
      logit -= 0.3f * count + (count > 0 ? 0.4f : 0);
      if (i == 8) logit += 0.7f;
      if (i == 9) logit = -1e9f;
      if (logit > logits[best]) best = i;
    }
    ASSERT_EQ(id, best) << "token " << tokens.size() - 3;
    tokens.push_back(id);
  }
}

TEST(ShapedRequestTest, ABiasThatExcludesEverythingEndsThatRequestAlone) {
  Rig rig(Options(), FakeSnapshot(1, 1001));
  v1::GenerateRequest ask = Ask({1}, 5);
  for (int32_t id = 0; id < kVocab; ++id) (*ask.mutable_sampling()->mutable_logit_bias())[id] = -100;
  Collect excluded, other;
  auto first = rig.engine->Generate(ask, excluded.OnChunk());
  auto second = rig.engine->Generate(Ask({1}, 5), other.OnChunk());
  EXPECT_EQ(excluded.Wait().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(other.Wait(), absl::OkStatus());
  EXPECT_EQ(rig.engine->Status()->kv_blocks_used(), 0);
}

TEST(ShapedRequestTest, BadParametersAreRefusedBeforeTheyAreQueued) {
  Rig rig(Options(), FakeSnapshot(1, 1));
  v1::GenerateRequest ask = Ask({1}, 5);
  (*ask.mutable_sampling()->mutable_logit_bias())[24] = 1;
  Collect result;
  auto request = rig.engine->Generate(ask, result.OnChunk());
  EXPECT_EQ(result.Wait().code(), absl::StatusCode::kInvalidArgument);
}

}  // namespace
}  // namespace ingot::rollout
