// An episode of 200,000 tokens on one path, trained for real under a memory limit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iostream>

#include "makers.h"
#include "model/parameters.h"
#include "trainer/memory.h"
#include "trainer/process_memory.h"
#include "trainer/trainer.h"

namespace ingot::trainer {
namespace {

constexpr int64_t kTurns = 10;

model::ModelConfig Config() {
  model::ModelConfig config;
  config.vocab_size = 300;
  config.hidden_size = 64;
  config.intermediate_size = 192;
  config.num_hidden_layers = 1;
  config.num_attention_heads = 1;
  config.num_key_value_heads = 1;
  config.head_dim = 16;
  config.max_position_embeddings = 200000;
  config.qk_norm = true;
  return config;
}

// Turns that continue each other, half of what each adds sampled; and a second, short episode to compare with.
TrainBatch Batch(int64_t step, int64_t depth) {
  Draws draws(1);
  const std::vector<int32_t> path = draws.Tokens(depth, Config().vocab_size);
  std::vector<CallSpec> calls;
  for (int64_t turn = 1; turn <= kTurns; ++turn) {
    CallSpec& call = calls.emplace_back();
    const int64_t end = depth / kTurns * turn, begin = end - depth / kTurns / 2;
    call.context.assign(path.begin(), path.begin() + begin);
    call.sampled.assign(path.begin() + begin, path.begin() + end);
    call.logprobs.assign(call.sampled.size(), -5.7f);
  }
  CallSpec other;
  other.context = {1, 2, 3};
  other.sampled = {4};
  other.logprobs = {-5.7f};
  TrainBatch batch;
  batch.step = step;
  batch.groups.push_back(MakeGroup(0, {MakeEpisode("deep", 1.0, calls), MakeEpisode("short", 0.0, {other})}));
  return batch;
}

TEST(DeepEpisode, OfTwoHundredThousandTokensTrainsWithinItsPrintedBound) {
  TrainerOptions options;
  options.memory_limit_mb = 256;
  options.logits_chunk_elements = 1 << 20;
  options.probe_tokens = 0;
  const model::ModelConfig config = Config();
  const auto parameters = model::Parameters::Init(config, 1, at::kFloat);
  const int64_t depth = config.max_position_embeddings;

  // All histories at once are more than the limit, which is said before anything runs.
  {
    const auto whole = Trainer::Create(options, config, parameters);
    ASSERT_TRUE(whole.ok()) << whole.status();
    const auto refused = (*whole)->TrainStep(Batch(0, depth));
    EXPECT_EQ(refused.status().code(), absl::StatusCode::kResourceExhausted);
    EXPECT_THAT(std::string(refused.status().message()), ::testing::HasSubstr("set trainer.recompute_prefix"));
  }

  options.checkpoint_layers = options.recompute_prefix = true;
  const auto trainer = Trainer::Create(options, config, parameters);
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  ASSERT_TRUE((*trainer)->TrainStep(Batch(0, 20000)).ok());  // what libraries keep for themselves is there from now on
  const TrainBatch batch = Batch(1, depth);
  ASSERT_TRUE(ResetPeakMemory());
  const int64_t before = ResidentMemory();
  const auto report = (*trainer)->TrainStep(batch);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->metrics.at("trainer/skipped"), 0);
  const int64_t held = PeakMemory() - before;
  const tree::ForestPart part = UncutPart(1);
  const MemoryNeed fixed = PredictMemory(config, 4, {}, std::span(&part, 1));
  const auto predicted = static_cast<int64_t>(report->metrics.at("perf/memory_predicted_bytes"));
  const int64_t of_step = predicted - fixed.weights - fixed.optimizer;
  std::cout << "depth " << depth << ", " << report->metrics.at("tree/parts") << " parts: predicted " << predicted / 1e6
            << " MB, of which the step " << of_step / 1e6 << " MB; the step held " << held / 1e6 << " MB; limit "
            << options.memory_limit_mb << " MiB; " << report->metrics.at("perf/train_seconds") << " s\n";
  EXPECT_LE(predicted, options.memory_limit_mb << 20);
  EXPECT_LE(held + fixed.weights + fixed.optimizer, options.memory_limit_mb << 20);
  // The batch's own tokens and tables of 200,000 rows are in it, beside tensors as narrow as these.
  EXPECT_GE(static_cast<double>(of_step) / static_cast<double>(held), 0.75);
  EXPECT_LE(static_cast<double>(of_step) / static_cast<double>(held), 1.1);
}

}  // namespace
}  // namespace ingot::trainer
