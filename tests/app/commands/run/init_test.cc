// The files of `ingot init`.
#include "app/commands/run/init.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <set>

#include "absl/strings/str_split.h"
#include "base/file.h"
#include "base/json.h"
#include "datapool/make_pool.h"

namespace ingot::app {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST(Init, WritesEveryFileOnceAndNamesTheRunAfterItsFolder) {
  const datapool::testing::TempDir dir;
  const std::string folder = dir.path() + "/my run";
  ASSERT_TRUE(WriteInitFiles(folder).ok());
  for (const auto& [name, content] : InitFiles("my-run")) {
    EXPECT_EQ(base::ReadFile(folder + "/" + name).value(), content) << name;
    EXPECT_THAT(content, Not(HasSubstr("@NAME@"))) << name;
  }
  EXPECT_THAT(base::ReadFile(folder + "/run.yaml").value(), HasSubstr("name: \"my-run\""));
}

TEST(Init, APythonRewardIsAFileThatTheConfigurationNames) {
  const datapool::testing::TempDir dir;
  const std::string folder = dir.path() + "/run";
  ASSERT_TRUE(WriteInitFiles(folder, InitReward::kPython).ok());
  EXPECT_THAT(base::ReadFile(folder + "/run.yaml").value(), HasSubstr("function: \"${config_dir}/rewards.py:score\""));
  EXPECT_THAT(base::ReadFile(folder + "/rewards.py").value(), HasSubstr("def score(task, answer):"));
  for (const auto& [name, content] : InitFiles("run")) EXPECT_NE(name, "rewards.py");
}

TEST(Init, NeverReplacesAFileAndThenWritesNone) {
  const datapool::testing::TempDir dir;
  ASSERT_TRUE(base::WriteFileDurably(dir.path() + "/tasks.jsonl", "mine").ok());
  const absl::Status rejected = WriteInitFiles(dir.path());
  EXPECT_EQ(rejected.code(), absl::StatusCode::kAlreadyExists);
  EXPECT_THAT(std::string(rejected.message()), HasSubstr("tasks.jsonl already exists"));
  EXPECT_FALSE(std::filesystem::exists(dir.path() + "/run.yaml"));
  EXPECT_EQ(base::ReadFile(dir.path() + "/tasks.jsonl").value(), "mine");
}

// The values of one field of a file's lines.
std::set<std::string> Values(const std::string& file, const std::string& field) {
  const auto files = InitFiles("run");
  const auto found = std::find_if(files.begin(), files.end(), [&](const auto& one) { return one.first == file; });
  std::set<std::string> values;
  const std::vector<std::string> lines = absl::StrSplit(found->second, '\n', absl::SkipEmpty());
  for (const std::string& line : lines) {
    const base::json::value row = base::ParseJson(line).value();
    const base::json::value* messages = base::Find(row, "messages");
    values.emplace(messages == nullptr ? row.at(field).as_string() : messages->as_array()[0].at("content").as_string());
  }
  return values;
}

TEST(Init, ItsHeldOutTasksAreInNoTraining) {
  for (const char* field : {"task_id", "prompt"}) {
    const std::set<std::string> held_out = Values("eval.jsonl", field);
    EXPECT_EQ(held_out.size(), 10u);
    EXPECT_EQ(Values("tasks.jsonl", field).size(), 20u);
    for (const char* trained : {"tasks.jsonl", "conversations.jsonl"}) {
      for (const std::string& value : Values(trained, field)) EXPECT_FALSE(held_out.contains(value)) << value;
    }
  }
}

TEST(InitHint, IsACommandThatAShellTakesApartRightly) {
  EXPECT_EQ(InitHint("runs/a", "ingot"), "runs/a holds a small run: ingot train runs/a/run.yaml\n");
  EXPECT_EQ(InitHint(".", "ingot"), ". holds a small run: ingot train run.yaml\n");
  EXPECT_THAT(InitHint("it's a run", "ingot"), HasSubstr("ingot train 'it'\\''s a run/run.yaml'\n"));
  EXPECT_THAT(InitHint("$(rm x)", "ingot"), HasSubstr("ingot train '$(rm x)/run.yaml'"));
  EXPECT_THAT(InitHint("-x", "ingot"), HasSubstr("train ./-x/run.yaml")) << "-x/run.yaml is an option";
}

TEST(InitHint, NamesTheProgramAsItWasCalled) {
  EXPECT_THAT(InitHint("a", "/opt/my ingot"), HasSubstr(": '/opt/my ingot' train a/run.yaml\n"));
  EXPECT_THAT(InitHint("a", "build/release/ingot"), HasSubstr(": build/release/ingot train a/run.yaml\n"));
}

}  // namespace
}  // namespace ingot::app
