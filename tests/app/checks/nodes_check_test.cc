#include "app/checks/nodes_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ingot::app {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// Three nodes, with all that they need.
RunConfig Nodes() {
  RunConfig config;
  config.name = "run";
  config.tasks = "tasks.jsonl";
  config.agents.recipes.emplace_back();
  config.cluster.token_file = "run.token";
  config.cluster.rollout_engines = 2;
  config.cluster.groups = {{"control", 1, {"datapool", "scheduler", "gateway", "trainer", "agents"}, 1, {}},
                           {"engines", 2, {"rollout"}, 1, {}}};
  return config;
}

std::string Fault(const RunConfig& config) { return std::string(CheckNodes(config).message()); }

TEST(NodesCheck, SeveralNodesShareAToken) {
  RunConfig config = Nodes();
  EXPECT_EQ(Fault(config), "");
  config.cluster.token_file.clear();
  EXPECT_THAT(Fault(config), HasSubstr("cluster.token_file"));
  config.cluster.launcher = LauncherKind::kSlurm;
  EXPECT_THAT(Fault(config), HasSubstr("cluster.token_file"));
  config.cluster.launcher = LauncherKind::kLocal;
  config.cluster.groups.clear();
  EXPECT_EQ(Fault(config), "") << "one machine: its launcher makes a token";
}

TEST(NodesCheck, AJobNeedsGroupsAndItsLaunchersKeys) {
  RunConfig config = Nodes();
  config.cluster.launcher = LauncherKind::kKubernetes;
  EXPECT_THAT(Fault(config), HasSubstr("cluster.registry.kind=etcd"));
  config.cluster.groups.clear();
  EXPECT_THAT(Fault(config), HasSubstr("cluster.launcher is kubernetes: cluster.groups"));
  config.cluster.launcher = LauncherKind::kSlurm;
  EXPECT_THAT(Fault(config), HasSubstr("cluster.launcher is slurm: cluster.groups"));
}

TEST(NodesCheck, GroupsRunEveryRole) {
  RunConfig config = Nodes();
  config.cluster.rollout_engines = 1;
  EXPECT_THAT(Fault(config), HasSubstr("room for 2 of role rollout, and the run has 1"));
}

TEST(NodesCheck, ALauncherOfOneMachineStartsNoRunOfSeveral) {
  RunConfig config = Nodes();
  EXPECT_THAT(std::string(CheckLaunchedHere(config).message()),
              AllOf(HasSubstr("names 3 nodes"), HasSubstr("ingot node"), HasSubstr("control, engines")));
  config.cluster.groups = {{"all", 1, {"datapool", "scheduler", "gateway", "trainer", "agents", "rollout"}, 2, {}}};
  EXPECT_TRUE(CheckLaunchedHere(config).ok()) << "one node";
  config.cluster.groups.clear();
  EXPECT_TRUE(CheckLaunchedHere(config).ok());
}

}  // namespace
}  // namespace ingot::app
