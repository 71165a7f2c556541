// A draft head in training: it learns the policy's distribution, its gradient on merged trees is that of separate calls,
// and the policy's bits do not depend on it.
#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <map>
#include <string>
#include <vector>

#include "model/draft_head.h"
#include "model/goldens.h"
#include "model/mtp_head.h"
#include "trainer/draft/draft_pass.h"
#include "trainer/draft/draft_rows.h"
#include "trainer/makers.h"
#include "trainer/temp_dir.h"
#include "trainer/tiny_model.h"
#include "trainer/trainer.h"
#include "trainer/weights_of.h"

namespace ingot::trainer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kVocab = 37;

// a b c | d e   a b c | d f   with temperatures 1 and 0.5: see tree/forest.h.
std::vector<tree::CallPath> TwoCalls() {
  std::vector<tree::CallPath> calls(2);
  for (size_t i = 0; i < calls.size(); ++i) {
    calls[i].context = tree::TokenPath({1, 2, 3});
    calls[i].sampled = {4, static_cast<int32_t>(5 + i)};
    calls[i].logprobs = {-1, -1};
    calls[i].versions = {0, 0};
    calls[i].kv_mixed = {0, 0};
    calls[i].temperature = i == 0 ? 1.0f : 0.5f;
  }
  return calls;
}

TEST(DraftRowsTest, EveryDepthReadsTheParentsOutput) {
  const std::vector<tree::CallPath> calls = TwoCalls();
  const std::vector<int32_t> all = {0, 1};
  const tree::PackedForest forest = *tree::PackForest(calls, all);
  const DraftRows rows = ChooseDraftRows(forest, calls, 3, 100, 1);
  // Teachers: row 2 predicts d, and row 3 predicts e and f, each at two temperatures.
  ASSERT_EQ(rows.teachers.size(), 4u);
  EXPECT_EQ(rows.tokens, 4);
  EXPECT_EQ(rows.Find(3, 0.5f), 2);
  EXPECT_EQ(rows.Find(4, 1.0f), -1);
  EXPECT_THAT(rows.hidden, ElementsAre(0, 1, 2));
  EXPECT_THAT(rows.depths[0].rows, ElementsAre(1, 2, 3));
  EXPECT_THAT(rows.depths[0].sources, ElementsAre(0, 1, 2));
  EXPECT_THAT(rows.depths[0].taught, ElementsAre(1, 1, 2, 2));
  EXPECT_THAT(rows.depths[0].teachers, ElementsAre(0, 1, 2, 3));
  EXPECT_THAT(rows.depths[1].rows, ElementsAre(2, 3));
  EXPECT_THAT(rows.depths[1].sources, ElementsAre(0, 1));
  // Row 2 has only two ancestors.
  EXPECT_THAT(rows.depths[2].rows, ElementsAre(3));
  EXPECT_THAT(rows.depths[2].sources, ElementsAre(0));
  EXPECT_THAT(rows.depths[2].teachers, ElementsAre(2, 3));
}

TEST(DraftRowsTest, TheChoiceOfTokensDoesNotDependOnTheMerge) {
  const auto batch = RandomBatch(5, kVocab, 0);
  const PreparedBatch prepared = *PrepareBatch(batch, TrainerOptions(), TokenLimits(kVocab, 128), 0);
  const tree::PackedForest merged = *PackBatch(prepared);
  constexpr int64_t kMost = 9;
  EXPECT_EQ(ChooseDraftRows(merged, prepared.calls, 2, kMost, 3).tokens, kMost);
  EXPECT_EQ(ChooseDraftRows(merged, prepared.calls, 2, 1 << 20, 3).tokens, std::ssize(merged.entries));
}

struct Gradients {
  std::map<std::string, at::Tensor> tensors;
  DraftResult result;
};

// The head's gradient over one forest.
Gradients GradientOver(const DraftOptions& options, const model::Transformer& policy,
                       const model::DraftTensors& tensors, const tree::PackedForest& forest,
                       std::span<const tree::CallPath> calls, int64_t part_tokens) {
  for (const auto& [name, tensor] : tensors) at::Tensor(tensor).mutable_grad().reset();
  const model::DraftHead head = *model::DraftHead::Create(tensors, policy);
  DraftPass draft(options, head, policy, forest, calls, 1 << 20, 1);
  PassOptions pass;
  pass.part_tokens = part_tokens;
  draft.Observe(pass);
  ScoreForest(policy, forest, calls, pass);
  Gradients gradients;
  gradients.result = draft.Run();
  for (const auto& [name, tensor] : head.trained()) gradients.tensors[name] = tensor.grad().clone();
  return gradients;
}

struct Case {
  std::string loss;
  at::ScalarType dtype;
  int64_t vocabulary;
  double tolerance;
};

class DraftGradient : public ::testing::TestWithParam<Case> {};

TEST_P(DraftGradient, OfAMergedTreeIsThatOfSeparateCalls) {
  const Case& c = GetParam();
  DraftOptions options;
  options.loss = c.loss;
  options.top_k = 5;
  const model::ModelConfig config = TinyConfig(kVocab);
  const model::Transformer policy = TrainableModel(config, TinyParameters(config, 1, c.dtype));
  model::DraftTensors tensors = model::DraftHead::Init(config, c.vocabulary, 2, c.dtype);
  for (auto& [name, tensor] : tensors) {
    if (tensor.dim() == 2) tensor.mul_(5);
    tensor.requires_grad_(name != model::kDraftIds);
  }
  const PreparedBatch batch = *PrepareBatch(RandomBatch(11, kVocab, 0), TrainerOptions(), TokenLimits(kVocab, 128), 0);
  const tree::PackedForest merged = *PackBatch(batch);
  std::map<std::string, at::Tensor> sum;
  double loss = 0, overlap = 0;
  for (const int32_t call : merged.call_indices) {
    const std::vector<int32_t> one = {call};
    const tree::PackedForest forest = *PackBatch(batch, one);
    if (forest.entries.empty()) continue;
    const Gradients own = GradientOver(options, policy, tensors, forest, batch.calls, 1 << 20);
    const double share = own.result.tokens / static_cast<double>(merged.entries.size());
    for (const auto& [name, gradient] : own.tensors) {
      sum[name] = sum.contains(name) ? sum[name] + gradient * share : gradient * share;
    }
    loss += own.result.loss * share;
    overlap += own.result.overlap * share;
  }
  for (const int64_t part_tokens : {int64_t{1} << 20, int64_t{13}}) {
    const Gradients whole = GradientOver(options, policy, tensors, merged, batch.calls, part_tokens);
    EXPECT_NEAR(whole.result.loss, loss, c.tolerance * std::abs(loss));
    EXPECT_NEAR(whole.result.overlap, overlap, c.tolerance);
    for (const auto& [name, gradient] : whole.tensors) {
      const double scale = sum.at(name).abs().max().item<double>();
      EXPECT_GT(scale, 0) << name;
      EXPECT_LE((gradient - sum.at(name)).abs().max().item<double>(), c.tolerance * scale) << name;
    }
  }
  for (const auto& [name, tensor] : policy.parameters().tensors()) EXPECT_FALSE(tensor.grad().defined()) << name;
}

INSTANTIATE_TEST_SUITE_P(Losses, DraftGradient,
                         ::testing::Values(Case{"topk_kl", at::kDouble, 0, 1e-10}, Case{"kl", at::kDouble, 0, 1e-10},
                                           Case{"topk_tv", at::kDouble, 20, 1e-10},
                                           Case{"topk_kl", at::kFloat, 20, 1e-5}, Case{"kl", at::kFloat, 20, 1e-5}),
                         [](const auto& info) {
                           const Case& c = info.param;
                           return absl::StrCat(c.loss, c.dtype == at::kDouble ? "_fp64" : "_fp32",
                                               c.vocabulary > 0 ? "_some" : "_all");
                         });

TrainerOptions OptionsWith(bool draft) {
  TrainerOptions options;
  options.optimizer.learning_rate = 0.01;
  options.optimizer.decay = "constant";
  options.threads = 1;
  options.draft.enabled = draft;
  options.draft.vocabulary = 30;
  options.draft.top_k = 8;
  options.draft.publish_every = 3;
  options.draft.learning_rate = 3e-3;
  return options;
}

std::unique_ptr<Trainer> MakeTrainer(const TrainerOptions& options, at::ScalarType dtype = at::kFloat) {
  const model::ModelConfig config = TinyConfig(kVocab);
  auto trainer = Trainer::Create(options, config, TinyParameters(config, 1, dtype));
  EXPECT_TRUE(trainer.ok()) << trainer.status();
  return *std::move(trainer);
}

TrainBatch BatchOf(int64_t step) {
  TrainBatch batch = RandomBatch(static_cast<uint64_t>(100 + step % 4), kVocab, step);
  batch.step = step;
  return batch;
}

void ExpectSameParameters(const Trainer& a, const Trainer& b) {
  for (const auto& [name, tensor] : a.parameters().tensors()) {
    EXPECT_TRUE(at::equal(tensor, b.parameters().at(name))) << name;
  }
  const auto others = b.optimizer_state();
  for (const auto& [name, tensor] : a.optimizer_state()) EXPECT_TRUE(at::equal(tensor, others.at(name))) << name;
}

TEST(DraftTrainingTest, ThePolicyHasTheSameBitsWithAndWithoutAHead) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    for (const bool bounded : {false, true}) {
      TrainerOptions with = OptionsWith(true), without = OptionsWith(false);
      if (bounded) with.trust_region.max_mean = without.trust_region.max_mean = 1e-3;
      const auto a = MakeTrainer(with, dtype), b = MakeTrainer(without, dtype);
      for (int64_t step = 0; step < 20; ++step) {
        const auto of_a = a->TrainStep(BatchOf(step)), of_b = b->TrainStep(BatchOf(step));
        ASSERT_TRUE(of_a.ok()) << of_a.status();
        ASSERT_TRUE(of_b.ok()) << of_b.status();
        EXPECT_EQ(of_a->metrics.at("actor/grad_norm"), of_b->metrics.at("actor/grad_norm"));
        EXPECT_EQ(of_a->metrics.at("draft/skipped"), 0);
        EXPECT_FALSE(of_b->metrics.contains("draft/loss"));
      }
      ExpectSameParameters(*a, *b);
      EXPECT_EQ((*a->TakeSnapshot())->policy_checksum(), (*b->TakeSnapshot())->checksum());
      EXPECT_NE((*a->TakeSnapshot())->checksum(), (*b->TakeSnapshot())->checksum());
    }
  }
}

TEST(DraftTrainingTest, TheHeadLearnsThePolicysDistribution) {
  for (const char* loss : {"topk_kl", "topk_tv", "kl"}) {
    TrainerOptions options = OptionsWith(true);
    options.optimizer.learning_rate = 1e-7;
    options.draft.loss = loss;
    options.draft.learning_rate = 1e-2;
    const auto trainer = MakeTrainer(options);
    double first = 0, last = 0;
    for (int64_t step = 0; step < 60; ++step) {
      TrainBatch batch = RandomBatch(100, kVocab, step);
      batch.step = step;
      const auto report = trainer->TrainStep(batch);
      ASSERT_TRUE(report.ok()) << report.status();
      (step == 0 ? first : last) = report->metrics.at("draft/loss");
    }
    EXPECT_LT(last, first / 3) << loss;
  }
}

std::map<std::string, uint64_t> HeadOf(const weights::Snapshot& snapshot) {
  std::map<std::string, uint64_t> head;
  for (const v1::TensorInfo& tensor : snapshot.manifest().tensors()) {
    if (tensor.role() == v1::TENSOR_DRAFT) head[tensor.name()] = tensor.checksum();
  }
  return head;
}

TEST(DraftTrainingTest, VersionsCarryTheHeadAndRenewItEverySoOften) {
  const auto trainer = MakeTrainer(OptionsWith(true));
  std::vector<std::map<std::string, uint64_t>> heads;
  std::vector<std::shared_ptr<const weights::Snapshot>> versions;
  for (int64_t step = 0; step <= 6; ++step) {
    versions.push_back(*trainer->TakeSnapshot());
    heads.push_back(HeadOf(*versions.back()));
    EXPECT_EQ(heads.back().size(), 9u);
    for (const auto& [name, checksum] : heads.back()) EXPECT_TRUE(name.starts_with("draft.")) << name;
    EXPECT_EQ(ParametersOf(versions.back()).tensors().size(), trainer->parameters().tensors().size());
    if (step < 6) {
      ASSERT_TRUE(trainer->TrainStep(BatchOf(step)).ok());
    }
  }
  EXPECT_EQ(heads[0], heads[1]);
  EXPECT_EQ(heads[1], heads[2]);
  EXPECT_NE(heads[2], heads[3]);
  EXPECT_EQ(heads[3], heads[5]);
  EXPECT_NE(heads[5], heads[6]);
  // A delta between versions with the same head does not contain it.
  const weights::EncodedDelta delta = *weights::Encode(versions[3].get(), *versions[4], false);
  for (const v1::TensorDelta& tensor : delta.tensors) {
    const bool draft = delta.header.target().tensors(tensor.tensor()).role() == v1::TENSOR_DRAFT;
    EXPECT_TRUE(!draft || tensor.coding() == v1::TENSOR_UNCHANGED);
  }
  const auto applied = *weights::Apply(versions[3], delta);
  EXPECT_EQ(applied->policy_checksum(), versions[4]->policy_checksum());
  EXPECT_EQ(HeadOf(*applied), heads[4]);
}

TEST(DraftTrainingTest, ACheckpointContinuesToTheBit) {
  for (const at::ScalarType dtype : {at::kFloat, at::kBFloat16}) {
    const TempDir dir;
    const auto through = MakeTrainer(OptionsWith(true), dtype);
    for (int64_t step = 0; step < 5; ++step) ASSERT_TRUE(through->TrainStep(BatchOf(step)).ok());
    const auto saved = through->SaveCheckpoint(dir.path(), {});
    ASSERT_TRUE(saved.ok()) << saved.status();
    auto resumed = Trainer::Resume(OptionsWith(true), saved->path);
    ASSERT_TRUE(resumed.ok()) << resumed.status();
    EXPECT_EQ((*(*resumed)->TakeSnapshot())->checksum(), (*through->TakeSnapshot())->checksum());
    for (int64_t step = 5; step < 8; ++step) {
      const auto a = through->TrainStep(BatchOf(step)), b = (*resumed)->TrainStep(BatchOf(step));
      ASSERT_TRUE(a.ok() && b.ok());
      EXPECT_EQ(a->metrics.at("draft/loss"), b->metrics.at("draft/loss"));
      EXPECT_EQ((*(*resumed)->TakeSnapshot())->checksum(), (*through->TakeSnapshot())->checksum());
    }
    // Without the head, the run continues with the same policy.
    auto without = Trainer::Resume(OptionsWith(false), saved->path);
    ASSERT_TRUE(without.ok()) << without.status();
    EXPECT_TRUE(HeadOf(**(*without)->TakeSnapshot()).empty());
  }
}

TEST(DraftTrainingTest, ACheckpointWithoutAHeadStartsOne) {
  const TempDir dir;
  const auto before = MakeTrainer(OptionsWith(false));
  ASSERT_TRUE(before->TrainStep(BatchOf(0)).ok());
  const auto saved = before->SaveCheckpoint(dir.path(), {});
  ASSERT_TRUE(saved.ok());
  auto resumed = Trainer::Resume(OptionsWith(true), saved->path);
  ASSERT_TRUE(resumed.ok()) << resumed.status();
  EXPECT_EQ(HeadOf(**(*resumed)->TakeSnapshot()).size(), 9u);
}

// The checksums of a version's shadow head, under the head's names.
std::map<std::string, uint64_t> ShadowIn(const weights::Snapshot& snapshot) {
  const std::string prefix = model::kShadowPrefix;
  std::map<std::string, uint64_t> shadow;
  for (const auto& [name, checksum] : HeadOf(snapshot)) {
    if (name.starts_with(prefix)) shadow[model::kDraftPrefix + name.substr(prefix.size())] = checksum;
  }
  return shadow;
}

TEST(DraftTrainingTest, AShadowIsTheFirstVersionsHeadAlsoAfterAResume) {
  const TempDir dir;
  TrainerOptions options = OptionsWith(true);
  options.draft.publish_every = 1;
  options.draft.shadow = true;
  const auto trainer = MakeTrainer(options), without = MakeTrainer(OptionsWith(false));
  const std::map<std::string, uint64_t> first = ShadowIn(**trainer->TakeSnapshot());
  EXPECT_EQ(first.size(), 9u);
  for (int64_t step = 0; step < 3; ++step) {
    ASSERT_TRUE(trainer->TrainStep(BatchOf(step)).ok());
    ASSERT_TRUE(without->TrainStep(BatchOf(step)).ok());
    const auto version = *trainer->TakeSnapshot();
    EXPECT_EQ(ShadowIn(*version), first);
    const std::map<std::string, uint64_t> all = HeadOf(*version);
    EXPECT_EQ(all.size(), 18u);
    for (const auto& [name, checksum] : first) {
      if (name == model::kDraftIds) continue;
      EXPECT_NE(all.at(name), checksum) << name << " was not trained";
    }
    EXPECT_EQ(version->policy_checksum(), (*without->TakeSnapshot())->checksum());
  }
  const auto saved = trainer->SaveCheckpoint(dir.path(), {});
  ASSERT_TRUE(saved.ok()) << saved.status();
  const auto resumed = Trainer::Resume(options, saved->path);
  ASSERT_TRUE(resumed.ok()) << resumed.status();
  EXPECT_EQ((*(*resumed)->TakeSnapshot())->checksum(), (*trainer->TakeSnapshot())->checksum());
}

TEST(DraftTrainingTest, ARunThatBeginsAShadowLaterUsesTheCheckpointsHead) {
  const TempDir dir;
  TrainerOptions options = OptionsWith(true);
  options.draft.publish_every = 1;
  const auto before = MakeTrainer(options);
  for (int64_t step = 0; step < 2; ++step) ASSERT_TRUE(before->TrainStep(BatchOf(step)).ok());
  const auto saved = before->SaveCheckpoint(dir.path(), {});
  ASSERT_TRUE(saved.ok()) << saved.status();
  options.draft.shadow = true;
  const auto resumed = Trainer::Resume(options, saved->path);
  ASSERT_TRUE(resumed.ok()) << resumed.status();
  EXPECT_EQ(ShadowIn(**(*resumed)->TakeSnapshot()), HeadOf(**before->TakeSnapshot()));
}

TEST(DraftTrainingTest, AShadowNeedsAHead) {
  TrainerOptions options = OptionsWith(false);
  options.draft.shadow = true;
  EXPECT_FALSE(options.Validate().ok());
}

TEST(DraftTrainingTest, AHeadThatIsNotFiniteIsSkippedAlone) {
  TrainerOptions options = OptionsWith(true);
  options.draft.learning_rate = 1e30;  // the first update makes the head overflow
  const auto a = MakeTrainer(options), b = MakeTrainer(OptionsWith(false));
  bool skipped = false;
  for (int64_t step = 0; step < 4; ++step) {
    const auto report = a->TrainStep(BatchOf(step));
    ASSERT_TRUE(report.ok()) << report.status();
    ASSERT_TRUE(b->TrainStep(BatchOf(step)).ok());
    EXPECT_EQ(report->metrics.at("trainer/skipped"), 0);
    skipped |= report->metrics.at("draft/skipped") == 1;
  }
  EXPECT_TRUE(skipped);
  ExpectSameParameters(*a, *b);
}

// A model folder with two published prediction layers and their copies of the policy's tensors.
model::MtpTensors WritePublished(const std::string& dir, const model::ModelFolder& model) {
  model::MtpTensors layers = model::InitMtpHead(model.config, 2, 3, at::kFloat);
  layers["model.layers.2.embed_tokens.weight"] = model.parameters.at("model.embed_tokens.weight");
  layers["model.layers.3.shared_head.head.weight"] = model.parameters.at("lm_head.weight");
  model::Parameters all = model.parameters;
  all.tensors().insert(layers.begin(), layers.end());
  EXPECT_EQ(model::SaveModelDir(dir, model.config, all), absl::OkStatus());
  EXPECT_EQ(model::AddMtpToConfig(dir, model.config, layers), absl::OkStatus());
  return layers;
}

TEST(PublishedLayersTest, CheckpointsAndVersionsKeepThem) {
  const TempDir dir;
  const model::ModelFolder model = *model::LoadModelDir(model::testing::FolderOf("glm4_moe"));
  model::MtpTensors layers = WritePublished(dir.path() + "/model", model);
  TrainerOptions options = OptionsWith(false), without = OptionsWith(false);
  options.draft.start = dir.path() + "/model";
  const auto trainer = *Trainer::Create(options, model.config, model.parameters);
  const auto plain = *Trainer::Create(without, model.config, model.parameters);
  for (Trainer* const one : {trainer.get(), plain.get()}) ASSERT_TRUE(one->TrainStep(BatchOf(0)).ok());
  ExpectSameParameters(*trainer, *plain);
  const auto version = *trainer->TakeSnapshot();
  EXPECT_EQ(version->policy_checksum(), (*plain->TakeSnapshot())->checksum());
  EXPECT_EQ(HeadOf(*version).size(), model::MtpDraft(model.config, layers).size()) << "the first layer, without copies";

  const auto saved = trainer->SaveCheckpoint(dir.path() + "/checkpoints", {});
  ASSERT_TRUE(saved.ok()) << saved.status();
  layers["model.layers.2.embed_tokens.weight"] = trainer->parameters().at("model.embed_tokens.weight");
  layers["model.layers.3.shared_head.head.weight"] = trainer->parameters().at("lm_head.weight");
  EXPECT_FALSE(at::equal(layers.at("model.layers.3.shared_head.head.weight"), model.parameters.at("lm_head.weight")));
  const auto resumed = Trainer::Resume(options, saved->path);
  ASSERT_TRUE(resumed.ok()) << resumed.status();
  EXPECT_EQ((*(*resumed)->TakeSnapshot())->checksum(), version->checksum());
  const auto again = (*resumed)->SaveCheckpoint(dir.path() + "/again", {});
  ASSERT_TRUE(again.ok()) << again.status();
  for (const std::string& path : {saved->path, again->path}) {
    EXPECT_TRUE(VerifyCheckpoint(path).ok());
    const auto read = model::ReadMtpHead(path, model.config);
    ASSERT_TRUE(read.ok()) << read.status();
    ASSERT_EQ(read->size(), layers.size());
    for (const auto& [name, tensor] : layers) EXPECT_TRUE(at::equal(tensor, read->at(name))) << name;
  }
}

// As after training by other programs, which drop the layers but not the key.
TEST(PublishedLayersTest, AFolderThatLacksThemIsTrainedWithoutThem) {
  const TempDir dir;
  const model::ModelFolder model = *model::LoadModelDir(model::testing::FolderOf("glm4_moe"));
  TrainerOptions options = OptionsWith(false);
  options.draft.start = model::testing::FolderOf("glm4_moe");  // its config.json promises a layer
  EXPECT_FALSE(model::ReadMtpHead(options.draft.start, model.config).ok());
  const auto trainer = *Trainer::Create(options, model.config, model.parameters);
  EXPECT_TRUE(HeadOf(**trainer->TakeSnapshot()).empty());
  const auto saved = trainer->SaveCheckpoint(dir.path(), {});
  ASSERT_TRUE(saved.ok()) << saved.status();
  EXPECT_TRUE(model::ReadMtpHead(saved->path, model.config)->empty());
}

TEST(DraftTrainingTest, OptionsOutOfBoundsAreNamed) {
  TrainerOptions options = OptionsWith(true);
  options.draft.depths = 0;
  EXPECT_THAT(std::string(options.Validate().message()), HasSubstr("draft"));
}

}  // namespace
}  // namespace ingot::trainer
