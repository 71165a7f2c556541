// Advantages of the roles of an episode, worked by hand.
#include "trainer/advantages/role_advantage.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>

#include "../makers.h"
#include "trainer/advantages/group_rows.h"
#include "trainer/batch.h"
#include "trainer/episode_metrics.h"

namespace ingot::trainer::role_advantage_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr double kTiny = 1e-12;

// A call of a role, and its reward.
struct Move {
  const char* role;
  double reward = 0;
};

// An episode of one call of two sampled tokens per move.
v1::EpisodeTree Game(const std::string& id, const std::vector<Move>& moves, double reward = 0) {
  v1::EpisodeTree tree = MakeEpisode(id, reward, {});
  for (const Move& move : moves) {
    AddCall(tree, {{1, 2}, {3, 4}, {-1.0f, -1.0f}, {}, {}});
    v1::Call& call = *tree.mutable_calls(tree.calls_size() - 1);
    call.set_role(move.role);
    if (move.reward != 0) (*tree.mutable_episode()->mutable_call_rewards())[call.call_id()] = move.reward;
  }
  return tree;
}

// White wins the first game, black the second: each return is 0.
v1::Group TwoGames() {
  return MakeGroup(0, {Game("a", {{"white"}, {"black"}, {"white", 1}, {"black", -1}}),
                       Game("b", {{"white"}, {"black"}, {"white", -1}, {"black", 1}})});
}

AdvantageRule ByRole(const std::string& baseline = "mean", const std::string& normalization = "none",
                     bool filter = false) {
  return {baseline, normalization, filter, "nested", true};
}

BranchedAdvantages AdvantagesOf(const v1::Group& group, const AdvantageRule& rule,
                                const std::string& credit = "outcome") {
  const auto trained = RowsOf(group, {.credit = credit, .by_role = true});
  EXPECT_TRUE(trained.ok()) << trained.status();
  return AdvantagesOfRows({trained->rows}, rule).front();
}

TEST(RoleAdvantages, TheTwoPlayersOfAGameHaveOppositeAdvantages) {
  const BranchedAdvantages a = AdvantagesOf(TwoGames(), ByRole());
  EXPECT_THAT(a.rows, ElementsAre(ElementsAre(1, -1, 1, -1), ElementsAre(-1, 1, -1, 1)));
  EXPECT_FALSE(a.equal);
  // As whole episodes both games earned 0.
  const auto whole = RowsOf(TwoGames(), {});
  ASSERT_TRUE(whole.ok());
  EXPECT_TRUE(AdvantagesOfRows({whole->rows}, {})[0].equal);
}

TEST(RoleAdvantages, RewardToGoCountsTheRolesOwnTurns) {
  const v1::Group group =
      MakeGroup(0, {Game("a", {{"white", 1}, {"black", -4}, {"white", 2}}), Game("b", {{"white"}})});
  // White: 3 and then 2 against 0, mean 1.5. Black plays one game alone: nothing is there to compare.
  EXPECT_THAT(AdvantagesOf(group, ByRole(), "reward_to_go").rows,
              ElementsAre(ElementsAre(1.5, 0, 0.5), ElementsAre(-1.5)));
  // Discounted over two turns of white's, of which black's is none: 1 + 0.5 * 2 = 2.
  const auto discounted = RowsOf(group, {.credit = "reward_to_go", .discount = 0.5, .by_role = true});
  ASSERT_TRUE(discounted.ok());
  EXPECT_EQ(discounted->rows.roles[0].back().role, "white");
  EXPECT_EQ(discounted->rows.roles[0].back().earned.value, 2);
}

TEST(RoleAdvantages, AnEpisodesOwnRewardIsEveryRoles) {
  const v1::Group group =
      MakeGroup(0, {Game("a", {{"proposer", 0.5}, {"solver"}}, 1), Game("b", {{"proposer"}, {"solver"}}, 0)});
  EXPECT_THAT(AdvantagesOf(group, ByRole()).rows, ElementsAre(ElementsAre(0.75, 0.5), ElementsAre(-0.75, -0.5)));
}

TEST(RoleAdvantages, ARoleIsComparedWithTheSamplesThatHaveIt) {
  const v1::Group group =
      MakeGroup(0, {Game("a", {{"white", 1}, {"judge", 5}}), Game("b", {{"white", 0}}), Game("c", {{"white", -1}})});
  for (const char* baseline : {"mean", "leave_one_out"}) {
    const BranchedAdvantages a = AdvantagesOf(group, ByRole(baseline));
    EXPECT_EQ(a.rows[0][1], 0) << baseline;
    EXPECT_GT(a.rows[0][0], 0) << baseline;
    EXPECT_EQ(a.rows[1][0], 0) << baseline;
  }
  // A group of one sample is not compared with others either.
  EXPECT_THAT(AdvantagesOf(MakeGroup(0, {Game("a", {{"white", 1}})}), ByRole("leave_one_out")).rows,
              ElementsAre(ElementsAre(1)));
}

TEST(RoleAdvantages, NormalizationIsTheRolesOwn) {
  // White earns 1 and 0, black 10 and 30: deviations 0.5 and 10.
  const v1::Group group =
      MakeGroup(0, {Game("a", {{"white", 1}, {"black", 10}}), Game("b", {{"white", 0}, {"black", 30}})});
  for (const char* normalization : {"group", "batch"}) {
    const BranchedAdvantages a = AdvantagesOf(group, ByRole("mean", normalization));
    EXPECT_NEAR(a.rows[0][0], 0.5 / (0.5 + 1e-6), kTiny) << normalization;
    EXPECT_NEAR(a.rows[0][1], -10 / (10 + 1e-6), kTiny) << normalization;
  }
  // Lengths are the role's own, too: 2 tokens each.
  EXPECT_THAT(AdvantagesOf(group, ByRole("length")).rows, ElementsAre(ElementsAre(0.5, -10), ElementsAre(-0.5, 10)));
}

TEST(RoleAdvantages, AGroupIsEqualIfEveryRolesReturnsAre) {
  const v1::Group equal =
      MakeGroup(0, {Game("a", {{"white", 1}, {"black", -1}, {"judge", 3}}), Game("b", {{"white", 1}, {"black", -1}})});
  EXPECT_TRUE(AdvantagesOf(equal, ByRole()).equal);
  EXPECT_TRUE(AdvantagesOf(equal, ByRole("mean", "none", true)).filtered);
  const v1::Group one_role =
      MakeGroup(0, {Game("a", {{"white", 1}, {"black", -1}}), Game("b", {{"white", 1}, {"black"}})});
  EXPECT_FALSE(AdvantagesOf(one_role, ByRole()).equal);
  EXPECT_FALSE(AdvantagesOf(one_role, ByRole("mean", "none", true)).filtered);
}

TEST(RoleAdvantages, WithoutRolesTheyAreThoseOfEpisodes) {
  const v1::Group group = MakeGroup(0, {Game("a", {{"", 1}, {"", 0.25}}, 1), Game("b", {{""}}, 0.5)});
  for (const char* baseline : {"mean", "leave_one_out", "batch", "length", "none"}) {
    const auto whole = RowsOf(group, {.credit = "reward_to_go"});
    ASSERT_TRUE(whole.ok());
    EXPECT_EQ(AdvantagesOf(group, ByRole(baseline), "reward_to_go").rows,
              AdvantagesOfRows({whole->rows}, {baseline, "none"})[0].rows)
        << baseline;
  }
}

// An opponent on a pinned version earns what the policy loses, and is not trained.
TEST(RoleAdvantages, ARoleThatThePolicyDoesNotPlayIsLeftOut) {
  v1::Group group = TwoGames();
  for (v1::EpisodeTree& tree : *group.mutable_episodes()) {
    for (const int turn : {1, 3}) tree.mutable_calls(turn)->set_weights(v1::WEIGHTS_PINNED);
  }
  EXPECT_THAT(AdvantagesOf(group, ByRole()).rows, ElementsAre(ElementsAre(1, 0, 1, 0), ElementsAre(-1, 0, -1, 0)));
}

TEST(RoleAdvantages, AGroupOfReturnsOfZeroIsTrained) {
  TrainBatch batch;
  batch.groups = {TwoGames()};
  TrainerOptions options;
  options.filter_zero_variance = true;
  const auto whole = PrepareBatch(batch, options, 10, 0);
  ASSERT_TRUE(whole.ok()) << whole.status();
  EXPECT_EQ(whole->loss_tokens, 0);
  options.advantage_groups = "role";
  const auto by_role = PrepareBatch(batch, options, 10, 0);
  ASSERT_TRUE(by_role.ok()) << by_role.status();
  EXPECT_EQ(by_role->loss_tokens, 16);
  EXPECT_THAT(by_role->advantages, ElementsAre(1, -1, 1, -1, -1, 1, -1, 1));
  EXPECT_EQ(by_role->metrics.at("reward/frac_zero_std"), 0);
}

TEST(RoleAdvantages, GroupsThatBranchAreRejected) {
  v1::EpisodeTree trunk = Game("T", {{"white"}});
  trunk.mutable_episode()->set_state(v1::EPISODE_FORKED);
  v1::EpisodeTree leaf = Game("a", {{"black"}});
  leaf.mutable_episode()->mutable_fork()->set_episode_id("T");
  EXPECT_THAT(std::string(RowsOf(MakeGroup(0, {leaf, trunk}), {.by_role = true}).status().message()),
              HasSubstr("advantage_groups to episode"));
}

TEST(RoleAdvantages, DpoIsRejected) {
  TrainerOptions options;
  options.objective = "dpo";
  options.loss_aggregation = "sequence";
  EXPECT_TRUE(options.Validate().ok()) << options.Validate();
  options.advantage_groups = "role";
  EXPECT_THAT(std::string(options.Validate().message()), HasSubstr("advantage_groups role"));
  options.objective = "cispo";
  EXPECT_TRUE(options.Validate().ok()) << options.Validate();
  options.advantage_groups = "player";
  EXPECT_THAT(std::string(options.Validate().message()), HasSubstr("episode or role"));
}

TEST(EpisodeMetrics, ReportTheReturnOfEachRole) {
  EpisodeMetrics metrics;
  metrics.AddEpisode(Game("a", {{"white"}, {"black"}, {"white", 1}, {"black", -1}}, 0.5), 8);
  metrics.AddEpisode(Game("b", {{"white"}, {"", 2}}), 4);
  StepMetrics reported;
  metrics.Report(reported);
  EXPECT_DOUBLE_EQ(reported.at("reward/batch_mean@role:white"), (1.5 + 0) / 2);
  EXPECT_DOUBLE_EQ(reported.at("reward/batch_mean@role:black"), -0.5);
  EXPECT_DOUBLE_EQ(reported.at("reward/batch_mean@role:default"), 2);
}

TEST(EpisodeMetrics, HaveNoRolesOfOneRoleAndABoundedNumber) {
  EpisodeMetrics one, many;
  one.AddEpisode(Game("a", {{"white", 1}, {"white"}}), 4);
  StepMetrics reported;
  one.Report(reported);
  EXPECT_FALSE(reported.contains("reward/batch_mean@role:white"));
  for (int i = 0; i < 40; ++i) many.AddEpisode(Game("a", {{("r" + std::to_string(i)).c_str()}}), 2);
  many.Report(reported);
  const auto roles = std::count_if(reported.begin(), reported.end(),
                                   [](const auto& one) { return one.first.find("@role:") != std::string::npos; });
  EXPECT_EQ(roles, EpisodeMetrics::kMaxRoles);
}

}  // namespace
}  // namespace ingot::trainer::role_advantage_test
