#include "trainer/update_variance.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>

#include "makers.h"
#include "model/parameters.h"
#include "tiny_model.h"
#include "trainer/trainer.h"

namespace ingot::trainer {
namespace {

TrainerOptions Options(int64_t every) {
  TrainerOptions options;
  options.loss_aggregation = "prompt";  // the batch's loss is the mean of its groups' losses
  options.optimizer.grad_clip_norm = 1e9;
  options.probe_tokens = 0;
  options.threads = 1;
  options.update_variance_every = every;
  return options;
}

struct Trained {
  std::unique_ptr<Trainer> trainer;
  StepMetrics metrics;
};

Trained TrainOn(const TrainBatch& batch, const TrainerOptions& options) {
  const model::ModelConfig config = TinyConfig(37);
  auto trainer = Trainer::Create(options, config, model::Parameters::Init(config, 1, at::kDouble));
  EXPECT_TRUE(trainer.ok()) << trainer.status();
  const auto report = (*trainer)->TrainStep(batch);
  EXPECT_TRUE(report.ok()) << report.status();
  return {*std::move(trainer), report.ok() ? report->metrics : StepMetrics{}};
}

// The gradient of the first step, from the first moments that it left.
std::map<std::string, at::Tensor> GradientOf(const Trained& trained, const TrainerOptions& options) {
  std::map<std::string, at::Tensor> gradients;
  for (const auto& [name, tensor] : trained.trainer->optimizer_state()) {
    if (name.starts_with("exp_avg.")) gradients[name] = tensor / (1 - options.optimizer.beta1);
  }
  return gradients;
}

// Each group as a batch of its own gives g_i, and the batch gives g.
TEST(UpdateVariance, IsTheSpreadOfTheGradientsOfBatchesOfOneGroup) {
  const TrainerOptions options = Options(1);
  const TrainBatch batch = RandomBatch(7, 37, 0);
  const Trained whole = TrainOn(batch, options);
  const auto g = GradientOf(whole, options);
  double apart = 0, length = 0;
  for (const auto& [name, tensor] : g) length += tensor.square().sum().item<double>();
  for (const v1::Group& group : batch.groups) {
    TrainBatch alone;
    alone.groups = {group};
    const Trained one = TrainOn(alone, options);
    EXPECT_FALSE(one.metrics.contains("trainer/update_variance")) << "one group has no spread";
    for (const auto& [name, tensor] : GradientOf(one, options)) {
      apart += (tensor - g.at(name)).square().sum().item<double>() / static_cast<double>(batch.groups.size());
    }
  }
  EXPECT_GT(apart / length, 0.01);
  EXPECT_NEAR(whole.metrics.at("trainer/update_variance"), apart / length, 1e-9 * apart / length);
}

TEST(UpdateVariance, ChangesNoBitOfTheStep) {
  for (const int64_t tokens : {100000, 24}) {  // whole, and cut into parts
    TrainerOptions with = Options(1), without = Options(0);
    with.micro_batch_tokens = without.micro_batch_tokens = tokens;
    const TrainBatch batch = RandomBatch(8, 37, 0);
    const Trained measured = TrainOn(batch, with), plain = TrainOn(batch, without);
    EXPECT_TRUE(measured.metrics.contains("trainer/update_variance"));
    EXPECT_FALSE(plain.metrics.contains("trainer/update_variance"));
    EXPECT_EQ(measured.metrics.at("actor/loss"), plain.metrics.at("actor/loss"));
    const auto& tensors = plain.trainer->parameters().tensors();
    for (const auto& [name, tensor] : measured.trainer->parameters().tensors()) {
      EXPECT_TRUE(at::equal(tensor, tensors.at(name))) << name;
    }
  }
}

TEST(UpdateVariance, ASampleOfALargeTensorTakesEveryColumn) {
  PreparedBatch batch;
  for (const int32_t group : {0, 1}) batch.calls.emplace_back().group = group;
  UpdateVariance variance(batch, 1, 0);
  ASSERT_EQ(variance.groups().size(), 2);
  // 256 columns; the groups' shares differ in one column alone, by 1 against a whole of 1 in each element.
  const at::Tensor whole = at::ones({1024, 256}, at::kDouble);
  for (const double sign : {1.0, -1.0}) {
    at::Tensor share = whole / 2;
    share.select(1, 5).add_(sign / 2);
    variance.AddGroup({{"weight", share}});
  }
  const UpdateSpread spread = variance.Compare({{"weight", whole}});
  EXPECT_NEAR(spread.apart / spread.length, 1.0 / 256, 0.1 / 256);
  EXPECT_NEAR(spread.length, 1024 * 256, 1e-6 * 1024 * 256);
}

}  // namespace
}  // namespace ingot::trainer
