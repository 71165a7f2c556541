// numerics: exact. The trainer's log-probs of merged trees are the bits that the engine recorded.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gtest/gtest.h>

#include <cmath>

#include "branching_calls.h"
#include "trainer/forest_pass.h"

namespace ingot::trainer {
namespace {

struct Case {
  std::string name;
  at::ScalarType dtype;
  int32_t block_tokens;      // of the paged cache
  int32_t max_batch_tokens;  // prompts are cut to what is left of it
  bool prefix_cache = true;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

struct Gap {
  int64_t tokens = 0, unequal = 0;
  double max = 0;
};

Gap Compare(const model::Transformer& model, const std::vector<tree::FlatCall>& calls, int64_t micro_batch_tokens,
            const PassOptions& pass) {
  Gap gap;
  for (const auto& indices : tree::PlanMicroBatches(calls, micro_batch_tokens)) {
    const auto forest = *tree::PackForest(calls, indices);
    const PassResult result = ScoreForest(model, forest, calls, pass);
    for (size_t i = 0; i < forest.entries.size(); ++i) {
      const tree::LossEntry& e = forest.entries[i];
      const double recorded = calls[size_t(e.call)].logprobs[size_t(e.offset)];
      ++gap.tokens;
      gap.unequal += result.logprobs[i] != recorded;
      gap.max = std::max(gap.max, std::abs(result.logprobs[i] - recorded));
    }
  }
  return gap;
}

class ExactLogprobs : public ::testing::TestWithParam<Case> {};

TEST_P(ExactLogprobs, OfMergedTreesAreTheEnginesToTheBit) {
  const model::ModelConfig config = BranchingConfig();
  const model::Parameters parameters = BranchingParameters(config, GetParam().dtype);
  rollout::EngineOptions options;
  options.kv_block_tokens = GetParam().block_tokens;
  options.max_batch_tokens = GetParam().max_batch_tokens;
  options.max_running = 24;
  options.prefix_cache = GetParam().prefix_cache;
  options.numerics = kernels::Numerics::kExact;
  const auto engine = EngineOver(config, options, parameters);
  Brancher brancher(*engine, config.vocab_size, 3);
  SampleBranches(brancher, 40);
  ASSERT_GT(brancher.sampled, 4000);
  EXPECT_EQ(engine->Status()->cached_prompt_tokens() > 3000, GetParam().prefix_cache);

  const auto model = *model::Transformer::Create(config, parameters);
  PassOptions pass;
  const Gap fast = Compare(model, brancher.calls, 1 << 20, pass);
  EXPECT_GT(fast.unequal, fast.tokens / 10) << "forks no longer change a bit: this test shows nothing";
  EXPECT_LT(fast.max, GetParam().dtype == at::kFloat ? 1e-5 : 0.5);

  pass.numerics = kernels::Numerics::kExact;
  for (const int64_t micro_batch_tokens : {int64_t{1} << 20, int64_t{700}}) {
    pass.logits_chunk_elements = micro_batch_tokens == 700 ? 211 * 17 : 1 << 24;
    const Gap exact = Compare(model, brancher.calls, micro_batch_tokens, pass);
    EXPECT_EQ(exact.tokens, brancher.sampled);
    EXPECT_EQ(exact.unequal, 0) << "of " << exact.tokens << ", at most by " << exact.max;
  }
}

INSTANTIATE_TEST_SUITE_P(
    , ExactLogprobs,
    ::testing::Values(Case{"fp32_chunked", at::kFloat, 16, 48}, Case{"fp32_whole", at::kFloat, 64, 1024},
                      Case{"fp32_uncached", at::kFloat, 8, 31, false}, Case{"bf16_chunked", at::kBFloat16, 16, 48},
                      Case{"bf16_whole", at::kBFloat16, 64, 1024}, Case{"bf16_uncached", at::kBFloat16, 8, 31, false}),
    [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace ingot::trainer
