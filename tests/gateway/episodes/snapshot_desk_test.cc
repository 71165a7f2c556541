#include "gateway/episodes/snapshot_desk.h"

#include <gtest/gtest.h>

#include <chrono>
#include <future>

namespace ingot::gateway {
namespace {

using std::chrono::seconds;

TEST(SnapshotDesk, ATrunkEndsAtItsForkAfterASnapshotOfTheSamePlace) {
  base::ManualClock clock;
  SnapshotDesk desk(clock);
  v1::NextSnapshotResponse ask;
  ask.set_episode_id("e");
  ask.set_snapshot_id("e.1");
  desk.Post("agents", ask);
  auto snapshot = std::async(std::launch::async, [&] { return desk.Await("e.1", clock.Now() + seconds(60)); });
  clock.AwaitWaiters(1);
  ASSERT_TRUE(desk.Next("agents", seconds(0)).has_value());
  // While the runner takes the snapshot, the trunk reaches its fork there.
  ask.set_ends(true);
  desk.Post("agents", ask);
  v1::SnapshotTakenRequest taken;
  taken.set_snapshot_id("e.1");
  ASSERT_TRUE(desk.Taken(taken).ok());
  EXPECT_TRUE(snapshot.get().ok());

  const auto fork = desk.Next("agents", seconds(0));
  ASSERT_TRUE(fork.has_value()) << "nobody is asked to end the trunk";
  EXPECT_TRUE(fork->ends());
  EXPECT_FALSE(desk.Next("agents", seconds(0)).has_value()) << "the runner has it";
  clock.Advance(SnapshotDesk::kGiveAgainAfter);
  EXPECT_TRUE(desk.Next("agents", seconds(0)).has_value()) << "the runner may have lost it";
  desk.Forget("e");
  clock.Advance(SnapshotDesk::kGiveAgainAfter);
  EXPECT_FALSE(desk.Next("agents", seconds(0)).has_value()) << "the episode has ended";
}

}  // namespace
}  // namespace ingot::gateway
