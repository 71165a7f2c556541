// The table of an evaluation, against numbers worked by hand.
#include "view/evaluation/eval_table.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace ingot::view::eval_table_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

v1::EpisodeTree Sample(int64_t group, double reward, const std::string& set) {
  v1::EpisodeTree tree;
  v1::Episode& episode = *tree.mutable_episode();
  episode.mutable_ref()->set_group_id(group);
  episode.set_state(v1::EPISODE_FINISHED);
  episode.set_reward(reward);
  episode.mutable_task()->set_eval_set(set);
  return tree;
}

// Two tasks of `easy` with 3 and 1 successes of 3, and one of `hard` without any.
EvalFigures Figures(const std::vector<int64_t>& more_k = {}) {
  EvalFigures figures(1, more_k);
  for (const double reward : {1, 1, 1}) figures.Add(Sample(0, reward, "easy"));
  for (const double reward : {1, 0, 0}) figures.Add(Sample(1, reward, "easy"));
  for (const double reward : {0, 0, 0}) figures.Add(Sample(2, reward, "hard"));
  return figures;
}

TEST(EvalTable, HasARowForEachSetAndOneForAll) {
  const std::vector<EvalRow> rows = EvalRows(Figures(), "codex", {3});
  ASSERT_EQ(rows.size(), 3);
  EXPECT_EQ(rows[0].set, "easy");
  EXPECT_EQ(rows[1].set, "hard");
  EXPECT_EQ(rows[2].set, "");
  EXPECT_EQ(rows[2].scaffold, "codex");
  EXPECT_EQ(rows[2].tasks, 3);
  EXPECT_EQ(rows[2].episodes, 9);
  EXPECT_EQ(rows[2].samples, 3);
  EXPECT_NEAR(rows[0].reward.mean, (1 + 1.0 / 3) / 2, 1e-12);
  EXPECT_NEAR(rows[2].reward.mean, 4.0 / 9, 1e-12);
  EXPECT_EQ(rows[2].reward.values, 3);  // the interval is over tasks, not over samples
  EXPECT_NEAR(rows[0].pass.at(2).mean, (1 + 2.0 / 3) / 2, 1e-12);
  EXPECT_NEAR(rows[2].pass.at(3).mean, 2.0 / 3, 1e-12);
  EXPECT_FALSE(rows[2].pass.contains(4));
}

TEST(EvalTable, HasOneRowForASingleSetAndNoneWithoutEpisodes) {
  EvalFigures named(1), unnamed(1);
  named.Add(Sample(0, 1, "easy"));
  unnamed.Add(Sample(0, 1, ""));
  ASSERT_EQ(EvalRows(named, "", {}).size(), 1);
  EXPECT_EQ(EvalRows(named, "", {})[0].set, "easy");
  ASSERT_EQ(EvalRows(unnamed, "", {}).size(), 1);
  EXPECT_TRUE(EvalRows(EvalFigures(1), "", {}).empty());
}

TEST(EvalTable, ReportsOtherKAsAMetric) {
  EXPECT_TRUE(Figures({3}).Metrics().contains("eval/pass@3"));
  EXPECT_FALSE(Figures().Metrics().contains("eval/pass@3"));
  EXPECT_FALSE(Figures({4}).Metrics().contains("eval/pass@4")) << "no task has 4 samples";
  EXPECT_THAT(PassesOf(Figures().all(), {3, 7}), ElementsAre(1, 2, 3));
}

TEST(EvalTable, PrintsIntervalsAndEscapesNames) {
  std::vector<EvalRow> rows = EvalRows(Figures(), "", {});
  const std::string text = EvalTableText(rows, {});
  EXPECT_THAT(text, HasSubstr("pass@1 (95 %)"));
  EXPECT_THAT(text, HasSubstr("pass@2 (95 %)"));
  EXPECT_THAT(text, HasSubstr("mixed     easy  2      3  0.6667 ("));
  EXPECT_THAT(EvalTableText(rows, {1}), Not(HasSubstr("pass@2")));
  rows[0].scaffold = "a\x1b[31m";
  EXPECT_THAT(EvalTableText(rows, {}), Not(HasSubstr("\x1b")));
}

TEST(EvalTable, IsJsonWithEveryPass) {
  const std::string json = base::PrintJson(EvalTableJson(EvalRows(Figures(), "codex", {3})));
  EXPECT_THAT(json, HasSubstr(R"("scaffold":"codex","set":"hard","tasks":1,"episodes":3,"samples":3)"));
  EXPECT_THAT(json, HasSubstr(R"("tool_error_rate":null)"));
  for (const char* k : {"\"1\":{", "\"2\":{", "\"3\":{"}) EXPECT_THAT(json, HasSubstr(k));
}

}  // namespace
}  // namespace ingot::view::eval_table_test
