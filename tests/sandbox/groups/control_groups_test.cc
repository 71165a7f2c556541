// Control groups over a tree of plain files: version 1, version 2, and what is missing. The kernel's own behaviour is tested
// where a machine grants the isolation level `full` (strong_test.cc).
#include "sandbox/groups/control_groups.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "sandbox/test_sandbox.h"

namespace ingot::sandbox {
namespace {

namespace fs = std::filesystem;
using testing::AllOf;
using testing::HasSubstr;

constexpr char kMount2[] = "30 23 0:26 / /sys/fs/cgroup rw,nosuid - cgroup2 cgroup2 rw\n";

class ControlGroupsTest : public testing::Test {
 protected:
  void Put(const std::string& path, const std::string& text) const {
    fs::create_directories(fs::path(folder_.path() + path).parent_path());
    std::ofstream(folder_.path() + path) << text;
  }
  static std::string Read(const std::string& path) {
    std::ostringstream text;
    text << std::ifstream(path).rdbuf();
    return text.str();
  }
  // A tree whose folders get the files of both versions, but those of `missing`.
  GroupTree Tree(const std::string& missing = "none") const {
    return {.root = folder_.path(), .fill = [missing](const std::string& folder) {
              for (const char* const name :
                   {"cgroup.procs", "cgroup.subtree_control", "memory.max", "memory.swap.max", "pids.max", "cpu.max",
                    "memory.limit_in_bytes", "cpu.cfs_period_us", "cpu.cfs_quota_us"}) {
                if (name != missing) std::ofstream(folder + "/" + name);
              }
            }};
  }
  // The one group of this process below `folder`.
  std::string Own(const std::string& folder) const {
    for (const auto& entry : fs::directory_iterator(folder_.path() + folder)) {
      const std::string name = entry.path().filename();
      if (name.starts_with("ingot-" + std::to_string(getpid()))) return entry.path();
    }
    return "";
  }

  const TestFolder folder_;
};

TEST_F(ControlGroupsTest, Version2HasOneFolderASandbox) {
  Put("/proc/self/mountinfo", kMount2);
  Put("/proc/self/cgroup", "0::/user.slice/ingot.service\n");
  Put("/sys/fs/cgroup/user.slice/ingot.service/cgroup.subtree_control", "");
  const auto groups = ControlGroups::Make(Tree());
  ASSERT_TRUE(groups.ok()) << groups.status();
  EXPECT_EQ((*groups)->version(), 2);
  const std::string service = "/sys/fs/cgroup/user.slice/ingot.service", own = Own(service);
  EXPECT_EQ(Read(folder_.path() + service + "/cgroup.subtree_control"), "+memory +pids +cpu");
  EXPECT_EQ(Read(own + "/cgroup.subtree_control"), "+memory +pids +cpu") << "sandboxes are below it";
  const auto group = (*groups)->NewGroup({.memory_bytes = 1 << 20, .processes = 7, .cpus = 0.5});
  ASSERT_TRUE(group.ok()) << group.status();
  EXPECT_EQ(group->entrances().size(), 1u);
  EXPECT_EQ(Read(own + "/0/memory.max"), "1048576");
  EXPECT_EQ(Read(own + "/0/memory.swap.max"), "0");
  EXPECT_EQ(Read(own + "/0/pids.max"), "7");
  EXPECT_EQ(Read(own + "/0/cpu.max"), "50000 100000");
  ASSERT_EQ(write(group->entrances()[0].get(), "0", 1), 1);
  EXPECT_EQ(Read(own + "/0/cgroup.procs"), "0");
  EXPECT_EQ(group->MemoryKills(), 0);
  std::ofstream(own + "/0/memory.events") << "low 0\nhigh 0\nmax 5\noom 2\noom_kill 3\n";
  EXPECT_EQ(group->MemoryKills(), 3);
  const auto second = (*groups)->NewGroup({});
  ASSERT_TRUE(second.ok());
  EXPECT_EQ(Read(own + "/1/memory.max"), "") << "no limit is the kernel's own";
  EXPECT_EQ(Read(own + "/1/pids.max"), "max");
}

TEST_F(ControlGroupsTest, Version2MovesAProcessOutOfTheGroupThatPassesControllersOn) {
  Put("/proc/self/mountinfo", kMount2);
  Put("/proc/self/cgroup", "0::/scope\n");
  fs::create_directories(folder_.path() + "/sys/fs/cgroup/scope");
  // A group with processes refuses the controllers until they are in a leaf: here the file comes with the leaf.
  GroupTree tree = Tree();
  tree.fill = [fill = tree.fill](const std::string& folder) {
    fill(folder);
    if (folder.ends_with("/ingot-main")) std::ofstream(fs::path(folder).parent_path() / "cgroup.subtree_control");
  };
  const auto groups = ControlGroups::Make(tree);
  ASSERT_TRUE(groups.ok()) << groups.status();
  EXPECT_EQ(Read(folder_.path() + "/sys/fs/cgroup/scope/ingot-main/cgroup.procs"), std::to_string(getpid()));
  EXPECT_EQ(Read(folder_.path() + "/sys/fs/cgroup/scope/cgroup.subtree_control"), "+memory +pids +cpu");
}

TEST_F(ControlGroupsTest, Version2WithoutDelegationNamesTheFile) {
  Put("/proc/self/mountinfo", kMount2);
  Put("/proc/self/cgroup", "0::/scope\n");
  Put("/sys/fs/cgroup/scope/cgroup.subtree_control", "");
  const auto groups = ControlGroups::Make(Tree("cgroup.subtree_control"));
  EXPECT_TRUE(absl::IsFailedPrecondition(groups.status()));
  EXPECT_THAT(groups.status().message(),
              AllOf(HasSubstr("version 1: the controller memory is not mounted"), HasSubstr("version 2: cannot open"),
                    HasSubstr("/cgroup.subtree_control")));
}

TEST_F(ControlGroupsTest, APathOfAnotherNamespaceIsTheMountItself) {
  Put("/proc/self/mountinfo", kMount2);
  Put("/proc/self/cgroup", "0::/../../elsewhere\n");
  Put("/sys/fs/cgroup/cgroup.subtree_control", "");
  const auto groups = ControlGroups::Make(Tree());
  ASSERT_TRUE(groups.ok()) << groups.status();
  EXPECT_NE(Own("/sys/fs/cgroup"), "");
}

TEST_F(ControlGroupsTest, Version2WithoutALimitsFileRejectsTheSandboxByName) {
  Put("/proc/self/mountinfo", kMount2);
  Put("/proc/self/cgroup", "0::/\n");
  Put("/sys/fs/cgroup/cgroup.subtree_control", "");
  const auto groups = ControlGroups::Make(Tree("memory.max"));
  ASSERT_TRUE(groups.ok()) << groups.status();
  EXPECT_THAT((*groups)->NewGroup({.memory_bytes = 1}).status().message(), HasSubstr("/0/memory.max"));
}

TEST_F(ControlGroupsTest, Version1HasAFolderForEachController) {
  std::string mounts;
  for (const std::string name : {"memory", "pids", "cpu"}) {
    mounts += "30 23 0:26 / /sys/fs/cgroup/" + name + " rw - cgroup cgroup rw," + name + "\n";
    fs::create_directories(folder_.path() + "/sys/fs/cgroup/" + name + "/job");
  }
  Put("/proc/self/mountinfo", mounts + kMount2);
  Put("/proc/self/cgroup", "4:memory:/job\n3:pids:/job\n2:cpuacct,cpu:/job\n0::/\n");
  const auto groups = ControlGroups::Make(Tree());
  ASSERT_TRUE(groups.ok()) << groups.status();
  EXPECT_EQ((*groups)->version(), 1);
  const auto group = (*groups)->NewGroup({.memory_bytes = 4096, .processes = 3, .cpus = 2});
  ASSERT_TRUE(group.ok()) << group.status();
  EXPECT_EQ(group->entrances().size(), 3u);
  EXPECT_EQ(Read(Own("/sys/fs/cgroup/memory/job") + "/0/memory.limit_in_bytes"), "4096");
  EXPECT_EQ(Read(Own("/sys/fs/cgroup/pids/job") + "/0/pids.max"), "3");
  EXPECT_EQ(Read(Own("/sys/fs/cgroup/cpu/job") + "/0/cpu.cfs_quota_us"), "200000");
}

TEST_F(ControlGroupsTest, GroupsOfProcessesThatAreGoneAreRemoved) {
  Put("/proc/self/mountinfo", kMount2);
  Put("/proc/self/cgroup", "0::/\n");
  Put("/sys/fs/cgroup/cgroup.subtree_control", "");
  const std::string top = folder_.path() + "/sys/fs/cgroup";
  fs::create_directories(top + "/ingot-2147483646-0/5");  // above every process id
  fs::create_directories(top + "/ingot-" + std::to_string(getppid()) + "-0");
  ASSERT_TRUE(ControlGroups::Make(Tree()).ok());
  EXPECT_FALSE(fs::exists(top + "/ingot-2147483646-0"));
  EXPECT_TRUE(fs::exists(top + "/ingot-" + std::to_string(getppid()) + "-0"));
}

TEST_F(ControlGroupsTest, AMachineWithoutAnyIsNamed) {
  Put("/proc/self/mountinfo", "");
  Put("/proc/self/cgroup", "");
  EXPECT_THAT(ControlGroups::Make(Tree()).status().message(), HasSubstr("version 2: it is not mounted"));
}

}  // namespace
}  // namespace ingot::sandbox
