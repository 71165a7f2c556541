#include "registry/lease_keeper.h"

#include <gtest/gtest.h>

#include <atomic>

#include "base/clock.h"

namespace ingot::registry {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

// A server that answers as the test says.
struct FakeServer {
  std::atomic<int> renewals = 0, revocations = 0;
  std::atomic<absl::StatusCode> answer = absl::StatusCode::kOk;
  base::ManualClock* takes = nullptr;  // each renewal takes `takes_ms` of this clock
  std::atomic<int> takes_ms = 0;

  LeaseKeeper::Server calls() {
    return {[this](int64_t, std::chrono::nanoseconds) {
              if (takes != nullptr) takes->Advance(milliseconds(takes_ms));
              ++renewals;
              return absl::Status(answer.load(), "as the test says");
            },
            [this](int64_t, std::chrono::nanoseconds) { ++revocations; }};
  }
};

class LeaseKeeperTest : public ::testing::Test {
 protected:
  std::unique_ptr<Lease> KeepAlive() {
    return keeper_.KeepAlive(7, seconds(6), clock_.Now(), [this] { ++lost_; });
  }
  // Moves the clock when the keeper waits for it.
  void Pass(milliseconds time) {
    clock_.AwaitWaiters(1);
    clock_.Advance(time);
  }
  void AwaitRenewals(int count) {
    while (server_.renewals < count) std::this_thread::yield();
  }
  void AwaitLoss() {
    while (lost_ == 0) std::this_thread::yield();
  }

  base::ManualClock clock_;
  FakeServer server_;
  std::atomic<int> lost_ = 0;
  LeaseKeeper keeper_{clock_, server_.calls()};
};

TEST_F(LeaseKeeperTest, RenewsEveryThirdOfTheTime) {
  const auto lease = KeepAlive();
  Pass(milliseconds(1999));
  clock_.AwaitWaiters(1);
  EXPECT_EQ(server_.renewals, 0);
  for (int i = 1; i <= 12; ++i) {
    Pass(milliseconds(i == 1 ? 1 : 2000));
    AwaitRenewals(i);
  }
  EXPECT_TRUE(lease->alive());
  EXPECT_EQ(lost_, 0);
}

TEST_F(LeaseKeeperTest, TriesAgainUntilTheTimeIsOver) {
  const auto lease = KeepAlive();
  server_.answer = absl::StatusCode::kUnavailable;
  Pass(milliseconds(2000));
  AwaitRenewals(1);
  for (int i = 2; i <= 20; ++i) {  // every 200 ms until 5,800 ms
    Pass(milliseconds(200));
    AwaitRenewals(i);
    EXPECT_TRUE(lease->alive()) << i;
  }
  Pass(milliseconds(200));
  AwaitLoss();
  EXPECT_FALSE(lease->alive());
  EXPECT_EQ(server_.renewals, 20);
}

TEST_F(LeaseKeeperTest, CountsTheTimeFromTheSendingOfARenewal) {
  const auto lease = KeepAlive();
  server_.takes = &clock_;
  server_.takes_ms = 1000;
  Pass(milliseconds(2000));
  AwaitRenewals(1);  // sent at 2 s, answered at 3 s: over at 8 s
  server_.takes = nullptr;
  server_.answer = absl::StatusCode::kUnavailable;
  clock_.AwaitWaiters(1);
  clock_.Advance(milliseconds(4999));
  EXPECT_TRUE(lease->alive());
  clock_.Advance(milliseconds(1));
  EXPECT_FALSE(lease->alive());
}

TEST_F(LeaseKeeperTest, LosesALeaseThatTheServerDoesNotKnow) {
  const auto lease = KeepAlive();
  server_.answer = absl::StatusCode::kNotFound;
  Pass(milliseconds(2000));
  AwaitLoss();
  EXPECT_FALSE(lease->alive());
}

TEST_F(LeaseKeeperTest, APausedHolderSeesTheLossBeforeAnyRenewal) {
  const auto lease = KeepAlive();
  clock_.AwaitWaiters(1);
  clock_.Advance(seconds(60));
  EXPECT_FALSE(lease->alive());
  AwaitLoss();
  EXPECT_EQ(server_.renewals, 0);
  EXPECT_FALSE(lease->alive());
}

TEST_F(LeaseKeeperTest, ALateAnswerRevivesNoLease) {
  const auto lease = KeepAlive();
  server_.takes = &clock_;
  server_.takes_ms = 4000;
  Pass(milliseconds(2000));  // answered at 6 s, when the time is over
  AwaitLoss();
  EXPECT_FALSE(lease->alive());
}

TEST_F(LeaseKeeperTest, ADroppedLeaseIsRevokedAndNotReported) {
  KeepAlive().reset();
  EXPECT_EQ(server_.revocations, 1);
  EXPECT_EQ(lost_, 0);
}

}  // namespace
}  // namespace ingot::registry
