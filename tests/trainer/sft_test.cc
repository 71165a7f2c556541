#include "trainer/sft.h"

#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <filesystem>
#include <limits>
#include <set>

#include "conversations.h"
#include "makers.h"
#include "per_call_reference.h"
#include "temp_dir.h"
#include "tiny_model.h"
#include "trainer/trainer.h"

namespace ingot::trainer::sft_test {
namespace {

using ::testing::HasSubstr;

TrainerOptions Options() {
  TrainerOptions options;
  options.threads = 1;
  options.seed = 4;
  options.sft.batch_size = 4;
  options.sft.epochs = 3;
  options.sft.optimizer.learning_rate = 0.01;
  return options;
}

std::unique_ptr<Trainer> Fresh(const TrainerOptions& options, at::ScalarType dtype = at::kFloat) {
  const auto config = TinyConfig();
  return *Trainer::Create(options, config, model::Parameters::Init(config, 2, dtype));
}

TEST(SftBatch, EveryEpochIsANewShuffle) {
  SftOptions options;
  options.batch_size = 4;
  options.epochs = 2;
  ASSERT_EQ(SftSteps(options, 10), 6);
  std::vector<int64_t> orders[2];
  for (int64_t step = 0; step < 6; ++step) {
    const auto batch = SftBatch(options, 10, 9, step);
    EXPECT_EQ(batch.size(), step % 3 == 2 ? 2u : 4u);
    orders[step / 3].insert(orders[step / 3].end(), batch.begin(), batch.end());
    EXPECT_EQ(SftBatch(options, 10, 9, step), batch);
  }
  for (const auto& order : orders) EXPECT_EQ(std::set<int64_t>(order.begin(), order.end()).size(), 10u);
  EXPECT_NE(orders[0], orders[1]);
  EXPECT_NE(SftBatch(options, 10, 8, 0), SftBatch(options, 10, 9, 0));
}

TEST(SftBatch, MaxStepsOrElseEpochsDecideTheSteps) {
  SftOptions options;
  options.batch_size = 4;
  options.epochs = 2;
  options.max_steps = 5;
  EXPECT_EQ(SftSteps(options, 10), 5);
  options.max_steps = 7;  // more than the epochs
  EXPECT_EQ(SftSteps(options, 10), 7);
  options.max_steps = 5;
  options.epochs = 0;
  EXPECT_EQ(SftSteps(options, 10), 5);
  options.max_steps = 0;
  EXPECT_EQ(SftSteps(options, 10), 0);
  EXPECT_EQ(SftSteps(options, 0), 0);
}

TEST(Sft, LossIsTheMeanOverTargetTokensOfEachTurnAlone) {
  TrainerOptions options = Options();
  options.sft.max_steps = 1;
  options.sft.batch_size = 100;
  options.micro_batch_tokens = 30;
  auto trainer = Fresh(options, at::kDouble);
  const auto calls = Conversations(6, 37);
  const auto model = *model::Transformer::Create(trainer->config(), trainer->parameters());
  double nll = 0, tokens = 0;
  {
    const at::NoGradGuard no_history;
    for (const auto& call : calls) {
      const std::vector<int32_t> tokens_of = call.Tokens();
      std::vector<int64_t> ids(tokens_of.begin(), tokens_of.end());
      const int64_t n = static_cast<int64_t>(ids.size()), first = call.context.size();
      const at::Tensor all = at::from_blob(ids.data(), {n}, at::kLong);
      DenseCausal attention;
      const at::Tensor hidden = model.Hidden(all, at::arange(n, at::kLong), attention);
      const at::Tensor lp = at::log_softmax(model.Logits(hidden.slice(0, first - 1, n - 1)), -1);
      nll -= lp.gather(1, all.slice(0, first, n).unsqueeze(1)).sum().item<double>();
      tokens += static_cast<double>(n - first);
    }
  }
  std::vector<SftReport> reports;
  ASSERT_TRUE(trainer
                  ->RunSft(calls,
                           [&](const SftReport& report) {
                             reports.push_back(report);
                             return absl::OkStatus();
                           })
                  .ok());
  ASSERT_EQ(reports.size(), 1u);
  EXPECT_NEAR(reports[0].metrics.at("sft/loss"), nll / tokens, 1e-10);
  EXPECT_NEAR(reports[0].metrics.at("sft/nll"), nll / tokens, 1e-10);
  EXPECT_GT(reports[0].metrics.at("tree/token_ratio"), 1.3);
}

TEST(Sft, LearnsItsConversationsAndLeavesVersionZero) {
  TrainerOptions options = Options();
  options.sft.epochs = 40;
  auto trainer = Fresh(options);
  double first = -1, last = -1;
  const absl::Status status = trainer->RunSft(Conversations(6, 37), [&](const SftReport& report) {
    if (report.step == 0) first = report.metrics.at("sft/loss");
    last = report.metrics.at("sft/loss");
    return absl::OkStatus();
  });
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_NEAR(first, std::log(37.0), 0.2);
  EXPECT_LT(last, 0.5);
  EXPECT_EQ(trainer->version(), 0);
  EXPECT_EQ((*trainer->TakeSnapshot())->version(), 0);
  for (const auto& [name, tensor] : trainer->optimizer_state()) EXPECT_EQ(tensor.abs().sum().item<float>(), 0) << name;
}

TEST(Sft, IsTheSameToTheBitEveryTime) {
  auto a = Fresh(Options()), b = Fresh(Options());
  const auto before = *a->TakeSnapshot();
  ASSERT_TRUE(a->RunSft(Conversations(6, 37), nullptr).ok());
  ASSERT_TRUE(b->RunSft(Conversations(6, 37), nullptr).ok());
  EXPECT_EQ((*a->TakeSnapshot())->checksum(), (*b->TakeSnapshot())->checksum());
  EXPECT_NE((*a->TakeSnapshot())->checksum(), before->checksum());
}

TEST(Sft, BadConversationsAreRejectedBeforeTheFirstStep) {
  auto trainer = Fresh(Options());
  const auto before = (*trainer->TakeSnapshot())->checksum();
  auto calls = Conversations(6, 37);
  calls[5].sampled.back() = 99;
  const absl::Status status = trainer->RunSft(calls, nullptr);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("conversation 2 turn 1"));
  EXPECT_EQ((*trainer->TakeSnapshot())->checksum(), before);
}

// The trainer's weights are damaged after its first step and restored after its third.
TEST(Sft, AStepThatIsNotFiniteIsSkippedAndChangesNothing) {
  for (const int64_t allowed : {2, 1}) {
    TrainerOptions options = Options();
    options.max_skipped_steps = allowed;
    auto trainer = Fresh(options);
    const at::NoGradGuard no_history;
    const at::Tensor damaged = trainer->parameters().at("model.norm.weight").view(-1)[0];
    const at::Tensor other = trainer->parameters().at("model.embed_tokens.weight");
    const float whole = damaged.item<float>();
    std::vector<SftReport> reports;
    at::Tensor before, moment;
    const absl::Status status = trainer->RunSft(Conversations(6, 37), [&](const SftReport& report) {
      reports.push_back(report);
      if (report.step == 0) {
        damaged.fill_(std::numeric_limits<float>::infinity());
        before = other.clone();
        moment = trainer->optimizer_state().at("exp_avg.model.embed_tokens.weight").clone();
      }
      if (report.step == 1 || report.step == 2) {
        EXPECT_TRUE(other.equal(before)) << report.step;
        EXPECT_TRUE(trainer->optimizer_state().at("exp_avg.model.embed_tokens.weight").equal(moment)) << report.step;
      }
      if (report.step == 2) damaged.fill_(whole);
      return absl::OkStatus();
    });
    if (allowed == 1) {
      EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
      EXPECT_THAT(std::string(status.message()),
                  ::testing::AllOf(HasSubstr("sft step 2 failed after 1 consecutive skipped"),
                                   HasSubstr("not finite for calls conversation"),
                                   HasSubstr("tensor model.norm.weight: 1 of 16 elements of its weights"),
                                   HasSubstr("a lower sft.learning_rate")));
      EXPECT_EQ(reports.size(), 2u);
      continue;
    }
    ASSERT_TRUE(status.ok()) << status;
    ASSERT_EQ(reports.size(), 6u);
    for (const SftReport& report : reports) {
      const bool skipped = report.step == 1 || report.step == 2;
      EXPECT_EQ(report.metrics.at("sft/skipped"), skipped ? 1 : 0);
      EXPECT_EQ(report.metrics.contains("sft/loss"), !skipped);
      for (const auto& [name, value] : report.metrics) EXPECT_TRUE(std::isfinite(value)) << name;
    }
    EXPECT_FALSE(other.equal(before));
  }
}

// No step follows that could show the damage; the batch of the last step that was made shows it.
TEST(Sft, AStageThatEndsOnStepsOfBrokenWeightsFailsAndKeepsNone) {
  auto trainer = Fresh(Options());
  const at::NoGradGuard no_history;
  const at::Tensor damaged = trainer->parameters().at("model.norm.weight").view(-1)[0];
  int64_t steps = 0;
  const TempDir folder;
  const absl::Status status = trainer->RunSft(
      Conversations(6, 37),
      [&](const SftReport& report) {
        ++steps;
        if (report.step == 3) damaged.fill_(std::numeric_limits<float>::infinity());
        return absl::OkStatus();
      },
      folder.path());
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  EXPECT_THAT(std::string(status.message()), HasSubstr("stage sft ends after 2 skipped steps, and step 3"));
  EXPECT_EQ(steps, 5);
  EXPECT_TRUE(absl::IsNotFound(LatestCheckpoint(folder.path()).status())) << "weights that are broken were kept";
}

// One conversation, in the last batch, has a token whose embedding is not finite.
TEST(Sft, AStageThatEndsOnAStepOfBadDataKeepsItsWeights) {
  TrainerOptions options = Options();
  auto config = TinyConfig();
  config.tie_word_embeddings = false;
  auto trainer = *Trainer::Create(options, config, model::Parameters::Init(config, 2, at::kFloat));
  {
    const at::NoGradGuard no_history;
    trainer->parameters().at("model.embed_tokens.weight")[36].fill_(std::numeric_limits<float>::quiet_NaN());
  }
  auto calls = Conversations(6, 36);
  const int64_t bad = SftBatch(options.sft, 6, options.seed, 5)[0];
  for (tree::CallPath& call : calls) {
    if (call.episode == bad) call.context = tree::TokenPath(Join({36}, call.context.Tokens()));
  }
  std::vector<double> skipped;
  const SftObserver observer = [&](const SftReport& report) {
    skipped.push_back(report.metrics.at("sft/skipped"));
    return absl::OkStatus();
  };
  const absl::Status status = trainer->RunSft(calls, observer);
  EXPECT_TRUE(status.ok()) << status;
  ASSERT_EQ(skipped.size(), 6u);
  EXPECT_EQ(skipped[4], 0);
  EXPECT_EQ(skipped[5], 1);
  EXPECT_TRUE(trainer->parameters().at("lm_head.weight").isfinite().all().item<bool>());
}

// The weights break before they are saved, and are found broken only after that; further saves of them follow.
TEST(Sft, TheLastSoundCheckpointOutlivesThoseOfSkippedSteps) {
  TrainerOptions options = Options();
  options.sft.epochs = 10;
  options.sft.checkpoint_every = 1;
  options.max_skipped_steps = 5;
  auto trainer = Fresh(options);
  const at::NoGradGuard no_history;
  const at::Tensor damaged = trainer->parameters().at("model.norm.weight").view(-1)[0];
  const TempDir folder;
  const absl::Status status = trainer->RunSft(
      Conversations(6, 37),
      [&](const SftReport& report) {
        if (report.step == 3) damaged.fill_(std::numeric_limits<float>::infinity());  // saved as step 4
        return absl::OkStatus();
      },
      folder.path());
  EXPECT_EQ(status.code(), absl::StatusCode::kInternal);
  std::vector<std::string> kept;
  for (const auto& entry : std::filesystem::directory_iterator(folder.path())) {
    kept.push_back(entry.path().filename().string());
  }
  EXPECT_THAT(kept, ::testing::UnorderedElementsAre("step-00000003", "step-00000008", "step-00000009"));
  const auto sound = ReadCheckpoint(folder.path() + "/step-00000003");
  ASSERT_TRUE(sound.ok()) << sound.status();
  for (const auto& [name, tensor] : sound->parameters.tensors()) EXPECT_TRUE(tensor.isfinite().all().item<bool>());
}

TEST(Sft, EveryStepReportsItsBound) {
  TrainerOptions options = Options();
  options.dpo.batch_size = 4;
  auto trainer = Fresh(options);
  int steps = 0;
  const SftObserver observer = [&](const SftReport& report) {
    ++steps;
    const StepMetrics& metrics = report.metrics;
    EXPECT_GT(metrics.at("perf/bound_seconds"), 0);
    EXPECT_NEAR(metrics.at("perf/of_bound"), metrics.at("perf/bound_seconds") / metrics.at("perf/pass_seconds"), 1e-9);
    EXPECT_NEAR(metrics.at("tree/speedup"), metrics.at("tree/speedup_bound") * metrics.at("perf/of_bound"), 1e-9);
    EXPECT_GT(metrics.at("tree/speedup_bound"), 1.1);  // the turns of a conversation share its prefix
    return absl::OkStatus();
  };
  ASSERT_TRUE(trainer->RunSft(Conversations(6, 37), observer).ok());
  ASSERT_TRUE(trainer->RunDpo(Pairs(6, 37), observer).ok());
  EXPECT_EQ(steps, 8);
}

TEST(Sft, AnObserversErrorEndsTheStage) {
  auto trainer = Fresh(Options());
  int steps = 0;
  const absl::Status status = trainer->RunSft(Conversations(6, 37), [&](const SftReport&) {
    return ++steps == 2 ? absl::CancelledError("stop") : absl::OkStatus();
  });
  EXPECT_EQ(status.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(steps, 2);
}

// --- DPO ---

TEST(Dpo, LearnsToPreferAndStartsAtLogTwo) {
  TrainerOptions options = Options();
  options.dpo.epochs = 20;
  options.dpo.batch_size = 4;
  options.dpo.optimizer.learning_rate = 0.01;
  auto trainer = Fresh(options);
  std::vector<StepMetrics> steps;
  const absl::Status status = trainer->RunDpo(Pairs(6, 37), [&](const SftReport& report) {
    steps.push_back(report.metrics);
    return absl::OkStatus();
  });
  ASSERT_TRUE(status.ok()) << status;
  ASSERT_EQ(steps.size(), 40u);
  EXPECT_NEAR(steps[0].at("dpo/loss"), std::log(2.0), 1e-6);  // the policy is still its own reference
  EXPECT_EQ(steps[0].at("dpo/accuracy"), 0.5);
  EXPECT_EQ(steps.back().at("dpo/accuracy"), 1);
  EXPECT_LT(steps.back().at("dpo/loss"), 0.3);
  EXPECT_EQ(trainer->version(), 0);
}

TEST(Dpo, TheCutIntoMicroBatchesChangesNothing) {
  std::vector<std::vector<double>> losses(2);
  for (const bool cut : {false, true}) {
    TrainerOptions options = Options();
    options.dpo.optimizer.learning_rate = 0.01;
    options.dpo.epochs = 2;
    options.micro_batch_tokens = cut ? 10 : 100000;  // no two sides of a pair together
    auto trainer = Fresh(options, at::kDouble);
    ASSERT_TRUE(trainer
                    ->RunDpo(Pairs(6, 37),
                             [&](const SftReport& report) {
                               losses[cut].push_back(report.metrics.at("dpo/loss"));
                               return absl::OkStatus();
                             })
                    .ok());
  }
  ASSERT_EQ(losses[0].size(), losses[1].size());
  for (size_t i = 0; i < losses[0].size(); ++i) EXPECT_NEAR(losses[0][i], losses[1][i], 1e-10) << i;
  EXPECT_NE(losses[0].front(), losses[0].back());
}

TEST(Dpo, AHalfPairIsRejected) {
  auto trainer = Fresh(Options());
  auto calls = Pairs(3, 37);
  calls.pop_back();
  const absl::Status status = trainer->RunDpo(calls, nullptr);
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), ::testing::AllOf(HasSubstr("pair 2 chosen"), HasSubstr("other side")));
}

// Runs both stages on a fresh trainer of bf16 weights, in sub-folders of `folder`. `stop_after`: number of observed
// steps after which the process "dies"; < 0 = never.
struct StagesRun {
  std::unique_ptr<Trainer> trainer;
  std::vector<int64_t> observed;  // steps of both stages
  absl::Status status;
};

StagesRun RunBothStages(const std::string& folder, int stop_after, int conversations = 6) {
  TrainerOptions options = Options();
  options.dtype = "bf16";
  options.sft.checkpoint_every = 2;
  options.dpo = options.sft;
  StagesRun run{Fresh(options), {}, {}};
  const SftObserver observer = [&](const SftReport& report) {
    if (stop_after >= 0 && std::ssize(run.observed) == stop_after) return absl::CancelledError("stopped");
    run.observed.push_back(report.step);
    return absl::OkStatus();
  };
  run.status = run.trainer->RunSft(Conversations(conversations, 37), observer, folder + "/sft");
  if (run.status.ok()) run.status = run.trainer->RunDpo(Pairs(6, 37), observer, folder + "/dpo");
  return run;
}

void ExpectSameWeights(const Trainer& a, const Trainer& b) {
  for (const auto& [name, tensor] : a.parameters().tensors()) {
    EXPECT_TRUE(at::equal(tensor, b.parameters().at(name))) << name;
  }
}

TEST(StageCheckpoints, AStoppedStageGoesOnToTheSameBits) {
  const TempDir whole_folder;
  const StagesRun whole = RunBothStages(whole_folder.path(), -1);
  ASSERT_TRUE(whole.status.ok()) << whole.status;
  const int64_t all = std::ssize(whole.observed);
  ASSERT_EQ(all, 12);  // six each
  for (int64_t stop = 0; stop <= all; ++stop) {
    const TempDir folder;
    const StagesRun first = RunBothStages(folder.path(), static_cast<int>(stop));
    EXPECT_EQ(first.status.ok(), stop == all);
    const StagesRun second = RunBothStages(folder.path(), -1);
    ASSERT_TRUE(second.status.ok()) << second.status;
    // The step whose observer stopped the stage was made, and is not made again.
    EXPECT_EQ(std::ssize(first.observed) + std::ssize(second.observed), stop == all ? all : all - 1) << stop;
    ExpectSameWeights(*whole.trainer, *second.trainer);
  }
}

TEST(StageCheckpoints, ADamagedCheckpointIsPassedOver) {
  const TempDir whole_folder, folder;
  const StagesRun whole = RunBothStages(whole_folder.path(), -1);
  ASSERT_FALSE(RunBothStages(folder.path(), 4).status.ok());  // saved after 2, 4 and 5 steps
  std::filesystem::resize_file(folder.path() + "/sft/step-00000005/optimizer.safetensors", 100);
  const StagesRun second = RunBothStages(folder.path(), -1);
  ASSERT_TRUE(second.status.ok()) << second.status;
  EXPECT_EQ(second.observed.front(), 4);
  ExpectSameWeights(*whole.trainer, *second.trainer);
}

TEST(StageCheckpoints, AreNotContinuedWithOtherData) {
  const TempDir folder;
  ASSERT_FALSE(RunBothStages(folder.path(), 4).status.ok());
  const StagesRun second = RunBothStages(folder.path(), -1, /*conversations=*/7);
  EXPECT_EQ(second.status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_THAT(std::string(second.status.message()), ::testing::AllOf(HasSubstr("different data"), HasSubstr("/sft")));
}

TEST(Sft, ComesBeforeTheFirstStepOnly) {
  auto trainer = Fresh(Options());
  EXPECT_TRUE(trainer->RunSft({}, nullptr).ok());
  ASSERT_TRUE(trainer->TrainStep(RandomBatch(1, 37, 0)).ok());
  EXPECT_EQ(trainer->RunSft(Conversations(2, 37), nullptr).code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace ingot::trainer::sft_test
