// Law 2: training on merged trees is training on each call by itself.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <ostream>

#include "makers.h"
#include "per_call_reference.h"
#include "tiny_model.h"
#include "trainer/forest_pass.h"
#include "trainer/trainer.h"
#include "tree/forest.h"

namespace ingot::trainer {
namespace {

constexpr int64_t kVersion = 2;

struct Case {
  std::string name;
  std::string loss_aggregation;
  at::ScalarType dtype;
  uint64_t seed;
  int64_t micro_batch_tokens = 100000;
  int64_t logits_chunk_elements = 1 << 24;
  double eps_clip_low = 0.5;
  double kl_coefficient = 0;
  double entropy_coefficient = 0;
};

void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }

TrainerOptions OptionsOf(const Case& c) {
  TrainerOptions options;
  options.loss_aggregation = c.loss_aggregation;
  options.micro_batch_tokens = c.micro_batch_tokens;
  options.logits_chunk_elements = c.logits_chunk_elements;
  options.eps_clip_low = c.eps_clip_low;
  options.kl_coefficient = c.kl_coefficient;
  options.entropy_coefficient = c.entropy_coefficient;
  options.probe_tokens = 1;
  options.threads = 1;
  return options;
}

class TreeTraining : public ::testing::TestWithParam<Case> {
 protected:
  double tolerance() const { return GetParam().dtype == at::kDouble ? 1e-10 : 1e-5; }

  // Every metric of the step against the reference's, through TrainStep itself.
  void ExpectTrainerReports(const ReferenceResult& reference, const model::ModelConfig& config,
                            const model::Parameters& parameters, const TrainBatch& batch, double grad_norm) {
    TrainerOptions options = OptionsOf(GetParam());
    options.optimizer.learning_rate = 1e-300;  // steps that bring the version forward and leave the weights alone
    auto trainer = Trainer::Create(options, config, parameters);
    ASSERT_TRUE(trainer.ok()) << trainer.status();
    for (int64_t version = 0; version < kVersion; ++version) {
      const auto step = (*trainer)->TrainStep(RandomBatch(1, config.vocab_size, version));
      ASSERT_TRUE(step.ok()) << step.status();
    }
    const auto report = (*trainer)->TrainStep(batch);
    ASSERT_TRUE(report.ok()) << report.status();
    for (const auto& [name, expected] : reference.metrics) {
      ASSERT_TRUE(report->metrics.contains(name)) << name;
      const double scale = name == "actor/loss" ? reference.loss_abs_terms : std::max(1.0, std::abs(expected));
      EXPECT_LE(std::abs(report->metrics.at(name) - expected), tolerance() * scale) << name;
    }
    EXPECT_NEAR(report->metrics.at("actor/grad_norm"), grad_norm, tolerance() * grad_norm);
    EXPECT_GT(reference.metrics.at("mismatch/probe_tokens"), 0);
    EXPECT_GT(reference.metrics.at("actor/clipfrac_high"), 0) << "the forest does not reach the clip";
    EXPECT_GT(report->metrics.at("tree/token_ratio"), 1.0) << "the forest shares nothing";
  }
};

// Loss and gradients of the merged batch, added up over its micro-batches.
double TreeGradients(const model::Transformer& model, const PreparedBatch& batch, const TrainerOptions& options) {
  const auto objective = *MakeObjective(options);
  const PassOptions pass{options.logits_chunk_elements, options.kl_coefficient, options.entropy_coefficient};
  double loss = 0;
  for (const auto& indices : tree::PlanMicroBatches(batch.calls, options.micro_batch_tokens)) {
    const auto forest = tree::PackForest(batch.calls, indices);
    EXPECT_TRUE(forest.ok()) << forest.status();
    loss += AccumulateGradients(model, *forest, batch.calls, batch.advantages, batch.weights, *objective, pass).loss;
  }
  return loss;
}

TEST_P(TreeTraining, EqualsTrainingEachCallAlone) {
  const TrainerOptions options = OptionsOf(GetParam());
  const model::ModelConfig config = TinyConfig();
  const model::Parameters parameters = TinyParameters(config, 3, GetParam().dtype);
  const TrainBatch batch = RandomBatch(GetParam().seed, config.vocab_size, kVersion);
  const auto prepared = PrepareBatch(batch, options, config.vocab_size, kVersion);
  ASSERT_TRUE(prepared.ok()) << prepared.status();

  const model::Transformer model = TrainableModel(config, parameters);
  const ReferenceResult reference = PerCallReference(model, prepared->calls, prepared->advantages, options, kVersion);
  const auto expected = TakeGradients(model);
  const double loss = TreeGradients(model, *prepared, options);
  const auto actual = TakeGradients(model);

  EXPECT_LE(std::abs(loss - reference.loss), tolerance() * reference.loss_abs_terms);
  double squares = 0;
  for (const auto& [name, gradient] : expected) {
    const double norm = gradient.norm().item<double>();
    ASSERT_GT(norm, 0) << name;
    EXPECT_LE((actual.at(name) - gradient).norm().item<double>(), tolerance() * norm) << name;
    squares += norm * norm;
  }

  ExpectTrainerReports(reference, config, parameters, batch, std::sqrt(squares));
}

// Off: the loss must be the plain one to the bit, whatever code stands beside it.
TEST(TreePass, CoefficientsAtZeroChangeNothing) {
  const model::ModelConfig config = TinyConfig();
  const model::Transformer model = TrainableModel(config, TinyParameters(config, 3, at::kFloat));
  const auto prepared = PrepareBatch(RandomBatch(5, config.vocab_size, 0), {}, config.vocab_size, 0);
  ASSERT_TRUE(prepared.ok());
  TrainerOptions options;
  const double plain = TreeGradients(model, *prepared, options);
  const auto gradients = TakeGradients(model);
  options.kl_coefficient = 0.1;
  options.entropy_coefficient = 0.1;
  EXPECT_NE(TreeGradients(model, *prepared, options), plain);
  TakeGradients(model);
  options.kl_coefficient = 0;
  options.entropy_coefficient = 0;
  EXPECT_EQ(TreeGradients(model, *prepared, options), plain);
  for (const auto& [name, gradient] : TakeGradients(model)) EXPECT_TRUE(at::equal(gradient, gradients.at(name)));
}

// The loss's own derivative, without autograd: with the clipped ratios held where they are, the loss is linear in the
// log-probs, which ScoreForest gives.
TEST(TreePass, GradientsAreTheFiniteDifferences) {
  const model::ModelConfig config = TinyConfig();
  const model::Transformer model = TrainableModel(config, TinyParameters(config, 9, at::kDouble));
  TrainerOptions options;
  options.eps_clip_high = 1.5;
  const auto prepared = PrepareBatch(RandomBatch(21, config.vocab_size, 0, 2, 3), options, config.vocab_size, 0);
  ASSERT_TRUE(prepared.ok());
  const auto plan = tree::PlanMicroBatches(prepared->calls, 1 << 20);
  ASSERT_EQ(plan.size(), 1u);
  const auto forest = *tree::PackForest(prepared->calls, plan[0]);

  std::vector<double> coefficients;
  const auto base = ScoreForest(model, forest, prepared->calls, {});
  for (size_t i = 0; i < forest.entries.size(); ++i) {
    const auto& entry = forest.entries[i];
    const size_t call = static_cast<size_t>(entry.call);
    const double ratio = std::exp(base.logprobs[i] - prepared->calls[call].logprobs[static_cast<size_t>(entry.offset)]);
    coefficients.push_back(-std::clamp(ratio, 0.0, 2.5) * prepared->advantages[call] * prepared->weights[call]);
  }
  const auto held = [&] {
    const auto scored = ScoreForest(model, forest, prepared->calls, {});
    double loss = 0;
    for (size_t i = 0; i < coefficients.size(); ++i) loss += coefficients[i] * scored.logprobs[i];
    return loss;
  };
  TreeGradients(model, *prepared, options);
  const auto gradients = TakeGradients(model);
  const at::NoGradGuard no_history;
  constexpr double kStep = 1e-5;
  Draws draws(4);
  for (const auto& [name, gradient] : gradients) {
    at::Tensor flat = model.parameters().at(name).detach().view(-1);
    for (int sample = 0; sample < 4; ++sample) {
      const int64_t at = draws.Below(flat.numel());
      const double value = flat[at].item<double>();
      flat[at].fill_(value + kStep);
      const double above = held();
      flat[at].fill_(value - kStep);
      const double below = held();
      flat[at].fill_(value);
      const double difference = (above - below) / (2 * kStep);
      EXPECT_NEAR(gradient.view(-1)[at].item<double>(), difference, 1e-7 + 1e-6 * std::abs(difference))
          << name << "[" << at << "]";
    }
  }
}

std::vector<Case> Cases() {
  std::vector<Case> cases;
  for (const at::ScalarType dtype : {at::kDouble, at::kFloat}) {
    const std::string type = dtype == at::kDouble ? "fp64" : "fp32";
    for (const char* aggregation : {"token", "sequence", "prompt"}) {
      for (uint64_t seed = 1; seed <= 4; ++seed) {
        cases.push_back({absl::StrCat(type, "_", aggregation, "_", seed), aggregation, dtype, seed * 101});
      }
      Case cut{absl::StrCat(type, "_", aggregation, "_cut"), aggregation, dtype, 77};
      cut.micro_batch_tokens = 24;
      cut.logits_chunk_elements = 37 * 5;
      cases.push_back(cut);
    }
    Case penalties{type + "_penalties", "token", dtype, 55};
    penalties.kl_coefficient = 0.3;
    penalties.entropy_coefficient = 0.2;
    cases.push_back(penalties);
    Case unclipped{type + "_defaults", "prompt", dtype, 56};
    unclipped.eps_clip_low = 1.0;
    cases.push_back(unclipped);
  }
  return cases;
}

INSTANTIATE_TEST_SUITE_P(RandomForests, TreeTraining, ::testing::ValuesIn(Cases()),
                         [](const auto& info) { return info.param.name; });

}  // namespace
}  // namespace ingot::trainer
