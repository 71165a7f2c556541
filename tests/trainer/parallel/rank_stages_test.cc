// The supervised stages on several ranks compared with one rank: equal up to rounding, deterministic to the bit, and
// ended by the same errors.
#include <ATen/ATen.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <limits>
#include <string>
#include <vector>

#include "../conversations.h"
#include "../makers.h"
#include "../temp_dir.h"
#include "../tiny_model.h"
#include "rank_group.h"
#include "together.h"
#include "trainer/trainer.h"
#include "trials.h"

namespace ingot::trainer {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Six steps of each stage; batches of 4 and 2, whose calls are several parts.
TrainerOptions Stages() {
  TrainerOptions options = Plain();
  options.seed = 4;
  options.sft.batch_size = 4;
  options.sft.epochs = 3;
  options.sft.checkpoint_every = 2;
  options.sft.optimizer.learning_rate = 0.01;
  options.dpo = options.sft;
  return options;
}

// Two steps of each stage.
TrainerOptions OneEpoch() {
  TrainerOptions options = Stages();
  options.sft.epochs = options.dpo.epochs = 1;
  return options;
}

TrainerOptions ByLayer(TrainerOptions options) {
  options.sharding = "layers";
  return options;
}

constexpr int64_t kAllSteps = 12;

struct StagesRun {
  Result result;
  std::vector<SftReport> reports;  // of both stages
  absl::Status status;
};

// Runs both stages on `size` ranks, with checkpoints in sub-folders of `folder` (empty = none), then `then` on rank 0.
// `stop_after`: number of observed steps after which the run is stopped; < 0 = never.
StagesRun RunStages(int size, const TrainerOptions& options, const std::string& folder = "", int64_t stop_after = -1,
                    at::ScalarType dtype = at::kFloat, const std::function<void(Trainer&, Result&)>& then = nullptr) {
  StagesRun run;
  run.result = Together(size, Fresh(options, dtype), [&](Trainer& trainer, Result& result) {
    const SftObserver observer = [&](const SftReport& report) {
      if (stop_after >= 0 && std::ssize(run.reports) == stop_after) return absl::CancelledError("stopped");
      run.reports.push_back(report);
      return absl::OkStatus();
    };
    const auto place = [&](const std::string& stage) { return folder.empty() ? "" : folder + stage; };
    run.status = trainer.RunSft(Conversations(6, 37), observer, place("/sft"));
    if (run.status.ok()) run.status = trainer.RunDpo(Pairs(6, 37), observer, place("/dpo"));
    if (then) then(trainer, result);
  });
  return run;
}

void ExpectSameReports(const StagesRun& actual, const StagesRun& expected, double tolerance) {
  ASSERT_EQ(actual.reports.size(), expected.reports.size());
  for (size_t i = 0; i < expected.reports.size(); ++i) {
    const StepMetrics &of_many = actual.reports[i].metrics, &of_one = expected.reports[i].metrics;
    for (const auto& [name, value] : of_one) {
      if (OfTheRun(name) || name.ends_with("tokens_per_second")) continue;
      ASSERT_TRUE(of_many.contains(name)) << name;
      EXPECT_LE(std::abs(of_many.at(name) - value), tolerance * std::max(1.0, std::abs(value))) << i << " " << name;
    }
    for (const auto& [name, value] : of_many) EXPECT_TRUE(OfTheRun(name) || of_one.contains(name)) << name;
    EXPECT_EQ(actual.reports[i].step, expected.reports[i].step);
    EXPECT_EQ(actual.reports[i].total_steps, expected.reports[i].total_steps);
  }
}

// In fp64 the rounding of twelve steps stays far below any mistake: a call left out or counted twice changes the first
// step's loss by one in a hundred.
TEST(RankStages, TrainLikeOneRank) {
  const StagesRun one = RunStages(1, Stages(), "", -1, at::kDouble);
  ASSERT_TRUE(one.status.ok()) << one.status;
  ASSERT_EQ(std::ssize(one.reports), kAllSteps);
  // An epoch's second batch of conversations has four calls: of five ranks, one has no work.
  for (const int size : FirstOf<int>(1, {5, 2, 3})) {
    SCOPED_TRACE(size);
    const StagesRun many = RunStages(size, Stages(), "", -1, at::kDouble);
    ASSERT_TRUE(many.status.ok()) << many.status;
    ExpectSameReports(many, one, 1e-9);
    ExpectClose(many.result.parameters, one.result.parameters, 1e-9);
    EXPECT_EQ(many.reports[0].metrics.at("trainer/ranks"), size);
  }
}

// One step: fp32 sums in another order.
TEST(RankStages, LossAndGradientOfFp32AreOneRanksToRounding) {
  TrainerOptions options = Stages();
  options.sft.max_steps = options.dpo.max_steps = 1;
  const StagesRun one = RunStages(1, options), many = RunStages(2, options);
  ExpectSameReports(many, one, 1e-5);
}

TEST(RankStages, TheSameNumberOfRanksGivesTheSameBits) {
  const TrainerOptions options = OneEpoch();
  const StagesRun first = RunStages(3, options), again = RunStages(3, options);
  const StagesRun by_layer = RunStages(3, ByLayer(options));
  ASSERT_TRUE(by_layer.status.ok()) << by_layer.status;
  for (const StagesRun& other : {again, by_layer}) {
    ExpectSameReports(other, first, 0);
    ExpectSameBits(other.result, first.result);
  }
}

// The stages leave an ordinary trainer: all parameters on every rank, a fresh optimizer, and their result as the
// reference.
TEST(RankStages, TheRunContinuesFromTheirResult) {
  TrainerOptions options = OneEpoch();
  options.reference_kl_coefficient = 0.05;
  const auto then = [](Trainer& trainer, Result& result) {
    EXPECT_EQ(trainer.version(), 0);
    EXPECT_TRUE(trainer.TakeSnapshot().ok());
    for (const auto& [name, tensor] : trainer.optimizer_state()) {
      EXPECT_EQ(tensor.abs().sum().item<double>(), 0) << name;
    }
    for (int64_t step = 0; step < 2; ++step) {
      const auto report = trainer.TrainStep(RandomBatch(static_cast<uint64_t>(100 + step), 37, step));
      ASSERT_TRUE(report.ok()) << report.status();
      result.reports.push_back(*report);
    }
    EXPECT_EQ(trainer.RunSft(Conversations(6, 37), nullptr).code(), absl::StatusCode::kFailedPrecondition);
  };
  const StagesRun one = RunStages(1, options, "", -1, at::kFloat, then);
  EXPECT_EQ(one.result.reports[0].metrics.at("actor/reference_kl"), 0);  // policy and reference are still the same
  for (const TrainerOptions& of_many : {options, ByLayer(options)}) {
    const StagesRun many = RunStages(2, of_many, "", -1, at::kFloat, then);
    ASSERT_EQ(many.result.reports.size(), 2u);
    EXPECT_EQ(many.result.reports[0].metrics.at("actor/reference_kl"), 0);
    // Steps at a learning rate of 0.01 amplify rounding, as they do any small change.
    EXPECT_NEAR(many.result.reports[1].metrics.at("actor/loss"), one.result.reports[1].metrics.at("actor/loss"), 1e-3);
  }
}

class RankStageCheckpoints : public ::testing::TestWithParam<std::string> {
 protected:
  TrainerOptions Options() const {
    TrainerOptions options = Stages();
    options.sharding = GetParam();
    options.dtype = "bf16";  // it has masters to store
    return options;
  }
};

TEST_P(RankStageCheckpoints, AStoppedStageGoesOnToTheSameBits) {
  const TempDir whole_folder;
  const StagesRun whole = RunStages(2, Options(), whole_folder.path());
  ASSERT_TRUE(whole.status.ok()) << whole.status;
  EXPECT_TRUE(std::filesystem::exists(whole_folder.path() + "/dpo/step-00000006/optimizer-00002-of-00002.safetensors"));
  ExpectSameBits(RunStages(2, Options()).result, whole.result);       // writing checkpoints changes nothing
  for (const int64_t stop : FirstOf<int64_t>(2, {3, 6, 0, 8, 11})) {  // 6: between the stages
    SCOPED_TRACE(stop);
    const TempDir folder;
    const StagesRun first = RunStages(2, Options(), folder.path(), stop);
    EXPECT_EQ(first.status.code(), absl::StatusCode::kCancelled);
    EXPECT_EQ(std::ssize(first.reports), stop);
    const StagesRun second = RunStages(2, Options(), folder.path());
    ASSERT_TRUE(second.status.ok()) << second.status;
    EXPECT_EQ(std::ssize(second.reports), kAllSteps - stop - 1);  // the step before the stop is not made again
    ExpectSameBits(second.result, whole.result);
  }
}

TEST_P(RankStageCheckpoints, MayBeContinuedOnAnotherNumberOfRanks) {
  const TempDir folder;
  TrainerOptions options = Options();
  options.dtype = "model";
  const StagesRun whole = RunStages(2, options);
  EXPECT_EQ(RunStages(2, options, folder.path(), 3).status.code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(RunStages(3, options, folder.path(), 3).status.code(), absl::StatusCode::kCancelled);
  const StagesRun last = RunStages(1, options, folder.path());
  ASSERT_TRUE(last.status.ok()) << last.status;
  EXPECT_EQ(last.reports.size(), 4u);
  EXPECT_NEAR(last.reports.back().metrics.at("dpo/loss"), whole.reports.back().metrics.at("dpo/loss"), 1e-3);
}

TEST_P(RankStageCheckpoints, OfOtherDataEndTheStageBeforeItBegins) {
  const TempDir folder;
  ASSERT_FALSE(RunStages(2, Options(), folder.path(), 4).status.ok());
  Together(2, Fresh(Options()), [&](Trainer& trainer, Result&) {
    EXPECT_EQ(trainer.RunSft(Conversations(7, 37), nullptr, folder.path() + "/sft").code(),
              absl::StatusCode::kFailedPrecondition);
    EXPECT_TRUE(trainer.RunSft(Conversations(7, 37), nullptr).ok());
  });
}

INSTANTIATE_TEST_SUITE_P(Sharding, RankStageCheckpoints, ::testing::Values("optimizer", "layers"),
                         [](const auto& info) { return info.param; });

size_t Occurrences(const std::string& text, const std::string& what) {
  size_t count = 0;
  for (size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) ++count;
  return count;
}

TEST(RankStages, NonFiniteStepsAreSkippedNamedOnceAndEndTheStage) {
  for (const int size : FirstOf<int>(2, {1, -3, 2, 3})) {  // below 0: divided by layer
    SCOPED_TRACE(size);
    TrainerOptions options = Stages();
    options.sharding = size < 0 ? "layers" : "optimizer";
    options.sft.optimizer.learning_rate = 1e30;  // from the second step on the logits overflow
    options.max_skipped_steps = 2;
    const StagesRun run = RunStages(std::abs(size), options);
    EXPECT_EQ(run.status.code(), absl::StatusCode::kInternal);
    ASSERT_EQ(run.reports.size(), 3u);
    for (size_t i = 0; i < 3; ++i) EXPECT_EQ(run.reports[i].metrics.at("sft/skipped"), i == 0 ? 0 : 1);
    const std::string text(run.status.message());
    EXPECT_THAT(text, AllOf(HasSubstr("sft step 3 failed after 2 consecutive skipped"),
                            HasSubstr("for calls conversation"), HasSubstr("lower sft.learning_rate")));
    EXPECT_EQ(Occurrences(text, "not finite for"), 1u) << text;
    EXPECT_THAT(text, ::testing::Not(HasSubstr("rank ")));  // it is an error of every rank
  }
}

// A stage ends by making the reference anew: here from a folder that one rank no longer has.
TEST(RankStages, AnErrorOfOneRankEndsTheStageOnAll) {
  const TempDir folder;
  const auto config = TinyConfig();
  const Make make = [&](Ranks* ranks) {
    TrainerOptions options = Stages();
    options.reference_kl_coefficient = 0.05;
    options.reference_path = folder.path() + "/" + std::to_string(ranks->rank());
    EXPECT_TRUE(model::SaveModelDir(options.reference_path, config, TinyParameters(config, 3, at::kFloat)).ok());
    return Fresh(options)(ranks);
  };
  Together(3, make, [&](Trainer& trainer, Result&) {
    const absl::Status status = trainer.RunSft(Conversations(6, 37), [&](const SftReport&) {
      std::filesystem::remove_all(folder.path() + "/1");  // all have made their trainers by now
      return absl::OkStatus();
    });
    EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("rank 1: "), HasSubstr("reference policy")));
  });
}

// A conversation of many parts, all of which wait for its last: together they need more than one of them.
TEST(RankStages, AStepThatDoesNotFitIsRejectedBeforeItRuns) {
  auto config = TinyConfig();
  config.max_position_embeddings = 2048;
  std::vector<tree::CallPath> calls = Conversations(1, 37);
  calls[0].sampled = Draws(3).Tokens(1500, 37);
  for (const int size : {1, 2}) {
    const Make make = [&](Ranks* ranks) {
      TrainerOptions options = Stages();
      options.micro_batch_tokens = 16;
      options.memory_limit_mb = ranks == nullptr || ranks->rank() == 0 ? 2 : 1000;
      return Trainer::Create(options, config, TinyParameters(config, 2, at::kFloat), base::Clock::Real(), ranks);
    };
    Together(size, make, [&](Trainer& trainer, Result&) {
      const absl::Status status = trainer.RunSft(calls, nullptr);
      EXPECT_EQ(status.code(), absl::StatusCode::kResourceExhausted) << status;
      EXPECT_THAT(std::string(status.message()), AllOf(HasSubstr("a step of sft"), HasSubstr("GB")));
      EXPECT_TRUE(trainer.RunSft(Conversations(2, 37), nullptr).ok());
    });
  }
}

TEST(RankStages, BadConversationsAreRejectedAndOthersCanFollow) {
  Together(2, Fresh(Stages()), [&](Trainer& trainer, Result&) {
    const auto before = (*trainer.TakeSnapshot())->checksum();
    auto calls = Conversations(6, 37);
    calls[5].sampled.back() = 99;
    EXPECT_THAT(std::string(trainer.RunSft(calls, nullptr).message()), HasSubstr("conversation 2 turn 1"));
    auto pairs = Pairs(3, 37);
    pairs.pop_back();
    EXPECT_THAT(std::string(trainer.RunDpo(pairs, nullptr).message()), HasSubstr("other side"));
    EXPECT_EQ((*trainer.TakeSnapshot())->checksum(), before);
    EXPECT_TRUE(trainer.RunSft({}, nullptr).ok());
    EXPECT_TRUE(trainer.RunSft(Conversations(6, 37), nullptr).ok());
  });
}

}  // namespace
}  // namespace ingot::trainer
