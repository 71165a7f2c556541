#include "trainer/trainer.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <limits>

#include "makers.h"
#include "model/parameters.h"
#include "preset_options.h"
#include "temp_dir.h"
#include "tiny_model.h"
#include "weights/delta.h"

namespace ingot::trainer {
namespace {

using ::testing::HasSubstr;

TrainerOptions FastOptions() {
  TrainerOptions options;
  options.optimizer.learning_rate = 0.02;
  options.optimizer.decay = "constant";
  options.threads = 1;
  return options;
}

std::unique_ptr<Trainer> MakeTrainer(const TrainerOptions& options, int64_t vocab = 37) {
  const model::ModelConfig config = TinyConfig(vocab);
  auto trainer = Trainer::Create(options, config, model::Parameters::Init(config, 1, at::kFloat));
  EXPECT_TRUE(trainer.ok()) << trainer.status();
  return *std::move(trainer);
}

std::map<std::string, at::Tensor> CopyOf(const Trainer& trainer) {
  std::map<std::string, at::Tensor> copy;
  for (const auto& [name, tensor] : trainer.parameters().tensors()) copy[name] = tensor.detach().clone();
  return copy;
}

bool SameBits(const std::map<std::string, at::Tensor>& a, const std::map<std::string, at::Tensor>& b) {
  for (const auto& [name, tensor] : a) {
    if (!at::equal(tensor, b.at(name))) return false;
  }
  return a.size() == b.size();
}

// Log-probs of every next token after `context`, by the trainer's own model.
std::vector<double> Policy(const Trainer& trainer, const std::vector<int32_t>& context) {
  const auto model = model::Transformer::Create(trainer.config(), trainer.parameters());
  std::vector<double> logprobs;
  for (int32_t id = 0; id < trainer.config().vocab_size; ++id) {
    std::vector<tree::CallPath> calls(1);
    calls[0].context = tree::TokenPath(context);
    calls[0].sampled = {id};
    calls[0].logprobs = {0};
    calls[0].versions = {0};
    calls[0].kv_mixed = {0};
    const std::vector<int32_t> all = {0};
    logprobs.push_back(ScoreForest(*model, *tree::PackForest(calls, all), calls, {}).logprobs[0]);
  }
  return logprobs;
}

CallSpec Sample(const std::vector<int32_t>& context, const std::vector<double>& policy, double draw, int64_t version) {
  int32_t id = 0;
  for (; id + 1 < static_cast<int32_t>(policy.size()); ++id) {
    draw -= std::exp(policy[static_cast<size_t>(id)]);
    if (draw < 0) break;
  }
  return {context, {id}, {static_cast<float>(policy[static_cast<size_t>(id)])}, {version}, {}, 1.0f};
}

// One token is rewarded; every published recipe must learn to prefer it.
class Recipe : public ::testing::TestWithParam<std::string> {};

TEST_P(Recipe, RaisesTheProbabilityOfTheRewardedToken) {
  constexpr int32_t kRewarded = 5;
  const std::vector<int32_t> context = {1, 2, 3};
  TrainerOptions options = OptionsOf(GetParam());
  options.optimizer = FastOptions().optimizer;
  options.threads = 1;
  options.max_skipped_steps = 100;  // all samples of a batch may be equal
  auto trainer = MakeTrainer(options, /*vocab=*/8);
  Draws draws(17);
  const double before = std::exp(Policy(*trainer, context)[kRewarded]);
  for (int step = 0; step < 25; ++step) {
    const auto policy = Policy(*trainer, context);
    TrainBatch batch;
    batch.step = step;
    for (int g = 0; g < 2; ++g) {
      std::vector<v1::EpisodeTree> episodes;
      for (int s = 0; s < 8; ++s) {
        const CallSpec call = Sample(context, policy, draws.Between(0, 1), step);
        episodes.push_back(MakeEpisode(absl::StrCat(step, ".", g, ".", s), call.sampled[0] == kRewarded, {call}));
      }
      batch.groups.push_back(MakeGroup(g, std::move(episodes)));
    }
    const auto report = trainer->TrainStep(batch);
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(report->version, step + 1);
    if (report->metrics.at("trainer/skipped") == 1) continue;
    // Sampled by this very policy: the ratio is 1, and the probe agrees.
    if (options.objective == "cispo") {
      EXPECT_NEAR(report->metrics.at("cispo/ratio_mean"), 1.0, 1e-5);
    }
    EXPECT_EQ(report->metrics.at("mismatch/probe_tokens"), report->metrics.at("batch/loss_tokens"));
    EXPECT_LE(report->metrics.at("mismatch/logprob_abs_diff_max"), 1e-5);
  }
  const double after = std::exp(Policy(*trainer, context)[kRewarded]);
  EXPECT_LT(before, 0.3);
  EXPECT_GT(after, 0.9);
}

INSTANTIATE_TEST_SUITE_P(Presets, Recipe, ::testing::ValuesIn(PresetNames()), [](const auto& info) {
  std::string name = info.param;
  std::erase(name, '.');
  return name;
});

TEST(Trainer, ABadTreeNamesItsCallAndTrainsNothing) {
  auto trainer = MakeTrainer(FastOptions());
  const TrainBatch good = RandomBatch(1, 37, 0);
  const auto before = CopyOf(*trainer);
  const auto rejected = [&](const std::function<void(v1::EpisodeTree&)>& damage, const std::string& what) {
    TrainBatch bad = good;
    damage(*bad.groups[1].mutable_episodes(2));
    const auto report = trainer->TrainStep(bad);
    ASSERT_FALSE(report.ok()) << what;
    EXPECT_THAT(std::string(report.status().message()), ::testing::AllOf(HasSubstr("g1s2"), HasSubstr(what)));
  };
  const auto sampled = [](v1::EpisodeTree& tree) -> v1::Segment& {
    return (*tree.mutable_segments())[base::Hex(tree.calls(0).sampled_keys(0))];
  };
  rejected([&](v1::EpisodeTree& t) { sampled(t).set_logprobs(0, std::nanf("")); }, "log-prob");
  rejected([&](v1::EpisodeTree& t) { sampled(t).set_token_ids(0, 37); }, "outside the vocabulary");
  rejected([](v1::EpisodeTree& t) { t.mutable_segments()->erase(base::Hex(t.calls(0).context_keys(0))); }, "g1s2/0");
  EXPECT_EQ(trainer->version(), 0);
  EXPECT_TRUE(SameBits(before, CopyOf(*trainer)));
  EXPECT_TRUE(trainer->TrainStep(good).ok());
  EXPECT_FALSE(SameBits(before, CopyOf(*trainer)));
}

// Damages the trainer's weights, as a fault of the machine might.
void Damage(Trainer& trainer, const std::string& name, float value) {
  const at::NoGradGuard no_history;
  at::Tensor(trainer.parameters().at(name)).view(-1)[0].fill_(value);
}

TEST(Trainer, WeightsThatAreNotFiniteAreRejected) {
  model::Parameters parameters = model::Parameters::Init(TinyConfig(), 1, at::kFloat);
  parameters.at("model.norm.weight")[3].fill_(std::numeric_limits<float>::quiet_NaN());
  const auto trainer = Trainer::Create(FastOptions(), TinyConfig(), parameters);
  EXPECT_TRUE(absl::IsInvalidArgument(trainer.status())) << trainer.status();
  EXPECT_THAT(std::string(trainer.status().message()), testing::HasSubstr("tensor model.norm.weight: 1 of "));
}

TEST(Trainer, AStepThatIsNotFiniteIsSkippedAndChangesNothing) {
  TrainerOptions options = FastOptions();
  options.max_skipped_steps = 2;
  auto trainer = MakeTrainer(options);
  const float whole = trainer->parameters().at("model.norm.weight")[0].item<float>();
  Damage(*trainer, "model.norm.weight", std::numeric_limits<float>::infinity());
  const auto before = CopyOf(*trainer);
  for (int64_t step = 0; step < 2; ++step) {
    const auto report = trainer->TrainStep(RandomBatch(1, 37, step));
    ASSERT_TRUE(report.ok()) << report.status();
    EXPECT_EQ(report->metrics.at("trainer/skipped"), 1);
    EXPECT_EQ(report->version, step + 1);
    for (const auto& [name, value] : report->metrics) EXPECT_TRUE(std::isfinite(value)) << name;
    EXPECT_EQ((*trainer->TakeSnapshot())->version(), step + 1);
  }
  // One more than two in a row stops the run, and the error names the fault.
  const auto report = trainer->TrainStep(RandomBatch(1, 37, 2));
  ASSERT_FALSE(report.ok());
  EXPECT_EQ(report.status().code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(report.status().message()),
              ::testing::AllOf(HasSubstr("not finite"), HasSubstr("calls g0s0/0"),
                               HasSubstr("tensor model.norm.weight: 1 of 16 elements of its weights")));
  EXPECT_EQ(trainer->version(), 2);
  EXPECT_TRUE(SameBits(before, CopyOf(*trainer)));
  EXPECT_EQ(trainer->optimizer_state().at("exp_avg.model.norm.weight").abs().sum().item<float>(), 0);

  // A step that is made ends the row of skipped ones.
  Damage(*trainer, "model.norm.weight", whole);
  ASSERT_TRUE(trainer->TrainStep(RandomBatch(1, 37, 2)).ok());
  EXPECT_FALSE(SameBits(before, CopyOf(*trainer)));
}

// Version 2 is broken, and only its step, after it was saved, shows that: version 1 is the last sound one.
TEST(Trainer, TheLastSoundCheckpointOutlivesThoseOfSkippedSteps) {
  TrainerOptions options = FastOptions();
  options.max_skipped_steps = 5;
  options.keep_checkpoints = 2;
  auto trainer = MakeTrainer(options);
  const TempDir folder;
  const auto kept = [&] {
    std::vector<std::string> names;
    for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
      names.push_back(entry.path().filename().string());
    }
    std::sort(names.begin(), names.end());
    return names;
  };
  for (int64_t step = 0; step < 5; ++step) {
    ASSERT_TRUE(trainer->TrainStep(RandomBatch(1, 37, step)).ok());
    if (step == 1) Damage(*trainer, "model.norm.weight", std::numeric_limits<float>::infinity());
    ASSERT_TRUE(trainer->SaveCheckpoint(folder.path(), {}).ok());
    if (step == 1) {
      EXPECT_THAT(kept(), ::testing::ElementsAre("step-00000001", "step-00000002"));
    }
  }
  EXPECT_THAT(kept(), ::testing::ElementsAre("step-00000001", "step-00000004", "step-00000005"));
  // The run continues from there, and the next save keeps two checkpoints again.
  auto resumed = Trainer::Resume(options, folder.path() + "/step-00000001");
  ASSERT_TRUE(resumed.ok()) << resumed.status();
  for (int64_t step = 1; step < 6; ++step) ASSERT_TRUE((*resumed)->TrainStep(RandomBatch(1, 37, step)).ok());
  ASSERT_TRUE((*resumed)->SaveCheckpoint(folder.path(), {}).ok());
  EXPECT_THAT(kept(), ::testing::ElementsAre("step-00000005", "step-00000006"));
}

TEST(Trainer, NamesTheTrajectoryWhoseGradientIsNotFinite) {
  TrainerOptions options = FastOptions();
  options.max_skipped_steps = 0;
  options.objective = "ppo_clip";
  options.advantage_baseline = "none";
  auto trainer = MakeTrainer(options);
  TrainBatch batch = RandomBatch(1, 37, 0);
  // A sample so unlikely to the engine that its ratio overflows, with a reward that no clip bounds.
  v1::EpisodeTree& tree = *batch.groups[1].mutable_episodes(2);
  tree.mutable_episode()->set_reward(-1);
  for (auto& [key, segment] : *tree.mutable_segments()) {
    if (segment.source() == v1::SOURCE_SAMPLED) segment.set_logprobs(0, -1000);
  }
  const auto report = trainer->TrainStep(batch);
  ASSERT_FALSE(report.ok());
  EXPECT_THAT(
      std::string(report.status().message()),
      ::testing::AllOf(HasSubstr("g1s2/0"), HasSubstr("elements of its gradient"), ::testing::Not(HasSubstr("g0s"))));
  EXPECT_EQ(trainer->version(), 0);
}

// Everything is finite in the loss's doubles and overflows in the model's type: running calls one by one finds the
// call.
TEST(Trainer, NamesTheTrajectoryWhoseGradientOverflows) {
  TrainerOptions options = FastOptions();
  options.max_skipped_steps = 0;
  options.objective = "ppo_clip";
  options.advantage_baseline = "none";
  auto trainer = MakeTrainer(options);
  TrainBatch batch = RandomBatch(1, 37, 0);
  v1::EpisodeTree& tree = *batch.groups[1].mutable_episodes(2);
  tree.mutable_episode()->set_reward(-1);
  for (auto& [key, segment] : *tree.mutable_segments()) {
    if (segment.source() == v1::SOURCE_SAMPLED) segment.set_logprobs(0, -500);  // a ratio of 1e217
  }
  const auto report = trainer->TrainStep(batch);
  ASSERT_FALSE(report.ok());
  EXPECT_THAT(
      std::string(report.status().message()),
      ::testing::AllOf(HasSubstr("g1s2/0"), HasSubstr("elements of its gradient"), ::testing::Not(HasSubstr("g0s"))));
}

// The doors refuse such a reward; a pool of an older version may hold one.
TEST(Trainer, ARewardBeyondTheBoundIsNamedAndItsStepSkipped) {
  for (const char* normalization : {"none", "group", "batch"}) {
    for (const double reward : {-1.01e6, 1e200, 1e308}) {
      TrainerOptions options = FastOptions();
      options.advantage_normalization = normalization;
      options.max_skipped_steps = 1;
      auto trainer = MakeTrainer(options);
      TrainBatch batch = RandomBatch(1, 37, 0);
      batch.groups[1].mutable_episodes(2)->mutable_episode()->set_reward(reward);
      const auto before = CopyOf(*trainer);
      const auto report = trainer->TrainStep(batch);
      ASSERT_TRUE(report.ok()) << report.status();
      EXPECT_EQ(report->metrics.at("trainer/skipped"), 1);
      EXPECT_TRUE(SameBits(before, CopyOf(*trainer)));
      batch.step = 1;
      EXPECT_THAT(std::string(trainer->TrainStep(batch).status().message()),
                  ::testing::AllOf(HasSubstr("group 1, episode g1s2: its reward is "), HasSubstr("-1e6 to 1e6")));
    }
  }
  // The bound itself trains.
  auto trainer = MakeTrainer(FastOptions());
  TrainBatch batch = RandomBatch(1, 37, 0);
  batch.groups[1].mutable_episodes(2)->mutable_episode()->set_reward(1e6);
  const auto report = trainer->TrainStep(batch);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->metrics.at("trainer/skipped"), 0);
  EXPECT_GT(report->metrics.at("actor/grad_norm"), 0);
}

TEST(Trainer, ABatchWithoutLossIsSkipped) {
  TrainerOptions options = FastOptions();
  options.filter_zero_variance = true;
  options.max_skipped_steps = 1;
  auto trainer = MakeTrainer(options);
  TrainBatch equal = RandomBatch(1, 37, 0);
  for (v1::Group& group : equal.groups) {
    for (v1::EpisodeTree& tree : *group.mutable_episodes()) tree.mutable_episode()->set_reward(0.1);
  }
  const auto before = CopyOf(*trainer);
  const auto report = trainer->TrainStep(equal);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->version, 1);
  EXPECT_EQ(report->metrics.at("trainer/skipped"), 1);
  EXPECT_EQ(report->metrics.at("batch/groups_filtered"), 3);
  EXPECT_NEAR(report->metrics.at("reward/mean"), 0.1, 1e-12);
  EXPECT_TRUE(SameBits(before, CopyOf(*trainer)));
  equal.step = 1;
  EXPECT_THAT(std::string(trainer->TrainStep(equal).status().message()),
              HasSubstr("the batch has no tokens to train on"));
}

TEST(Trainer, OptimizerResetEveryStartsTheOptimizerAfresh) {
  TrainerOptions options = FastOptions();
  options.optimizer_reset_every = 2;
  auto trainer = MakeTrainer(options);
  const auto moment = [&] { return trainer->optimizer_state().at("exp_avg.model.norm.weight").clone(); };
  ASSERT_TRUE(trainer->TrainStep(RandomBatch(1, 37, 0)).ok());
  ASSERT_TRUE(trainer->TrainStep(RandomBatch(2, 37, 1)).ok());
  // The third step is the first of an iteration: its result is that of a new trainer with the same weights.
  const auto parameters = CopyOf(*trainer);
  ASSERT_TRUE(trainer->TrainStep(RandomBatch(3, 37, 2)).ok());
  auto fresh =
      *Trainer::Create(options, trainer->config(), *model::Parameters::FromTensors(trainer->config(), parameters));
  TrainBatch same = RandomBatch(3, 37, 2);
  for (v1::Group& group : same.groups) {
    for (v1::EpisodeTree& tree : *group.mutable_episodes()) {
      for (auto& [key, segment] : *tree.mutable_segments()) {
        for (v1::VersionRun& run : *segment.mutable_versions()) run.set_version(0);
      }
    }
  }
  same.step = 0;
  ASSERT_TRUE(fresh->TrainStep(same).ok());
  EXPECT_TRUE(at::equal(moment(), fresh->optimizer_state().at("exp_avg.model.norm.weight")));
}

TEST(Trainer, ASkippedStepTakesTheResetThatWasDue) {
  TrainerOptions options = FastOptions();
  options.optimizer_reset_every = 2;
  auto trainer = MakeTrainer(options);
  for (int step = 0; step < 2; ++step) ASSERT_TRUE(trainer->TrainStep(RandomBatch(1, 37, step)).ok());
  const auto moved = [&] {
    for (const auto& [name, tensor] : trainer->optimizer_state()) {
      if (tensor.abs().max().item<double>() > 0) return true;
    }
    return false;
  };
  EXPECT_TRUE(moved());
  TrainBatch empty = RandomBatch(1, 37, 2);
  for (v1::Group& group : empty.groups) {
    for (v1::EpisodeTree& tree : *group.mutable_episodes()) tree.mutable_episode()->set_state(v1::EPISODE_FENCED);
  }
  const auto skipped = trainer->TrainStep(empty);
  ASSERT_TRUE(skipped.ok()) << skipped.status();
  ASSERT_EQ(skipped->metrics.at("trainer/skipped"), 1);
  EXPECT_FALSE(moved());
}

TEST(Trainer, Fp16WeightsAreRejected) {
  const model::ModelConfig config = TinyConfig(37);
  const auto half = model::Parameters::Init(config, 1, at::kHalf);
  const auto rejected = Trainer::Create(FastOptions(), config, half);
  EXPECT_EQ(rejected.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(rejected.status().message()), HasSubstr("trainer.dtype"));
  TrainerOptions options = FastOptions();
  options.dtype = "bf16";
  EXPECT_TRUE(Trainer::Create(options, config, half).ok());
}

TEST(Trainer, TheCopiesOfTheWeightsCountInTheMemoryOfARun) {
  const auto predicted = [](double reference_kl) {
    TrainerOptions options = FastOptions();
    options.reference_kl_coefficient = reference_kl;
    return MakeTrainer(options)->TrainStep(RandomBatch(1, 37, 0))->metrics.at("perf/memory_predicted_bytes");
  };
  int64_t bytes = 0;
  for (const auto& [name, shape] : model::Parameters::Shapes(TinyConfig(37))) {
    int64_t elements = 4;
    for (const int64_t size : shape) elements *= size;
    bytes += elements;
  }
  EXPECT_GE(predicted(0.1) - predicted(0), static_cast<double>(bytes));
}

// Thousands of equal gradients of one token, one per row, in as many pieces of the logits: sums in bf16 would be half
// of the true ones.
TEST(Trainer, GradientsOfBf16AreSummedInFp32WithinAPartToo) {
  std::vector<tree::CallPath> calls;
  for (int i = 0; i < 20; ++i) {
    tree::CallPath call;
    call.call_id = absl::StrCat(i);
    call.episode = call.group = i;
    call.context = tree::TokenPath(std::vector<int32_t>{i, 1});
    call.sampled.assign(40, 7);
    calls.push_back(call);
  }
  const auto norm = [&](const std::string& dtype) {
    TrainerOptions options = FastOptions();
    options.dtype = dtype;
    options.logits_chunk_elements = 37;
    options.sft.batch_size = 20;
    options.sft.max_steps = 1;
    const model::ModelConfig config = TinyConfig(37);
    auto trainer = *Trainer::Create(options, config, model::Parameters::Init(config, 1, at::kBFloat16));
    double grad_norm = 0;
    EXPECT_TRUE(trainer
                    ->RunSft(calls,
                             [&](const SftReport& report) {
                               grad_norm = report.metrics.at("sft/grad_norm");
                               return absl::OkStatus();
                             })
                    .ok());
    return grad_norm;
  };
  const double exact = norm("fp32");
  EXPECT_NEAR(norm("bf16"), exact, 0.01 * exact);  // bf16 has 8 bits: 0.4 % a rounding
}

TEST(Trainer, TheReferenceIsTheRunsStartPolicy) {
  TrainerOptions options = FastOptions();
  options.reference_kl_coefficient = 0.5;
  auto trainer = MakeTrainer(options);
  const auto first = trainer->TrainStep(RandomBatch(1, 37, 0));
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ(first->metrics.at("actor/reference_kl"), 0);  // policy and reference are still the same
  const auto second = trainer->TrainStep(RandomBatch(2, 37, 1));
  EXPECT_GT(second->metrics.at("actor/reference_kl"), 0);

  // A checkpoint does not hold the reference: a resumed run must be told its path.
  TempDir folder;
  const auto checkpoint = trainer->SaveCheckpoint(folder.path(), {});
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  const auto lost = Trainer::Resume(options, checkpoint->path);
  EXPECT_EQ(lost.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(lost.status().message()), HasSubstr("reference_path"));
  const auto start = MakeTrainer(FastOptions());
  const std::string path = folder.path() + "/reference";
  ASSERT_TRUE(model::SaveModelDir(path, start->config(), start->parameters()).ok());
  options.reference_path = path;
  auto resumed = Trainer::Resume(options, checkpoint->path);
  ASSERT_TRUE(resumed.ok()) << resumed.status();
  ASSERT_TRUE((*resumed)->TrainStep(RandomBatch(3, 37, 2)).ok());
  ASSERT_TRUE(trainer->TrainStep(RandomBatch(3, 37, 2)).ok());
  EXPECT_TRUE(SameBits(CopyOf(*trainer), CopyOf(**resumed)));
  options.reference_path = folder.path() + "/nowhere";
  EXPECT_THAT(std::string(Trainer::Resume(options, checkpoint->path).status().message()),
              HasSubstr("reference policy"));
}

TEST(Trainer, TheReferenceMovesAfterSoManySteps) {
  TrainerOptions options = FastOptions();
  options.reference_kl_coefficient = 0.5;
  options.reference_update_every = 2;
  auto trainer = MakeTrainer(options);
  for (int64_t step = 0; step < 5; ++step) {
    const auto report = trainer->TrainStep(RandomBatch(static_cast<uint64_t>(step) + 1, 37, step));
    ASSERT_TRUE(report.ok()) << report.status();
    const double kl = report->metrics.at("actor/reference_kl");
    if (step % 2 == 0) {
      EXPECT_EQ(kl, 0) << "the reference of step " << step << " is the policy before it";
    } else {
      EXPECT_GT(kl, 0) << step;
    }
  }
}

TEST(Trainer, AMovedReferenceComesBackWithTheCheckpoint) {
  for (const std::string dtype : {"fp32", "bf16"}) {
    SCOPED_TRACE(dtype);
    TrainerOptions options = FastOptions();
    options.dtype = dtype;
    options.reference_kl_coefficient = 0.5;
    options.reference_update_every = 2;
    auto trainer = MakeTrainer(options);
    TempDir folder;
    const auto train = [](Trainer& of, int64_t step) {
      return of.TrainStep(RandomBatch(static_cast<uint64_t>(step) + 1, 37, step));
    };
    ASSERT_TRUE(train(*trainer, 0).ok());
    const auto early = trainer->SaveCheckpoint(folder.path(), {});
    ASSERT_TRUE(early.ok()) << early.status();
    EXPECT_TRUE(absl::IsNotFound(ReadReference(early->path).status()));
    EXPECT_THAT(std::string(Trainer::Resume(options, early->path).status().message()), HasSubstr("reference_path"));
    ASSERT_TRUE(train(*trainer, 1).ok());
    ASSERT_TRUE(train(*trainer, 2).ok());
    const auto checkpoint = trainer->SaveCheckpoint(folder.path(), {});  // version 3: the reference is version 2
    ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
    auto resumed = Trainer::Resume(options, checkpoint->path);
    ASSERT_TRUE(resumed.ok()) << resumed.status();
    for (int64_t step = 3; step < 6; ++step) {
      const auto on = train(*trainer, step), again = train(**resumed, step);
      ASSERT_TRUE(on.ok()) << on.status();
      ASSERT_TRUE(again.ok()) << again.status();
      EXPECT_EQ(on->metrics.at("actor/reference_kl"), again->metrics.at("actor/reference_kl")) << step;
    }
    EXPECT_TRUE(SameBits(CopyOf(*trainer), CopyOf(**resumed)));
  }
}

TEST(Trainer, AReferenceThatTheCheckpointLacksIsMissed) {
  TrainerOptions options = FastOptions();
  auto trainer = MakeTrainer(options);
  for (int64_t step = 0; step < 2; ++step) ASSERT_TRUE(trainer->TrainStep(RandomBatch(1, 37, step)).ok());
  TempDir folder;
  const auto checkpoint = trainer->SaveCheckpoint(folder.path(), {});
  ASSERT_TRUE(checkpoint.ok()) << checkpoint.status();
  options.reference_kl_coefficient = 0.5;
  options.reference_update_every = 2;
  const auto lost = Trainer::Resume(options, checkpoint->path);
  EXPECT_EQ(lost.status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(lost.status().message()), HasSubstr("has no reference policy"));
}

// The share of words that differ, found without marks.
double Compared(const weights::Snapshot& base, const weights::Snapshot& target) {
  std::vector<weights::TensorView> views;
  for (size_t i = 0; i < target.size(); ++i) views.push_back(target.view(i));
  return weights::Density(&base, **weights::Snapshot::Copy(target.version(), views));
}

TEST(Trainer, AVersionHasTheMarksOfTheStepThatMadeIt) {
  TrainerOptions options = FastOptions();
  options.dtype = "bf16";
  options.optimizer.learning_rate = 1e-3;
  for (const bool bounded : {false, true}) {
    if (bounded) {  // halved or taken back: words that were proposed and changed back are marked too
      options.trust_region.max_mean = 1e-9;
      options.trust_region.halvings = 2;
    }
    auto trainer = MakeTrainer(options);
    auto before = *trainer->TakeSnapshot();
    EXPECT_EQ(before->changes(), nullptr) << "nothing came before it";
    for (int64_t step = 0; step < 3; ++step) {
      ASSERT_TRUE(trainer->TrainStep(RandomBatch(static_cast<uint64_t>(step + 1), 37, step)).ok());
      const auto after = *trainer->TakeSnapshot();
      ASSERT_NE(after->changes(), nullptr);
      EXPECT_EQ(after->changes()->base_checksum, before->checksum());
      EXPECT_EQ(after->changes()->masks.size(), after->size()) << "every tensor is bf16 and trained";
      EXPECT_DOUBLE_EQ(weights::Density(before.get(), *after), Compared(*before, *after));
      const auto delta = weights::Encode(before.get(), *after, false);
      const auto applied = weights::Apply(before, *delta);
      ASSERT_TRUE(applied.ok()) << applied.status();
      EXPECT_EQ((*applied)->checksum(), after->checksum());
      before = after;
    }
  }
}

TEST(Trainer, VersionsTakeTurnsInTwoBuffers) {
  auto trainer = MakeTrainer(FastOptions());
  auto first = *trainer->TakeSnapshot();
  const auto step = [&](int64_t number) {
    ASSERT_TRUE(trainer->TrainStep(RandomBatch(static_cast<uint64_t>(number + 1), 37, number)).ok());
  };
  step(0);
  const auto second = *trainer->TakeSnapshot();
  const std::string kept = std::string(reinterpret_cast<const char*>(second->bytes(0).data()), second->bytes(0).size());
  const std::byte* const memory = first->bytes(0).data();
  first = nullptr;  // no engine reads it any more
  step(1);
  const auto third = *trainer->TakeSnapshot();
  EXPECT_EQ(third->bytes(0).data(), memory);
  EXPECT_EQ(std::memcmp(second->bytes(0).data(), kept.data(), kept.size()), 0) << "an engine reads it still";
  step(2);
  EXPECT_NE((*trainer->TakeSnapshot())->bytes(0).data(), memory) << "the third is read too: memory of its own";
}

TEST(Trainer, ABf16VersionIsTheMemoryOfTheParameters) {
  TrainerOptions options = FastOptions();
  options.dtype = "bf16";
  options.optimizer.learning_rate = 1e-3;
  auto trainer = MakeTrainer(options);
  ASSERT_TRUE(trainer->TakeSnapshot().ok());  // a copy: torch allocated the parameters
  const auto step = [&](int64_t number) {
    ASSERT_TRUE(trainer->TrainStep(RandomBatch(static_cast<uint64_t>(number + 1), 37, number)).ok());
    const auto version = *trainer->TakeSnapshot();
    for (size_t i = 0; i < version->size(); ++i) {
      const at::Tensor& parameter = trainer->parameters().tensors().at(version->view(i).name);
      EXPECT_EQ(parameter.const_data_ptr(), version->bytes(i).data()) << version->view(i).name;
    }
  };
  step(0);
  auto first = *trainer->TakeSnapshot();
  const std::string kept = std::string(reinterpret_cast<const char*>(first->bytes(0).data()), first->bytes(0).size());
  const std::byte* const memory = first->bytes(0).data();
  step(1);
  EXPECT_EQ(std::memcmp(memory, kept.data(), kept.size()), 0) << "an engine reads it still";
  EXPECT_NE((*trainer->TakeSnapshot())->bytes(0).data(), memory);
  first = nullptr;  // no engine reads it any more
  step(2);
  EXPECT_EQ((*trainer->TakeSnapshot())->bytes(0).data(), memory);
}

TEST(Trainer, VersionsShareTheParametersThatAreNotTrained) {
  model::ModelConfig config = TinyConfig();
  config.lora = {.rank = 2, .alpha = 4, .targets = {"q_proj", "v_proj"}};
  for (const std::string type : {"bf16", "fp32"}) {
    TrainerOptions options = FastOptions();
    options.dtype = type;
    options.optimizer.learning_rate = 1e-2;
    auto trainer = *Trainer::Create(options, config, TinyParameters(config, 2, at::kFloat));
    const auto first = *trainer->TakeSnapshot();
    ASSERT_TRUE(trainer->TrainStep(RandomBatch(1, 37, 0)).ok());
    const auto second = *trainer->TakeSnapshot();
    ASSERT_NE(first->checksum(), second->checksum());
    int shared = 0;
    std::vector<weights::TensorView> views;
    for (size_t i = 0; i < second->size(); ++i) {
      const weights::TensorView view = second->view(i);
      const at::Tensor& parameter = trainer->parameters().tensors().at(view.name);
      EXPECT_EQ(std::memcmp(parameter.const_data_ptr(), view.bytes.data(), view.bytes.size()), 0) << view.name;
      views.push_back({view.name, view.dtype, view.shape, view.bytes});
      if (parameter.requires_grad() || parameter.dim() < 2) continue;
      EXPECT_EQ(view.bytes.data(), first->bytes(i).data()) << view.name;
      EXPECT_EQ(view.bytes.data(), parameter.const_data_ptr()) << view.name << ": the trainer has no copy of its own";
      ++shared;
    }
    EXPECT_GT(shared, 10) << type;
    EXPECT_EQ((*weights::Snapshot::Copy(second->version(), views))->checksum(), second->checksum());
    const auto applied = weights::Apply(first, *weights::Encode(first.get(), *second, false));
    ASSERT_TRUE(applied.ok()) << applied.status();
  }
}

TEST(Trainer, BatchesComeInOrder) {
  auto trainer = MakeTrainer(FastOptions());
  const auto report = trainer->TrainStep(RandomBatch(1, 37, 1));
  EXPECT_EQ(report.status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(report.status().message()), HasSubstr("batch 1 cannot be trained at version 0"));
}

TEST(Trainer, InvalidOptionsAreRejected) {
  TrainerOptions options;
  options.loss_aggregation = "mean";
  const auto config = TinyConfig();
  const auto trainer = Trainer::Create(options, config, model::Parameters::Init(config, 1, at::kFloat));
  EXPECT_EQ(trainer.status().code(), absl::StatusCode::kInvalidArgument);
}

// Calls sampled by the trainer's policy, with log-probs recorded as an engine would.
std::vector<tree::CallPath> ProbeCalls(const Trainer& trainer, int64_t version, int64_t tokens) {
  std::vector<tree::CallPath> calls(1);
  Draws draws(5);
  calls[0].call_id = "probe";
  calls[0].context = tree::TokenPath(draws.Tokens(2, trainer.config().vocab_size));
  calls[0].sampled = draws.Tokens(tokens, trainer.config().vocab_size);
  calls[0].versions.assign(static_cast<size_t>(tokens), version);
  calls[0].kv_mixed.assign(static_cast<size_t>(tokens), 0);
  const auto model = model::Transformer::Create(trainer.config(), trainer.parameters());
  const std::vector<int32_t> all = {0};
  calls[0].logprobs.assign(static_cast<size_t>(tokens), 0.0f);
  const auto scored = ScoreForest(*model, *tree::PackForest(calls, all), calls, {}).logprobs;
  calls[0].logprobs.assign(scored.begin(), scored.end());
  return calls;
}

TEST(Trainer, TheProbeCountsUnmixedTokensOfItsVersion) {
  TrainerOptions options = FastOptions();
  options.probe_tokens = 40;
  auto trainer = MakeTrainer(options);
  // No token of the batch was sampled at version 1, the version of its step.
  ASSERT_TRUE(trainer->TrainStep(RandomBatch(1, 37, 0)).ok());
  TrainBatch batch = RandomBatch(2, 37, 0);
  batch.step = 1;
  int64_t asked = -1, at_version = -1;
  const auto report = trainer->TrainStep(batch, [&](int64_t version, int64_t tokens) {
    asked = tokens;
    at_version = version;
    auto calls = ProbeCalls(*trainer, version, tokens + 10);
    calls[0].kv_mixed[0] = 1;            // mixed KV: not of the probe
    calls[0].versions[1] = version - 1;  // older version: not of the probe either
    calls[0].logprobs[0] = calls[0].logprobs[1] = -50;
    return calls;
  });
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(asked, trainer->options().probe_tokens);
  EXPECT_EQ(at_version, 1);
  EXPECT_EQ(report->metrics.at("mismatch/probe_tokens"), asked + 8);
  EXPECT_LE(report->metrics.at("mismatch/logprob_abs_diff_max"), 1e-5);
  EXPECT_GT(report->metrics.at("offpolicy/logprob_abs_diff_max"), 1e-3);
}

TEST(Trainer, ProbeCallsBearNoLoss) {
  TrainerOptions options = FastOptions();
  auto with = MakeTrainer(options), without = MakeTrainer(options);
  const TrainBatch batch = RandomBatch(3, 37, 0);
  ASSERT_TRUE(without->TrainStep(batch).ok());
  ASSERT_TRUE(
      with->TrainStep(batch, [&](int64_t v, int64_t n) { return ProbeCalls(*with, v, n > 100 ? 100 : n); }).ok());
  EXPECT_TRUE(SameBits(CopyOf(*with), CopyOf(*without)));
}

TEST(Trainer, UnmeasuredMetricsAreNotReported) {
  auto trainer = MakeTrainer(FastOptions());
  const auto nothing = [](int64_t, int64_t) -> absl::StatusOr<std::vector<tree::CallPath>> {
    return absl::UnavailableError("the engine is gone");
  };
  const auto report = trainer->TrainStep(RandomBatch(1, 37, 0), nothing);
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_EQ(report->metrics.at("mismatch/probe_tokens"), 0);
  EXPECT_FALSE(report->metrics.contains("mismatch/k3_kl"));
  EXPECT_FALSE(report->metrics.contains("mismatch/logprob_abs_diff_max"));
  EXPECT_TRUE(report->metrics.contains("offpolicy/k3_kl"));
}

TEST(Trainer, AProbeThatFailsIsReportedByItsSize) {
  auto trainer = MakeTrainer(FastOptions());
  const auto report =
      trainer->TrainStep(RandomBatch(3, 37, 0), [](int64_t, int64_t) -> absl::StatusOr<std::vector<tree::CallPath>> {
        return absl::UnavailableError("no engine");
      });
  ASSERT_TRUE(report.ok()) << report.status();
  EXPECT_LT(report->metrics.at("mismatch/probe_tokens"), 256);
}

TEST(Trainer, SnapshotsAreTheParametersBytes) {
  auto trainer = MakeTrainer(FastOptions());
  const auto first = trainer->TakeSnapshot();
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_EQ((*first)->version(), 0);
  EXPECT_EQ(*trainer->TakeSnapshot(), *first);  // one object per version
  ASSERT_TRUE(trainer->TrainStep(RandomBatch(1, 37, 0)).ok());
  const auto second = trainer->TakeSnapshot();
  ASSERT_TRUE(second.ok());
  EXPECT_EQ((*second)->version(), 1);
  EXPECT_NE((*second)->checksum(), (*first)->checksum());
  size_t index = 0;
  for (const auto& [name, tensor] : trainer->parameters().tensors()) {
    const auto view = (*second)->view(index++);
    EXPECT_EQ(view.name, name);
    EXPECT_EQ(view.dtype, "F32");
    ASSERT_EQ(view.bytes.size(), tensor.nbytes());
    EXPECT_EQ(std::memcmp(view.bytes.data(), tensor.const_data_ptr(), tensor.nbytes()), 0) << name;
  }
}

TEST(Trainer, OwnsACopyOfItsParameters) {
  const auto config = TinyConfig();
  const auto parameters = model::Parameters::Init(config, 1, at::kFloat);
  const at::Tensor before = parameters.at("model.norm.weight").clone();
  auto trainer = *Trainer::Create(FastOptions(), config, parameters);
  ASSERT_TRUE(trainer->TrainStep(RandomBatch(1, 37, 0)).ok());
  EXPECT_TRUE(at::equal(parameters.at("model.norm.weight"), before));
}

}  // namespace
}  // namespace ingot::trainer
