// numerics exact: the trainer's log-probs of merged trees are the bits that the engine recorded.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <cmath>

#include "advantages/branching_calls.h"
#include "kernels/torch/threads.h"
#include "makers.h"
#include "per_call_reference.h"
#include "tiny_model.h"
#include "trainer/pass/forest_pass.h"
#include "trainer/trainer.h"
#include "tree/cut.h"

namespace ingot::trainer {
namespace {

struct Case {
  std::string name;
  at::ScalarType dtype;
  int32_t block_tokens;      // of the paged cache
  int32_t max_batch_tokens;  // prompts are cut to the room that it leaves
  bool prefix_cache = true;
  bool lent = false;  // engine and trainer also compute on each other's threads
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

struct Gap {
  int64_t tokens = 0, unequal = 0;
  double max = 0;
};

Gap Compare(const model::Transformer& model, const std::vector<tree::CallPath>& calls, const PassOptions& pass) {
  Gap gap;
  const auto forest = *tree::PackForest(calls, tree::OrderChainFirst(calls));
  const PassResult result = ScoreForest(model, forest, calls, pass);
  for (size_t i = 0; i < forest.entries.size(); ++i) {
    const tree::LossEntry& e = forest.entries[i];
    const double recorded = calls[size_t(e.call)].logprobs[size_t(e.offset)];
    ++gap.tokens;
    gap.unequal += result.logprobs[i] != recorded;
    gap.max = std::max(gap.max, std::abs(result.logprobs[i] - recorded));
  }
  return gap;
}

class ExactLogprobs : public ::testing::TestWithParam<Case> {};

TEST_P(ExactLogprobs, OfMergedTreesAreTheEnginesToTheBit) {
  const model::ModelConfig config = BranchingConfig(GetParam().dtype);
  const model::Parameters parameters = BranchingParameters(config, GetParam().dtype);
  rollout::EngineOptions options;
  options.kv_block_tokens = GetParam().block_tokens;
  options.max_batch_tokens = GetParam().max_batch_tokens;
  options.max_running = 24;
  options.prefix_cache = GetParam().prefix_cache;
  const auto table = std::make_shared<kernels::ComputeTable>();
  const auto member = [&](int place) {
    return GetParam().lent ? std::make_shared<kernels::ComputeMember>(table, place, 1, 3, [](int) { return 9; })
                           : nullptr;
  };
  const auto trainer = member(0);
  const auto engine = EngineOver(config, options, parameters, member(32));
  Brancher brancher(*engine, config.vocab_size, 3);
  SampleBranches(brancher, 40);
  ASSERT_GT(brancher.sampled, 4000);
  EXPECT_EQ(engine->Status()->cached_prompt_tokens() > 3000, GetParam().prefix_cache);

  const auto model = *model::Transformer::Create(config, parameters);
  PassOptions pass;
  kernels::UseThreads(1);
  const kernels::Computing computing(trainer.get());
  const Gap fast = Compare(model, brancher.calls, pass);
  // The number depends on the machine: bf16 without AVX512 rounds sums less often.
  EXPECT_GT(fast.unequal, fast.tokens / 100) << "forks no longer change a bit: this test shows nothing";
  EXPECT_LT(fast.max, GetParam().dtype == at::kFloat ? 1e-5 : 0.5);

  pass.numerics = kernels::Numerics::kExact;
  for (const int64_t part_tokens : {int64_t{1} << 20, int64_t{700}}) {
    pass.part_tokens = part_tokens;
    pass.logits_chunk_elements = part_tokens == 700 ? 211 * 17 : 1 << 24;
    const Gap exact = Compare(model, brancher.calls, pass);
    EXPECT_EQ(exact.tokens, brancher.sampled);
    EXPECT_EQ(exact.unequal, 0) << "of " << exact.tokens << ", at most by " << exact.max;
  }
  for (const int place : {0, 32}) EXPECT_EQ(table->entries[place].borrowed_ns > 0, GetParam().lent) << place;
}

INSTANTIATE_TEST_SUITE_P(, ExactLogprobs,
                         ::testing::Values(Case{"fp32_chunked", at::kFloat, 16, 48},
                                           Case{"fp32_whole", at::kFloat, 64, 1024},
                                           Case{"fp32_uncached", at::kFloat, 8, 31, false},
                                           Case{"fp32_lent", at::kFloat, 16, 1024, true, true},
                                           Case{"bf16_lent", at::kBFloat16, 16, 1024, true, true},
                                           Case{"bf16_chunked", at::kBFloat16, 16, 48},
                                           Case{"bf16_whole", at::kBFloat16, 64, 1024},
                                           Case{"bf16_uncached", at::kBFloat16, 8, 31, false}),
                         [](const auto& info) { return info.param.name; });

// A sum of log-probs with fixed factors.
class Mix final : public EntryLoss {
 public:
  static double Factor(const tree::LossEntry& e) { return std::sin(1.0 + 3 * e.call + 7 * e.offset); }
  double Evaluate(std::span<const tree::LossEntry> entries, std::span<const double> logprobs, std::span<const double>,
                  std::span<double> by_logprob, std::span<double>) override {
    double loss = 0;
    for (size_t i = 0; i < entries.size(); ++i) loss += (by_logprob[i] = Factor(entries[i])) * logprobs[i];
    return loss;
  }
  bool uses_entropy() const override { return false; }
};

// Law 2 where the layouts differ: trees deeper than a key tile that fork inside of one, compared with each call by
// itself under a dense mask.
TEST(ExactLayout, GradientsEqualTrainingEachCallAlone) {
  for (const at::ScalarType dtype : {at::kDouble, at::kFloat}) {
    model::ModelConfig config = TinyConfig();
    config.max_position_embeddings = 512;
    const model::Transformer model = TrainableModel(config, TinyParameters(config, 3, dtype));
    Draws draws(6);
    const auto spine = draws.Tokens(150, config.vocab_size);
    std::vector<tree::CallPath> calls;
    for (const int64_t fork : {20, 63, 64, 65, 100, 127, 149}) {
      tree::CallPath call;
      call.context = tree::TokenPath({spine.begin(), spine.begin() + fork});
      call.sampled = draws.Tokens(30 + fork % 50, config.vocab_size);
      const size_t sampled = call.sampled.size();
      call.logprobs.assign(sampled, 0), call.versions.assign(sampled, 0), call.kv_mixed.assign(sampled, 0);
      calls.push_back(call);
    }
    double reference = 0, terms = 0;
    for (size_t c = 0; c < calls.size(); ++c) {
      const at::Tensor logprobs = LabelLogprobs(SampledLogSoftmax(model, calls[c]), calls[c]);
      at::Tensor loss = at::zeros({}, logprobs.options());
      for (int64_t t = 0; t < logprobs.size(0); ++t) {
        loss = loss + logprobs[t] * Mix::Factor({0, 0, int32_t(c), int32_t(t)});
        terms += std::abs(logprobs[t].item<double>());
      }
      reference += loss.item<double>();
      loss.backward();
    }
    const auto expected = TakeGradients(model);
    const auto forest = *tree::PackForest(calls, tree::OrderChainFirst(calls));
    Mix mix;
    PassOptions pass;
    pass.numerics = kernels::Numerics::kExact;
    const double tolerance = dtype == at::kDouble ? 1e-10 : 1e-5;
    EXPECT_LE(std::abs(AccumulateGradients(model, forest, calls, mix, pass).loss - reference), tolerance * terms);
    for (const auto& [name, gradient] : TakeGradients(model)) {
      const double norm = expected.at(name).norm().item<double>();
      ASSERT_GT(norm, 0) << name;
      EXPECT_LE((gradient - expected.at(name)).norm().item<double>(), tolerance * norm) << name;
    }
  }
}

// The metrics of a run: the probe's calls share a prompt, and are scored merged.
TEST(ExactProbe, MismatchOfMergedCallsIsZero) {
  const model::ModelConfig config = BranchingConfig(at::kFloat, 37);
  const model::Parameters parameters = BranchingParameters(config, at::kFloat);
  rollout::EngineOptions engine_options;
  const auto engine = EngineOver(config, engine_options, parameters);
  const auto probe = [&](int64_t, int64_t) -> absl::StatusOr<std::vector<tree::CallPath>> {
    Brancher brancher(*engine, config.vocab_size, 9);
    SampleBranches(brancher, 24, /*rounds=*/1);
    return brancher.calls;
  };
  for (const auto numerics : {kernels::Numerics::kExact, kernels::Numerics::kFast}) {
    TrainerOptions options;
    options.numerics = numerics;
    options.micro_batch_tokens = 1500;
    options.optimizer.learning_rate = 1e-3;
    auto trainer = *Trainer::Create(options, config, parameters);
    const auto report = trainer->TrainStep(RandomBatch(3, config.vocab_size, 0), probe);
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_GT(report->metrics.at("mismatch/probe_tokens"), 500);
    EXPECT_EQ(report->metrics.at("mismatch/logprob_abs_diff_max"), 0);
    EXPECT_EQ(report->metrics.at("mismatch/k3_kl"), 0);
  }
}

}  // namespace
}  // namespace ingot::trainer
