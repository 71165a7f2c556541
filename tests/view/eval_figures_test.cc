// The figures of an evaluation: pass@k by its closed form, standard errors by task, domains, lengths.
#include "view/evaluation/eval_figures.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <map>
#include <string>
#include <vector>

#include "datapool/make_pool.h"

namespace ingot::view::eval_figures_test {
namespace {

using ::testing::Contains;
using ::testing::Key;
using ::testing::Not;

namespace pools = datapool::testing;

// A finished sample of the task with this group; without calls.
v1::EpisodeTree Sample(int64_t group, double reward, const std::string& domain = "") {
  v1::EpisodeTree tree;
  v1::Episode& episode = *tree.mutable_episode();
  episode.mutable_ref()->set_group_id(group);
  episode.set_state(v1::EPISODE_FINISHED);
  episode.set_reward(reward);
  episode.mutable_task()->set_domain(domain);
  return tree;
}

std::map<std::string, double> MetricsOf(const std::vector<v1::EpisodeTree>& samples, double success = 1) {
  EvalFigures figures(success);
  for (const v1::EpisodeTree& sample : samples) figures.Add(sample);
  return figures.Metrics();
}

TEST(PassAtK, IsTheShareOfDrawsWithASuccess) {
  // Of the C(4, 2) = 6 pairs of 4 samples with one success 3 hold it; with two successes C(2, 2) = 1 pair holds none.
  EXPECT_NEAR(PassAtK(4, 1, 2), 3.0 / 6, 1e-12);
  EXPECT_NEAR(PassAtK(4, 2, 2), 1 - 1.0 / 6, 1e-12);
  EXPECT_EQ(PassAtK(4, 0, 4), 0);
  EXPECT_EQ(PassAtK(4, 1, 4), 1);
  EXPECT_EQ(PassAtK(4, 3, 2), 1);
  for (int64_t c = 0; c <= 8; ++c) EXPECT_NEAR(PassAtK(8, c, 1), static_cast<double>(c) / 8, 1e-12) << c;
  // C(990, 500) / C(1000, 500) is near (1 - 0.5)^10, and neither fits a double.
  EXPECT_NEAR(PassAtK(1000, 10, 500), 1 - std::pow(0.5, 10), 1e-4);
}

TEST(EvalFigures, MeansPassAtKOverTasksForPowersOfTwo) {
  // Task 0 has 1 success of 4, task 1 has 2 of 4.
  const auto metrics = MetricsOf({Sample(0, 1), Sample(0, 0), Sample(0, 0.5), Sample(0, 0), Sample(1, 1), Sample(1, 1),
                                  Sample(1, 0), Sample(1, 0.75)});
  EXPECT_NEAR(metrics.at("eval/pass@1"), (0.25 + 0.5) / 2, 1e-12);
  EXPECT_NEAR(metrics.at("eval/pass@2"), (3.0 / 6 + 5.0 / 6) / 2, 1e-12);
  EXPECT_NEAR(metrics.at("eval/pass@4"), 1, 1e-12);
  EXPECT_THAT(metrics, Not(Contains(Key("eval/pass@3"))));
  EXPECT_THAT(metrics, Not(Contains(Key("eval/pass@8"))));
  EXPECT_THAT(metrics, Not(Contains(Key("eval/reward_mean")))) << "the scheduler's";
}

TEST(EvalFigures, SucceedsFromTheThresholdOnUpToRounding) {
  EXPECT_EQ(MetricsOf({Sample(0, 0.5)}, 0.5).at("eval/pass@1"), 1);
  EXPECT_EQ(MetricsOf({Sample(0, 0.1 + 0.2)}, 0.3).at("eval/pass@1"), 1);
  EXPECT_EQ(MetricsOf({Sample(0, 0.7 + 0.1 + 0.1 + 0.1)}, 1).at("eval/pass@1"), 1);
  EXPECT_EQ(MetricsOf({Sample(0, 0.49)}, 0.5).at("eval/pass@1"), 0);
}

TEST(EvalFigures, ClustersTheStandardErrorByTask) {
  // One sample a task: the deviation of 0, 1, 1 is 1/sqrt(3), and the error of their mean is a third.
  EXPECT_NEAR(MetricsOf({Sample(0, 0), Sample(1, 1), Sample(2, 1)}).at("eval/reward_stderr"), 1.0 / 3, 1e-12);
  // Samples that are equal within their tasks add nothing, however many they are.
  EXPECT_NEAR(MetricsOf({Sample(0, 0), Sample(0, 0), Sample(1, 1), Sample(1, 1), Sample(2, 1), Sample(2, 1)})
                  .at("eval/reward_stderr"),
              1.0 / 3, 1e-12);
  EXPECT_THAT(MetricsOf({Sample(0, 0), Sample(0, 1)}), Not(Contains(Key("eval/reward_stderr"))));
}

TEST(EvalFigures, AreRepeatedForEachOfSeveralDomains) {
  const auto metrics = MetricsOf({Sample(0, 1, "math"), Sample(1, 0.5, "math"), Sample(2, 0)});
  EXPECT_DOUBLE_EQ(metrics.at("eval/reward_mean@domain:math"), 0.75);
  EXPECT_DOUBLE_EQ(metrics.at("eval/reward_mean@domain:default"), 0);
  EXPECT_EQ(metrics.at("eval/episodes@domain:math"), 2);
  EXPECT_DOUBLE_EQ(metrics.at("eval/pass@1@domain:math"), 0.5);
  EXPECT_DOUBLE_EQ(metrics.at("eval/reward_stderr@domain:math"), 0.25);
  EXPECT_THAT(metrics, Not(Contains(Key("eval/reward_stderr@domain:default"))));
  EXPECT_NEAR(metrics.at("eval/pass@1"), 1.0 / 3, 1e-12);
  for (const auto& [name, value] : MetricsOf({Sample(0, 1, "math"), Sample(1, 0, "math")})) {
    EXPECT_EQ(name.find("@domain:"), std::string::npos) << name << " " << value;
  }
}

TEST(EvalFigures, AreRepeatedForEachSetWithAName) {
  v1::EpisodeTree a = Sample(0, 1), b = Sample(1, 0.5), c = Sample(2, 0);
  for (v1::EpisodeTree* tree : {&a, &b}) tree->mutable_episode()->mutable_task()->set_eval_set("aime");
  c.mutable_episode()->mutable_task()->set_eval_set("code");
  const auto metrics = MetricsOf({a, b, c});
  EXPECT_DOUBLE_EQ(metrics.at("eval/reward_mean@set:aime"), 0.75);
  EXPECT_EQ(metrics.at("eval/episodes@set:aime"), 2);
  EXPECT_DOUBLE_EQ(metrics.at("eval/pass@1@set:aime"), 0.5);
  EXPECT_DOUBLE_EQ(metrics.at("eval/reward_mean@set:code"), 0);
  EXPECT_NEAR(metrics.at("eval/pass@1"), 1.0 / 3, 1e-12);
  // A set with a name is named though it is the only one; the file of a run without sets is not.
  EXPECT_THAT(MetricsOf({c}), Contains(Key("eval/pass@1@set:code")));
  EXPECT_THAT(MetricsOf({Sample(0, 1)}), Not(Contains(Key("eval/pass@1@set:"))));
}

TEST(EvalFigures, CountAFailureAsZeroAndLeaveOutTheInfrastructures) {
  v1::EpisodeTree failed = Sample(0, 1), broken = Sample(1, 1), endless = Sample(2, std::nan(""));
  failed.mutable_episode()->set_state(v1::EPISODE_FAILED);
  broken.mutable_episode()->set_state(v1::EPISODE_INFRASTRUCTURE_FAILED);
  const auto metrics = MetricsOf({failed, broken, endless, Sample(3, 1)});
  EXPECT_NEAR(metrics.at("eval/pass@1"), 1.0 / 3, 1e-12);
  EXPECT_NEAR(metrics.at("eval/reward_stderr"), 1.0 / 3, 1e-12);
  EXPECT_TRUE(MetricsOf({broken}).empty());
}

TEST(EvalFigures, AverageTheSecondsAndToolErrorsOfEpisodes) {
  v1::EpisodeTree reported = Sample(0, 1), counted = Sample(1, 1), without_calls = Sample(2, 1);
  reported.mutable_episode()->set_opened_unix_ns(1'000'000'000);
  reported.mutable_episode()->set_ended_unix_ns(4'000'000'000);
  (*reported.mutable_episode()->mutable_signals())["agent/tool_error_rate"] = 0.75;
  reported.add_calls()->set_tool_call_malformed(true);
  counted.add_calls()->set_tool_call_malformed(true);
  for (int i = 0; i < 3; ++i) counted.add_calls();
  const auto metrics = MetricsOf({reported, counted, without_calls});
  EXPECT_NEAR(metrics.at("eval/seconds/mean"), 1, 1e-9);
  EXPECT_NEAR(metrics.at("eval/tool_error_rate"), (0.75 + 0.25) / 2, 1e-12);
  EXPECT_THAT(MetricsOf({without_calls}), Not(Contains(Key("eval/tool_error_rate"))));
}

TEST(EvalFiguresOf, ReadsTheNewestAttemptsOfOneVersion) {
  pools::TempDir dir;
  const auto pool = datapool::OpenPool(pools::QuickOptions(dir.path())).value();
  const int64_t group = 3 * (int64_t{1} << 20);
  const auto add = [&](const std::string& id, int64_t of, int attempt, double reward,
                       const std::vector<v1::FinishReason>& calls) {
    ASSERT_TRUE(pool->StoreEpisode(pools::Open(id, of, 0, attempt, v1::PURPOSE_EVAL)).ok());
    for (size_t i = 0; i < calls.size(); ++i) {
      v1::AppendCallRequest call =
          pools::Append(id, static_cast<int>(i), {pools::Prompt({1, 2})}, {pools::Sampled({5, 6, 7})});
      call.mutable_call()->set_finish(calls[i]);
      ASSERT_TRUE(pool->AppendCall(call).ok());
    }
    ASSERT_TRUE(pool->StoreEnd(pools::End(id, v1::EPISODE_FINISHED, reward)).ok());
  };
  add("old", group, 0, 1, {});
  add("a", group, 1, 0, {v1::FINISH_STOP, v1::FINISH_LENGTH});
  add("b", group + 1, 0, 1, {v1::FINISH_STOP});
  add("other version", 4 * (int64_t{1} << 20), 0, 1, {v1::FINISH_LENGTH});
  const auto metrics = EvalFiguresOf(*pool, 3, 1).value();
  EXPECT_DOUBLE_EQ(metrics.at("eval/pass@1"), 0.5);
  EXPECT_DOUBLE_EQ(metrics.at("eval/truncated_ratio"), 0.25);  // half of a's calls, none of b's
  EXPECT_DOUBLE_EQ(metrics.at("eval/num_turns/mean"), 1.5);
  EXPECT_DOUBLE_EQ(metrics.at("eval/response_length/mean"), 4.5);
  EXPECT_TRUE(EvalFiguresOf(*pool, 2, 1).value().empty());
}

}  // namespace
}  // namespace ingot::view::eval_figures_test
