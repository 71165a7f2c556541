// An episode of 200,000 tokens on one path, trained for real under a memory limit.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <iostream>

#include "base/process_memory.h"
#include "makers.h"
#include "model/parameters.h"
#include "trainer/trainer.h"

namespace ingot::trainer {
namespace {

constexpr int64_t kDepth = 200000, kTurns = 10;

model::ModelConfig Config() {
  model::ModelConfig config;
  config.vocab_size = 300;
  config.hidden_size = 64;
  config.intermediate_size = 192;
  config.num_hidden_layers = 1;
  config.num_attention_heads = 1;
  config.num_key_value_heads = 1;
  config.head_dim = 16;
  config.max_position_embeddings = kDepth;
  config.qk_norm = true;
  return config;
}

// Turns that continue one another, half of each turn's ids sampled; and a second, short episode to compare with.
TrainBatch Batch() {
  Draws draws(1);
  const std::vector<int32_t> path = draws.Tokens(kDepth, Config().vocab_size);
  std::vector<CallSpec> calls;
  for (int64_t turn = 1; turn <= kTurns; ++turn) {
    CallSpec& call = calls.emplace_back();
    const int64_t end = kDepth / kTurns * turn, begin = end - kDepth / kTurns / 2;
    call.context.assign(path.begin(), path.begin() + begin);
    call.sampled.assign(path.begin() + begin, path.begin() + end);
    call.logprobs.assign(call.sampled.size(), -5.7f);
  }
  CallSpec other;
  other.context = {1, 2, 3};
  other.sampled = {4};
  other.logprobs = {-5.7f};
  TrainBatch batch;
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
  const TrainBatch batch = Batch();

  // All histories at once need more than the limit; the error comes before anything runs.
  const auto whole = Trainer::Create(options, config, parameters);
  ASSERT_TRUE(whole.ok()) << whole.status();
  const auto rejected = (*whole)->TrainStep(batch);
  EXPECT_EQ(rejected.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(rejected.status().message()), ::testing::HasSubstr("set trainer.recompute_prefix"));

  options.checkpoint_layers = options.recompute_prefix = true;
  ASSERT_TRUE(base::ResetPeakMemory());
  const int64_t before = base::ResidentMemory();
  const auto trainer = Trainer::Create(options, config, parameters);
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  const auto report = (*trainer)->TrainStep(batch);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->metrics.at("trainer/skipped"), 0);
  const double held = static_cast<double>(base::PeakMemory() - before);
  const double predicted = report->metrics.at("perf/memory_predicted_bytes");
  const double bound = report->metrics.at("perf/memory_bound_bytes");
  std::cout << "depth " << kDepth << ", " << report->metrics.at("tree/parts") << " parts: predicted "
            << predicted * 1e-6 << " MB, at most " << bound * 1e-6 << " MB, held " << held * 1e-6 << " MB, limit "
            << options.memory_limit_mb << " MiB, " << report->metrics.at("perf/train_seconds") << " s\n";
  EXPECT_LE(predicted, static_cast<double>(options.memory_limit_mb << 20));
  EXPECT_LE(held, static_cast<double>(options.memory_limit_mb << 20));
  // A first step with tensors narrower than 1 MB: it includes memory of libraries, the batch itself and holes of the
  // heap.
  EXPECT_NEAR(predicted / held, 1.0, 0.3);
  EXPECT_LE(held, bound);
}

}  // namespace
}  // namespace ingot::trainer
