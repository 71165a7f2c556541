// Training a forest part by part equals training it whole (law 2), and running layers again changes no bit.
#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "base/work.h"
#include "makers.h"
#include "tiny_model.h"
#include "trainer/pass/forest_pass.h"
#include "trainer/pass/part_run.h"
#include "trainer/trainer.h"
#include "tree/cut.h"
#include "tree/documents.h"

namespace ingot::trainer {
namespace {

struct Trained {
  double loss = 0;
  double loss_abs_terms = 0;
  PassResult result;
  std::map<std::string, at::Tensor> gradients;
};

TrainerOptions Options() {
  TrainerOptions options;
  options.eps_clip_low = 0.5;
  options.entropy_coefficient = 0.1;
  return options;
}

// A batch with paths so long that one crosses several parts.
PreparedBatch Prepared(uint64_t seed, int64_t vocab) {
  TrainBatch batch = RandomBatch(seed, vocab, 2, 3, 4);
  Draws draws(seed + 77);
  std::vector<v1::EpisodeTree> deep;
  for (int s = 0; s < 2; ++s) {
    std::vector<int32_t> history = draws.Tokens(6, vocab);
    std::vector<CallSpec> calls;
    for (int turn = 0; turn < 6; ++turn) {
      CallSpec call;
      call.context = history;
      call.sampled = draws.Tokens(1 + draws.Below(5), vocab);
      Annotate(call, draws, 2);
      calls.push_back(call);
      // Half of the turns drop the beginning of the sampled ids from the context, which makes them a leaf.
      const size_t from = draws.Below(2) == 0 ? 0 : call.sampled.size() / 2;
      history = Join(history, {call.sampled.begin() + static_cast<std::ptrdiff_t>(from), call.sampled.end()});
      history = Join(history, draws.Tokens(draws.Below(4), vocab));
    }
    deep.push_back(MakeEpisode("deep" + std::to_string(s), s, calls));
  }
  batch.groups.push_back(MakeGroup(99, std::move(deep)));
  auto prepared = PrepareBatch(batch, Options(), vocab, 2);
  EXPECT_TRUE(prepared.ok()) << prepared.status();
  return *std::move(prepared);
}

Trained Train(const model::Transformer& model, const PreparedBatch& batch, const tree::PackedForest& forest,
              const PassOptions& pass) {
  at::set_num_threads(1);  // nothing here is large enough to divide
  const TrainerOptions options = Options();
  const auto objective = *MakeObjective(options);
  StepLoss loss(*objective, {0.1, 0, options.entropy_coefficient}, batch);
  Trained trained;
  trained.result = AccumulateGradients(model, forest, batch.calls, loss, pass);
  trained.loss = trained.result.loss;
  trained.gradients = TakeGradients(model);
  for (size_t i = 0; i < trained.result.logprobs.size(); ++i) {
    const auto call = static_cast<size_t>(forest.entries[i].call);
    trained.loss_abs_terms += std::abs(batch.advantages[call] * batch.weights[call] * trained.result.logprobs[i]);
  }
  return trained;
}

void ExpectEqual(const Trained& actual, const Trained& expected, double tolerance, const std::string& what) {
  EXPECT_LE(std::abs(actual.loss - expected.loss), tolerance * expected.loss_abs_terms) << what;
  ASSERT_EQ(actual.result.logprobs.size(), expected.result.logprobs.size());
  for (size_t i = 0; i < expected.result.logprobs.size(); ++i) {
    EXPECT_NEAR(actual.result.logprobs[i], expected.result.logprobs[i], 20 * tolerance) << what;
  }
  for (const auto& [name, gradient] : expected.gradients) {
    const double norm = gradient.norm().item<double>();
    ASSERT_GT(norm, 0) << name;
    EXPECT_LE((actual.gradients.at(name) - gradient).norm().item<double>(), tolerance * norm) << what << ", " << name;
  }
}

class CutTraining : public ::testing::TestWithParam<at::ScalarType> {
 protected:
  const model::ModelConfig config_ = TinyConfig();
  const model::Transformer model_ = TrainableModel(config_, TinyParameters(config_, 3, GetParam()));
  const double tolerance_ = GetParam() == at::kDouble ? 1e-10 : 1e-5;
};

TEST_P(CutTraining, EqualsTrainingTheForestWhole) {
  Draws draws(5);
  int cut = 0, deepest = 0;
  for (uint64_t seed = 1; seed <= 6; ++seed) {
    const PreparedBatch batch = Prepared(seed, config_.vocab_size);
    const tree::PackedForest forest = *PackBatch(batch);
    const Trained whole = Train(model_, batch, forest, {});
    EXPECT_EQ(whole.result.parts, 1);
    for (int variant = 0; variant < 4; ++variant) {
      PassOptions pass;
      pass.part_tokens = variant == 0 && seed == 1 ? 1 : 1 + draws.Below(40);
      pass.logits_chunk_elements = config_.vocab_size * (1 + draws.Below(9));
      pass.checkpoint_layers = variant % 2 == 1;
      pass.recompute_prefix = variant >= 2;
      const Trained parts = Train(model_, batch, forest, pass);
      ExpectEqual(parts, whole, tolerance_,
                  absl::StrCat("seed ", seed, ", parts of ", pass.part_tokens, ", variant ", variant));
      cut += parts.result.parts > 1;
      for (const auto& part : tree::CutForest(forest, pass.part_tokens)) {
        deepest = std::max(deepest, static_cast<int>(part.prefix.size()));
      }
      if (!pass.recompute_prefix) {
        EXPECT_EQ(parts.result.repeated_rows, 0);
      }
      const PassResult scored = ScoreForest(model_, forest, batch.calls, pass);
      for (size_t i = 0; i < scored.logprobs.size(); ++i) {
        EXPECT_NEAR(scored.logprobs[i], whole.result.logprobs[i], 20 * tolerance_);
      }
    }
  }
  EXPECT_GE(cut, 20);
  EXPECT_GE(deepest, 4) << "no part sees many others";
}

TEST_P(CutTraining, WithoutATreeIsTheSameLoss) {
  const PreparedBatch batch = Prepared(21, config_.vocab_size);
  const Trained whole = Train(model_, batch, *PackBatch(batch), {});
  PassOptions pass;
  pass.part_tokens = 16;
  for (const auto& documents : {tree::SeparateCalls(batch.calls), tree::ChainedCalls(batch.calls)}) {
    auto forest = *tree::PackDocuments(batch.calls, documents);
    std::erase_if(forest.entries, [&](const auto& entry) { return !StepLoss::Bears(batch, entry); });
    ExpectEqual(Train(model_, batch, forest, pass), whole, tolerance_, "documents");
  }
}

// The same numbers go through the same kernels in the same order.
TEST_P(CutTraining, RunningLayersAndPartsAgainChangesNoBit) {
  for (uint64_t seed = 31; seed < 34; ++seed) {
    const PreparedBatch batch = Prepared(seed, config_.vocab_size);
    const tree::PackedForest forest = *PackBatch(batch);
    for (const int64_t part_tokens : {1000, 19}) {
      PassOptions pass;
      pass.part_tokens = part_tokens;
      const Trained kept = Train(model_, batch, forest, pass);
      pass.checkpoint_layers = true;
      const Trained layers = Train(model_, batch, forest, pass);
      EXPECT_EQ(layers.loss, kept.loss);
      for (const auto& [name, gradient] : kept.gradients) {
        EXPECT_TRUE(at::equal(layers.gradients.at(name), gradient)) << name;
      }
      EXPECT_EQ(layers.result.logprobs, kept.result.logprobs);
      pass.recompute_prefix = true;
      const Trained again = Train(model_, batch, forest, pass);
      EXPECT_EQ(again.result.logprobs, kept.result.logprobs);
      for (const auto& [name, gradient] : kept.gradients) {
        // The parts' heads run in another order, so their gradients are added up in another order.
        if (name == "model.embed_tokens.weight" || name == "model.norm.weight") continue;
        EXPECT_TRUE(at::equal(again.gradients.at(name), gradient)) << name;
      }
      EXPECT_EQ(again.result.repeated_rows > 0, part_tokens == 19);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Types, CutTraining, ::testing::Values(at::kDouble, at::kFloat),
                         [](const auto& info) { return info.param == at::kDouble ? "fp64" : "fp32"; });

// The progress shown at the end of each part: the direction, the part, and the rows of the whole pass.
TEST(CutTraining, SaysWhichPartRunsAndHowManyRowsAreDone) {
  const model::ModelConfig config = TinyConfig();
  const model::Transformer model = TrainableModel(config, TinyParameters(config, 1, at::kFloat));
  const PreparedBatch batch = Prepared(5, config.vocab_size);
  const tree::PackedForest forest = *PackBatch(batch);
  for (const bool recompute : {false, true}) {
    PassOptions pass;
    pass.part_tokens = 16;
    pass.recompute_prefix = recompute;
    const auto parts = static_cast<int64_t>(tree::CutForest(forest, pass.part_tokens).size());
    std::vector<std::string> seen;
    base::WorkPart step("step 4");
    pass.read_policy = [&](const auto&...) { seen.push_back(base::Work::OfProcess().Describe()); };
    pass.part_done = [&] { seen.push_back(base::Work::OfProcess().Describe()); };
    const Trained trained = Train(model, batch, forest, pass);
    ASSERT_GT(parts, 3);
    EXPECT_TRUE(seen.front().starts_with("step 4 for 0 s: logits of part ")) << seen.front();
    EXPECT_NE(seen.front().find(absl::StrCat(" of ", parts, ", 0 of ", trained.result.head_rows, " rows")),
              std::string::npos)
        << seen.front();
    EXPECT_EQ(seen.back(), "step 4 for 0 s") << "no part is open between two of them";
  }
}

// The rows of the last part add up to the rows of the pass, regardless of rounding by layer.
TEST(CutTraining, CountsEveryRowOnceInEachDirection) {
  const model::ModelConfig config = TinyConfig();
  const model::Transformer model = TrainableModel(config, TinyParameters(config, 1, at::kFloat));
  const PreparedBatch batch = Prepared(5, config.vocab_size);
  const tree::PackedForest forest = *PackBatch(batch);
  const std::vector<tree::ForestPart> parts = tree::CutForest(forest, int64_t{1} << 30);
  ASSERT_EQ(parts.size(), 1u);
  std::vector<PathRows> path(1);
  PartRun run(model, forest, parts, 0, path);
  base::WorkPart forward("forward"), backward("backward");
  const at::Tensor x = run.Forward(PartRun::History::kAll, &forward);
  EXPECT_EQ(forward.done(), static_cast<int64_t>(forest.size()));
  run.Backward(at::zeros_like(x), &backward);
  EXPECT_EQ(backward.done(), static_cast<int64_t>(forest.size()));
}

// Runs one step through the trainer itself. The weights after it agree, regardless of the cut and the memory options.
TEST(CutTrainStep, MovesTheWeightsAlike) {
  const model::ModelConfig config = TinyConfig();
  const model::Parameters parameters = TinyParameters(config, 3, at::kDouble);
  const auto step = [&](int64_t micro_batch_tokens, bool again) {
    TrainerOptions options;
    options.micro_batch_tokens = micro_batch_tokens;
    options.checkpoint_layers = options.recompute_prefix = again;
    options.threads = 1;
    options.optimizer.eps = 1e-3;  // the first step then depends on the gradient's size, not its sign alone
    auto trainer = *Trainer::Create(options, config, parameters);
    const auto report = trainer->TrainStep(RandomBatch(8, config.vocab_size, 0));
    EXPECT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(report->metrics.at("tree/parts") > 1, micro_batch_tokens < 100);
    std::map<std::string, at::Tensor> weights;
    for (const auto& [name, tensor] : trainer->parameters().tensors()) weights[name] = tensor.detach().clone();
    return weights;
  };
  const auto whole = step(100000, false), cut = step(16, false), again = step(16, true);
  for (const auto& [name, weight] : whole) {
    const double moved = (weight - parameters.at(name)).norm().item<double>();
    ASSERT_GT(moved, 0) << name;
    EXPECT_LE((cut.at(name) - weight).norm().item<double>(), 1e-9 * moved) << name;
    EXPECT_LE((again.at(name) - weight).norm().item<double>(), 1e-9 * moved) << name;
  }
}

// bf16 weights: gradients of many parts are added up in fp32, so that more parts cost no accuracy.
TEST(CutTrainStep, BfloatGradientsDoNotSufferFromManyParts) {
  const model::ModelConfig config = TinyConfig();
  const model::Parameters parameters = TinyParameters(config, 3, at::kFloat);
  const PreparedBatch batch = Prepared(41, config.vocab_size);
  const auto gradients = [&](const char* dtype, int64_t part_tokens) {
    model::Parameters typed = parameters;
    for (auto& [name, tensor] : typed.tensors()) {
      tensor = tensor.to(at::kBFloat16).to(std::string(dtype) == "bf16" ? at::kBFloat16 : at::kFloat);
    }
    const model::Transformer model = TrainableModel(config, typed);
    AdamW optimizer({}, model.parameters().tensors());
    PassOptions pass;
    pass.part_tokens = part_tokens;
    pass.part_done = [&] { optimizer.CollectGradients(); };
    const TrainerOptions options = Options();
    const auto objective = *MakeObjective(options);
    StepLoss loss(*objective, {}, batch);
    AccumulateGradients(model, *PackBatch(batch), batch.calls, loss, pass);
    return optimizer.Gradients();
  };
  const auto exact = gradients("fp32", 100000);
  double error[2] = {}, norm = 0;
  for (int cut = 0; cut < 2; ++cut) {
    const auto rounded = gradients("bf16", cut ? 8 : 100000);
    for (const auto& [name, gradient] : exact) {
      EXPECT_EQ(rounded.at(name).scalar_type(), at::kFloat) << name;
      error[cut] += std::pow((rounded.at(name) - gradient).norm().item<double>(), 2);
      if (cut == 0) norm += std::pow(gradient.norm().item<double>(), 2);
    }
  }
  EXPECT_LT(std::sqrt(error[0] / norm), 0.1);
  EXPECT_LT(std::sqrt(error[1]), 1.5 * std::sqrt(error[0]));
}

}  // namespace
}  // namespace ingot::trainer
