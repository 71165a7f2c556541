#include "app/checks/data_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

namespace ingot::app {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

class DataFiles : public ::testing::Test {
 protected:
  DataFiles() {
    std::string name = ::testing::TempDir() + "/data_files_XXXXXX";
    folder_ = mkdtemp(name.data());
  }
  ~DataFiles() override { std::filesystem::remove_all(folder_); }

  std::string File(const std::string& name, const std::string& text) const {
    std::ofstream(folder_ + "/" + name) << text;
    return folder_ + "/" + name;
  }
  static std::string Error(const RunConfig& config) { return std::string(ReadDataFiles(config).status().message()); }

  std::string folder_;
};

TEST_F(DataFiles, GoodFilesPass) {
  RunConfig config;
  EXPECT_TRUE(ReadDataFiles(config).ok());
  config.tasks = config.eval.tasks = File("tasks.jsonl", "{\"task_id\": \"a\"}\n");
  EXPECT_TRUE(ReadDataFiles(config).ok()) << ReadDataFiles(config).status();
}

TEST_F(DataFiles, ErrorsNameKeyAndFile) {
  const std::string bad = File("bad.jsonl", "{\"task_id\": \"a\", \"messages\": 3}\n{\n");
  for (const auto& [key, field] : std::initializer_list<std::pair<std::string, std::string RunConfig::*>>{
           {"data.tasks", &RunConfig::tasks}, {"data.sft", &RunConfig::sft_data}, {"data.dpo", &RunConfig::dpo_data}}) {
    RunConfig config;
    config.*field = bad;
    EXPECT_THAT(Error(config), HasSubstr(key + ": " + bad + ":"));
  }
  RunConfig config;
  config.eval.tasks = bad;
  EXPECT_THAT(Error(config), HasSubstr("eval.tasks: " + bad + ":2"));
}

TEST_F(DataFiles, FirstLineDecidesTheKeyOfAFileGivenAsData) {
  const std::string conversations = File("c.jsonl", "\n{\"messages\": [{\"role\": \"user\", \"content\": \"q\"}]}\n");
  const std::string pairs = File("p.jsonl", "{\"prompt\": [], \"chosen\": [], \"rejected\": []}\n");
  const auto loaded = [&](const std::string& data) {
    return LoadRunConfig(File("run.yaml", "run: {name: x}\ndata: " + data + "\n"), {});
  };
  const auto sft = loaded(conversations), dpo = loaded(pairs);
  ASSERT_TRUE(sft.ok() && dpo.ok()) << sft.status() << dpo.status();
  EXPECT_EQ(sft->config->sft_data, conversations);
  EXPECT_EQ(sft->config->dpo_data, "");
  EXPECT_EQ(dpo->config->dpo_data, pairs);
  EXPECT_EQ(dpo->config->sft_data, "");
  for (const std::string& bad : {folder_ + "/none.jsonl", File("empty.jsonl", "\n"), File("bad.jsonl", "{\n")}) {
    EXPECT_THAT(std::string(loaded(bad).status().message()), AllOf(HasSubstr("run.yaml:2: data: "), HasSubstr(bad)));
  }
}

TEST_F(DataFiles, CommandLineFileReplacesTheConfiguredOne) {
  const std::string conversations = File("c.jsonl", "{\"messages\": []}\n");
  const std::string pairs = File("p.jsonl", "{\"prompt\": [], \"chosen\": [], \"rejected\": []}\n");
  const std::string run = File("run.yaml", "run: {name: x}\ndata: " + conversations + "\n");
  const auto dpo = LoadRunConfig(run, {"data=" + pairs});
  ASSERT_TRUE(dpo.ok()) << dpo.status();
  EXPECT_EQ(dpo->config->sft_data, "");
  EXPECT_EQ(dpo->config->dpo_data, pairs);
  const auto both = LoadRunConfig(run, {"data.dpo=" + pairs});
  ASSERT_TRUE(both.ok()) << both.status();
  EXPECT_EQ(both->config->sft_data, conversations);
  EXPECT_EQ(both->config->dpo_data, pairs);
  // A file set by its stage's own key stays.
  const std::string others = File("o.jsonl", "{\"messages\": []}\n");
  const auto named = LoadRunConfig(run, {"data.sft=" + others, "data=" + pairs});
  ASSERT_TRUE(named.ok()) << named.status();
  EXPECT_EQ(named->config->sft_data, others);
  EXPECT_EQ(named->config->dpo_data, pairs);
}

TEST_F(DataFiles, TooManyHeldOutTasksAreRejected) {
  RunConfig config;
  config.eval.tasks = File("held_out.jsonl", "{\"task_id\": \"a\"}\n{\"task_id\": \"b\"}\n");
  config.eval.avg_n = 5;
  config.scheduler.max_eval_episodes = 10;
  EXPECT_TRUE(ReadDataFiles(config).ok()) << ReadDataFiles(config).status();
  config.scheduler.max_eval_episodes = 9;
  EXPECT_THAT(Error(config), AllOf(HasSubstr("eval.tasks: "), HasSubstr("2 tasks times eval.avg_n=5 are 10 episodes"),
                                   HasSubstr("scheduler.max_eval_episodes=9")));
}

TEST_F(DataFiles, SetsOfHeldOutTasksAreOneListMarkedByName) {
  RunConfig config;
  config.eval.sets = {{"b", File("b.jsonl", "{\"task_id\": \"x\"}\n")},
                      {"a", File("a.jsonl", "{\"task_id\": \"x\"}\n{\"task_id\": \"y\"}\n")}};
  const auto data = ReadDataFiles(config);
  ASSERT_TRUE(data.ok()) << data.status();
  std::vector<std::string> tasks;
  for (const v1::Task& task : data->eval_tasks.tasks) tasks.push_back(task.eval_set() + "/" + task.task_id());
  EXPECT_THAT(tasks, ::testing::ElementsAre("a/x", "a/y", "b/x"));
  config.scheduler.max_eval_episodes = 2;
  EXPECT_THAT(Error(config), AllOf(HasSubstr("a.jsonl, "), HasSubstr("3 tasks times eval.avg_n=1 are 3 episodes")));
  config.eval.sets["c"] = folder_ + "/none.jsonl";
  EXPECT_THAT(Error(config), AllOf(HasSubstr("eval.tasks: "), HasSubstr("none.jsonl")));
}

TEST_F(DataFiles, SeveralTaskFilesAreReadOneAfterTheOther) {
  RunConfig config;
  config.tasks = File("one.jsonl", "{\"task_id\": \"a\"}\n");
  config.more_tasks = {File("two.jsonl", "{\"task_id\": \"b\"}\n{\"task_id\": \"c\"}\n")};
  const auto data = ReadDataFiles(config);
  ASSERT_TRUE(data.ok()) << data.status();
  ASSERT_EQ(data->tasks.tasks.size(), 3u);
  EXPECT_EQ(data->tasks.tasks[2].task_id(), "c");
  config.more_tasks.push_back(File("three.jsonl", "{\"task_id\": \"d\"}\n{\n"));
  EXPECT_THAT(Error(config), HasSubstr("data.tasks: " + config.more_tasks[1] + ":2"));
  config.more_tasks[1] = "nowhere.jsonl";
  EXPECT_THAT(Error(config), AllOf(HasSubstr("data.tasks: nowhere.jsonl does not exist"),
                                   HasSubstr(std::filesystem::current_path().string())));
}

TEST_F(DataFiles, MissingFileIsNamedWithItsFolder) {
  RunConfig config;
  config.tasks = "nowhere.jsonl";
  EXPECT_THAT(Error(config), AllOf(HasSubstr("data.tasks: nowhere.jsonl does not exist"),
                                   HasSubstr(std::filesystem::current_path().string())));
  config.tasks = folder_ + "/nowhere.jsonl";
  EXPECT_THAT(Error(config), AllOf(HasSubstr(config.tasks), Not(HasSubstr("where ingot was started"))));
}

}  // namespace
}  // namespace ingot::app
