// Threads that the processes of a run lend each other, and the metrics about them.
#include "app/run/compute_members.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <fstream>
#include <map>
#include <string>
#include <thread>

#include "app/training/lent_threads.h"

namespace ingot::app {
namespace {

using ::testing::DoubleNear;
using ::testing::HasSubstr;

class ComputeMembersTest : public ::testing::Test {
 protected:
  ComputeMembersTest() {
    std::filesystem::create_directories(folder_);
    config_.lend_threads = true;
    config_.total_threads = 4;
    config_.rollout.threads = config_.trainer.threads = 2;
  }
  ~ComputeMembersTest() override { std::filesystem::remove_all(folder_); }

  int64_t Now() const { return std::chrono::nanoseconds(std::chrono::steady_clock::now().time_since_epoch()).count(); }

  // On a file system where tables can be mapped, whatever that of TempDir is.
  const std::string folder_ = "/dev/shm/compute-members-" + std::to_string(getpid());
  const std::string path_ = folder_ + "/compute_table";
  RunConfig config_;
};

// The trainer is a process that is killed while it computes.
TEST_F(ComputeMembersTest, AProcessKilledInAStepLendsItsThreadsSoonAfter) {
  const auto table = MapComputeTable(path_);
  ASSERT_TRUE(table.ok()) << table.status();
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t trainer = fork();
  if (trainer == 0) {
    const auto own = MapComputeTable(path_);
    const auto member = ComputeMemberOf(config_, "cpu", own.ok() ? *own : nullptr, "trainer", 0);
    if (member == nullptr) _exit(1);
    member->Begin();
    if (write(ready[1], "x", 1) != 1) _exit(1);
    pause();
    _exit(1);
  }
  close(ready[1]);
  char byte = 0;
  EXPECT_EQ(read(ready[0], &byte, 1), 1);
  close(ready[0]);
  const auto engine = ComputeMemberOf(config_, "cpu", *table, "rollout", 0);
  ASSERT_NE(engine, nullptr);
  engine->Begin();
  EXPECT_EQ(kernels::LendableThreads(**table, 32, 4, Now()), 0);
  kill(trainer, SIGKILL);
  waitpid(trainer, nullptr, 0);
  const auto later = Now() + std::chrono::nanoseconds(kernels::ComputeMember::kLease).count();
  EXPECT_EQ(kernels::LendableThreads(**table, 32, 4, later), 2);
}

TEST_F(ComputeMembersTest, AFileThatCannotBeMappedIsAnErrorThatNamesIt) {
  mkfifo(path_.c_str(), 0600);
  EXPECT_THAT(MapComputeTable(path_).status().message(), HasSubstr(path_ + ": it is not a regular file"));
  unlink(path_.c_str());
  symlink("/etc/passwd", path_.c_str());
  EXPECT_EQ(MapComputeTable(path_).status().code(), absl::StatusCode::kUnavailable);
  unlink(path_.c_str());
  std::ofstream(path_) << "short";
  EXPECT_TRUE(MapComputeTable(path_).ok()) << "it grows";
  EXPECT_EQ(std::filesystem::file_size(path_), sizeof(kernels::ComputeTable));
  EXPECT_THAT(MapComputeTable("/proc/self/comm").status().message(), HasSubstr("on this file system"));
  std::filesystem::remove_all(folder_);
  EXPECT_THAT(MapComputeTable(path_).status().message(), HasSubstr(path_));
  EXPECT_EQ(ComputeMemberOfRole(config_, "cpu", folder_, "trainer", 0), nullptr) << "a warning, not an error";
}

// Such as a sparse copy of a run's folder. Without space, a write to the table would end the process.
TEST_F(ComputeMembersTest, AFileWithAHoleGetsItsSpace) {
  std::ofstream(path_).close();
  std::filesystem::resize_file(path_, sizeof(kernels::ComputeTable));
  struct stat info = {};
  ASSERT_EQ(stat(path_.c_str(), &info), 0);
  EXPECT_EQ(info.st_blocks, 0);
  ASSERT_TRUE(MapComputeTable(path_).ok());
  ASSERT_EQ(stat(path_.c_str(), &info), 0);
  EXPECT_GE(info.st_blocks * 512, static_cast<int64_t>(sizeof(kernels::ComputeTable)));
}

TEST_F(ComputeMembersTest, NothingIsLentWhereItCannotHelp) {
  const auto table = std::make_shared<kernels::ComputeTable>();
  EXPECT_NE(ComputeMemberOf(config_, "cpu", table, "trainer", 31), nullptr);
  EXPECT_EQ(ComputeMemberOf(config_, "cpu", table, "trainer", 32), nullptr) << "the table is full";
  EXPECT_EQ(ComputeMemberOf(config_, "cuda:0", table, "trainer", 0), nullptr);
  EXPECT_NE(ComputeMemberOfRole(config_, "cpu", folder_, "rollout", 0), nullptr);
  config_.cluster.registry.kind = RegistryKind::kEtcd;  // the roles may be on other machines
  EXPECT_EQ(ComputeMemberOfRole(config_, "cpu", folder_, "rollout", 0), nullptr);
  config_.cluster.registry.kind = RegistryKind::kLocal;
  config_.lend_threads = false;
  EXPECT_EQ(ComputeMemberOf(config_, "cpu", table, "trainer", 0), nullptr);
  EXPECT_EQ(ComputeMemberOfRole(config_, "cpu", folder_, "rollout", 0), nullptr);
}

TEST_F(ComputeMembersTest, AStepsMetricsAreTheThreadsLentSinceTheStepBefore) {
  const auto table = std::make_shared<kernels::ComputeTable>();
  const auto trainer = ComputeMemberOf(config_, "cpu", table, "trainer", 0);
  table->entries[33].borrowed_ns = 7'000'000'000;  // before
  base::ManualClock clock;
  LentThreads lent(trainer, clock);
  clock.Advance(std::chrono::seconds(4));
  trainer->CountBorrowed(std::chrono::seconds(2));
  table->entries[32].borrowed_ns = 3'000'000'000;
  table->entries[33].borrowed_ns = 8'000'000'000;
  std::map<std::string, double> metrics;
  lent.Add(metrics);
  EXPECT_THAT(metrics.at("perf/threads_lent_to_trainer"), DoubleNear(0.5, 1e-9));  // 2 s / 4 s
  EXPECT_THAT(metrics.at("perf/threads_lent_to_rollout"), DoubleNear(1.0, 1e-9));  // (3 s + 1 s) / 4 s
  clock.Advance(std::chrono::seconds(1));
  lent.Add(metrics);
  EXPECT_EQ(metrics.at("perf/threads_lent_to_trainer"), 0);
  std::map<std::string, double> none;
  LentThreads(nullptr).Add(none);
  EXPECT_TRUE(none.empty());
}

}  // namespace
}  // namespace ingot::app
