// Which threads a waiting member lends, and to whom.
#include "kernels/compute_share.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>

namespace ingot::kernels {
namespace {

constexpr int64_t kLease = std::chrono::nanoseconds(ComputeMember::kLease).count();

void Computes(ComputeTable& table, int place, int threads, int64_t until_ns) {
  table.entries[place].threads = threads;
  table.entries[place].computes_until_ns = until_ns;
}

TEST(LendableThreads, AreThoseThatNoComputingMemberHas) {
  ComputeTable table;
  const int64_t now = 5 * kLease;
  table.entries[0].threads = 2;  // the trainer waits
  Computes(table, 32, 2, now + 1);
  EXPECT_EQ(LendableThreads(table, 32, 4, now), 2);
  Computes(table, 0, 2, now + 1);
  EXPECT_EQ(LendableThreads(table, 32, 4, now), 0);
  EXPECT_EQ(LendableThreads(table, 0, 4, now), 0);
}

TEST(LendableThreads, AreDividedAmongTheComputingMembers) {
  ComputeTable table;
  const int64_t now = 5 * kLease;
  table.entries[0].threads = 5;
  Computes(table, 32, 2, now + 1);
  Computes(table, 33, 1, now + 1);
  EXPECT_EQ(LendableThreads(table, 32, 8, now), 2);
  EXPECT_EQ(LendableThreads(table, 33, 8, now), 2);
  Computes(table, 34, 6, now + 1);  // more engines than cores
  EXPECT_EQ(LendableThreads(table, 33, 8, now), 0);
}

// A member that was killed while it computed stays in the table.
TEST(LendableThreads, ADeadMemberKeepsItsThreadsForALease) {
  ComputeTable table;
  const int64_t died = 5 * kLease;
  Computes(table, 0, 2, died + kLease);
  Computes(table, 32, 2, died + 2 * kLease);
  EXPECT_EQ(LendableThreads(table, 32, 4, died), 0);
  EXPECT_EQ(LendableThreads(table, 32, 4, died + kLease - 1), 0);
  EXPECT_EQ(LendableThreads(table, 32, 4, died + kLease), 2);
}

TEST(LendableThreads, WhatAnotherBootOrProgramLeftInTheTableDoesNotMatter) {
  ComputeTable table;
  const int64_t now = 5 * kLease;
  Computes(table, 32, 2, now + 1);
  Computes(table, 0, 2, now + 1000 * kLease);  // the clock of an earlier boot
  EXPECT_EQ(LendableThreads(table, 32, 4, now), 2);
  Computes(table, 1, -7, now + 1);
  EXPECT_EQ(LendableThreads(table, 32, 4, now), 1);  // divided by two
  Computes(table, 1, INT32_MAX, now + 1);
  Computes(table, 2, INT32_MAX, now + 1);
  EXPECT_EQ(LendableThreads(table, 32, 4, now), 0);
}

TEST(ComputeMemberTest, BorrowsWhileTheOtherWaits) {
  const auto table = std::make_shared<ComputeTable>();
  int idle = 8;
  const auto idle_cores = [&idle](int) { return idle; };
  ComputeMember trainer(table, 0, 2, 4, idle_cores), engine(table, 32, 2, 4, idle_cores);
  const auto ask = [](ComputeMember& member) {
    std::this_thread::sleep_for(ComputeMember::kLook + std::chrono::milliseconds(1));
    return member.Borrow(0);
  };
  engine.Begin();
  EXPECT_EQ(ask(engine), 2);
  trainer.Begin();
  EXPECT_EQ(ask(engine), 0);
  EXPECT_EQ(ask(trainer), 0);
  engine.End();
  EXPECT_EQ(ask(trainer), 2);
  idle = 2;  // one for the trainer's own second thread
  EXPECT_EQ(ask(trainer), 1);
  idle = 0;  // agents run on the other cores
  EXPECT_EQ(ask(trainer), 0);
}

TEST(ComputeMemberTest, ASecondLookWithinAMillisecondIsTheFirstOne) {
  const auto table = std::make_shared<ComputeTable>();
  int looks = 0;
  ComputeMember engine(table, 32, 1, 2, [&looks](int) { return ++looks; });
  engine.Begin();
  const auto start = std::chrono::steady_clock::now();
  int asked = 0;
  for (; std::chrono::steady_clock::now() - start < std::chrono::milliseconds(20); ++asked) {
    EXPECT_EQ(engine.Borrow(0), 1);
  }
  EXPECT_LE(looks, 21);
  EXPECT_GT(asked, 10 * looks);
}

TEST(IdleCoresTest, ThisThreadsCoreIsNotIdle) {
  const auto cores = static_cast<int>(std::thread::hardware_concurrency());
  EXPECT_LT(IdleCores(0), cores);
  EXPECT_LE(IdleCores(1), cores);
}

}  // namespace
}  // namespace ingot::kernels
