// Tests the answers for a folder of runs.
#include "view/runs/run_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "base/clock.h"
#include "datapool/make_pool.h"

namespace ingot::view::run_index_test {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

class RunIndexTest : public ::testing::Test {
 protected:
  RunIndexTest() {
    Add("one",
        "{\"step\":0,\"time\":110,\"reward/mean\":0.25,\"perf/step_seconds\":10,\"batch/loss_tokens\":30}\n"
        "{\"step\":1,\"time\":125,\"reward/mean\":0.5,\"perf/step_seconds\":15,\"batch/loss_tokens\":12}\n");
    Add("two, of \x1b[31m", "{\"step\":0,\"time\":7,\"actor/entropy\":1,\"perf/step_seconds\":3}\n");
    runs_[0].total_steps = 2;
    runs_[1].differences = {{"trainer.learning_rate", "1e-3", "<b>2e-3</b>"}};
  }

  void Add(const std::string& name, const std::string& record) {
    const std::string folder = dir_.path() + "/" + name;
    std::filesystem::create_directory(folder);
    std::ofstream(folder + "/metrics.jsonl") << record;
    runs_.push_back({.name = name, .folder = folder});
  }
  absl::StatusOr<std::string> Ask(const std::string& target) { return index_.Answer(target); }

  // A run's page that answers with the target, and the pool of a small run with two evaluated tasks.
  class Echo final : public Answers {
   public:
    absl::StatusOr<std::string> Answer(std::string_view target) override { return std::string(target); }
    absl::StatusOr<std::string> EndUncalled(std::string_view, const std::string&) override { return "never"; }
  };
  absl::StatusOr<OpenedRun> Open(const std::string& folder) {
    opened_.push_back(folder.substr(folder.rfind('/') + 1));
    if (opened_.back() == "newer") return absl::FailedPreconditionError("run_format 99 is newer than this ingot");
    return OpenedRun{std::make_shared<Echo>(), [this]() { return pool_; }};
  }
  void StoreEvaluation(int64_t version, const std::string& task, double reward) {
    v1::StoreEpisodeRequest open = datapool::testing::Open(task + std::to_string(version), version << 20, 0);
    open.mutable_episode()->set_purpose(v1::PURPOSE_EVAL);
    open.mutable_episode()->mutable_ref()->set_group_id((version << 20) + static_cast<int64_t>(task.size()));
    open.mutable_episode()->mutable_task()->set_task_id(task);
    EXPECT_TRUE((*pool_)->StoreEpisode(open).ok());
    v1::StoreEndRequest end = datapool::testing::End(open.episode().episode_id(), v1::EPISODE_FINISHED, reward);
    EXPECT_TRUE((*pool_)->StoreEnd(end).ok());
  }

  datapool::testing::TempDir dir_;
  base::ManualClock clock_{std::chrono::seconds(1000)};
  std::vector<IndexedRun> runs_;
  std::vector<std::string> opened_;
  absl::StatusOr<std::shared_ptr<datapool::Client>> pool_ =
      std::shared_ptr(datapool::OpenPool(datapool::testing::QuickOptions(dir_.path() + "/pool")).value());
  RunIndex index_{dir_.path(), [this] { return runs_; }, [this](const std::string& folder) { return Open(folder); },
                  clock_};
};

TEST_F(RunIndexTest, ListsTheRunsWithTheirNewestFigures) {
  EXPECT_THAT(*Ask("/api/run"), HasSubstr("\"index\":true"));
  const std::string runs = *Ask("/api/runs");
  EXPECT_THAT(runs, HasSubstr(R"("name":"one","total_steps":2,"error":"","reward":0.5,"evaluated":null)"));
  EXPECT_THAT(runs, HasSubstr(R"("steps":2,"newest":125)"));
  EXPECT_THAT(runs, HasSubstr(R"({"key":"trainer.learning_rate","first":"1e-3","own":"<b>2e-3</b>"})"));
  EXPECT_THAT(runs, HasSubstr(R"("names":["actor/entropy","batch/loss_tokens","perf/step_seconds","reward/mean"])"));
  EXPECT_THAT(runs, Not(HasSubstr("\x1b")));
}

TEST_F(RunIndexTest, ACurveComesWithTheTimesAndTokensOfItsSteps) {
  const std::string curves = *Ask("/api/curves?run=one&names=reward/mean");
  EXPECT_THAT(curves, HasSubstr(R"("reward/mean":{"steps":[0.0,1.0],"mean":[0.25,0.5])"));
  EXPECT_THAT(curves, HasSubstr(R"("progress":{"steps":[0.0,1.0],"seconds":[10.0,25.0],"tokens":[30.0,42.0]})"));
}

TEST_F(RunIndexTest, ARunIsFoundByTheNameThatThePageShows) {
  const std::string curves = *Ask("/api/curves?run=two%2C%20of%20%5Cx1b%5B31m&names=actor/entropy");
  EXPECT_THAT(curves, HasSubstr(R"("actor/entropy":{"steps":[0.0],"mean":[1.0])"));
}

TEST_F(RunIndexTest, NothingOutsideTheListedRunsIsRead) {
  for (const char* name : {"", "three", "..", "../one", "one/", "/"}) {
    EXPECT_TRUE(absl::IsNotFound(Ask(absl::StrCat("/api/curves?run=", name, "&names=a")).status())) << name;
  }
  for (const char* target : {"/api/window", "/api/episodes", "/api/nothing"}) {
    EXPECT_TRUE(absl::IsNotFound(Ask(target).status())) << target;
  }
  EXPECT_TRUE(absl::IsInvalidArgument(Ask("/api/curves?run=one&names=a&folder=/etc").status()));
  EXPECT_TRUE(absl::IsInvalidArgument(Ask("/api/curves?run=one&points=many").status()));
  EXPECT_FALSE(index_.EndUncalled("/api/end_uncalled?all=1", "key").ok());
}

TEST_F(RunIndexTest, TheAnswersOfARunAreThoseOfItsOwnPage) {
  EXPECT_EQ(*Ask("/api/of/one/episodes?reward_min=0.5&of=x"), "/api/episodes?reward_min=0.5&of=x");
  EXPECT_EQ(*Ask("/api/of/two%2C%20of%20%5Cx1b%5B31m/run"), "/api/run");
  EXPECT_THAT(opened_, ::testing::ElementsAre("one", "two, of \x1b[31m"));
  for (const char* target : {"/api/of/", "/api/of/three/run", "/api/of/../one/run", "/api/of/..%2Fone/run"}) {
    EXPECT_TRUE(absl::IsNotFound(Ask(target).status())) << target;
  }
}

TEST_F(RunIndexTest, ARunThatCannotBeOpenedSaysWhy) {
  Add("newer", "");
  const absl::Status status = Ask("/api/of/newer/run").status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("newer: run_format 99"));
  runs_.erase(runs_.begin());  // removed while its page is open
  EXPECT_THAT(std::string(Ask("/api/of/one/run").status().message()), HasSubstr("may have been removed"));
}

TEST_F(RunIndexTest, AComparisonHasIntervalsOverTasksAndReadsAnEvaluationOnce) {
  for (const auto& [task, reward] : {std::pair("a", 1.0), {"bb", 0.0}, {"ccc", 1.0}, {"dddd", 0.0}}) {
    StoreEvaluation(4, task, reward);
    StoreEvaluation(6, task, 1.0);
  }
  Add("four", "{\"step\":4,\"time\":1,\"eval/reward_mean\":0.5,\"eval/version\":4}\n");
  Add("six", "{\"step\":6,\"time\":1,\"eval/reward_mean\":1,\"eval/version\":6}\n");
  const std::string compared = *Ask("/api/compared?run=six&first=four");
  EXPECT_THAT(compared, HasSubstr(R"("version":6,"evaluation":{"mean":1.0,"low":0.51)"));
  EXPECT_THAT(compared, HasSubstr(R"("difference":{"mean":0.5,"low":0.0,"high":1.0,"values":4})"));
  EXPECT_THAT(compared, HasSubstr("\"settled\":true"));
  EXPECT_EQ(*Ask("/api/compared?run=six&first=four"), compared);
  EXPECT_THAT(opened_, ::testing::ElementsAre("six", "four"));
  EXPECT_THAT(*Ask("/api/compared?run=six&first=six"), HasSubstr("\"difference\":null"));
  EXPECT_THAT(*Ask("/api/compared?run=one"), HasSubstr(R"("evaluation":null)"));
}

// The pool that was opened before an evaluation ended has only some of its episodes.
TEST_F(RunIndexTest, AnEvaluationThatHasJustEndedIsReadAgain) {
  const int64_t now = clock_.UnixNanos() / 1'000'000'000;
  Add("four", absl::StrCat("{\"step\":4,\"time\":", now, ",\"eval/reward_mean\":0.5,\"eval/version\":4}\n"));
  StoreEvaluation(4, "a", 1);
  EXPECT_THAT(*Ask("/api/compared?run=four"), HasSubstr("\"settled\":false"));
  StoreEvaluation(4, "bb", 0);
  EXPECT_THAT(*Ask("/api/compared?run=four"), HasSubstr("\"mean\":0.5"));
  clock_.Advance(RunIndex::kSettled + std::chrono::seconds(1));
  EXPECT_THAT(*Ask("/api/compared?run=four"), HasSubstr("\"settled\":true"));
  StoreEvaluation(4, "ccc", 0);  // never read
  EXPECT_THAT(*Ask("/api/compared?run=four"), HasSubstr("\"values\":2"));
}

TEST_F(RunIndexTest, AComparisonWithoutAPoolHasTheRecordedMeanAndTheReason) {
  Add("four", "{\"step\":4,\"time\":1,\"eval/reward_mean\":0.5,\"eval/version\":4}\n");
  EXPECT_THAT(*Ask("/api/compared?run=four"), HasSubstr("no longer stored"));
  pool_ = absl::NotFoundError("the pool was removed");
  Add("six", "{\"step\":6,\"time\":2,\"eval/reward_mean\":0.25,\"eval/version\":6}\n");
  const std::string compared = *Ask("/api/compared?run=six");
  EXPECT_THAT(compared, HasSubstr(R"("evaluation":{"mean":0.25,"low":0.25,"high":0.25,"values":1})"));
  EXPECT_THAT(compared, HasSubstr(R"("no_interval":"the pool was removed")"));
}

TEST_F(RunIndexTest, ARunWhoseConfigurationIsBrokenStaysInTheList) {
  runs_[0].error = "config.yaml:3: no such key";
  EXPECT_THAT(*Ask("/api/runs"), HasSubstr("\"error\":\"config.yaml:3: no such key\",\"reward\":0.5"));
}

TEST_F(RunIndexTest, ProgressOfALongRunEndsWithItsLastStep) {
  std::string record;
  for (int step = 0; step < 101; ++step) {
    absl::StrAppend(&record, "{\"step\":", step, ",\"time\":", 10 + step,
                    ",\"perf/step_seconds\":1,\"batch/loss_tokens\":2}\n");
  }
  Add("long", record);
  EXPECT_THAT(*Ask("/api/curves?run=long&points=2"),
              HasSubstr(R"("progress":{"steps":[50.0,100.0],"seconds":[51.0,101.0],"tokens":[102.0,202.0]})"));
}

}  // namespace
}  // namespace ingot::view::run_index_test
