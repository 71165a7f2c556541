// Training on several ranks compared with one rank: law 2 once more, and determinism to the bit.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <limits>
#include <map>
#include <mutex>
#include <utility>
#include <vector>

#include "../makers.h"
#include "../preset_options.h"
#include "../temp_dir.h"
#include "../tiny_kinds.h"
#include "../tiny_model.h"
#include "base/file.h"
#include "model/layer_spec.h"
#include "rank_group.h"
#include "test_paths.h"
#include "together.h"
#include "trainer/trainer.h"
#include "trials.h"
#include "weights/delta.h"

namespace ingot::trainer::rank_training_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kSteps = 3;

using Batches = std::function<TrainBatch(int64_t step)>;

TrainBatch BatchOf(int64_t step) { return RandomBatch(static_cast<uint64_t>(100 + step), 37, step); }

// Steps from `trainer.version()` to `until`.
void Train(Trainer& trainer, int64_t until, const Batches& batches, std::vector<StepReport>& reports) {
  while (trainer.version() < until) {
    const auto report = trainer.TrainStep(batches(trainer.version()));
    ASSERT_TRUE(report.ok()) << report.status();
    reports.push_back(*report);
  }
}

Result RunSteps(int size, const Make& make, int64_t until = kSteps, const Batches& batches = BatchOf) {
  return Together(size, make,
                  [&](Trainer& trainer, Result& result) { Train(trainer, until, batches, result.reports); });
}

void ExpectSameMetrics(const StepReport& actual, const StepReport& expected, double tolerance) {
  for (const auto& [name, value] : expected.metrics) {
    if (OfTheRun(name)) continue;
    ASSERT_TRUE(actual.metrics.contains(name)) << name;
    EXPECT_LE(std::abs(actual.metrics.at(name) - value), tolerance * std::max(1.0, std::abs(value))) << name;
  }
  for (const auto& [name, value] : actual.metrics) {
    EXPECT_TRUE(OfTheRun(name) || expected.metrics.contains(name)) << name;
  }
  EXPECT_EQ(actual.staleness_histogram, expected.staleness_histogram);
  EXPECT_EQ(actual.version, expected.version);
}

class RanksTrain : public ::testing::TestWithParam<std::string> {};

TEST_P(RanksTrain, LikeOneRank) {
  TrainerOptions options = OptionsOf(GetParam());
  options.optimizer = Plain().optimizer;
  options.total_steps = 8;
  options.threads = 1;
  options.micro_batch_tokens = 24;
  options.max_skipped_steps = 100;
  options.update_variance_every = 2;
  if (options.objective != "dpo") {
    options.entropy_coefficient = 0.01;
    options.reference_kl_coefficient = 0.05;
  }
  const Result one = RunSteps(1, Fresh(options, at::kDouble));
  for (const int size : FirstOf<int>(1, {3, 2})) {
    SCOPED_TRACE(size);
    const Result many = RunSteps(size, Fresh(options, at::kDouble));
    ExpectClose(many.optimizer, one.optimizer, 1e-9);  // moments: the gradients of every step
    ExpectClose(many.parameters, one.parameters, 1e-9);
    ASSERT_EQ(many.reports.size(), one.reports.size());
    for (size_t i = 0; i < one.reports.size(); ++i) ExpectSameMetrics(many.reports[i], one.reports[i], 1e-9);
    EXPECT_EQ(many.reports[0].metrics.at("trainer/ranks"), size);
  }
}

INSTANTIATE_TEST_SUITE_P(Presets, RanksTrain, ::testing::ValuesIn(PresetNames()), [](const auto& info) {
  std::string name = info.param;
  std::erase(name, '.');
  return name;
});

// The ratio of a sequence is over tokens of several ranks.
TEST(RankTraining, MasksLeaveOutWhatTheyDoOnOneRank) {
  for (const OffPolicyMaskOptions& masks :
       {OffPolicyMaskOptions{.token_low = 0.3, .token_high = 4}, OffPolicyMaskOptions{0.2, 6, 0.6, 1.6, 0.3}}) {
    TrainerOptions options = Plain();
    options.kl_coefficient = 0.05;
    options.off_policy_mask = masks;
    const Result one = RunSteps(1, Fresh(options, at::kDouble));
    EXPECT_GT(one.reports[0].metrics.at("offpolicy/masked"), 0);
    EXPECT_LT(one.reports[0].metrics.at("offpolicy/masked"), 1);
    for (const int size : FirstOf<int>(1, {3, 2})) {
      SCOPED_TRACE(size);
      const Result many = RunSteps(size, Fresh(options, at::kDouble));
      ExpectClose(many.optimizer, one.optimizer, 1e-9);
      ExpectClose(many.parameters, one.parameters, 1e-9);
      ASSERT_EQ(many.reports.size(), one.reports.size());
      for (size_t i = 0; i < one.reports.size(); ++i) ExpectSameMetrics(many.reports[i], one.reports[i], 1e-9);
    }
  }
}

// The first step's first moments are its gradient times 1 - beta1.
TEST(RankTraining, GradientsOfFp32AreOneRanksToRounding) {
  const Result one = RunSteps(1, Fresh(Plain()), 1);
  for (const int size : {2, 4}) {
    const Result many = RunSteps(size, Fresh(Plain()), 1);
    for (const auto& [name, tensor] : one.optimizer) {
      if (!name.starts_with("exp_avg.")) continue;
      const double norm = tensor.norm().item<double>();
      EXPECT_LE((many.optimizer.at(name) - tensor).norm().item<double>(), 1e-5 * norm) << name;
    }
    ExpectSameMetrics(many.reports[0], one.reports[0], 1e-5);
  }
}

TEST(RankTraining, AMovedReferenceIsThatOfOneRank) {
  TrainerOptions options = Plain();
  options.reference_kl_coefficient = 0.05;
  options.reference_update_every = 2;
  const Result one = RunSteps(1, Fresh(options, at::kDouble)), many = RunSteps(3, Fresh(options, at::kDouble));
  ExpectClose(many.parameters, one.parameters, 1e-9);
  ASSERT_EQ(many.reports.size(), one.reports.size());
  for (size_t i = 0; i < one.reports.size(); ++i) ExpectSameMetrics(many.reports[i], one.reports[i], 1e-9);
}

TEST(RankTraining, OwnersHoldTheMastersOfBf16) {
  TrainerOptions options = Plain();
  options.dtype = "bf16";
  const Result one = RunSteps(1, Fresh(options)), many = RunSteps(2, Fresh(options));
  EXPECT_EQ(many.optimizer.size(), 3 * many.parameters.size());
  ExpectClose(many.parameters, one.parameters, 0.02);
}

void ExpectSameBytes(const weights::EncodedDelta& a, const weights::EncodedDelta& b) {
  EXPECT_EQ(a.header.SerializeAsString(), b.header.SerializeAsString());
  EXPECT_EQ(a.changed_elements, b.changed_elements);
  ASSERT_EQ(a.tensors.size(), b.tensors.size());
  for (size_t i = 0; i < a.tensors.size(); ++i) {
    EXPECT_EQ(a.tensors[i].SerializeAsString(), b.tensors[i].SerializeAsString()) << i;
  }
}

TEST(RankTraining, VersionsHaveTheMarksOfAllOwners) {
  TrainerOptions options = Plain();
  options.dtype = "bf16";
  for (const bool bounded : {false, true}) {
    if (bounded) {  // several updates a step
      options.trust_region.max_mean = 1e-9;
      options.trust_region.halvings = 2;
    }
    Together(bounded ? 2 : 4, Fresh(options), [&](Trainer& trainer, Result&) {
      auto before = *trainer.TakeSnapshot();
      for (int64_t step = 0; step < kSteps; ++step) {
        ASSERT_TRUE(trainer.TrainStep(BatchOf(step)).ok());
        const auto after = *trainer.TakeSnapshot();
        ASSERT_NE(after->changes(), nullptr);
        EXPECT_EQ(after->changes()->base_checksum, before->checksum());
        ASSERT_EQ(after->changes()->masks.size(), after->size()) << "every tensor is bf16 and trained";
        std::vector<weights::TensorView> views;
        for (size_t i = 0; i < after->size(); ++i) {
          views.push_back({after->view(i).name, "BF16", after->view(i).shape, after->bytes(i)});
          const auto at = trainer.parameters().tensors().at(views.back().name);
          EXPECT_EQ(std::memcmp(at.const_data_ptr(), after->bytes(i).data(), at.nbytes()), 0) << views.back().name;
        }
        const auto copied = *weights::Snapshot::Copy(after->version(), views);  // without marks: it is compared
        EXPECT_EQ(copied->checksum(), after->checksum());
        EXPECT_DOUBLE_EQ(weights::Density(before.get(), *after), weights::Density(before.get(), *copied));
        const auto delta = weights::Encode(before.get(), *after, false);
        ExpectSameBytes(*delta, *weights::Encode(before.get(), *copied, false));
        const auto applied = weights::Apply(before, *delta);
        ASSERT_TRUE(applied.ok()) << applied.status();
        before = after;
      }
    });
  }
}

TEST(RankTraining, TheSameNumberOfRanksGivesTheSameBits) {
  const Result first = RunSteps(3, Fresh(Plain())), again = RunSteps(3, Fresh(Plain()));
  ExpectSameBits(first, again);
  for (size_t i = 0; i < first.reports.size(); ++i) {
    EXPECT_EQ(first.reports[i].metrics.at("actor/loss"), again.reports[i].metrics.at("actor/loss"));
    EXPECT_EQ(first.reports[i].metrics.at("actor/grad_norm"), again.reports[i].metrics.at("actor/grad_norm"));
  }
}

Make Of(const model::ModelConfig& config, const TrainerOptions& options, at::ScalarType dtype) {
  return [config, options, dtype](Ranks* ranks) {
    const uint64_t seed = ranks == nullptr || ranks->leads() ? 2 : 77;
    return Trainer::Create(options, config, TinyParameters(config, seed, dtype), base::Clock::Real(), ranks);
  };
}

Make Routed(const TrainerOptions& options) { return Of(RoutedConfig(), options, at::kDouble); }

// Loads are sums over all ranks, so that every rank moves the routers' biases as one rank would.
TEST(RankTraining, RoutersBiasesMoveAsOnOneRank) {
  TrainerOptions options = Plain();
  options.expert_bias_rate = 0.05;
  const Result start = RunSteps(1, Routed(options), 0), one = RunSteps(1, Routed(options));
  const char* const bias = "model.layers.1.block_sparse_moe.e_score_correction_bias";
  EXPECT_FALSE(at::equal(one.parameters.at(bias), start.parameters.at(bias)));
  for (const int size : FirstOf<int>(1, {3, 2})) {
    SCOPED_TRACE(size);
    const Result many = RunSteps(size, Routed(options));
    EXPECT_TRUE(at::equal(many.parameters.at(bias), one.parameters.at(bias)));
    ExpectClose(many.parameters, one.parameters, 1e-9);
    for (size_t i = 0; i < one.reports.size(); ++i) {
      ExpectSameMetrics(many.reports[i], one.reports[i], 1e-9);
      EXPECT_EQ(many.reports[i].expert_loads, one.reports[i].expert_loads);
    }
  }
}

// A rank's share of the load-balancing term is that of its rows, as a part's is.
TEST(RankTraining, TheLoadBalancingTermIsSharedAmongRanks) {
  TrainerOptions options = Plain();
  options.micro_batch_tokens = 8192;
  options.expert_balance = 0.5;
  const double one = RunSteps(1, Routed(options), 1).reports[0].metrics.at("experts/balance_loss");
  const double two = RunSteps(2, Routed(options), 1).reports[0].metrics.at("experts/balance_loss");
  EXPECT_NEAR(two / one, 1, 0.2);
}

// Adapters on attention and on experts, over a frozen base that every rank holds.
TEST(RankTraining, AdaptersAreTrainedAsOnOneRank) {
  const Make make = Of(AdaptedConfig(), Plain(), at::kDouble);
  const Result start = RunSteps(1, make, 0), one = RunSteps(1, make);
  int64_t factors = 0;
  for (const auto& [name, tensor] : start.parameters) {
    const bool adapter = name.find(".lora_") != std::string::npos;
    EXPECT_EQ(at::equal(one.parameters.at(name), tensor), !adapter) << name;
    factors += adapter;
  }
  EXPECT_EQ(factors, 2 * 2 * (2 + 2 * 5));  // A and B, two layers, q and v and two products of five experts
  for (const int size : FirstOf<int>(1, {3, 2})) {
    SCOPED_TRACE(size);
    const Result many = RunSteps(size, make);
    EXPECT_EQ(many.optimizer.size(), one.optimizer.size());
    ExpectClose(many.optimizer, one.optimizer, 1e-9);
    ExpectClose(many.parameters, one.parameters, 1e-9);
    for (size_t i = 0; i < one.reports.size(); ++i) ExpectSameMetrics(many.reports[i], one.reports[i], 1e-9);
  }
}

// One call: all ranks but the first run empty slots.
// Its sequences are in the shares of several ranks.
TEST(RankTraining, ACustomLossOverTheBatchIsThatOfOneRank) {
  TrainerOptions options = Plain();
  options.objective = "custom";
  options.loss_aggregation = "sequence";
  options.custom = {"gspo.py:loss", "batch", *base::ReadFile(INGOT_SOURCE_DIR "/tests/trainer/custom_loss/gspo.json")};
  const Result one = RunSteps(1, Fresh(options)), many = RunSteps(3, Fresh(options));
  for (size_t step = 0; step < one.reports.size(); ++step) {
    EXPECT_GT(many.reports[step].metrics.at("actor/custom/ratio"), 0);
    ExpectSameMetrics(many.reports[step], one.reports[step], 1e-5);
  }
}

TEST(RankTraining, RanksWithoutWorkTakePart) {
  const Batches one_call = [](int64_t step) {
    Draws draws(9);
    CallSpec call{draws.Tokens(20, 37), draws.Tokens(50, 37), {}, {}, {}, 1.0f};
    Annotate(call, draws, step);
    TrainBatch batch;
    batch.step = step;
    batch.groups = {MakeGroup(0, {MakeEpisode("a", 1, {call}), MakeEpisode("b", 0, {})})};
    return batch;
  };
  const Result one = RunSteps(1, Fresh(Plain(), at::kDouble), 2, one_call);
  const Result many = RunSteps(4, Fresh(Plain(), at::kDouble), 2, one_call);
  ExpectClose(many.parameters, one.parameters, 1e-9);
  EXPECT_GT(many.reports[0].metrics.at("tree/parts"), 2);
  EXPECT_EQ(many.reports[0].metrics.at("tree/computed_tokens"), many.reports[0].metrics.at("tree/merged_tokens"));
}

TEST(RankTraining, RanksDecideTogetherWhetherAStepIsKept) {
  TrainerOptions options = Plain();
  options.trust_region = {.max_mean = 1e-3, .max_position = 1e-2, .share = 0.5};
  for (const char* sharding : {"optimizer", "layers"}) {
    SCOPED_TRACE(sharding);
    options.sharding = sharding;
    const Result first = RunSteps(3, Fresh(options)), again = RunSteps(3, Fresh(options));
    ExpectSameBits(first, again);
    double scales = 0;
    for (size_t i = 0; i < first.reports.size(); ++i) {
      for (const char* name : {"trainer/step_scale", "trainer/step_kl_mean", "trainer/step_kl_positions"}) {
        EXPECT_EQ(first.reports[i].metrics.at(name), again.reports[i].metrics.at(name)) << name;
      }
      scales += first.reports[i].metrics.at("trainer/step_scale");
    }
    EXPECT_LT(scales, static_cast<double>(first.reports.size())) << "some step is past a bound";
  }
}

TEST(RankTraining, AStepTakenBackLeavesAllRanksWithEqualWeights) {
  TrainerOptions options = Plain();
  options.trust_region.max_mean = 1e-12;
  const Result start = RunSteps(1, Fresh(options), 0);
  for (const char* sharding : {"optimizer", "layers"}) {
    options.sharding = sharding;
    const Result taken_back = RunSteps(2, Fresh(options), 2);
    for (const auto& [name, tensor] : start.parameters) {
      EXPECT_TRUE(at::equal(tensor, taken_back.parameters.at(name))) << sharding << " " << name;
    }
    for (const auto& [name, tensor] : taken_back.optimizer) EXPECT_EQ(tensor.abs().max().item<double>(), 0) << name;
  }
}

TEST(RankTraining, ASkippedStepIsSkippedOnAllRanks) {
  TrainerOptions options = Plain();
  options.train_segments = "current_version";
  const Batches batches = [](int64_t step) {
    TrainBatch batch = BatchOf(step);
    if (step == 1) batch = RandomBatch(5, 37, 0), batch.step = 1;  // no token of version 1
    return batch;
  };
  const Result one = RunSteps(1, Fresh(options), 3, batches), many = RunSteps(2, Fresh(options), 3, batches);
  EXPECT_EQ(many.reports[1].metrics.at("trainer/skipped"), 1);
  EXPECT_EQ(many.reports[2].metrics.at("trainer/skipped"), 0);
  ExpectSameMetrics(many.reports[1], one.reports[1], 1e-5);
}

TEST(RankTraining, NonFiniteCallsAreNamedAsOnOneRank) {
  TrainerOptions options = Plain();
  options.max_skipped_steps = 0;
  options.objective = "ppo_clip";
  options.advantage_baseline = "none";
  TrainBatch batch = RandomBatch(1, 37, 0);
  // As in trainer_test.cc: a ratio that overflows, in one rank's share.
  v1::EpisodeTree& tree = *batch.groups[1].mutable_episodes(2);
  tree.mutable_episode()->set_reward(-1);
  for (auto& [key, segment] : *tree.mutable_segments()) {
    if (segment.source() == v1::SOURCE_SAMPLED) segment.set_logprobs(0, -1000);
  }
  for (const int size : FirstOf<int>(3, {1, 2, -3, 3, -2})) {  // below 0: divided by layer
    options.sharding = size < 0 ? "layers" : "optimizer";
    Together(std::abs(size), Fresh(options), [&](Trainer& trainer, Result&) {
      const absl::Status status = trainer.TrainStep(batch).status();
      EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
      EXPECT_THAT(std::string(status.message()), HasSubstr("not finite for calls g1s2/0, g1s2/1, g1s2/2;"));
      EXPECT_EQ(trainer.version(), 0);
      EXPECT_TRUE(trainer.TrainStep(BatchOf(0)).ok());
    });
  }
}

TEST(RankTraining, AnErrorOfOneRankFailsTheStepAndTheNextCanFollow) {
  TrainerOptions options = Plain();
  const Make make = [&](Ranks* ranks) {
    TrainerOptions own = options;
    if (ranks->rank() == 1) own.group_size = 5;  // no group has that many: this rank alone refuses
    return Fresh(own)(ranks);
  };
  Together(2, make, [&](Trainer& trainer, Result&) {
    TrainBatch wrong = BatchOf(0);
    wrong.step = 3;
    EXPECT_EQ(trainer.TrainStep(wrong).status().code(), absl::StatusCode::kInvalidArgument);  // rank 0's own error
    for (int i = 0; i < 2; ++i) {
      const absl::Status status = trainer.TrainStep(BatchOf(0)).status();
      EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
      EXPECT_THAT(std::string(status.message()), HasSubstr("rank 1: "));
      EXPECT_EQ(trainer.version(), 0);
    }
  });
}

TrainerOptions ByLayer(TrainerOptions options = Plain()) {
  options.sharding = "layers";
  return options;
}

struct Named {
  std::string name;
  TrainerOptions options;
};

// Every path of a pass through the layers.
std::vector<Named> WaysThroughTheLayers() {
  std::vector<Named> ways = {{"Plain", Plain()}};
  const auto add = [&](const std::string& name, const auto& change) {
    ways.push_back({name, Plain()});
    change(ways.back().options);
  };
  add("OnePart", [](TrainerOptions& o) { o.micro_batch_tokens = 8192; });
  add("CheckpointLayers", [](TrainerOptions& o) { o.checkpoint_layers = true; });
  add("RecomputePrefix", [](TrainerOptions& o) { o.recompute_prefix = true; });
  add("Both", [](TrainerOptions& o) { o.checkpoint_layers = o.recompute_prefix = true; });
  add("Bf16", [](TrainerOptions& o) { o.dtype = "bf16"; });
  add("Exact", [](TrainerOptions& o) { o.numerics = kernels::Numerics::kExact; });
  add("Reference", [](TrainerOptions& o) { o.reference_kl_coefficient = 0.05, o.entropy_coefficient = 0.01; });
  add("Variance", [](TrainerOptions& o) { o.update_variance_every = 1; });
  for (const std::string preset : {"gspo", "dpo"}) {  // they score the batch before they train it
    ways.push_back({preset == "dpo" ? "Dpo" : "Gspo", OptionsOf(preset)});
    TrainerOptions& options = ways.back().options;
    options.optimizer = Plain().optimizer;
    options.total_steps = 8;
    options.threads = 1;
    options.micro_batch_tokens = 24;
    options.max_skipped_steps = 100;
  }
  return ways;
}

class Divided : public ::testing::TestWithParam<Named> {};

TEST_P(Divided, ParametersGiveTheBitsOfWholeOnes) {
  const Result whole = RunSteps(3, Fresh(GetParam().options), 2);
  const Result divided = RunSteps(3, Fresh(ByLayer(GetParam().options)), 2);
  ExpectSameBits(divided, whole);
  ASSERT_EQ(divided.reports.size(), whole.reports.size());
  for (size_t i = 0; i < whole.reports.size(); ++i) ExpectSameMetrics(divided.reports[i], whole.reports[i], 0);
}

INSTANTIATE_TEST_SUITE_P(Ways, Divided, ::testing::ValuesIn(WaysThroughTheLayers()),
                         [](const auto& info) { return info.param.name; });

// A router's bias is not trained: it is whole on every rank, and moves alike there.
TEST(DividedParameters, OfRoutersWithABiasGiveTheBitsOfWholeOnes) {
  TrainerOptions options = Plain();
  options.expert_bias_rate = 0.05;
  for (const std::string& dtype : FirstOf<std::string>(1, {"bf16", "model"})) {
    SCOPED_TRACE(dtype);
    options.dtype = dtype;
    const Result start = RunSteps(1, Of(RoutedConfig(), options, at::kFloat), 0);
    const Result whole = RunSteps(3, Of(RoutedConfig(), options, at::kFloat), 2);
    const Result divided = RunSteps(3, Of(RoutedConfig(), ByLayer(options), at::kFloat), 2);
    ExpectSameBits(divided, whole);
    for (size_t i = 0; i < whole.reports.size(); ++i) ExpectSameMetrics(divided.reports[i], whole.reports[i], 0);
    const char* const bias = "model.layers.1.block_sparse_moe.e_score_correction_bias";
    EXPECT_FALSE(at::equal(divided.parameters.at(bias), start.parameters.at(bias)));
  }
}

// The frozen base is divided too.
TEST(DividedParameters, UnderAdaptersGiveTheBitsOfWholeOnes) {
  TrainerOptions options = Plain();
  const std::vector<std::pair<std::string, bool>> ways = {
      {"bf16", true}, {"model", false}, {"bf16", false}, {"model", true}};
  for (const auto& [dtype, runs_twice] : FirstOf(2, ways)) {
    SCOPED_TRACE(absl::StrCat(dtype, runs_twice ? ", each layer twice" : ""));
    options.dtype = dtype;
    options.checkpoint_layers = runs_twice;
    const Result whole = RunSteps(3, Of(AdaptedConfig(), options, at::kFloat), 2);
    const Result divided = RunSteps(3, Of(AdaptedConfig(), ByLayer(options), at::kFloat), 2);
    ExpectSameBits(divided, whole);
    ASSERT_EQ(divided.reports.size(), whole.reports.size());
    for (size_t i = 0; i < whole.reports.size(); ++i) ExpectSameMetrics(divided.reports[i], whole.reports[i], 0);
  }
}

using Versions = std::vector<std::shared_ptr<const weights::Snapshot>>;

// The first version, and one per step.
Versions VersionsOf(int size, const Make& make) {
  Versions versions;
  Together(size, make, [&](Trainer& trainer, Result&) {
    versions.push_back(*trainer.TakeSnapshot());
    for (int64_t step = 0; step < kSteps; ++step) {
      ASSERT_TRUE(trainer.TrainStep(BatchOf(step)).ok());
      versions.push_back(*trainer.TakeSnapshot());
    }
  });
  return versions;
}

std::shared_ptr<const weights::Snapshot> WithoutMarks(const weights::Snapshot& snapshot) {
  std::vector<weights::TensorView> views;
  for (size_t i = 0; i < snapshot.size(); ++i) views.push_back(snapshot.view(i));
  return *weights::Snapshot::Copy(snapshot.version(), views);
}

// Ranks send the changes of the parameters that they own. Rank 0 makes the version from the last one, and compares nothing.
TEST(DividedParameters, AreVersionsWithTheChangesOfAllRanks) {
  for (const int size : {2, 4}) {
    for (const bool adapted : {false, true}) {
      SCOPED_TRACE(absl::StrCat(size, " ranks", adapted ? ", adapters" : ""));
      TrainerOptions options = Plain();
      options.dtype = "bf16";
      if (size == 2) {  // halved or taken back
        options.trust_region.max_mean = 1e-9;
        options.trust_region.halvings = 2;
      }
      const model::ModelConfig config = adapted ? AdaptedConfig() : TinyConfig();
      const Versions whole = VersionsOf(size, Of(config, options, at::kFloat)),
                     divided = VersionsOf(size, Of(config, ByLayer(options), at::kFloat));
      ASSERT_EQ(divided.size(), whole.size());
      for (size_t i = 0; i < divided.size(); ++i) {
        EXPECT_EQ(divided[i]->checksum(), whole[i]->checksum()) << "version " << i;
        if (i == 0) continue;
        ASSERT_NE(divided[i]->changes(), nullptr) << "version " << i;
        EXPECT_EQ(divided[i]->changes()->base_checksum, divided[i - 1]->checksum());
        const auto delta = *weights::Encode(divided[i - 1].get(), *divided[i], false);
        ExpectSameBytes(delta, *weights::Encode(divided[i - 1].get(), *WithoutMarks(*divided[i]), false));
        for (size_t t = 0; t < divided[i]->size(); ++t) {
          const bool changed = delta.tensors[t].coding() != v1::TENSOR_UNCHANGED;
          const bool shared = divided[i]->bytes(t).data() == divided[i - 1]->bytes(t).data();
          EXPECT_FALSE(changed && shared);
          const std::string& name = delta.header.target().tensors(static_cast<int>(t)).name();
          if (changed) {
            EXPECT_TRUE(divided[i]->changes()->masks.contains(name)) << name;
          }
        }
      }
    }
  }
}

// The changes of fp32 parameters are not marked on the CPU, so rank 0 gathers the parameters.
TEST(DividedParameters, OfFp32AreGatheredWhole) {
  const Versions whole = VersionsOf(2, Fresh(Plain())), divided = VersionsOf(2, Fresh(ByLayer()));
  ASSERT_EQ(divided.size(), whole.size());
  for (size_t i = 0; i < divided.size(); ++i) EXPECT_EQ(divided[i]->checksum(), whole[i]->checksum()) << i;
}

int64_t BytesHere(const Trainer& trainer) {
  int64_t bytes = 0;
  for (const auto& [name, tensor] : trainer.parameters().tensors()) {
    if (IsHere(tensor)) bytes += static_cast<int64_t>(tensor.nbytes());
  }
  return bytes;
}

// A router's bias is held by each rank.
void ExpectHeldOnce(const model::ModelConfig& config) {
  const auto parameters = TinyParameters(config, 2, at::kFloat);
  const model::ModelSpec spec = model::SpecOf(config);
  const auto table = spec.Tensors();
  int64_t all = 0, biases = 0;
  for (const auto& [name, tensor] : parameters.tensors()) {
    const auto bytes = static_cast<int64_t>(tensor.nbytes());
    all += bytes;
    if (table.at(name)->part == model::Part::kCorrectionBias) biases += bytes;
  }
  for (const int size : FirstOf<int>(1, {5, 2})) {
    std::atomic<int64_t> held{0};
    std::map<std::string, uint64_t> checksums;
    std::mutex mu;
    for (const TrainerOptions& options : {Plain(), ByLayer()}) {
      OnRanks(size, [&](Ranks& ranks) {
        auto trainer = *Trainer::Create(options, config, parameters, base::Clock::Real(), &ranks);
        EXPECT_EQ(BytesHere(*trainer), all);
        if (!ranks.leads()) {
          EXPECT_TRUE(trainer->Follow().ok());
        } else {
          std::vector<StepReport> reports;
          Train(*trainer, 2, BatchOf, reports);
          const auto snapshot = trainer->TakeSnapshot();
          ASSERT_TRUE(snapshot.ok()) << snapshot.status();
          EXPECT_EQ((*snapshot)->version(), 2);
          const std::lock_guard<std::mutex> lock(mu);
          checksums[options.sharding] = (*snapshot)->checksum();
          EXPECT_TRUE(trainer->Dismiss().ok());
        }
        if (options.sharding == "layers") held += BytesHere(*trainer);
      });
    }
    EXPECT_EQ(held, all + (size - 1) * biases);
    EXPECT_EQ(checksums.at("layers"), checksums.at("optimizer"));
  }
}

// Untied, so that the head is a unit of its own. Ranks that own a whole unit, or have no work, ask for nothing.
TEST(DividedParameters, AreHeldOnceBetweenSteps) {
  auto config = TinyConfig();
  config.tie_word_embeddings = false;
  ExpectHeldOnce(config);
}

TEST(DividedParameters, AreHeldOnceUnderAdaptersToo) { ExpectHeldOnce(AdaptedConfig()); }

TEST(DividedParameters, AreServedToARankThatScoresAlone) {
  Together(3, Fresh(ByLayer()), [&](Trainer& trainer, Result&) {
    const ProbeSource probe = [&](int64_t version, int64_t) -> absl::StatusOr<std::vector<tree::CallPath>> {
      std::vector<tree::CallPath> calls;
      for (const v1::Group& group : BatchOf(version).groups) {
        for (const v1::EpisodeTree& tree : group.episodes()) {
          INGOT_ASSIGN_OR_RETURN(auto of_tree, tree::CallPathsOf(tree, 0, 0));
          for (tree::CallPath& call : of_tree) calls.push_back(std::move(call));
        }
      }
      return calls;
    };
    for (int64_t step = 0; step < 2; ++step) {
      const auto report = trainer.TrainStep(BatchOf(step), probe);
      ASSERT_TRUE(report.ok()) << report.status();
      EXPECT_GT(report->metrics.at("mismatch/probe_tokens"), 0);
    }
  });
}

TEST(DividedParameters, OfASkippedStepAreTheNextVersion) {
  TrainerOptions options = ByLayer();
  options.train_segments = "current_version";
  Together(2, Fresh(options), [&](Trainer& trainer, Result& result) {
    Train(trainer, 1, BatchOf, result.reports);
    const uint64_t checksum = (*trainer.TakeSnapshot())->checksum();
    TrainBatch old = RandomBatch(5, 37, 0);  // no token of version 1
    old.step = 1;
    ASSERT_TRUE(trainer.TrainStep(old).ok());
    const auto snapshot = trainer.TakeSnapshot();
    ASSERT_TRUE(snapshot.ok()) << snapshot.status();
    EXPECT_EQ((*snapshot)->version(), 2);
    EXPECT_EQ((*snapshot)->checksum(), checksum);
    Train(trainer, 3, BatchOf, result.reports);
  });
}

// A rank fails by itself before it would ask for a layer that the others ask for: they all learn of it there.
TEST(DividedParameters, AnErrorOfOneRankFailsTheStepAndTheNextCanFollow) {
  const Make make = [&](Ranks* ranks) {
    TrainerOptions own = ByLayer();
    if (ranks->rank() == 1) own.group_size = 5;  // no group has that many
    return Fresh(own)(ranks);
  };
  Together(3, make, [&](Trainer& trainer, Result&) {
    for (int i = 0; i < 2; ++i) {
      EXPECT_THAT(std::string(trainer.TrainStep(BatchOf(0)).status().message()), HasSubstr("rank 1: "));
    }
  });
}

class RankCheckpoint : public ::testing::Test {
 protected:
  Make Resumed(int64_t step, const TrainerOptions& options = Plain()) const {
    return [this, step, options](Ranks* ranks) {
      return Trainer::Resume(options, folder_.path() + "/" + CheckpointName(step), at::kCPU, base::Clock::Real(),
                             ranks);
    };
  }
  // Four steps, with a checkpoint after the second.
  Result Whole(int size, const TrainerOptions& options = Plain()) const { return Whole(size, Fresh(options)); }
  Result Whole(int size, const Make& make) const {
    return Together(size, make, [&](Trainer& trainer, Result& result) {
      Train(trainer, 2, BatchOf, result.reports);
      const auto saved = trainer.SaveCheckpoint(folder_.path(), {{"tokenizer.json", "{}"}});
      ASSERT_TRUE(saved.ok()) << saved.status();
      EXPECT_EQ(saved->step, 2);
      Train(trainer, 4, BatchOf, result.reports);
    });
  }
  std::vector<std::string> Files(int64_t step) const {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder_.path() + "/" + CheckpointName(step))) {
      names.push_back(entry.path().filename().string());
    }
    std::sort(names.begin(), names.end());
    return names;
  }

  TempDir folder_;
};

TEST_F(RankCheckpoint, ResumedOnAsManyRanksGivesTheSameBits) {
  const Result whole = Whole(2);
  EXPECT_THAT(Files(2),
              ElementsAre("config.json", "model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors",
                          "model.safetensors.index.json", "optimizer-00001-of-00002.safetensors",
                          "optimizer-00002-of-00002.safetensors", "state.json", "tokenizer.json"));
  const Result resumed = RunSteps(2, Resumed(2), 4);
  ExpectSameBits(resumed, whole);
  ASSERT_EQ(resumed.reports.size(), 2u);
  EXPECT_EQ(resumed.reports[1].metrics.at("actor/loss"), whole.reports[3].metrics.at("actor/loss"));
}

TEST_F(RankCheckpoint, ResumedWithDividedParametersGivesTheSameBits) {
  const Result whole = Whole(2, ByLayer());
  for (const TrainerOptions& options : {Plain(), ByLayer()}) {
    const Result resumed = RunSteps(2, Resumed(2, options), 4);
    ExpectSameBits(resumed, whole);
  }
}

class RankCheckpointOf : public RankCheckpoint, public ::testing::WithParamInterface<TinyKind> {};
INSTANTIATE_TEST_SUITE_P(Kinds, RankCheckpointOf, ::testing::ValuesIn(TinyKinds()),
                         [](const auto& info) { return info.param.name; });

TEST_P(RankCheckpointOf, ResumedOnAsManyRanksGivesTheSameBits) {
  TrainerOptions options = Plain();
  options.expert_bias_rate = GetParam().expert_bias_rate;
  for (const TrainerOptions& way : FirstOf<TrainerOptions>(1, {ByLayer(options), options})) {
    SCOPED_TRACE(way.sharding);
    const Result whole = Whole(2, Of(GetParam().config, way, at::kFloat));
    ExpectSameBits(RunSteps(2, Resumed(2, way), 4), whole);
  }
}

TEST_F(RankCheckpoint, MayBeResumedOnAnotherNumberOfRanks) {
  const Result whole = Whole(2);
  for (const int size : {1, 3}) {
    const Result resumed = RunSteps(size, Resumed(2), 4);
    ExpectClose(resumed.parameters, whole.parameters, 1e-3);
    EXPECT_NEAR(resumed.reports[0].metrics.at("actor/loss"), whole.reports[2].metrics.at("actor/loss"), 1e-5);
  }
}

TEST_F(RankCheckpoint, OfOneRankMayBeResumedOnMany) {
  const Result whole = Whole(1);
  EXPECT_THAT(Files(2),
              ElementsAre("config.json", "model.safetensors", "optimizer.safetensors", "state.json", "tokenizer.json"));
  const Result resumed = RunSteps(2, Resumed(2), 4);
  ExpectClose(resumed.parameters, whole.parameters, 1e-3);
}

TEST_F(RankCheckpoint, AMissingShardIsAnError) {
  const std::string path = folder_.path() + "/" + CheckpointName(2);
  Whole(2);
  for (const std::string file :
       {"optimizer-00002-of-00002.safetensors", "model-00001-of-00002.safetensors", "model.safetensors.index.json"}) {
    ASSERT_TRUE(ReadCheckpoint(path).ok());
    std::filesystem::rename(path + "/" + file, folder_.path() + "/away");
    const absl::Status status = ReadCheckpoint(path).status();
    EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
    EXPECT_THAT(std::string(status.message()), HasSubstr(file));
    std::filesystem::rename(folder_.path() + "/away", path + "/" + file);
  }
}

// Every rank has written the parameters that it owns, and no others; together they are the model that all ranks train.
TEST_F(RankCheckpoint, IsAModelFolderInShards) {
  const Result whole = Whole(3, ByLayer());
  const std::string path = folder_.path() + "/" + CheckpointName(2);
  size_t tensors = 0, most = 0;
  for (int shard = 0; shard < 3; ++shard) {
    const auto part = model::LoadSafetensors(path + "/" + model::ShardFile("model", shard, 3));
    ASSERT_TRUE(part.ok()) << part.status();
    tensors += part->size();
    most = std::max(most, part->size());
  }
  const auto model = model::LoadModelDir(path);
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(tensors, model->parameters.tensors().size());
  EXPECT_LT(most, tensors);
  const auto trainer = Trainer::Resume(Plain(), path);
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  EXPECT_EQ((*(*trainer)->TakeSnapshot())->checksum(), ReadCheckpoint(path)->weights_checksum);
}

TEST_F(RankCheckpoint, AFailedWriteLeavesTheEarlierOne) {
  Together(2, Fresh(Plain()), [&](Trainer& trainer, Result& result) {
    ASSERT_TRUE(trainer.SaveCheckpoint(folder_.path(), {}).ok());
    Train(trainer, 1, BatchOf, result.reports);
    EXPECT_FALSE(trainer.SaveCheckpoint(folder_.path(), {{"state.json", "mine"}}).ok());
    EXPECT_FALSE(trainer.SaveCheckpoint("/proc/nowhere", {}).ok());
    Train(trainer, 2, BatchOf, result.reports);
  });
  const auto latest = LatestCheckpoint(folder_.path());
  ASSERT_TRUE(latest.ok()) << latest.status();
  EXPECT_EQ(latest->step, 0);
}

}  // namespace
}  // namespace ingot::trainer::rank_training_test
