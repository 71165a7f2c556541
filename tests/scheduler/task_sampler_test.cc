// Which tasks new groups get: passes, mixtures, curricula, priorities, once only, and tasks that rest.
#include "scheduler/task_sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>
#include <string>
#include <vector>

#include "scheduler/makers.h"

namespace ingot::scheduler {
namespace {

using ::testing::HasSubstr;

TaskSampler Make(std::vector<v1::Task> tasks, const SamplingOptions& options = {}, uint64_t seed = 7) {
  auto sampler = TaskSampler::Make(std::move(tasks), options, seed);
  EXPECT_TRUE(sampler.ok()) << sampler.status();
  return *std::move(sampler);
}

std::string Fault(std::vector<v1::Task> tasks, const SamplingOptions& options) {
  return std::string(TaskSampler::Make(std::move(tasks), options, 7).status().message());
}

// Task i has the difficulty i and the pass rate i / count.
std::vector<v1::Task> Graded(int count) {
  std::vector<v1::Task> tasks = MakeTasks(count);
  for (int i = 0; i < count; ++i) {
    tasks[static_cast<size_t>(i)].set_payload_json(
        absl::StrCat("{\"difficulty\": ", i, ", \"rate\": ", static_cast<double>(i) / count, "}"));
  }
  return tasks;
}

// How often each task is chosen for so many groups, each admitted at this progress.
std::map<std::string, int> Counts(TaskSampler& sampler, int groups, double progress = 0) {
  std::map<std::string, int> counts;
  for (int64_t group = 0; group < groups; ++group) {
    const v1::Task* const task = sampler.Choose(group, progress);
    if (task == nullptr) break;
    ++counts[task->task_id()];
    sampler.Admitted(task->task_id());
  }
  return counts;
}

TEST(TaskSamplerTest, EveryPassHoldsEveryTaskOnceInItsOwnOrder) {
  TaskSampler sampler = Make(MakeTasks(20));
  std::vector<std::vector<std::string>> passes(3);
  for (int64_t group = 0; group < 60; ++group) {
    passes[static_cast<size_t>(group / 20)].push_back(sampler.Choose(group, 0)->task_id());
  }
  for (const auto& pass : passes) EXPECT_EQ(std::set<std::string>(pass.begin(), pass.end()).size(), 20u);
  EXPECT_NE(passes[0], passes[1]);
  EXPECT_NE(passes[1], passes[2]);
}

TEST(TaskSamplerTest, ThePlainTaskDependsOnSeedAndGroupAlone) {
  TaskSampler forward = Make(MakeTasks(9)), backward = Make(MakeTasks(9)), other = Make(MakeTasks(9), {}, 8);
  std::map<int64_t, std::string> tasks;
  for (int64_t group = 0; group < 50; ++group) tasks[group] = forward.Choose(group, 0)->task_id();
  bool differs = false;
  for (int64_t group = 49; group >= 0; --group) {
    EXPECT_EQ(backward.Choose(group, 0)->task_id(), tasks[group]);
    differs |= other.Choose(group, 0)->task_id() != tasks[group];
  }
  EXPECT_TRUE(differs);
}

// 4,000 draws: the share's standard deviation is below 0.008, so 0.04 is five of them.
TEST(TaskSamplerTest, DomainsMixByTheirWeightsWhateverTheirSizes) {
  std::vector<v1::Task> tasks = MakeTasks(11);
  for (auto& task : tasks) task.set_domain("math");
  tasks[0].set_domain("code");
  TaskSampler sampler = Make(tasks, {.domains = {{"math", 1}, {"code", 3}}});
  EXPECT_NEAR(Counts(sampler, 4000)["t0"] / 4000.0, 0.75, 0.04);
}

TEST(TaskSamplerTest, ADomainKeepsItsShareWhileSomeOfItsTasksRest) {
  std::vector<v1::Task> tasks = MakeTasks(8);
  for (size_t i = 0; i < 4; ++i) tasks[i].set_domain("code");
  TaskSampler sampler =
      Make(tasks, {.domains = {{"default", 1}, {"code", 3}}, .retire_after = 1, .retire_groups = 100000});
  for (const char* resting : {"t1", "t2", "t3"}) sampler.Ended(resting, 0);
  const auto counts = Counts(sampler, 4000);
  EXPECT_NEAR(counts.at("t0") / 4000.0, 0.75, 0.04);
  EXPECT_FALSE(counts.contains("t1"));
}

TEST(TaskSamplerTest, ACurriculumBeginsWithTheEasiestAndEndsWithAll) {
  SamplingOptions options{.order = "curriculum", .curriculum_start = 0.2, .curriculum_until = 0.5};
  TaskSampler sampler = Make(Graded(10), options);
  EXPECT_EQ(Counts(sampler, 300, 0).size(), 3u) << "ranks 0, 0.1 and 0.2";
  // By hand, c(t) of arXiv 1903.09848 at t = 0.25 / 0.5: sqrt(0.5 * 0.96 + 0.04) = 0.721, ranks 0 to 0.7.
  EXPECT_EQ(Counts(sampler, 300, 0.25).size(), 8u);
  EXPECT_EQ(Counts(sampler, 300, 0.5).size(), 10u);
}

// Tasks t0 to t9 pass in 0 to 0.9 of their samples, so t9 is the easiest.
TEST(TaskSamplerTest, ACurriculumGoesByPassRatesWhereNoTaskHasADifficulty) {
  SamplingOptions options{.order = "curriculum",
                          .difficulty_field = "label",
                          .curriculum_start = 0.2,
                          .curriculum_until = 0.5,
                          .pass_rate_field = "rate"};
  TaskSampler sampler = Make(Graded(10), options);
  const auto first = Counts(sampler, 300, 0);
  EXPECT_EQ(first.size(), 3u);
  for (const char* easy : {"t9", "t8", "t7"}) EXPECT_TRUE(first.contains(easy)) << easy;
  options.difficulty_field = "difficulty";
  TaskSampler labelled = Make(Graded(10), options);
  EXPECT_TRUE(Counts(labelled, 300, 0).contains("t0")) << "a label goes before a rate";
}

TEST(TaskSamplerTest, PrioritizedTasksAreDrawnByTheirFailures) {
  TaskSampler sampler = Make(MakeTasks(3), {.order = "prioritized"});
  sampler.Ended("t0", 0.75);
  sampler.Ended("t1", 0.25);
  sampler.Ended("t2", 1);
  const auto counts = Counts(sampler, 4000);
  EXPECT_NEAR(counts.at("t0") / 4000.0, 0.25 / 1.02, 0.04);
  EXPECT_NEAR(counts.at("t1") / 4000.0, 0.75 / 1.02, 0.04);
  EXPECT_GT(counts.at("t2"), 0) << "a solved task is looked at now and then";
}

TEST(TaskSamplerTest, AfterTheWarmUpOnlyHardTasksRemain) {
  SamplingOptions options{.pass_rate_field = "rate", .warm_up = 0.2, .hard_below = 0.5};
  TaskSampler sampler = Make(Graded(10), options);
  EXPECT_EQ(Counts(sampler, 300, 0.1).size(), 10u);
  const auto hard = Counts(sampler, 300, 0.2);
  EXPECT_EQ(hard.size(), 5u);
  EXPECT_FALSE(hard.contains("t5"));
}

TEST(TaskSamplerTest, WhereNoHardTaskIsLeftAllAreDrawnAgain) {
  SamplingOptions options{.pass_rate_field = "rate", .hard_below = 0.5};
  TaskSampler sampler = Make(Graded(2), options);  // rates 0 and 0.5
  for (int i = 0; i < 20; ++i) sampler.Ended("t0", 1);
  EXPECT_EQ(Counts(sampler, 100).size(), 2u);
}

TEST(TaskSamplerTest, OnceMeansOnceAndThenNoTaskIsLeft) {
  TaskSampler sampler = Make(MakeTasks(6), {.once = true});
  sampler.Admitted("t2");  // before a restart
  EXPECT_EQ(sampler.left(), 5);
  const auto counts = Counts(sampler, 100);
  EXPECT_EQ(counts.size(), 5u);
  for (const auto& [task, count] : counts) EXPECT_EQ(count, 1) << task;
  EXPECT_FALSE(counts.contains("t2"));
  EXPECT_EQ(sampler.Choose(100, 0), nullptr);
  EXPECT_EQ(sampler.left(), 0);
}

TEST(TaskSamplerTest, ATaskThatIsAlwaysSolvedRestsAndComesBack) {
  TaskSampler sampler = Make(MakeTasks(4), {.retire_after = 2, .retire_groups = 3});
  sampler.Ended("t1", 1);
  EXPECT_TRUE(Counts(sampler, 200).contains("t1")) << "once is chance";
  sampler.Ended("t1", 1);
  EXPECT_FALSE(Counts(sampler, 200).contains("t1"));
  for (int i = 0; i < 3; ++i) sampler.Ended("t0", 0.5);
  EXPECT_TRUE(Counts(sampler, 200).contains("t1"));
}

TEST(TaskSamplerTest, AReplayedHistoryGivesTheSameNextTask) {
  const SamplingOptions options{.order = "prioritized", .retire_after = 2, .retire_groups = 4};
  TaskSampler one = Make(MakeTasks(5), options), two = Make(MakeTasks(5), options);
  std::vector<std::string> history;
  for (int64_t group = 0; group < 40; ++group) {
    history.push_back(one.Choose(group, 0)->task_id());
    one.Admitted(history.back());
    one.Ended(history.back(), static_cast<double>(group % 3) / 2);
  }
  for (int64_t group = 0; group < 40; ++group) {
    two.Admitted(history[static_cast<size_t>(group)]);
    two.Ended(history[static_cast<size_t>(group)], static_cast<double>(group % 3) / 2);
  }
  for (int64_t group = 40; group < 80; ++group) {
    EXPECT_EQ(one.Choose(group, 0.5)->task_id(), two.Choose(group, 0.5)->task_id());
  }
}

TEST(TaskSamplerTest, ErrorsNameTheTaskTheFieldAndTheWayOn) {
  EXPECT_THAT(Fault(MakeTasks(2), {.order = "curriculum"}), HasSubstr("task 't0' has no number 'difficulty'"));
  std::vector<v1::Task> half = Graded(2);
  half[1].set_payload_json("{\"rate\": 0.5}");
  EXPECT_THAT(Fault(half, {.order = "curriculum", .pass_rate_field = "rate"}),
              HasSubstr("task 't1' has no number 'difficulty'"));
  half[1].set_payload_json("{}");
  EXPECT_THAT(Fault(half, {.order = "curriculum", .difficulty_field = "label", .pass_rate_field = "rate"}),
              HasSubstr("task 't1' has no number 'rate'"));
  EXPECT_THAT(Fault(MakeTasks(2), {.pass_rate_field = "rate"}), HasSubstr("ingot tasks rate"));
  EXPECT_THAT(Fault(MakeTasks(2), {.domains = {{"maths", 1}}}), HasSubstr("names 'maths', but no task"));
  EXPECT_THAT(Fault(MakeTasks(2), {.order = "hardest"}), HasSubstr("order is 'hardest'"));
  EXPECT_THAT(Fault(MakeTasks(2), {.warm_up = 0.5}), HasSubstr("warm_up needs hard_below"));
  std::vector<v1::Task> mixed = MakeTasks(2);
  mixed[1].set_domain("code");
  EXPECT_THAT(Fault(mixed, {.domains = {{"code", 1}}}), HasSubstr("no weight for 'default'"));
}

}  // namespace
}  // namespace ingot::scheduler
