// Speculation on a real (small, random) transformer: whatever is guessed, ids, log-probs, finish reasons, stop strings,
// and versions are those without drafts, to the bit, in fp32 and bf16 and on every instruction set of the machine.
//
// Runs until INGOT_IDENTITY_TOKENS tokens were compared (a few thousand by default).
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "base/rng.h"
#include "kernels/attention/attention.h"
#include "rollout/mixed_drafter.h"
#include "rollout/small_transformer.h"
#include "rollout/speculation/given_drafter.h"
#include "rollout/speculation/history_drafter.h"

namespace ingot::rollout {
namespace {

constexpr size_t kAtOnce = 20;

v1::GenerateRequest RandomAsk(uint64_t seed) {
  uint64_t next = 0;
  const auto draw = [&](uint64_t below) { return base::DeriveSeed(seed, next++) % below; };
  v1::GenerateRequest ask;
  const uint64_t stream = draw(3);
  const size_t length = 1 + draw(60);
  for (size_t i = 0; i < length; ++i) ask.add_prompt_ids(static_cast<int32_t>(base::DeriveSeed(stream, i) % kIds));
  ask.set_pinned_version(draw(3) == 0 ? 2 : -1);
  v1::SamplingParams& sampling = *ask.mutable_sampling();
  sampling.set_seed(seed + 1);
  sampling.set_temperature(static_cast<float>(draw(4)) * 0.5f);
  sampling.set_max_new_tokens(static_cast<int32_t>(1 + draw(80)));
  if (draw(4) == 0) sampling.set_top_k(7);
  if (draw(4) == 0) sampling.set_top_p(0.9f);
  if (draw(4) == 0) sampling.set_min_p(0.05f);
  if (draw(4) == 0) sampling.set_presence_penalty(0.5f);
  if (draw(4) == 0) sampling.set_repetition_penalty(1.2f);
  if (draw(4) == 0) sampling.set_min_new_tokens(9);
  if (draw(4) == 0) sampling.add_stop("AB");
  if (draw(6) == 0) sampling.add_stop("Q");
  if (draw(5) == 0) {
    sampling.add_stop_token_ids(60);
    sampling.mutable_grammar()->add_alternatives()->add_parts()->set_regex("[A-P]{5,40}");
  }
  if (draw(4) == 0) ask.set_top_logprobs(3);
  return ask;
}

// Log-probs differ by the rounding of bf16.
TEST(SpeculationIdentityTest, TheTypesOfTheTestAreTwo) {
  v1::GenerateRequest ask = RandomAsk(1);
  ask.clear_sampling();
  ask.mutable_sampling()->set_temperature(1);
  ask.mutable_sampling()->set_max_new_tokens(5);
  EXPECT_NE(Outcomes(*EngineOf({}, at::kFloat, {}), std::span(&ask, 1))[0].logprobs,
            Outcomes(*EngineOf({}, at::kBFloat16, {}), std::span(&ask, 1))[0].logprobs);
}

struct Tally {
  int64_t tokens = 0, drafted = 0, accepted = 0, accepted_of_heads = 0;
};

// One round: some requests without drafts, the same with drafts of every kind, and again with their ids given.
void CompareRound(uint64_t round, at::ScalarType dtype, Tally* tally) {
  EngineOptions options;
  options.kv_block_tokens = 8;
  options.max_running = static_cast<int32_t>(4 + round % 3 * 8);
  options.max_batch_tokens = static_cast<int32_t>(24 + round % 2 * 104);
  options.kv_cache_tokens = round % 4 == 3 ? 320 : 4096;  // the small one preempts
  options.prefix_cache = round % 5 != 4;
  std::vector<v1::GenerateRequest> asks;
  for (size_t i = 0; i < kAtOnce; ++i) asks.push_back(RandomAsk(1000 * round + i));
  const std::vector<Outcome> expected = Outcomes(*EngineOf(options, dtype, {}), asks);
  MixedDrafter::Answers answers;
  for (size_t i = 0; i < asks.size(); ++i) answers[asks[i].sampling().seed()] = expected[i].ids;
  for (size_t i = 0; i < asks.size(); i += 3) {  // some given, up to a place right
    for (size_t n = 0; n < expected[i].ids.size(); ++n) {
      asks[i].add_draft_ids(n < 20 + i ? expected[i].ids[n] : static_cast<int32_t>(n % kIds));
    }
  }
  std::vector<std::unique_ptr<Drafter>> drafters;
  if (round % 2 == 0) drafters.push_back(std::make_unique<GivenDrafter>());
  if (round % 3 != 1) {  // otherwise, the draft heads guess almost alone
    drafters.push_back(std::make_unique<MixedDrafter>(answers, kIds, round));
    drafters.push_back(std::make_unique<HistoryDrafter>(SpeculationOptions()));
  }
  options.speculation.mtp_drafts = static_cast<int32_t>(1 + round % 8);
  const auto engine = EngineOf(options, dtype, std::move(drafters), /*mtp=*/true);
  for (int again = 0; again < 2; ++again) {
    const std::vector<Outcome> seen = Outcomes(*engine, asks);
    for (size_t i = 0; i < asks.size(); ++i) {
      ASSERT_TRUE(seen[i] == expected[i]) << "round " << round << ", request " << i << ", run " << again;
      tally->tokens += std::ssize(seen[i].ids);
    }
  }
  const v1::EngineStatusResponse status = *engine->Status();
  for (const v1::DrafterStatus& drafter : status.drafters()) {
    tally->drafted += drafter.drafted();
    tally->accepted += drafter.accepted();
    if (drafter.name() == "mtp") tally->accepted_of_heads += drafter.accepted();
  }
}

TEST(SpeculationIdentityTest, NoDraftChangesABitOnAnyInstructionSet) {
  const char* wanted = std::getenv("INGOT_IDENTITY_TOKENS");
  const int64_t tokens = wanted != nullptr ? std::atoll(wanted) : 4000;
  std::vector<std::string> sets;
  const std::vector<std::string> all = {"amx", "avx512bf16", "avx512", "avx2", "portable"};
  const auto best = std::find(all.begin(), all.end(), kernels::InstructionSet());
  for (auto set = best; set != all.end(); ++set) sets.push_back(*set);
  Tally tally;
  for (const std::string& set : sets) {
    ASSERT_EQ(kernels::LimitInstructionSet(set.c_str()), set);
    for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
      Tally of_set;
      for (uint64_t round = 0; of_set.tokens < tokens / (2 * std::ssize(sets)); ++round) {
        CompareRound(round, dtype, &of_set);
        if (HasFatalFailure()) return;
      }
      std::printf("%s %s: %lld tokens equal, %lld drafts, %lld accepted\n", set.c_str(),
                  dtype == at::kFloat ? "fp32" : "bf16", static_cast<long long>(of_set.tokens),
                  static_cast<long long>(of_set.drafted), static_cast<long long>(of_set.accepted));
      tally.tokens += of_set.tokens;
      tally.drafted += of_set.drafted;
      tally.accepted += of_set.accepted;
      tally.accepted_of_heads += of_set.accepted_of_heads;
    }
  }
  EXPECT_GT(tally.accepted, tally.tokens / 10);
  EXPECT_GT(tally.accepted_of_heads, 0);
  EXPECT_LT(tally.accepted, tally.drafted * 9 / 10);
}

// A call keeps the hidden state from which its head guesses, also while its engine is parked.
TEST(SpeculationIdentityTest, DraftHeadsGuessOnAfterParking) {
  EngineOptions options;
  options.kv_block_tokens = 8;
  options.kv_cache_tokens = 4096;
  const auto engine = EngineOf(options, at::kFloat, {}, /*mtp=*/true);
  v1::GenerateRequest ask = RandomAsk(1);
  ask.set_pinned_version(2);
  ask.clear_sampling();
  ask.mutable_sampling()->set_temperature(1);
  ask.mutable_sampling()->set_max_new_tokens(180);
  const Outcome expected = Outcomes(*engine, std::span(&ask, 1))[0];
  const auto drafted = [&engine] { return engine->Status()->drafters(0).drafted(); };
  EXPECT_GT(drafted(), 0);
  v1::ParkRequest terms;
  terms.set_timeout_seconds(60);
  terms.set_lease_seconds(1000);
  for (int attempt = 0; attempt < 50; ++attempt) {  // until a call is parked before it ends
    Collect result;
    const auto request = engine->Generate(ask, result.OnChunk());
    result.WaitForTokens(2);
    const auto parked = engine->Park(terms);
    ASSERT_TRUE(parked.ok()) << parked.status();
    const int64_t before = drafted();
    ASSERT_EQ(engine->Resume(), absl::OkStatus());
    ASSERT_EQ(result.Wait(), absl::OkStatus());
    ASSERT_EQ(result.ids, expected.ids);
    if (parked->waiting() == 0) continue;
    EXPECT_GT(drafted(), before);
    return;
  }
  FAIL() << "every call ended before it was parked";
}

// A broken embedding that no call uses. As a draft, its NaN must not reach the rows next to it, or a later call.
TEST(SpeculationIdentityTest, ADraftWithABrokenEmbeddingSpoilsNothing) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    model::Parameters parameters = model::Parameters::Init(Shape(), 3, dtype);
    parameters.tensors().at("model.embed_tokens.weight")[kIds - 1].fill_(std::nan(""));
    std::vector<weights::TensorView> views;
    for (const auto& [name, tensor] : parameters.tensors()) {
      views.push_back({name,
                       dtype == at::kBFloat16 ? "BF16" : "F32",
                       tensor.sizes().vec(),
                       {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()}});
    }
    EngineOptions options;
    options.kv_block_tokens = 8;
    options.kv_cache_tokens = 160;  // blocks are used again
    options.max_running = 4;
    options.speculation.min_gain = -1;
    Engine::Parts parts;
    parts.runner = *NewTorchRunner(Shape(), options, "cpu");
    const auto engine = *Engine::Create(options, std::move(parts), *weights::Snapshot::Copy(1, views));
    for (uint64_t seed = 0; seed < 12; ++seed) {
      v1::GenerateRequest ask;
      for (uint64_t i = 0; i < 20; ++i) ask.add_prompt_ids(static_cast<int32_t>(base::DeriveSeed(seed, i) % 50));
      ask.set_pinned_version(-1);
      ask.mutable_sampling()->set_temperature(1);
      ask.mutable_sampling()->set_seed(seed);
      ask.mutable_sampling()->set_max_new_tokens(40);
      (*ask.mutable_sampling()->mutable_logit_bias())[kIds - 1] = -100;
      const std::vector<Outcome> expected = Outcomes(*engine, std::span(&ask, 1));
      ASSERT_EQ(expected[0].status, absl::OkStatus());
      for (size_t n = 0; n < 10 + seed; ++n) ask.add_draft_ids(n < seed ? expected[0].ids[n] : kIds - 1);
      ASSERT_TRUE(Outcomes(*engine, std::span(&ask, 1)) == expected) << seed;
    }
  }
}

}  // namespace
}  // namespace ingot::rollout
