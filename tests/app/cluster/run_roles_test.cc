#include "app/cluster/run_roles.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <iterator>

namespace ingot::app::run_roles_test {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

RunConfig Clustered() {
  RunConfig config;
  config.name = "run";
  config.tasks = "tasks.jsonl";
  config.agents.recipes.emplace_back();
  config.cluster.rollout_engines = 5;
  config.cluster.groups = {{"control", 1, {"datapool", "scheduler", "gateway", "trainer", "agents"}, 1, {}},
                           {"large", 2, {"rollout"}, 2, {}},
                           {"small", 1, {"rollout"}, 1, {}}};
  return config;
}

std::vector<std::string> Names(const std::vector<RoleProcess>& processes) {
  std::vector<std::string> names;
  for (const RoleProcess& process : processes) names.push_back(absl::StrCat(process.role, " ", process.index));
  return names;
}

std::string Fault(const RunConfig& config) { return std::string(CheckGroups(config).message()); }

TEST(RunRoles, ARunWithoutGroupsHasAllRolesOnOneNode) {
  RunConfig config = Clustered();
  config.cluster.groups.clear();
  config.cluster.rollout_engines = 2;
  config.cluster.trainer_ranks = 2;
  EXPECT_TRUE(CheckGroups(config).ok());
  EXPECT_THAT(Names(AllRoles(config)), ElementsAre("datapool 0", "scheduler 0", "rollout 0", "rollout 1", "gateway 0",
                                                   "trainer 0", "trainer 1", "agents 0"));
  config.agents.recipes.clear();
  EXPECT_EQ(AllRoles(config).back().role, "trainer");
  config.tasks.clear();
  EXPECT_THAT(Names(AllRoles(config)), ElementsAre("trainer 0", "trainer 1"));
}

TEST(RunRoles, EachNodeRunsTheRolesOfItsGroupAndItsShareOfTheEngines) {
  const RunConfig config = Clustered();
  ASSERT_TRUE(CheckGroups(config).ok()) << CheckGroups(config);
  EXPECT_THAT(Names(*RolesOfNode(config, "control", 0)),
              ElementsAre("datapool 0", "scheduler 0", "gateway 0", "trainer 0", "agents 0"));
  EXPECT_THAT(Names(*RolesOfNode(config, "large", 0)), ElementsAre("rollout 0", "rollout 1"));
  EXPECT_THAT(Names(*RolesOfNode(config, "large", 1)), ElementsAre("rollout 2", "rollout 3"));
  EXPECT_THAT(Names(*RolesOfNode(config, "small", 0)), ElementsAre("rollout 4"));
}

TEST(RunRoles, TheRewardStageIsARoleWhereItIsAskedFor) {
  RunConfig config = Clustered();
  config.cluster.rewards_role = true;
  EXPECT_THAT(Fault(config), HasSubstr("room for 0 of role rewards, but the run has 1 (cluster.rewards_role)"));
  config.cluster.groups[2].roles.push_back("rewards");
  EXPECT_EQ(Fault(config), "");
  EXPECT_THAT(Names(*RolesOfNode(config, "small", 0)), ElementsAre("rewards 0", "rollout 4"));
  config.cluster.groups[2].nodes = 2;
  EXPECT_THAT(Fault(config), HasSubstr("rewards runs on one node"));
  config.cluster.groups[2].nodes = 1;
  config.cluster.rewards_role = false;
  EXPECT_THAT(Fault(config), HasSubstr("room for 1 of role rewards, but the run has 0"));
  config.cluster.groups.clear();
  config.cluster.rewards_role = true;
  EXPECT_THAT(Names(AllRoles(config)), ::testing::Contains("rewards 0"));
  config.tasks.clear();
  EXPECT_THAT(Names(AllRoles(config)), Not(::testing::Contains("rewards 0"))) << "a supervised run rewards nothing";
}

TEST(RunRoles, AProcessOfTheRewardStageNeedsARunThatAsksIt) {
  RunConfig config = Clustered();
  config.rewards.terms.resize(2);
  config.rewards.terms[1].kind = "length";
  EXPECT_TRUE(absl::IsInvalidArgument(RequireRewardsRole(config))) << "the stage is in the scheduler's process";
  config.cluster.rewards_role = true;
  EXPECT_TRUE(RequireRewardsRole(config).ok());
  config.rewards.terms.clear();
  EXPECT_TRUE(absl::IsInvalidArgument(RequireRewardsRole(config))) << "no stage judges the outcome alone";
}

TEST(RunRoles, ANodeThatIsNotThereIsRejected) {
  const RunConfig config = Clustered();
  EXPECT_TRUE(absl::IsInvalidArgument(RolesOfNode(config, "large", 2).status()));
  const absl::Status unknown = RolesOfNode(config, "medium", 0).status();
  EXPECT_TRUE(absl::IsNotFound(unknown));
  EXPECT_THAT(std::string(unknown.message()), HasSubstr("it has control, large, small"));
}

TEST(RunRoles, GroupsThatDoNotRunEveryRoleOnceAreRejected) {
  RunConfig config = Clustered();
  config.cluster.rollout_engines = 6;
  EXPECT_THAT(Fault(config), HasSubstr("room for 5 of role rollout, but the run has 6"));
  config = Clustered();
  config.cluster.groups[0].roles.pop_back();
  EXPECT_THAT(Fault(config), HasSubstr("role agents"));
  config.cluster.groups[2].roles.push_back("agents");
  EXPECT_THAT(Fault(config), HasSubstr("gateway.admin_key_file"));
  config.gateway.admin_key_file = "key";
  EXPECT_EQ(Fault(config), "");
  config.cluster.groups[1].roles.push_back("scheduler");
  EXPECT_THAT(Fault(config), HasSubstr("scheduler runs on one node"));
  config = Clustered();
  config.cluster.groups[2].roles.push_back("gateway");
  EXPECT_THAT(Fault(config), HasSubstr("room for 2 of role gateway"));
  config.cluster.groups[2].roles.back() = "database";
  EXPECT_THAT(Fault(config), HasSubstr("'database' is not a role"));
}

TEST(RunRoles, AnAddressOfOneMachineServesNoAgentsOfAnother) {
  RunConfig config = Clustered();
  config.cluster.host = "10.0.0.5";
  EXPECT_EQ(Fault(config), "") << "agents and gateway share a node";
  config.cluster.groups[0].roles.pop_back();
  config.cluster.groups[2].roles.push_back("agents");
  config.gateway.admin_key_file = "key";
  EXPECT_THAT(Fault(config), HasSubstr("('small') has agents on another node than the gateway, and http.host is "
                                       "127.0.0.1, which only its own machine can reach: set http.host=0.0.0.0"));
  config.cluster.host = "127.0.0.1";
  EXPECT_EQ(Fault(config), "") << "one machine stands for all nodes";
  config.cluster.host = "auto";
  config.http.host = "0.0.0.0";
  EXPECT_EQ(Fault(config), "");
  config.http.host = "127.0.0.1";
  config.gateway.public_url = "https://agents.example";
  EXPECT_EQ(Fault(config), "");
}

TEST(RunRoles, TheLoadBalancerAndItsGatewaysReachEachOther) {
  RunConfig config = Clustered();
  config.cluster.host = "10.0.0.5";
  config.cluster.gateways = 2;
  config.cluster.groups[2].roles.push_back("gateway");
  config.gateway.admin_key_file = "key";
  EXPECT_THAT(Fault(config),
              HasSubstr("('small') has a gateway on another node than the load balancer of the gateways"));
  config.http.host = "0.0.0.0";
  EXPECT_EQ(Fault(config), "");
}

TEST(RunRoles, ThePlanShowsCommandsWithoutSecrets) {
  const RunConfig config = Clustered();
  RoleSpecs::Parts parts;
  parts.folder = "runs/a run";
  parts.config = "runs/a run/config.yaml";
  parts.binary = "/bin/ingot";
  parts.settings = {"cluster.host=10.0.0.2"};
  parts.secrets = {"the-secret-token", "the-admin-key"};
  const RoleSpecs specs(config, parts);
  const std::string plan = DescribeSpecs({specs.Spec({"gateway", 0}), specs.Spec({"rollout", 3})});
  EXPECT_THAT(plan, HasSubstr("gateway    /bin/ingot gateway 'runs/a run/config.yaml' --child "));
  EXPECT_THAT(plan, HasSubstr("--set cluster.host=10.0.0.2 --engine 3\n"));
  EXPECT_THAT(plan, Not(HasSubstr("secret")));
  EXPECT_THAT(plan, Not(HasSubstr("admin")));
  EXPECT_THAT(specs.Spec({"gateway", 0}).input, HasSubstr("the-admin-key"));
  EXPECT_THAT(specs.Spec({"rollout", 3}).input, Not(HasSubstr("the-admin-key")));
}

TEST(RunRoles, EachNodeWithGatewaysRunsOneBehindTheLoadBalancer) {
  RunConfig config = Clustered();
  config.cluster.gateways = 3;
  EXPECT_THAT(Fault(config), HasSubstr("room for 1 of role gateway, but the run has 3 (cluster.gateways)"));
  config.cluster.groups[1].roles.push_back("gateway");
  config.gateway.admin_key_file = "/etc/ingot/admin.key";
  EXPECT_EQ(Fault(config), "");
  EXPECT_THAT(Names(*RolesOfNode(config, "control", 0)),
              ElementsAre("datapool 0", "scheduler 0", "gateway 0", "trainer 0", "agents 0"));
  EXPECT_THAT(Names(*RolesOfNode(config, "large", 0)), ElementsAre("rollout 0", "rollout 1", "gateway 1"));
  EXPECT_THAT(Names(*RolesOfNode(config, "large", 1)), ElementsAre("rollout 2", "rollout 3", "gateway 2"));
  RoleSpecs::Parts parts;
  parts.load_balancer = "http://10.0.0.5:8080";
  const RoleSpecs specs(config, parts);
  EXPECT_EQ(specs.Spec({"gateway", 2}).name, "gateway-2");
  EXPECT_THAT(DescribeSpecs({specs.Spec({"gateway", 2})}),
              HasSubstr("--gateway 2 --set http.port=0 --set gateway.public_url=http://10.0.0.5:8080\n"));
}

TEST(RunRoles, EachNodeWithThePoolRunsOneOfItsProcesses) {
  RunConfig config = Clustered();
  config.cluster.datapools = 3;
  EXPECT_THAT(Fault(config), HasSubstr("room for 1 of role datapool, but the run has 3 (cluster.datapools)"));
  config.cluster.groups[1].roles.push_back("datapool");
  EXPECT_EQ(Fault(config), "");
  EXPECT_THAT(Names(*RolesOfNode(config, "control", 0)),
              ElementsAre("datapool 0", "scheduler 0", "gateway 0", "trainer 0", "agents 0"));
  EXPECT_THAT(Names(*RolesOfNode(config, "large", 1)), ElementsAre("datapool 2", "rollout 2", "rollout 3"));
  const RoleSpecs specs(config, {});
  EXPECT_EQ(specs.Spec({"datapool", 2}).name, "datapool-2");
  EXPECT_THAT(DescribeSpecs({specs.Spec({"datapool", 2})}), HasSubstr("--datapool 2\n"));
  EXPECT_THAT(specs.Spec({"datapool", 2}).restart_extra, ElementsAre("--resume")) << "it waits for the first one once";
}

TEST(RunRoles, TheTrainersFirstRankDecidesAndOthersMayBeRenumbered) {
  RunConfig config = Clustered();
  config.cluster.trainer_ranks = 3;
  RoleSpecs::Parts parts;
  parts.meeting_port = 4321;
  const RoleSpecs specs(config, parts);
  EXPECT_TRUE(specs.Spec({"trainer", 0}).decides);
  const RoleSpec last = specs.Spec({"trainer", 2});
  EXPECT_FALSE(last.decides);
  const RoleSpec first = last.renumbered(0, 2);
  EXPECT_EQ(first.name, "trainer-2");
  EXPECT_TRUE(first.decides);
  EXPECT_THAT(DescribeSpecs({first}),
              HasSubstr("--rank 0 --set cluster.trainer_ranks=2 --set cluster.trainer_port=4321"));
}

// The GPU of a lost rank may be broken, so no other rank moves to it.
TEST(RunRoles, ARankKeepsItsDeviceWhenAnotherIsLost) {
  RunConfig config = Clustered();
  config.cluster.trainer_ranks = 4;
  const RoleSpecs specs(config, {});
  const auto place_of = [](const RoleSpec& spec) {
    const auto found = std::find(spec.argv.begin(), spec.argv.end(), "--device-place");
    return found == spec.argv.end() ? "" : *std::next(found);
  };
  EXPECT_EQ(place_of(specs.Spec({"trainer", 3})), "") << "the rank's own";
  const RoleSpec third = specs.Spec({"trainer", 3}).renumbered(2, 3);
  EXPECT_THAT(DescribeSpecs({third}), HasSubstr("--rank 2 --set cluster.trainer_ranks=3"));
  EXPECT_EQ(place_of(third), "3");
  EXPECT_EQ(place_of(third.renumbered(1, 2)), "3");
  EXPECT_EQ(place_of(specs.Spec({"trainer", 0}).renumbered(0, 3)), "");
}

std::vector<int> PlacesOf(const RunConfig& config, const std::string& group, int node) {
  std::vector<int> places;
  const std::vector<RoleProcess> processes = *RolesOfNode(config, group, node);
  for (const RoleProcess& process : processes) {
    if (process.role == "trainer" || process.role == "rollout") places.push_back(DevicePlaceOf(config, process));
  }
  return places;
}

// RolesOfNode lists the engines before the ranks.
TEST(RunRoles, EnginesTakeTheDevicesAfterTheRanksOfTheirMachine) {
  RunConfig config = Clustered();
  config.cluster.host = "auto";
  config.cluster.trainer_ranks = config.cluster.min_trainer_ranks = 4;
  config.cluster.rollout_engines = 6;
  config.cluster.groups = {{"control", 1, {"datapool", "scheduler", "gateway", "agents"}, 1, {}},
                           {"mixed", 2, {"trainer", "rollout"}, 1, {}},
                           {"engines", 2, {"rollout"}, 2, {}}};
  ASSERT_EQ(Fault(config), "");
  EXPECT_THAT(PlacesOf(config, "mixed", 0), ElementsAre(2, 0, 1));
  EXPECT_THAT(PlacesOf(config, "mixed", 1), ElementsAre(2, 0, 1)) << "on three devices, nobody shares one";
  EXPECT_THAT(PlacesOf(config, "engines", 0), ElementsAre(0, 1));
  EXPECT_THAT(PlacesOf(config, "engines", 1), ElementsAre(0, 1));
  config.cluster.host = "127.0.0.1";
  EXPECT_THAT(PlacesOf(config, "mixed", 1), ElementsAre(5, 2, 3)) << "one machine stands for all nodes";
  EXPECT_THAT(PlacesOf(config, "engines", 1), ElementsAre(8, 9));
}

TEST(RunRoles, RanksOnSeveralNodesMeetAtTheFirst) {
  RunConfig config = Clustered();
  config.cluster.trainer_ranks = config.cluster.min_trainer_ranks = 4;
  config.cluster.groups[0].roles = {"datapool", "scheduler", "gateway", "agents"};
  config.cluster.groups.push_back({"trainers", 2, {"trainer"}, 1, {}});
  EXPECT_EQ(Fault(config), "");
  EXPECT_THAT(Names(*RolesOfNode(config, "trainers", 0)), ElementsAre("trainer 0", "trainer 1"));
  EXPECT_THAT(Names(*RolesOfNode(config, "trainers", 1)), ElementsAre("trainer 2", "trainer 3"));

  RoleSpecs::Parts parts;
  parts.meeting_host = "10.0.0.5";
  parts.meeting_port = 4321;
  parts.first_rank = 2;
  const RoleSpecs specs(config, parts);
  EXPECT_TRUE(specs.Spec({"trainer", 2}).decides) << "the end of its first rank is the end of a node";
  EXPECT_FALSE(specs.Spec({"trainer", 3}).decides);
  EXPECT_THAT(DescribeSpecs({specs.Spec({"trainer", 3})}), HasSubstr("--set cluster.trainer_port=4321 --set "
                                                                     "cluster.trainer_host=10.0.0.5"));

  config.cluster.trainer_ranks = config.cluster.min_trainer_ranks = 3;
  EXPECT_THAT(Fault(config), HasSubstr("cannot be divided evenly over 2 nodes"));
  config.cluster.trainer_ranks = 4;
  EXPECT_THAT(Fault(config), HasSubstr("set cluster.min_trainer_ranks to 4"));
}

}  // namespace
}  // namespace ingot::app::run_roles_test
