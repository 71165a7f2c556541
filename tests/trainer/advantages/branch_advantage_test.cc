// Advantages of trunks and leaves, worked by hand.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "../makers.h"
#include "trainer/advantages/branch_advantage.h"
#include "trainer/advantages/group_rows.h"
#include "trainer/batch.h"

namespace ingot::trainer::branch_advantage_test {
namespace {

using ::testing::DoubleNear;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

constexpr double kTiny = 1e-12;

// Two trunks of one turn with two leaves of one turn each.
GroupRows TwoTrunks(const std::vector<double>& rewards) {
  GroupRows group{.rows = {}, .trunks = {0, 0, 1, 1}, .trunk_turns = {1, 1}};
  for (const double reward : rewards) group.rows.push_back(CreditTurns(reward, {0, 0}, "outcome"));
  return group;
}

AdvantageRule Rule(const std::string& branches, const std::string& baseline = "mean",
                   const std::string& normalization = "none", bool filter = false) {
  return {baseline, normalization, filter, branches};
}

TEST(BranchAdvantages, LeavesAreComparedWithSiblingsAndTrunksWithTheGroup) {
  const auto a = AdvantagesOfRows({TwoTrunks({1, 0, 1, 1})}, Rule("nested"))[0];
  EXPECT_THAT(a.rows, ElementsAre(ElementsAre(0.5), ElementsAre(-0.5), ElementsAre(0), ElementsAre(0)));
  // The group's mean is 3/4: (1/4 - 3/4) / 2 and (1/4 + 1/4) / 2.
  EXPECT_THAT(a.trunks, ElementsAre(ElementsAre(-0.25), ElementsAre(0.25)));
  EXPECT_FALSE(a.equal);
}

TEST(BranchAdvantages, AmongSiblingsATrunksMeanIsZeroWhateverItsLeavesEarn) {
  for (const char* baseline : {"mean", "leave_one_out"}) {
    const auto a = AdvantagesOfRows({TwoTrunks({1, 0, 1, 0.5})}, Rule("siblings", baseline))[0];
    EXPECT_THAT(a.trunks, ElementsAre(ElementsAre(0), ElementsAre(0))) << baseline;
    EXPECT_NE(a.rows[0][0], 0);
  }
  // Without a baseline it is the mean of the returns.
  const auto a = AdvantagesOfRows({TwoTrunks({1, 0, 1, 0.5})}, Rule("siblings", "none"))[0];
  EXPECT_THAT(a.trunks, ElementsAre(ElementsAre(0.5), ElementsAre(0.75)));
}

TEST(BranchAdvantages, OneTrunkInAGroupIsComparedWithNothing) {
  GroupRows group{.rows = {}, .trunks = {0, 0}, .trunk_turns = {2}};
  for (const double reward : {1.0, 0.0}) group.rows.push_back(CreditTurns(reward, {0, 0, 0}, "outcome"));
  const auto a = AdvantagesOfRows({group}, Rule("nested"))[0];
  EXPECT_THAT(a.trunks, ElementsAre(ElementsAre(0, 0)));
  EXPECT_THAT(a.rows, ElementsAre(ElementsAre(0.5), ElementsAre(-0.5)));
}

TEST(BranchAdvantages, LeaveOneOutTakesTheOtherRowsOfTheGroupForTrunks) {
  const auto a = AdvantagesOfRows({TwoTrunks({1, 0, 1, 1})}, Rule("nested", "leave_one_out"))[0];
  EXPECT_THAT(a.rows, ElementsAre(ElementsAre(1), ElementsAre(-1), ElementsAre(0), ElementsAre(0)));
  // Rows against the mean of the three others: 1 - 2/3, 0 - 1, 1 - 2/3, 1 - 2/3.
  EXPECT_THAT(a.trunks, ElementsAre(ElementsAre(DoubleNear(-1.0 / 3, kTiny)), ElementsAre(DoubleNear(1.0 / 3, kTiny))));
}

TEST(BranchAdvantages, RowsWithoutATrunkAreSiblingsToo) {
  GroupRows group{
      .rows = {{1, {1, 1}}, {0, {0, 0}}, {1, {1}}, {0.5, {0.5}}}, .trunks = {0, 0, -1, -1}, .trunk_turns = {1}};
  const auto a = AdvantagesOfRows({group}, Rule("nested"))[0];
  EXPECT_THAT(a.rows, ElementsAre(ElementsAre(0.5), ElementsAre(-0.5), ElementsAre(0.25), ElementsAre(-0.25)));
  EXPECT_THAT(a.trunks, ElementsAre(ElementsAre(DoubleNear(0.5 - 0.625, kTiny))));
}

TEST(BranchAdvantages, AGroupIsFilteredOnlyIfItsTrunksHaveNoAdvantageEither) {
  const GroupRows apart = TwoTrunks({1, 1, 0, 0});  // siblings are equal, trunks are not
  EXPECT_FALSE(AdvantagesOfRows({apart}, Rule("nested", "mean", "none", true))[0].filtered);
  EXPECT_TRUE(AdvantagesOfRows({apart}, Rule("siblings", "mean", "none", true))[0].filtered);
  EXPECT_FALSE(AdvantagesOfRows({apart}, Rule("siblings"))[0].equal);
  EXPECT_TRUE(AdvantagesOfRows({TwoTrunks({1, 1, 1, 1})}, Rule("nested"))[0].equal);
}

TEST(BranchAdvantages, WithoutTrunksTheyAreThePlainOnes) {
  const std::vector<EpisodeReturn> rows = {{1, {1, 0.5}}, {0, {0}}, {2, {2, 1, 1}}};
  for (const char* branches : {"nested", "siblings"}) {
    for (const char* normalization : {"none", "group", "batch"}) {
      const AdvantageRule rule = Rule(branches, "leave_one_out", normalization);
      const auto plain = Advantages({rows, rows}, rule);
      const GroupRows group{.rows = rows, .trunks = {-1, -1, -1}, .trunk_turns = {}};
      const auto branched = AdvantagesOfRows({group, group}, rule);
      for (size_t g = 0; g < 2; ++g) EXPECT_EQ(branched[g].rows, plain[g].turns) << normalization;
    }
  }
}

// ---- Rows of stored trees

CallSpec Sampled(const std::vector<int32_t>& context, const std::vector<int32_t>& sampled) {
  return {context, sampled, std::vector<float>(sampled.size(), -1.0f), {}, {}};
}

v1::EpisodeTree Trunk(const std::string& id, const std::vector<CallSpec>& calls) {
  v1::EpisodeTree tree = MakeEpisode(id, 0, calls);
  tree.mutable_episode()->clear_reward();
  tree.mutable_episode()->set_state(v1::EPISODE_FORKED);
  return tree;
}

v1::EpisodeTree Leaf(const std::string& id, const std::string& trunk, double reward,
                     const std::vector<CallSpec>& calls) {
  v1::EpisodeTree tree = MakeEpisode(id, reward, calls);
  tree.mutable_episode()->mutable_fork()->set_episode_id(trunk);
  return tree;
}

TEST(GroupRowsTest, ALeafsRowBeginsWithItsTrunksTurns) {
  v1::Group group = MakeGroup(3, {Leaf("a", "T", 1, {Sampled({1, 2, 3}, {4})}),
                                  Leaf("b", "T", 0, {Sampled({1, 2, 3}, {5})}), Trunk("T", {Sampled({1}, {2})})});
  (*group.mutable_episodes(2)->mutable_episode()->mutable_call_rewards())["T/0"] = 0.25;
  (*group.mutable_episodes(0)->mutable_episode()->mutable_call_rewards())["a/0"] = 0.5;
  const auto to_go = RowsOf(group, {.credit = "reward_to_go"});
  ASSERT_TRUE(to_go.ok()) << to_go.status();
  ASSERT_EQ(to_go->rows.rows.size(), 2u);
  EXPECT_EQ(to_go->rows.rows[0].value, 1.75) << "what the trunk earned is its leaves' too";
  EXPECT_THAT(to_go->rows.rows[0].credits, ElementsAre(1.75, 1.5));
  EXPECT_THAT(to_go->rows.rows[1].credits, ElementsAre(0.25, 0));
  EXPECT_THAT(to_go->rows.trunks, ElementsAre(0, 0));
  ASSERT_EQ(to_go->parts.size(), 3u);
  EXPECT_TRUE(to_go->parts[0].trunk);
  EXPECT_EQ(to_go->parts[0].episode, 2);
  // Of a judged group, the grades count alone.
  for (int i : {0, 1}) group.mutable_episodes(i)->mutable_episode()->mutable_grade()->set_reward(i);
  EXPECT_EQ(RowsOf(group, {.credit = "outcome"})->rows.rows[1].value, 1);
}

v1::TermValue& AddTerm(v1::EpisodeTree& tree, const std::string& name, double weight, double value) {
  v1::TermValue& term = *tree.mutable_episode()->mutable_grade()->add_terms();
  term.set_term(name);
  term.set_weight(weight);
  term.set_value(value);
  return term;
}

TEST(GroupRowsTest, ByTermsARowHasTheTermsOfItsGrade) {
  v1::Group group = MakeGroup(
      0, {MakeEpisode("a", 1, {Sampled({1}, {2}), Sampled({1, 2}, {3})}), MakeEpisode("b", 0, {Sampled({1}, {4})})});
  const auto posted = RowsOf(group, {.credit = "outcome", .by_terms = true});
  ASSERT_TRUE(posted.ok()) << posted.status();
  ASSERT_EQ(posted->rows.rows[0].terms.size(), 1u);
  EXPECT_EQ(posted->rows.rows[0].terms[0].value, 1) << "without grades the posted reward is the one term";
  for (int i : {0, 1}) AddTerm(*group.mutable_episodes(i), "outcome", 1, 1 - i);
  (*AddTerm(*group.mutable_episodes(0), "style", 0.5, 0.25).mutable_calls())["a/1"] = 2;
  AddTerm(*group.mutable_episodes(1), "style", 0.5, 4);
  const auto graded = RowsOf(group, {.credit = "reward_to_go", .by_terms = true});
  ASSERT_TRUE(graded.ok()) << graded.status();
  const TermReturn& style = graded->rows.rows[0].terms.at(1);
  EXPECT_EQ(style.weight, 0.5);
  EXPECT_EQ(style.value, 2.25);
  EXPECT_THAT(style.credits, ElementsAre(2.25, 2.25));
  EXPECT_THAT(RowsOf(group, {.credit = "outcome"})->rows.rows[0].terms, IsEmpty());
  AddTerm(*group.mutable_episodes(1), "more", 1, 4);
  EXPECT_THAT(std::string(RowsOf(group, {.credit = "outcome", .by_terms = true}).status().message()),
              HasSubstr("episode b: its terms"));
}

TEST(GroupRowsTest, ByTermsALeafEarnsNothingInItsTrunk) {
  v1::Group group = MakeGroup(0, {Leaf("a", "T", 1, {Sampled({1, 2, 3}, {4})}), Trunk("T", {Sampled({1}, {2})})});
  (*AddTerm(*group.mutable_episodes(0), "style", 1, 1).mutable_calls())["a/0"] = 0.5;
  const auto rows = RowsOf(group, {.credit = "reward_to_go", .by_terms = true});
  ASSERT_TRUE(rows.ok()) << rows.status();
  EXPECT_THAT(rows->rows.rows[0].terms.at(0).credits, ElementsAre(1.5, 1.5));
}

TEST(GroupRowsTest, LeavesOfALostTrunkAndTrunksWithoutLeavesAreLeftOut) {
  const v1::Group group =
      MakeGroup(0, {Leaf("a", "lost", 1, {Sampled({1}, {2})}), Leaf("b", "T", 0, {Sampled({1, 2}, {3})}),
                    Trunk("T", {Sampled({1}, {2})}), Trunk("alone", {Sampled({1}, {2})})});
  const auto rows = RowsOf(group, {.credit = "outcome"});
  ASSERT_TRUE(rows.ok());
  EXPECT_EQ(rows->left_out, 2);
  EXPECT_EQ(rows->rows.rows.size(), 1u);
  EXPECT_EQ(rows->parts.size(), 2u);
}

TEST(GroupRowsTest, AnEpisodeFromASnapshotOfOneThatWentOnIsComparedWithTheGroup) {
  v1::Group group = MakeGroup(
      0, {MakeEpisode("a", 1, {Sampled({1}, {2}), Sampled({1, 2}, {3})}), Leaf("b", "a", 0, {Sampled({1, 2}, {4})})});
  const auto rows = RowsOf(group, {.credit = "outcome"});
  ASSERT_TRUE(rows.ok());
  EXPECT_THAT(rows->rows.trunks, ElementsAre(-1, -1));
  EXPECT_THAT(rows->rows.trunk_turns, IsEmpty());
}

TEST(BranchedBatch, TokensOfATrunkCountOnceAndItsLeavesMakeUpTheGroup) {
  TrainBatch batch;
  batch.groups = {
      MakeGroup(0, {Leaf("a", "T", 1, {Sampled({1, 2, 3, 6}, {4})}), Leaf("b", "T", 0, {Sampled({1, 2, 3, 6}, {5, 5})}),
                    Trunk("T", {Sampled({1}, {2, 3})})})};
  TrainerOptions options;
  options.group_size = 2;
  const auto prepared = PrepareBatch(batch, options, 16, 0);
  ASSERT_TRUE(prepared.ok()) << prepared.status();
  EXPECT_EQ(prepared->loss_tokens, 5);
  ASSERT_EQ(prepared->calls.size(), 3u);
  EXPECT_EQ(prepared->calls[0].call_id, "T/0");
  EXPECT_THAT(prepared->advantages, ElementsAre(0, 0.5, -0.5));
  EXPECT_THAT(prepared->weights, ElementsAre(0.2, 0.2, 0.2));
  EXPECT_EQ(prepared->metrics.at("batch/episodes"), 2);
  EXPECT_EQ(prepared->metrics.at("batch/trunks"), 1);
  EXPECT_EQ(prepared->metrics.at("num_turns/mean"), 2) << "a leaf has its trunk's turns";
  EXPECT_EQ(prepared->metrics.at("response_length/mean"), 3.5);
  EXPECT_EQ(prepared->metrics.at("reward/batch_mean"), 0.5);
  options.group_size = 3;
  EXPECT_THAT(std::string(PrepareBatch(batch, options, 16, 0).status().message()), HasSubstr("2 finished samples"));
  // DPO compares siblings, which have the same trunk; its own tokens are in no pair.
  options.group_size = 2;
  options.objective = "dpo";
  const auto pairs = PrepareBatch(batch, options, 16, 0);
  ASSERT_TRUE(pairs.ok()) << pairs.status();
  EXPECT_EQ(pairs->preferences.size(), 1u);
  EXPECT_EQ(pairs->calls.size(), 2u);
}

}  // namespace
}  // namespace ingot::trainer::branch_advantage_test
