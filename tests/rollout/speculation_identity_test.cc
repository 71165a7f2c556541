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
#include <deque>
#include <string>
#include <vector>

#include "base/rng.h"
#include "kernels/attention/attention.h"
#include "model/parameters.h"
#include "rollout/collect.h"
#include "rollout/engine.h"
#include "rollout/fake_tokenizer.h"
#include "rollout/given_drafter.h"
#include "rollout/history_drafter.h"
#include "rollout/mixed_drafter.h"
#include "rollout/torch_runner.h"

namespace ingot::rollout {
namespace {

constexpr int32_t kIds = 61;
constexpr size_t kAtOnce = 20;

model::ModelConfig Shape() {
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

std::shared_ptr<const weights::Snapshot> RandomWeights(int64_t version, at::ScalarType dtype) {
  model::Parameters parameters = model::Parameters::Init(Shape(), static_cast<uint64_t>(version), dtype);
  std::vector<weights::TensorView> views;
  for (auto& [name, tensor] : parameters.tensors()) {
    if (tensor.dim() == 2) tensor.mul_(6);  // likely and unlikely tokens
    views.push_back({name,
                     dtype == at::kBFloat16 ? "BF16" : "F32",
                     tensor.sizes().vec(),
                     {static_cast<const std::byte*>(tensor.const_data_ptr()), tensor.nbytes()}});
  }
  return *weights::Snapshot::Copy(version, views);
}

std::unique_ptr<Engine> EngineOf(EngineOptions options, at::ScalarType dtype,
                                 std::vector<std::unique_ptr<Drafter>> drafters) {
  if (drafters.empty()) options.speculation.drafters = {};
  options.speculation.min_gain = -1;
  Engine::Parts parts;
  parts.runner = *NewTorchRunner(Shape(), options, "cpu");
  parts.drafters = std::move(drafters);
  std::vector<std::string> pieces;
  for (int32_t id = 0; id < kIds; ++id) pieces.push_back(std::string(1, static_cast<char>('A' + id)));
  parts.tokenizer = std::make_shared<PieceTokenizer>(pieces);
  auto engine = *Engine::Create(options, std::move(parts), RandomWeights(1, dtype));
  EXPECT_TRUE(engine->Update(*weights::Encode(engine->newest().get(), *RandomWeights(2, dtype), true)).ok());
  EXPECT_TRUE(engine->Update(*weights::Encode(engine->newest().get(), *RandomWeights(3, dtype), false)).ok());
  return engine;
}

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

struct Outcome {
  absl::Status status;
  std::vector<int32_t> ids;
  std::vector<float> logprobs;
  std::vector<std::pair<int64_t, bool>> versions;
  std::string tops, stop;
  v1::FinishReason finish = v1::FINISH_UNSPECIFIED;
  bool operator==(const Outcome&) const = default;
};

std::vector<Outcome> Outcomes(Engine& engine, std::span<const v1::GenerateRequest> asks) {
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
  int64_t tokens = 0, drafted = 0, accepted = 0;
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
  drafters.push_back(std::make_unique<MixedDrafter>(answers, kIds, round));
  drafters.push_back(std::make_unique<HistoryDrafter>(SpeculationOptions()));
  const auto engine = EngineOf(options, dtype, std::move(drafters));
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
    }
  }
  EXPECT_GT(tally.accepted, tally.tokens / 10);
  EXPECT_LT(tally.accepted, tally.drafted * 9 / 10);
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
