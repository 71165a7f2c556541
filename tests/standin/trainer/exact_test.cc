// numerics exact on a device: the trainer's log-probs of merged trees are the bits that the engine recorded. Runs under
// standin.py; INGOT_CUDA_LIBRARY names libingot_cuda.so.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "kernels/cuda/decode_plan.h"
#include "kernels/torch/exact.h"
#include "standin/trainer/open_device.h"
#include "trainer/advantages/branching_calls.h"
#include "trainer/pass/forest_pass.h"
#include "tree/cut.h"
#include "tree/forest.h"

namespace ingot::trainer {
namespace {

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

// Forks of one prompt on both sides of a chunk of keys, each continued for a turn, and then rewritten from some place within
// its sampled ids.
void SampleForks(Brancher& b, int64_t most_new) {
  const auto spine = b.Tokens(kernels::cuda::kChunkKeys + 30);
  std::vector<std::vector<int32_t>> contexts;
  for (const int64_t fork : {3, 40, 64, 65, 130, 500, 511, 512, 513, 530, 542}) {
    contexts.push_back(Joined({spine.begin(), spine.begin() + fork}, b.Tokens(1 + b.Below(5))));
  }
  for (int round = 0; round < 2; ++round) {
    b.Round(contexts, most_new);
    std::vector<std::vector<int32_t>> next;
    for (size_t i = b.calls.size() - contexts.size(); i < b.calls.size(); ++i) {
      const tree::CallPath& call = b.calls[i];
      const std::vector<int32_t> tokens = call.Tokens();
      auto end = tokens.end();
      if (i % 2 == 1) end -= b.Below(static_cast<int64_t>(call.logprobs.size()));  // rewritten: a fork
      next.push_back(Joined({tokens.begin(), end}, b.Tokens(1 + b.Below(20))));
    }
    contexts = std::move(next);
  }
}

class DeviceExact : public ::testing::TestWithParam<at::ScalarType> {
 protected:
  void SetUp() override { kernels::SetDeviceNumerics(kernels::Numerics::kExact); }
  void TearDown() override { kernels::SetDeviceNumerics(kernels::Numerics::kFast); }
};

TEST_P(DeviceExact, LogprobsOfMergedTreesAreTheEnginesToTheBit) {
  ASSERT_TRUE(OpenDevice());
  const at::Device device(at::kCUDA, 0);
  model::ModelConfig config = BranchingConfig(GetParam());
  config.intermediate_size = 160;
  if (GetParam() == at::kFloat) config.num_hidden_layers = 1;  // plain kernels, which are slow here
  model::Parameters parameters = BranchingParameters(config, GetParam());
  rollout::EngineOptions options;
  options.kv_block_tokens = 16;
  options.max_batch_tokens = 300;  // prompts are cut
  options.max_running = 9;
  rollout::Engine::Parts parts;
  parts.runner = *rollout::NewTorchRunner(config, options, "cuda:0", nullptr);
  const auto engine = *rollout::Engine::Create(options, std::move(parts), SnapshotOf(parameters, 0));
  Brancher brancher(*engine, config.vocab_size, 3);
  SampleForks(brancher, 6);
  ASSERT_GT(brancher.sampled, 80);

  for (auto& [name, tensor] : parameters.tensors()) tensor = tensor.to(device);
  const auto model = *model::Transformer::Create(config, std::move(parameters));
  PassOptions pass;
  EXPECT_GT(Compare(model, brancher.calls, pass).unequal, 0) << "forks no longer change a bit: this test shows nothing";
  pass.numerics = kernels::Numerics::kExact;
  for (const int64_t part_tokens : {int64_t{1} << 20, int64_t{250}}) {
    pass.part_tokens = part_tokens;
    pass.logits_chunk_elements = part_tokens == 250 ? 211 * 17 : 1 << 24;
    const Gap exact = Compare(model, brancher.calls, pass);
    EXPECT_EQ(exact.tokens, brancher.sampled);
    EXPECT_EQ(exact.unequal, 0) << "of " << exact.tokens << ", at most by " << exact.max;
  }
}

INSTANTIATE_TEST_SUITE_P(Types, DeviceExact, ::testing::Values(at::kFloat, at::kBFloat16),
                         [](const auto& info) { return std::string(at::toString(info.param)); });

std::string ErrorOf(const std::function<void()>& f) {
  try {
    f();
  } catch (const c10::Error& error) {
    return error.what_without_backtrace();
  }
  return "";
}

::testing::AssertionResult Says(const std::string& error, const std::string& words) {
  if (error.find(words) != std::string::npos) return ::testing::AssertionSuccess();
  return ::testing::AssertionFailure() << "\"" << error << "\" does not say " << words;
}

TEST(DeviceExactErrors, NameTensorsThatDoNotMatch) {
  ASSERT_TRUE(OpenDevice());
  using kernels::ExactLinear;
  const auto on_device = at::dtype(at::kFloat).device(at::kCUDA);
  const at::Tensor x = at::zeros({3, 8}, on_device), weight = at::zeros({5, 8}, on_device);
  EXPECT_EQ(ExactLinear(x, weight, {}, false).sizes(), (std::vector<int64_t>{3, 5}));
  EXPECT_EQ(ExactLinear(x.narrow(0, 0, 0), weight, {}, true).sizes(), (std::vector<int64_t>{0, 5}));
  const auto error = [&](const at::Tensor& w, const at::Tensor& bias) {
    return ErrorOf([&] { ExactLinear(x, w, bias, false); });
  };
  EXPECT_TRUE(Says(error(at::zeros({5, 7}, on_device), {}), "[5, 7]"));
  EXPECT_TRUE(Says(error(weight.to(at::kBFloat16), {}), "does not match the weight"));
  EXPECT_TRUE(Says(error(weight.to(at::kCPU), {}), "does not match the weight"));
  EXPECT_TRUE(Says(error(weight, at::zeros({4}, on_device)), "the bias must be"));
  EXPECT_TRUE(Says(ErrorOf([&] { ExactLinear(x.to(at::kHalf), weight.to(at::kHalf), {}, false); }), "got Half"));
  EXPECT_TRUE(Says(ErrorOf([&] { ExactLinear(x.to(at::kCPU), weight.to(at::kCPU), {}, false); }),
                   "ingot::exact_linear"));  // has no kernel for the CPU
}

}  // namespace
}  // namespace ingot::trainer
