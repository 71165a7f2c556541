// Tests the answers for a folder of runs.
#include "view/run_index.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "datapool/make_pool.h"

namespace ingot::view {
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

  datapool::testing::TempDir dir_;
  std::vector<IndexedRun> runs_;
  RunIndex index_{dir_.path(), [this] { return runs_; }};
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
}  // namespace ingot::view
