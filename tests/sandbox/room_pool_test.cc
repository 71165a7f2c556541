#include "sandbox/room_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <iterator>
#include <thread>

#include "sandbox/test_room.h"

namespace ingot::sandbox {
namespace {

class RoomPoolTest : public testing::Test {
 protected:
  RoomPoolTest() {
    snapshots_.takes_snapshots = true;
    totals_.totals.processes = 7;
  }

  std::unique_ptr<RoomPool> Make(size_t size) {
    return std::make_unique<RoomPool>(size, [this](const RoomOptions& wish) -> absl::StatusOr<std::unique_ptr<Room>> {
      if (fails_) return absl::ResourceExhaustedError("no room");
      return substrate_->Prepare(wish);
    });
  }
  int Rooms() const {
    return static_cast<int>(
        std::distance(std::filesystem::directory_iterator(folder_.path()), std::filesystem::directory_iterator()));
  }
  // Blocks until it holds, at most a minute.
  static void Await(const std::function<bool()>& holds) {
    for (int i = 0; i < 12000; ++i) {
      if (holds()) return;
      std::this_thread::sleep_for(std::chrono::milliseconds(5));
    }
    ADD_FAILURE() << "it did not come to be";
  }

  const TestFolder folder_;
  const std::unique_ptr<LocalSubstrate> substrate_ = SharedUidSubstrate(folder_.path());
  std::atomic<bool> fails_ = false;
  RoomOptions plain_, snapshots_, totals_;
};

TEST_F(RoomPoolTest, HoldsRoomsOfTheKindsThatWereAskedForLast) {
  const auto pool = Make(2);
  Await([&] { return Rooms() == 2; });
  EXPECT_EQ(pool->Take(snapshots_), nullptr) << "nobody asked for one before";
  std::unique_ptr<Room> room;
  Await([&] { return (room = pool->Take(snapshots_)) != nullptr; });
  EXPECT_TRUE(
      room->Run({.argv = {"/bin/true"}, .env = {}, .working_dir = "", .stdin_text = ""}, Limits{}, nullptr)->ok());
  room.reset();
  Await([&] { return Rooms() == 2; });
  EXPECT_EQ(pool->Take(totals_), nullptr) << "it would have other totals";
  Await([&] { return (room = pool->Take(totals_)) != nullptr; });
  room.reset();
  // Two of one kind were asked for since, so no plain room is left.
  Await([&] { return Rooms() == 2; });
  EXPECT_EQ(pool->Take(plain_), nullptr);
}

TEST_F(RoomPoolTest, GoesOnAfterARoomThatCouldNotBeMade) {
  fails_ = true;
  const auto pool = Make(1);
  EXPECT_EQ(pool->Take(plain_), nullptr);
  fails_ = false;
  std::unique_ptr<Room> room;
  Await([&] { return (room = pool->Take(plain_)) != nullptr; });
}

TEST_F(RoomPoolTest, AForkIsLikeNoOtherRoom) {
  RoomOptions fork;
  fork.from = substrate_->Prepare(snapshots_).value()->TakeSnapshot().value();
  EXPECT_TRUE(RoomPool::Holds(plain_) && RoomPool::Holds(snapshots_));
  EXPECT_FALSE(RoomPool::Holds(fork));
}

}  // namespace
}  // namespace ingot::sandbox
