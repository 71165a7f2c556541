// The logger of W&B with a package `wandb` that is faked here, in a real process of Python. tests/loggers/servers.py runs
// it with the real package.
#include "loggers/wandb.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "absl/strings/str_split.h"
#include "base/file.h"
#include "datapool/make_pool.h"
#include "loggers/follower.h"
#include "view/make_run.h"

namespace ingot::loggers {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

// Writes each call as a line of JSON. A file `plan` in the folder with "die N" ends the process at step N, "slow S"
// makes each step take S seconds, and "refuse" makes init fail.
constexpr char kFake[] = R"py(
import json, os, time
HERE = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

def plan(word):
    path = HERE + "/plan"
    words = open(path).read().split() if os.path.exists(path) else []
    return words[words.index(word) + 1] if word in words else None

def note(**call):
    with open(HERE + "/calls", "a") as file:
        file.write(json.dumps(call) + "\n")

class Settings(dict):
    pass

class Table:
    def __init__(self, columns, data):
        self.columns, self.data = columns, data

class Run:
    def define_metric(self, name, step_metric):
        note(metric=name, by=step_metric)
    step = 0
    def log(self, values, step):
        note(at=step)
        if plan("die") == str(values["step"]):
            os._exit(3)
        time.sleep(float(plan("slow") or 0))
        note(log={k: v.data if isinstance(v, Table) else v for k, v in values.items()})
    def finish(self, exit_code):
        note(finish=exit_code)

def init(**more):
    if plan("refuse"):
        raise RuntimeError("no API key")
    note(init={**more, "settings": 0}, key=os.environ.get("WANDB_API_KEY"))
    return Run()
)py";

class WandbTest : public ::testing::Test {
 protected:
  void SetUp() override {
    if (std::system("python3 -c 'import yaml'") != 0) GTEST_SKIP() << "python3 has no yaml, on which wandb depends";
    std::filesystem::create_directories(dir_.path() + "/wandb");
    Write("wandb/__init__.py", kFake);
    // The helper is started with -I, which ignores PYTHONPATH.
    Write("python", absl::StrCat("#!/bin/sh\nexec python3 -c \"import sys; sys.path.insert(0, '", dir_.path(),
                                 "'); exec(sys.argv.pop(1))\" \"$3\"\n"));
    std::filesystem::permissions(dir_.path() + "/python", std::filesystem::perms::owner_all);
  }
  void Write(const std::string& name, const std::string& text) {
    ASSERT_TRUE(base::WriteFileDurably(dir_.path() + "/" + name, text).ok());
  }
  WandbOptions Options() const {
    WandbOptions options;
    options.python = dir_.path() + "/python";
    options.project = "p";
    options.key = "secret";
    options.folder = dir_.path();
    options.output = dir_.path() + "/log";
    options.answer_within = milliseconds(20000);
    options.restart_after = milliseconds(0);
    return options;
  }
  // The calls of the package whose line contains `part`.
  std::vector<std::string> Calls(const std::string& part) const {
    std::vector<std::string> calls;
    for (const auto line : absl::StrSplit(base::ReadFile(dir_.path() + "/calls").value_or(""), '\n')) {
      if (std::string(line).find(part) != std::string::npos) calls.emplace_back(line);
    }
    return calls;
  }

  const datapool::testing::TempDir dir_;
};

view::Row RowOf(int64_t step) {
  return {step, 1000.5 + static_cast<double>(step), {{"reward/mean", 0.5}, {"actor/loss", std::nan("")}}};
}

TEST_F(WandbTest, OpensItsRunOnceLogsRowsAndEndsIt) {
  Wandb wandb(Options(), "run", "trainer:\n  learning_rate: 1e-3\n  name: \"1e-3\"\n", "");
  ASSERT_TRUE(wandb.Rows(std::vector<view::Row>{RowOf(0), RowOf(1)}).ok());
  ASSERT_TRUE(wandb.Rows(std::vector<view::Row>{RowOf(1), RowOf(2)}).ok());  // a row that was sent before
  ASSERT_TRUE(wandb.End(true).ok());
  ASSERT_EQ(Calls("\"init\"").size(), 1u);
  const std::string init = Calls("\"init\"")[0];
  EXPECT_THAT(init, HasSubstr("\"id\": \"" + wandb.State() + "\", \"resume\": \"allow\", \"project\": \"p\""));
  EXPECT_THAT(init, HasSubstr("\"config\": {\"trainer\": {\"learning_rate\": 0.001, \"name\": \"1e-3\"}}"));
  EXPECT_THAT(init, HasSubstr("\"key\": \"secret\""));
  EXPECT_EQ(Calls("\"log\""), (std::vector<std::string>{"{\"log\": {\"step\": 0, \"reward/mean\": 0.5}}",
                                                        "{\"log\": {\"step\": 1, \"reward/mean\": 0.5}}",
                                                        "{\"log\": {\"step\": 2, \"reward/mean\": 0.5}}"}));
  EXPECT_EQ(Calls("\"finish\""), (std::vector<std::string>{"{\"finish\": 0}"}));
}

TEST_F(WandbTest, ContinuesTheRunOfAnEarlierStart) {
  Wandb wandb(Options(), "run", "", "abc");
  ASSERT_TRUE(wandb.Rows(std::vector<view::Row>{RowOf(7)}).ok());
  EXPECT_THAT(Calls("\"init\"")[0], HasSubstr("\"id\": \"abc\""));
  EXPECT_EQ(wandb.State(), "abc");
}

TEST_F(WandbTest, AProcessThatDiesIsNamedAndStartedAgainInTheSameRun) {
  Write("plan", "die 1");
  Wandb wandb(Options(), "run", "", "");
  const absl::Status died = wandb.Rows(std::vector<view::Row>{RowOf(0), RowOf(1)});
  EXPECT_EQ(died.code(), absl::StatusCode::kAborted);
  EXPECT_THAT(std::string(died.message()), HasSubstr("the wandb process exited with 3; its output is in"));
  Write("plan", "");
  ASSERT_TRUE(wandb.Rows(std::vector<view::Row>{RowOf(0), RowOf(1)}).ok());
  ASSERT_EQ(Calls("\"init\"").size(), 2u);
  EXPECT_EQ(Calls("\"init\"")[0], Calls("\"init\"")[1]);
  EXPECT_EQ(Calls("\"at\"").back(), "{\"at\": 2}") << "W&B's own steps rise over all starts";
}

TEST_F(WandbTest, WhatCannotStartIsNotStartedAgainAtOnce) {
  Write("plan", "refuse now");
  WandbOptions options = Options();
  options.restart_after = std::chrono::hours(1);
  Wandb wandb(options, "run", "", "");
  const absl::Status first = wandb.Rows(std::vector<view::Row>{RowOf(0)});
  EXPECT_THAT(std::string(first.message()), HasSubstr("RuntimeError: no API key"));
  Write("plan", "");
  EXPECT_EQ(wandb.Rows(std::vector<view::Row>{RowOf(0)}), first);
  EXPECT_TRUE(Calls("init").empty());
}

TEST_F(WandbTest, APythonWithoutThePackageIsNamedWithTheCommandThatInstallsIt) {
  std::filesystem::remove_all(dir_.path() + "/wandb");
  Wandb without(Options(), "run", "", "");
  EXPECT_THAT(std::string(without.Rows(std::vector<view::Row>{RowOf(0)}).message()),
              testing::AllOf(HasSubstr("cannot import wandb"), HasSubstr("-m pip install wandb")));
  WandbOptions options = Options();
  options.python = "/no/python";
  Wandb missing(options, "run", "", "");
  EXPECT_EQ(missing.Rows(std::vector<view::Row>{RowOf(0)}).code(), absl::StatusCode::kNotFound);
}

TEST_F(WandbTest, ASlowPackageHoldsTheFollowerForABoundedTimeAndGetsEachRowOnce) {
  Write("plan", "slow 0.5");
  WandbOptions options = Options();
  Wandb wandb(options, "run", "", "");
  ASSERT_TRUE(wandb.Rows(std::vector<view::Row>{RowOf(0)}).ok());
  options.answer_within = milliseconds(100);
  Wandb hasty(options, "run", "", "");
  const std::vector<view::Row> rows = {RowOf(1), RowOf(2)};
  int late = 0;
  for (int tries = 0; tries < 600; ++tries) {
    const auto begin = std::chrono::steady_clock::now();
    const absl::Status sent = hasty.Rows(rows);
    EXPECT_LT(std::chrono::steady_clock::now() - begin, milliseconds(5000));
    if (sent.ok()) break;
    EXPECT_TRUE(absl::IsDeadlineExceeded(sent)) << sent;
    ++late;
  }
  EXPECT_GT(late, 2);
  EXPECT_EQ(Calls("\"step\": 1,").size(), 1u);
  EXPECT_EQ(Calls("\"step\": 2,").size(), 1u);
}

TEST_F(WandbTest, TheSamplesOfAnEvaluationAreATable) {
  view::testing::SmallRun run;
  const int64_t group = int64_t{5} << 20;  // of version 5
  for (const int sample : {0, 1}) {
    const std::string id = absl::StrCat("e", sample);
    ASSERT_TRUE(run.pool().StoreEpisode(datapool::testing::Open(id, group + 3, sample, 0, v1::PURPOSE_EVAL)).ok());
    ASSERT_TRUE(run.pool().StoreEnd(datapool::testing::End(id, v1::EPISODE_FINISHED, sample)).ok());
  }
  Write("metrics.jsonl", "{\"step\": 7, \"time\": 60, \"eval/version\": 5, \"eval/reward_mean\": 0.5}\n");
  std::vector<std::unique_ptr<Logger>> list;
  list.push_back(std::make_unique<Wandb>(Options(), "run", "", ""));
  const std::string id = list[0]->State();
  {
    Follower follower({.record = dir_.path() + "/metrics.jsonl", .folder = dir_.path() + "/loggers"}, std::move(list),
                      &run.pool());
    follower.Poll();
    follower.Poll();
  }
  ASSERT_EQ(Calls("\"log\"").size(), 2u);
  EXPECT_THAT(Calls("\"log\"")[1], HasSubstr("0, 0.0, \"finished\", \"\"]"));
  EXPECT_THAT(Calls("\"log\"")[1], HasSubstr("1, 1.0, \"finished\", \"\"]"));
  EXPECT_THAT(Calls("\"log\"")[1], HasSubstr("\"step\": 7"));
  EXPECT_EQ(Calls("\"finish\""), (std::vector<std::string>{"{\"finish\": 1}"})) << "the run did not end normally";
  EXPECT_EQ(ReadPlace(base::ReadFile(dir_.path() + "/loggers/wandb.json").value()).value().state, id);
}

}  // namespace
}  // namespace ingot::loggers
