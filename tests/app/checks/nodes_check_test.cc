#include "app/checks/nodes_check.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace ingot::app {
namespace {

using ::testing::AllOf;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

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
  EXPECT_THAT(Fault(config), HasSubstr("cluster.launcher is slurm, which needs cluster.groups"));
}

TEST(NodesCheck, NodesOfAJobDoNotShareALoopbackAddress) {
  RunConfig config = Nodes();
  EXPECT_EQ(Fault(config), "") << "nodes that are started by hand may be on one machine";
  config.cluster.launcher = LauncherKind::kSlurm;
  EXPECT_THAT(Fault(config), AllOf(HasSubstr("cluster.host is 127.0.0.1"), HasSubstr("cluster.host=auto")));
  config.cluster.host = "auto";
  EXPECT_EQ(Fault(config), "");
  config.cluster.registry.kind = RegistryKind::kEtcd;
  for (const char* own : {"127.0.0.1:2379", "localhost:2379", "[::1]:2379"}) {
    config.cluster.registry.endpoints = {"10.0.0.1:2379", own};
    EXPECT_THAT(Fault(config), HasSubstr(std::string("cluster.registry.endpoints has ") + own));
  }
  config.cluster.registry.endpoints = {"10.0.0.1:2379", "etcd:2379"};
  EXPECT_EQ(Fault(config), "");
  config.cluster.host = "127.0.0.1";
  config.cluster.groups = {{"all", 1, {"datapool", "scheduler", "gateway", "trainer", "agents", "rollout"}, 2, {}}};
  EXPECT_EQ(Fault(config), "") << "one node";
}

TEST(NodesCheck, PodsReachEtcdOnAnotherMachine) {
  RunConfig config = Nodes();
  config.root = "/runs";
  config.cluster.launcher = LauncherKind::kKubernetes;
  config.cluster.registry.kind = RegistryKind::kEtcd;
  config.cluster.registry.endpoints = {"etcd:2379"};
  config.cluster.kubernetes.image = "ingot:1";
  config.cluster.kubernetes.volume_claim = "runs";
  config.cluster.kubernetes.token_secret = "token";
  config.cluster.allow_plaintext = true;
  for (NodeGroup& group : config.cluster.groups) group.resources = {{"cpu", "1"}, {"memory", "1Gi"}};
  EXPECT_EQ(Fault(config), "") << "the launcher sets each pod's cluster.host";
  config.cluster.registry.endpoints = {"127.0.0.1:2379"};
  EXPECT_THAT(Fault(config), HasSubstr("cluster.registry.endpoints has 127.0.0.1:2379"));
}

TEST(NodesCheck, SlurmIsAskedOnlyForWhatItHas) {
  RunConfig config = Nodes();
  config.cluster.launcher = LauncherKind::kSlurm;
  config.cluster.host = "auto";
  config.cluster.groups[1].resources = {{"cpu", "500m"}};
  EXPECT_THAT(Fault(config), AllOf(HasSubstr("('engines')"), HasSubstr("cpu: 500m"), HasSubstr("whole CPUs")));
  config.cluster.groups[1].resources = {{"cpu", "8"}, {"nvidia.com/gpu", "2"}};
  EXPECT_EQ(Fault(config), "");
  EXPECT_THAT(NotesOfNodes(config), ElementsAre(HasSubstr("('control') requests no CPUs from Slurm")));
  config.cluster.slurm = {"--exclusive"};
  EXPECT_THAT(NotesOfNodes(config), IsEmpty());
}

TEST(NodesCheck, SaysThatALocalLaunchStartsNoNodesOfAnotherMachine) {
  RunConfig config = Nodes();
  EXPECT_THAT(NotesOfNodes(config), ElementsAre(HasSubstr("ingot node"), HasSubstr("cluster.host is 127.0.0.1")));
  config.cluster.host = "10.0.0.5";
  EXPECT_THAT(NotesOfNodes(config), ElementsAre(HasSubstr("cluster.launcher is local")));
  config.cluster.groups.clear();
  EXPECT_THAT(NotesOfNodes(config), IsEmpty());
}

TEST(NodesCheck, GroupsRunEveryRole) {
  RunConfig config = Nodes();
  config.cluster.rollout_engines = 1;
  EXPECT_THAT(Fault(config), HasSubstr("room for 2 of role rollout, but the run has 1"));
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
