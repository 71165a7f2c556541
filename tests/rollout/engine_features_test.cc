// Requests that ask for more than draws from the policy: scripts, penalties, biases.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <deque>
#include <limits>
#include <set>

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
  ask.mutable_sampling()->add_stop_token_ids(6);
  EXPECT_EQ(run(ask)->last.stop_string(), "fg") << "named, although the id would have ended the answer anyway";
}

TEST(ForcedIdsTest, UnknownIdsAreRejected) {
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
  EngineOptions options = Options();
  options.speculation.drafters = {};  // one id per pass
  Rig rig(options, FakeSnapshot(1, 1001));
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

TEST(ShapedRequestTest, BadParametersAreRejectedBeforeTheyAreQueued) {
  Rig rig(Options(), FakeSnapshot(1, 1));
  const float nan = std::nanf(""), infinite = std::numeric_limits<float>::infinity();
  const auto expect_rejected = [&](const char* field, auto set) {
    v1::GenerateRequest ask = Ask({1}, 5);
    set(*ask.mutable_sampling());
    Collect result;
    auto request = rig.engine->Generate(ask, result.OnChunk());
    EXPECT_EQ(result.Wait().code(), absl::StatusCode::kInvalidArgument) << field;
    EXPECT_THAT(std::string(result.Wait().message()), HasSubstr(field));
    EXPECT_TRUE(result.ids.empty());
  };
  for (const float bad : {nan, infinite, -infinite, -1.0f, 101.0f, 1e-42f}) {
    expect_rejected("temperature", [&](auto& sampling) { sampling.set_temperature(bad); });
  }
  for (const float bad : {nan, infinite, -infinite, -1e-42f, 1.0001f}) {
    expect_rejected("top_p", [&](auto& sampling) { sampling.set_top_p(bad); });
    expect_rejected("min_p", [&](auto& sampling) { sampling.set_min_p(bad); });
  }
  for (const float bad : {nan, infinite, -infinite, -2.001f}) {
    expect_rejected("frequency_penalty", [&](auto& sampling) { sampling.set_frequency_penalty(bad); });
    expect_rejected("presence_penalty", [&](auto& sampling) { sampling.set_presence_penalty(bad); });
    expect_rejected("repetition_penalty", [&](auto& sampling) { sampling.set_repetition_penalty(bad); });
    expect_rejected("logit_bias", [&](auto& sampling) { (*sampling.mutable_logit_bias())[3] = bad * 100; });
  }
  for (const int32_t bad : {-1, std::numeric_limits<int32_t>::min()}) {
    expect_rejected("top_k", [&](auto& sampling) { sampling.set_top_k(bad); });
    expect_rejected("max_new_tokens", [&](auto& sampling) { sampling.set_max_new_tokens(bad); });
    expect_rejected("min_new_tokens", [&](auto& sampling) { sampling.set_min_new_tokens(bad); });
    expect_rejected("logit_bias", [&](auto& sampling) { (*sampling.mutable_logit_bias())[bad] = 1; });
  }
  expect_rejected("logit_bias", [](auto& sampling) { (*sampling.mutable_logit_bias())[24] = 1; });
}

// The greatest values that are allowed, alone and together, with every kind of seed.
TEST(ShapedRequestTest, ExtremeParametersAndSeedsAreDrawnWith) {
  Rig rig(Options(), FakeSnapshot(1, 1001));
  const auto run = [&](const v1::GenerateRequest& ask) {
    Collect result;
    auto request = rig.engine->Generate(ask, result.OnChunk());
    EXPECT_EQ(result.Wait(), absl::OkStatus()) << ask.ShortDebugString();
    EXPECT_EQ(result.ids.size(), 30u);
    ExpectLogprobsAreThePolicys(ask, result, 1001);
    return result.ids;
  };
  std::set<std::vector<int32_t>> by_seed;
  for (const uint64_t seed : {uint64_t{0}, uint64_t{1}, uint64_t{1} << 63, ~uint64_t{0}}) {
    v1::GenerateRequest ask = Ask({1, 2, 3}, 30, seed);
    const std::vector<int32_t> ids = run(ask);
    EXPECT_EQ(run(ask), ids);
    by_seed.insert(ids);
    ask.mutable_sampling()->set_top_k(std::numeric_limits<int32_t>::max());
    ask.mutable_sampling()->set_top_p(std::nextafter(1.0f, 0.0f));
    ask.mutable_sampling()->set_min_p(std::numeric_limits<float>::denorm_min());
    EXPECT_EQ(run(ask), ids) << "nothing is cut";
    v1::GenerateRequest likely = ask;
    likely.mutable_sampling()->set_top_p(std::numeric_limits<float>::denorm_min());
    v1::GenerateRequest greedy = Ask({1, 2, 3}, 30, seed);
    greedy.mutable_sampling()->set_temperature(0);
    EXPECT_EQ(run(likely), run(greedy)) << "the most likely token alone is left";
    v1::SamplingParams& sampling = *ask.mutable_sampling();
    for (const float sign : {-1.0f, 1.0f}) {
      sampling.set_frequency_penalty(2 * sign);
      sampling.set_presence_penalty(-2 * sign);
      sampling.set_repetition_penalty(sign > 0 ? 100 : 0.01f);
      for (int32_t id = 0; id < kVocab; ++id) {
        (*sampling.mutable_logit_bias())[id] = sign * (id % 2 == 0 ? 100 : -99);
      }
      run(ask);
    }
  }
  EXPECT_EQ(by_seed.size(), 4u);
}

// A model may exclude ids itself (-inf). Penalties and biases do not bring them back, and make no entry not-a-number.
TEST(ShapedRequestTest, IdsThatTheModelExcludesAreNeverDrawn) {
  Rig rig(Options(), FakeSnapshot(1, 1001));
  rig.runner->edit = [](std::vector<float>& row) {
    for (int32_t id = 0; id < kVocab; ++id) {
      if (id != 3 && id != 11) row[id] = -std::numeric_limits<float>::infinity();
    }
  };
  std::deque<Collect> results(24);
  std::vector<std::unique_ptr<Client::Request>> requests;
  for (int i = 0; i < 24; ++i) {
    v1::GenerateRequest ask = Ask({1, 3, 5}, 40, i);
    v1::SamplingParams& sampling = *ask.mutable_sampling();
    sampling.set_temperature(i % 3 == 0 ? 0 : i % 3 == 1 ? 1.0f : 0.01f);
    if (i % 2 == 0) sampling.set_repetition_penalty(i % 4 == 0 ? 1.5f : 0.5f);
    if (i % 5 < 3) sampling.set_frequency_penalty(-2);
    if (i % 7 < 3) (*sampling.mutable_logit_bias())[5] = 100;
    if (i % 11 < 5) sampling.set_top_p(0.9f);
    if (i % 13 < 6) sampling.set_top_k(3);
    requests.push_back(rig.engine->Generate(ask, results[i].OnChunk()));
  }
  for (int i = 0; i < 24; ++i) {
    ASSERT_EQ(results[i].Wait(), absl::OkStatus()) << i;
    ASSERT_EQ(results[i].ids.size(), 40u);
    for (const int32_t id : results[i].ids) ASSERT_TRUE(id == 3 || id == 11) << i << " drew " << id;
    for (const float logprob : results[i].logprobs) ASSERT_TRUE(std::isfinite(logprob)) << i;
  }
}

// Whatever a request asks for, a row without a distribution ends it with an error that names the version.
TEST(ShapedRequestTest, ARowOfNotANumberIsAnErrorForEveryKindOfRequest) {
  Rig rig(Options(), FakeSnapshot(7, 1001));
  rig.runner->poisoned = true;
  std::vector<v1::GenerateRequest> asks = {Ask({1}, 5), Ask({1}, 5), Ask({1}, 5), Ask({1}, 5), Forced({1}, {3, 4})};
  asks[0].mutable_sampling()->set_temperature(0);
  asks[1].mutable_sampling()->set_top_k(2);
  asks[2].mutable_sampling()->set_repetition_penalty(2);
  asks[3].set_top_logprobs(5);
  for (const v1::GenerateRequest& ask : asks) {
    Collect result;
    auto request = rig.engine->Generate(ask, result.OnChunk());
    EXPECT_EQ(result.Wait().code(), absl::StatusCode::kInternal);
    EXPECT_THAT(std::string(result.Wait().message()), HasSubstr("version 7"));
    EXPECT_TRUE(result.ids.empty());
  }
  EXPECT_EQ(rig.engine->Status()->kv_blocks_used(), 0);
}

TEST(HaltTest, ACallThatRepeatsItselfEndsAsARepetition) {
  EngineOptions options = Options();
  v1::GenerateRequest ask = Ask({1, 2, 3}, 60);
  (*ask.mutable_sampling()->mutable_logit_bias())[7] = 100;  // it samples nothing else
  const auto run = [&](const EngineOptions& with) {
    Rig rig(with, FakeSnapshot(1, 1));
    auto result = std::make_unique<Collect>();
    auto request = rig.engine->Generate(ask, result->OnChunk());
    EXPECT_EQ(result->Wait(), absl::OkStatus());
    return result;
  };
  EXPECT_EQ(run(options)->last.finish(), v1::FINISH_LENGTH) << "it is off by itself";
  options.halt.repetition = "on";
  const auto halted = run(options);
  EXPECT_EQ(halted->last.finish(), v1::FINISH_REPETITION);
  EXPECT_EQ(halted->ids.size(), 16u);
  ask.mutable_sampling()->set_max_new_tokens(16);
  EXPECT_EQ(run(options)->last.finish(), v1::FINISH_LENGTH) << "the limit comes first";
  ask.mutable_sampling()->set_max_new_tokens(60);
  ask.mutable_sampling()->set_ignore_eos(true);
  EXPECT_EQ(run(options)->last.finish(), v1::FINISH_LENGTH) << "a client that wants so many tokens gets them";
}

v1::GenerateRequest Scored(std::vector<int32_t> ids, int32_t last, int64_t version = 1) {
  v1::GenerateRequest request = Ask(std::move(ids), 1, 1, version);
  request.set_score_ids(last);
  return request;
}

// 150 tokens through steps of 32 rows and blocks of 4, some of them cached.
TEST(ScoredIdsTest, HaveThePolicysLogprobsHoweverTheyAreScheduled) {
  Rig rig(Options(), FakeSnapshot(1, 1001));
  std::deque<Collect> results(6);
  std::vector<v1::GenerateRequest> asks;
  std::vector<std::unique_ptr<Client::Request>> requests;
  for (int i = 0; i < 6; ++i) {
    std::vector<int32_t> ids;
    for (int t = 0; t < 90 + 10 * i; ++t) ids.push_back((t * 7 + (t > 40 ? i : 0)) % kVocab);
    asks.push_back(Scored(ids, i == 0 ? 1 : 80));
    requests.push_back(rig.engine->Generate(asks.back(), results[i].OnChunk()));
  }
  Collect drawn;  // a request that samples beside them
  auto sampling = rig.engine->Generate(Ask({1, 2, 3}, 20), drawn.OnChunk());
  ASSERT_EQ(drawn.Wait(), absl::OkStatus());
  EXPECT_EQ(drawn.ids.size(), 20u);
  for (int i = 0; i < 6; ++i) {
    ASSERT_EQ(results[i].Wait(), absl::OkStatus());
    EXPECT_EQ(results[i].last.finish(), v1::FINISH_STOP);
    const std::vector<int32_t> all(asks[i].prompt_ids().begin(), asks[i].prompt_ids().end());
    const size_t first = all.size() - static_cast<size_t>(asks[i].score_ids());
    ASSERT_EQ(results[i].logprobs.size(), all.size() - first);
    for (size_t t = first; t < all.size(); ++t) {
      const std::vector<float> row = PolicyRow({all.begin(), all.begin() + static_cast<int64_t>(t)}, 1001);
      ASSERT_EQ(results[i].logprobs[t - first], row[all[t]]) << "request " << i << ", token " << t;
    }
  }
}

TEST(ScoredIdsTest, ARequestThatCannotBeScoredIsRejected) {
  Rig rig(Options(), FakeSnapshot(1, 1));
  const auto rejection = [&](const v1::GenerateRequest& ask) {
    Collect result;
    auto request = rig.engine->Generate(ask, result.OnChunk());
    return result.Wait();
  };
  EXPECT_TRUE(absl::IsInvalidArgument(rejection(Scored({1, 2}, 2))));      // nothing before them
  EXPECT_TRUE(absl::IsInvalidArgument(rejection(Scored({1, 2}, 1, -1))));  // no pinned version
  EXPECT_TRUE(absl::IsNotFound(rejection(Scored({1, 2}, 1, 7))));
  v1::GenerateRequest greedy = Scored({1, 2}, 1);
  greedy.mutable_sampling()->set_temperature(0);
  EXPECT_TRUE(absl::IsInvalidArgument(rejection(greedy)));
  EXPECT_EQ(rejection(Scored({1, 2}, 1)), absl::OkStatus());
}

}  // namespace
}  // namespace ingot::rollout
