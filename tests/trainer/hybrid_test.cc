// Recurrent layers on trees (qwen3_next): a forest is its rows, wherever it is cut, and the engine's bits do not depend
// on its blocks, its batches or its cache.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "advantages/branching_calls.h"
#include "forced_calls.h"
#include "makers.h"
#include "per_call_reference.h"
#include "tiny_model.h"
#include "trainer/pass/forest_pass.h"
#include "trainer/run_memory.h"
#include "trainer/trainer.h"
#include "tree/cut.h"

namespace ingot::trainer::hybrid_test {
namespace {

model::ModelConfig Hybrid(model::ModelConfig c) {
  c.model_type = "qwen3_next";
  c.tie_word_embeddings = false;
  c.attention_gate = c.centred_norms = true;
  c.rotary_dim = c.head_dim / 2;
  c.num_hidden_layers = 3;
  c.experts = {.count = 4, .per_token = 2, .width = 12, .shared_width = 20, .shared_gate = true, .normalize = true};
  c.recurrent = {
      .key_heads = 2, .value_heads = 4, .key_dim = 12, .value_dim = 10, .kernel = 4, .layers = {true, false, true}};
  return c;
}

// All tensors random, the products scaled up: a wrong state shows.
model::Parameters Weights(const model::ModelConfig& config, at::ScalarType dtype) {
  model::Parameters parameters = model::Parameters::Init(config, 5, at::kDouble);
  uint64_t n = 0;
  for (auto& [name, tensor] : parameters.tensors()) {
    if (tensor.dim() == 2) tensor.mul_(6);
    if (name.ends_with("A_log")) tensor.sub_(4);  // states last for long
    double* values = tensor.mutable_data_ptr<double>();
    for (int64_t i = 0; i < tensor.numel(); ++i) values[i] += 0.1 * (2 * base::UniformAt(11, n++) - 1);
    tensor = tensor.to(dtype);
  }
  return parameters;
}

// A trunk of 90 rows that forks at ten places, two of them next to each other and one at the root; forks on forks.
std::vector<tree::CallPath> ForkedCalls(int64_t vocab) {
  uint64_t n = 0;
  const auto draw = [&](int64_t count) {
    std::vector<int32_t> ids;
    for (int64_t i = 0; i < count; ++i) ids.push_back(static_cast<int32_t>(base::DeriveSeed(6, n++) % vocab));
    return ids;
  };
  const auto spine = draw(90);
  std::vector<tree::CallPath> calls;
  const auto add = [&](std::vector<int32_t> context, int64_t sampled) {
    tree::CallPath& call = calls.emplace_back();
    call.context = tree::TokenPath(std::move(context));
    call.sampled = draw(sampled);
    call.logprobs.assign(size_t(sampled), 0), call.versions.assign(size_t(sampled), 0),
        call.kv_mixed.assign(size_t(sampled), 0);
  };
  for (const int64_t fork : {1, 5, 12, 13, 14, 33, 34, 60, 89, 90})
    add({spine.begin(), spine.begin() + fork}, 7 + fork % 9);
  for (const size_t from : {2u, 5u}) {
    const std::vector<int32_t> tokens = calls[from].Tokens();
    for (const int64_t less : {0, 2, 3}) add({tokens.begin(), tokens.end() - less}, 6);
  }
  return calls;
}

class Mix final : public EntryLoss {
 public:
  static double Factor(int32_t call, int32_t offset) { return std::sin(1.0 + 3 * call + 7 * offset); }
  double Evaluate(std::span<const tree::LossEntry> entries, std::span<const double> logprobs, std::span<const double>,
                  std::span<double> by_logprob, std::span<double>) override {
    double loss = 0;
    for (size_t i = 0; i < entries.size(); ++i) {
      loss += (by_logprob[i] = Factor(entries[i].call, entries[i].offset)) * logprobs[i];
    }
    return loss;
  }
  bool uses_entropy() const override { return false; }
};

TEST(HybridForest, EqualsItsRowsInFp64) {
  const model::ModelConfig config = Hybrid(TinyConfig());
  ASSERT_TRUE(config.Validate().ok()) << config.Validate();
  const model::Transformer model = TrainableModel(config, Weights(config, at::kDouble));
  const std::vector<tree::CallPath> calls = ForkedCalls(config.vocab_size);
  std::vector<at::Tensor> rows;
  for (size_t c = 0; c < calls.size(); ++c) {
    rows.push_back(LabelLogprobs(SampledLogSoftmax(model, calls[c]), calls[c]));
    at::Tensor loss = at::zeros({}, at::kDouble);
    for (int64_t t = 0; t < rows[c].size(0); ++t) loss = loss + rows[c][t] * Mix::Factor(int32_t(c), int32_t(t));
    loss.backward();
  }
  const auto expected = TakeGradients(model);
  const auto forest = *tree::PackForest(calls, tree::OrderChainFirst(calls));
  double worst = 0, worst_gradient = 0;
  for (const int64_t part_tokens : {int64_t{1} << 20, int64_t{40}, int64_t{16}, int64_t{3}}) {
    for (const int mode : {0, 1, 2}) {
      PassOptions pass;
      pass.part_tokens = part_tokens;
      pass.checkpoint_layers = mode > 0;
      pass.recompute_prefix = mode > 1;
      Mix mix;
      const PassResult result = AccumulateGradients(model, forest, calls, mix, pass);
      for (size_t i = 0; i < forest.entries.size(); ++i) {
        const tree::LossEntry& e = forest.entries[i];
        worst = std::max(worst, std::abs(result.logprobs[i] - rows[size_t(e.call)][e.offset].item<double>()));
      }
      for (const auto& [name, gradient] : TakeGradients(model)) {
        const double norm = expected.at(name).norm().item<double>();
        ASSERT_GT(norm, 0) << name;
        worst_gradient = std::max(worst_gradient, (gradient - expected.at(name)).norm().item<double>() / norm);
      }
    }
  }
  std::cout << forest.size() << " rows of " << forest.unmerged_tokens << ": log-probs differ by " << worst
            << ", gradients by " << worst_gradient << "\n";
  EXPECT_LT(worst, 1e-12);
  EXPECT_LT(worst_gradient, 1e-12);
}

TEST(HybridEngine, BlocksBatchesAndTheCacheChangeNoBit) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    const model::ModelConfig config = Hybrid(BranchingConfig(at::kFloat));
    const model::Parameters parameters = Weights(config, dtype);
    const std::vector<tree::CallPath> calls = ForkedCalls(config.vocab_size);
    rollout::EngineOptions whole;  // each prompt in one go, one request after the other, nothing shared
    whole.kv_block_tokens = 512;
    whole.kv_cache_tokens = 2048;
    whole.max_batch_tokens = 512;
    whole.max_running = 1;
    whole.prefix_cache = false;
    const auto expected = ForcedLogprobs(config, parameters, calls, whole, 1);
    for (const int32_t block : {1, 4, 16}) {
      for (const int32_t batch : {3, 20}) {
        rollout::EngineOptions options;
        options.kv_block_tokens = block;
        options.kv_cache_tokens = 4096;
        options.max_batch_tokens = batch;
        options.max_running = 3;
        EXPECT_EQ(ForcedLogprobs(config, parameters, calls, options, 2), expected)
            << block << " " << batch << " " << dtype;
      }
    }
    // So few blocks that requests are preempted, and cached ones evicted.
    rollout::EngineOptions narrow;
    narrow.kv_block_tokens = 8;
    narrow.kv_cache_tokens = 160;
    narrow.max_batch_tokens = 40;
    narrow.max_running = 8;
    EXPECT_EQ(ForcedLogprobs(config, parameters, calls, narrow, 2), expected) << dtype;
    // And the trainer's.
    PassOptions pass;
    pass.numerics = kernels::Numerics::kExact;
    pass.part_tokens = 50;
    const auto forest = *tree::PackForest(calls, tree::OrderChainFirst(calls));
    const PassResult result = ScoreForest(*model::Transformer::Create(config, parameters), forest, calls, pass);
    int64_t unequal = 0;
    for (size_t i = 0; i < forest.entries.size(); ++i) {
      const tree::LossEntry& e = forest.entries[i];
      unequal += static_cast<float>(result.logprobs[i]) != expected[size_t(e.call)][size_t(e.offset)];
    }
    EXPECT_EQ(unequal, 0) << dtype << ", of " << forest.entries.size();
  }
}

TEST(HybridEngine, CountsItsStatesInTheCache) {
  model::ModelConfig config = Hybrid(TinyConfig());
  rollout::EngineOptions options;
  options.kv_block_tokens = 16;
  options.kv_cache_tokens = 1600;
  // Two layers of 4 states of 12 x 10 numbers and 3 inputs of 2 * 24 + 40 channels; one layer of keys and values.
  const int64_t state = 2 * (4 * 12 * 10 + 3 * 88) * 4, keys = 2 * 2 * config.head_dim * 4;
  EXPECT_EQ(rollout::CacheBytes(config, options), 100 * state + 1600 * keys);
  options.kv_cache_tokens = int64_t{1} << 34;
  const auto runner = rollout::NewTorchRunner(config, options, "cpu");
  EXPECT_EQ(runner.status().code(), absl::StatusCode::kResourceExhausted);
  EXPECT_THAT(std::string(runner.status().message()),
              testing::HasSubstr("each block of rollout.kv_block_tokens=16 tokens holds"));
}

TEST(HybridTrainer, AStepMovesTheTensorsOfEveryKindOfLayer) {
  const model::ModelConfig config = Hybrid(TinyConfig());
  const model::Parameters before = Weights(config, at::kFloat);
  TrainerOptions options;
  options.optimizer.learning_rate = 0.01;
  options.micro_batch_tokens = 24;
  auto trainer = *Trainer::Create(options, config, before);
  const auto report = trainer->TrainStep(RandomBatch(4, config.vocab_size, 0));
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_TRUE(std::isfinite(report->metrics.at("actor/grad_norm")));
  for (const auto& [name, tensor] : trainer->parameters().tensors()) {
    if (name.find(".experts.") != std::string::npos) continue;  // a small batch may leave one out
    EXPECT_FALSE(at::equal(tensor, before.at(name))) << name;
  }
}

TEST(Hybrid, IsRejectedOnADeviceWithoutKernels) {
  const model::ModelConfig config = Hybrid(TinyConfig());
  const auto runner = rollout::NewTorchRunner(config, rollout::EngineOptions(), "cuda:0");
  EXPECT_EQ(runner.status().code(), absl::StatusCode::kUnimplemented);
  const absl::Status trainer = CheckFits(TrainerOptions(), config, at::Device("cuda:0"), nullptr);
  EXPECT_EQ(trainer.code(), absl::StatusCode::kUnimplemented);
  for (const absl::Status& status : {runner.status(), trainer}) {
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr("the recurrent layers of qwen3_next"));
    EXPECT_THAT(std::string(status.message()), testing::HasSubstr("set device: cpu"));
  }
}

}  // namespace
}  // namespace ingot::trainer::hybrid_test
