#include "base/process_memory.h"

#include <gtest/gtest.h>
#include <sys/resource.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

namespace ingot::base {
namespace {

// The files of a machine, in a temporary folder.
class MachineMemory : public testing::Test {
 protected:
  MachineMemory() : root_(std::filesystem::path(testing::TempDir()) / ("machine_" + std::to_string(getpid()))) {
    Write("/proc/meminfo", "MemTotal: 9000 kB\nMemAvailable:    8000 kB\n");
  }
  ~MachineMemory() override { std::filesystem::remove_all(root_); }
  void Write(const std::string& path, const std::string& text) const {
    const std::filesystem::path full = root_.string() + path;
    std::filesystem::create_directories(full.parent_path());
    std::ofstream(full) << text;
  }
  void WriteGroup(const std::string& folder, const std::string& limit, const std::string& used,
                  const std::string& cache) const {
    Write(folder + "/memory.max", limit + "\n");
    Write(folder + "/memory.current", used + "\n");
    Write(folder + "/memory.stat", "anon 1\ninactive_file " + cache + "\n");
  }
  int64_t Left() const { return MachineMemoryLeft(root_.string()); }
  const std::filesystem::path root_;
};

TEST_F(MachineMemory, IsTheKernelsEstimateWithoutControlGroups) { EXPECT_EQ(Left(), 8000 * 1024); }

TEST_F(MachineMemory, IsTheRestOfTheGroupWithoutReclaimableFilePages) {
  Write("/proc/self/cgroup", "0::/\n");
  WriteGroup("/sys/fs/cgroup", "5000000", "3000000", "1000000");
  EXPECT_EQ(Left(), 3'000'000);
  WriteGroup("/sys/fs/cgroup", "max", "3000000", "0");
  EXPECT_EQ(Left(), 8000 * 1024);
  WriteGroup("/sys/fs/cgroup", "5000000", "6000000", "0");
  EXPECT_EQ(Left(), 0);
}

TEST_F(MachineMemory, ObeysEveryGroupAboveTheProcess) {
  Write("/proc/self/cgroup", "0::/system.slice/job/step\n");
  WriteGroup("/sys/fs/cgroup/system.slice/job/step", "max", "100", "0");
  WriteGroup("/sys/fs/cgroup/system.slice/job", "4000000", "1000000", "0");
  WriteGroup("/sys/fs/cgroup/system.slice", "7000000", "1000000", "0");
  EXPECT_EQ(Left(), 3'000'000);
  WriteGroup("/sys/fs/cgroup/system.slice", "1500000", "1000000", "0");
  EXPECT_EQ(Left(), 500'000);
}

TEST_F(MachineMemory, ReadsControlGroupsOfVersionOne) {
  Write("/proc/self/cgroup", "12:cpu,cpuacct:/a\n4:memory:/docker/abc\n0::/\n");
  // A container sees its own group as the mount's root.
  Write("/sys/fs/cgroup/memory/memory.limit_in_bytes", "2000000\n");
  Write("/sys/fs/cgroup/memory/memory.usage_in_bytes", "900000\n");
  Write("/sys/fs/cgroup/memory/memory.stat", "inactive_file 1\ntotal_inactive_file 400000\n");
  EXPECT_EQ(Left(), 1'500'000);
  // The host sees the group's path.
  Write("/sys/fs/cgroup/memory/docker/abc/memory.limit_in_bytes", "800000\n");
  Write("/sys/fs/cgroup/memory/docker/abc/memory.usage_in_bytes", "300000\n");
  EXPECT_EQ(Left(), 500'000);
}

#if !defined(__SANITIZE_ADDRESS__) && \
    !defined(__SANITIZE_THREAD__)  // sanitizers need the address space for their shadow
TEST(AvailableMemory, ObeysTheLimitOnTheAddressSpace) {
  rlimit old{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &old), 0);
  const int64_t before = AvailableMemory();
  rlimit none = old;
  none.rlim_cur = 0;  // present mappings stay valid
  ASSERT_EQ(setrlimit(RLIMIT_AS, &none), 0);
  const int64_t left = AvailableMemory();
  ASSERT_EQ(setrlimit(RLIMIT_AS, &old), 0);
  EXPECT_EQ(left, 0);
  EXPECT_GT(before, 0);
}

TEST(AvailableMemory, SharesTheMachineButNotAProcesssOwnLimit) {
  constexpr int kProcesses = 1 << 20;
  EXPECT_LE(AvailableMemory(kProcesses), MachineMemoryLeft("") >> 10);
  EXPECT_GT(AvailableMemory(kProcesses), 0);
  rlimit old{};
  ASSERT_EQ(getrlimit(RLIMIT_AS, &old), 0);
  std::ifstream status("/proc/self/statm");
  rlim_t pages = 0;
  ASSERT_TRUE(status >> pages);
  constexpr rlim_t kLeft = 64 << 20;
  rlimit tight = old;
  tight.rlim_cur = pages * static_cast<rlim_t>(sysconf(_SC_PAGESIZE)) + kLeft;
  if (MachineMemoryLeft("") < static_cast<int64_t>(4 * kLeft)) GTEST_SKIP() << "the machine is nearly full";
  ASSERT_EQ(setrlimit(RLIMIT_AS, &tight), 0);
  const int64_t left = AvailableMemory(3);
  ASSERT_EQ(setrlimit(RLIMIT_AS, &old), 0);
  EXPECT_GT(left, static_cast<int64_t>(kLeft / 2));
}
#endif

}  // namespace
}  // namespace ingot::base
