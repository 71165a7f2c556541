#include "gateway/episodes/snapshot_requests.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>

namespace ingot::gateway {
namespace {

using std::chrono::seconds;

TEST(SnapshotRequests, ATrunkEndsAtItsForkAfterASnapshotOfTheSamePlace) {
  base::ManualClock clock;
  SnapshotRequests requests(clock);
  v1::NextSnapshotResponse request;
  request.set_episode_id("e");
  request.set_snapshot_id("e.1");
  requests.Post("agents", request);
  auto snapshot = std::async(std::launch::async, [&] { return requests.Await("e.1", clock.Now() + seconds(60)); });
  clock.AwaitWaiters(1);
  ASSERT_TRUE(requests.Next("agents", seconds(0)).has_value());
  // While the runner takes the snapshot, the trunk reaches its fork there.
  request.set_ends(true);
  requests.Post("agents", request);
  v1::SnapshotTakenRequest taken;
  taken.set_snapshot_id("e.1");
  ASSERT_TRUE(requests.Taken(taken).ok());
  EXPECT_TRUE(snapshot.get().ok());

  const auto fork = requests.Next("agents", seconds(0));
  ASSERT_TRUE(fork.has_value()) << "nobody is asked to end the trunk";
  EXPECT_TRUE(fork->ends());
  EXPECT_FALSE(requests.Next("agents", seconds(0)).has_value()) << "the runner has it";
  clock.Advance(SnapshotRequests::kResendAfter);
  EXPECT_TRUE(requests.Next("agents", seconds(0)).has_value()) << "the runner may have lost it";
  requests.Forget("e");
  clock.Advance(SnapshotRequests::kResendAfter);
  EXPECT_FALSE(requests.Next("agents", seconds(0)).has_value()) << "the episode has ended";
}

}  // namespace
}  // namespace ingot::gateway
