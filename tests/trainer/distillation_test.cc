// On-policy distillation: the gradient of token advantages against autograd over each call alone, and the divergence from
// the teacher over some steps.
#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include <cmath>

#include "makers.h"
#include "per_call_reference.h"
#include "tiny_model.h"
#include "trainer/pass/forest_pass.h"
#include "trainer/trainer.h"
#include "tree/forest.h"

namespace ingot::trainer {
namespace {

// log_softmax(raw / T) of what the call sampled, [sampled].
at::Tensor LogprobsOf(const model::Transformer& model, const tree::CallPath& call) {
  return LabelLogprobs(SampledLogSoftmax(model, call), call);
}

// Grades the batch as the term `teacher` does: log p_teacher - log p_rollout of each token. `outcomes`: beside them.
void Distil(TrainBatch& batch, const model::Transformer& teacher, double weight, bool outcomes) {
  const at::NoGradGuard no_history;
  for (v1::Group& group : batch.groups) {
    for (v1::EpisodeTree& tree : *group.mutable_episodes()) {
      v1::Grade& grade = *tree.mutable_episode()->mutable_grade();
      grade.set_reward(outcomes ? tree.episode().reward() : 0.0);
      v1::TermValue& term = *grade.add_terms();
      term.set_term("teacher");
      term.set_weight(weight);
      const std::vector<tree::CallPath> calls = *tree::CallPathsOf(tree, 0, 0);
      for (const tree::CallPath& call : calls) {
        const at::Tensor scored = LogprobsOf(teacher, call);
        auto& values = *(*term.mutable_tokens())[call.call_id].mutable_values();
        for (size_t t = 0; t < call.sampled.size(); ++t) {
          values.Add(static_cast<float>(scored[static_cast<int64_t>(t)].item<double>() - call.logprobs[t]));
        }
      }
    }
  }
}

// The loss from its definition: -sum_t w [clip(r_t)] (A + weight * (log p_teacher - log p_rollout)) log p_t, w = 1 / tokens.
double ReferenceLoss(const model::Transformer& model, const model::Transformer& teacher, const PreparedBatch& batch,
                     double weight, const TrainerOptions& options) {
  at::Tensor loss = at::zeros({}, at::kDouble);
  for (size_t c = 0; c < batch.calls.size(); ++c) {
    const tree::CallPath& call = batch.calls[c];
    const at::Tensor lp = LogprobsOf(model, call);
    const std::vector<double> recorded(call.logprobs.begin(), call.logprobs.end());
    const at::Tensor rollout = at::tensor(recorded, at::kDouble);
    const at::Tensor of_teacher = LogprobsOf(teacher, call).detach();
    const at::Tensor advantage = batch.advantages[c] + weight * (of_teacher - rollout);
    const at::Tensor ratio = (lp.detach() - rollout).exp().clamp(1 - options.eps_clip_low, 1 + options.eps_clip_high);
    loss = loss - (ratio * advantage * lp).sum() / static_cast<double>(batch.loss_tokens);
  }
  loss.backward();
  return loss.item<double>();
}

void ExpectReferenceGradient(bool outcomes) {
  const model::ModelConfig config = TinyConfig();
  const model::Transformer model = TrainableModel(config, TinyParameters(config, 3, at::kDouble));
  const model::Transformer teacher = *model::Transformer::Create(config, TinyParameters(config, 8, at::kDouble));
  TrainerOptions options;
  options.filter_zero_variance = true;  // without outcomes all returns are equal, and no group may be filtered
  TrainBatch batch = RandomBatch(17, config.vocab_size, 0);
  Distil(batch, teacher, 0.7, outcomes);
  const auto prepared = PrepareBatch(batch, options, config.vocab_size, 0);
  ASSERT_TRUE(prepared.ok()) << prepared.status();
  ASSERT_GT(prepared->loss_tokens, 0) << prepared->empty_reason;

  const double expected_loss = ReferenceLoss(model, teacher, *prepared, 0.7, options);
  const auto expected = TakeGradients(model);
  const auto objective = *MakeObjective(options);
  StepLoss step(*objective, {0, 0, 0}, *prepared);
  const auto forest = *PackBatch(*prepared);
  const double loss = AccumulateGradients(model, forest, prepared->calls, step, PassOptionsOf(options)).loss;
  const auto actual = TakeGradients(model);
  // The grade holds floats: 24 bits of each value.
  EXPECT_NEAR(loss, expected_loss, 1e-6 * std::abs(expected_loss));
  for (const auto& [name, gradient] : expected) {
    const double norm = gradient.norm().item<double>();
    ASSERT_GT(norm, 0) << name;
    EXPECT_LE((actual.at(name) - gradient).norm().item<double>(), 1e-6 * norm) << name;
  }
}

TEST(DistillationTest, TheGradientIsThatOfTheDefinition) { ExpectReferenceGradient(/*outcomes=*/false); }

TEST(DistillationTest, BesideRewardsTheTwoAdvantagesAdd) { ExpectReferenceGradient(/*outcomes=*/true); }

TEST(DistillationTest, ATermWithTooFewValuesIsRejected) {
  const model::ModelConfig config = TinyConfig();
  const model::Transformer teacher = *model::Transformer::Create(config, TinyParameters(config, 8, at::kDouble));
  TrainBatch batch = RandomBatch(17, config.vocab_size, 0);
  Distil(batch, teacher, 1, true);
  auto& tokens =
      *batch.groups[0].mutable_episodes(0)->mutable_episode()->mutable_grade()->mutable_terms(0)->mutable_tokens();
  tokens.begin()->second.mutable_values()->RemoveLast();
  EXPECT_EQ(PrepareBatch(batch, {}, config.vocab_size, 0).status().code(), absl::StatusCode::kDataLoss);
}

TEST(DistillationTest, EncodedCallsAreNotTrained) {
  const model::ModelConfig config = TinyConfig();
  TrainBatch batch = RandomBatch(17, config.vocab_size, 0);
  for (v1::Group& group : batch.groups) {
    for (v1::EpisodeTree& tree : *group.mutable_episodes()) {
      for (v1::Call& call : *tree.mutable_calls()) call.set_encoded(true);
    }
  }
  const auto prepared = PrepareBatch(batch, {}, config.vocab_size, 0);
  ASSERT_TRUE(prepared.ok()) << prepared.status();
  EXPECT_EQ(prepared->loss_tokens, 0);
}

}  // namespace
}  // namespace ingot::trainer
