// The trainer's turns on a device, with engines that record what they are told.
#include "app/training/shared_device.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <memory>
#include <thread>

namespace ingot::app {
namespace {

using std::chrono::milliseconds;
using testing::HasSubstr;

class FakeParking final : public rollout::Parking {
 public:
  absl::StatusOr<v1::ParkResponse> Park(const v1::ParkRequest& request) override {
    ++parks;
    lease = request.lease_seconds();
    for (int i = 0; i < 2000 && other != nullptr && other->parks < awaited; ++i) {
      std::this_thread::sleep_for(milliseconds(5));
    }
    if (!fault.ok()) return fault;
    is_parked = true;
    return v1::ParkResponse();
  }
  absl::Status Resume() override {
    ++resumes;
    is_parked = false;
    return fault;
  }

  absl::Status fault;
  std::shared_ptr<FakeParking> other;  // Park returns after `awaited` calls of its Park; null = at once
  std::atomic<int> awaited{0};
  std::atomic<int> parks{0}, resumes{0};
  std::atomic<double> lease{0};
  std::atomic<bool> is_parked{false};
};

TEST(SharedDeviceTest, ParksAllEnginesAndRenewsUntilTheTrainerIsDone) {
  const auto one = std::make_shared<FakeParking>(), two = std::make_shared<FakeParking>();
  one->is_parked = true;  // by a trainer that was killed
  SharedDevice device({{"rollout-0", one}, {"rollout-1", two}}, std::chrono::seconds(5), milliseconds(60));
  EXPECT_FALSE(one->is_parked);
  ASSERT_EQ(device.Take(), absl::OkStatus());
  EXPECT_TRUE(one->is_parked && two->is_parked);
  EXPECT_DOUBLE_EQ(two->lease, 0.06);
  for (int i = 0; i < 2000 && two->parks < 4; ++i) std::this_thread::sleep_for(milliseconds(5));
  EXPECT_GE(two->parks, 4) << "the lease is renewed";
  device.Give();
  EXPECT_FALSE(one->is_parked || two->is_parked);
  const int parks = two->parks;
  std::this_thread::sleep_for(milliseconds(80));
  EXPECT_EQ(two->parks, parks) << "and no longer";
}

// One engine's running step, or its silence, takes longer than the lease of the other.
TEST(SharedDeviceTest, AnEngineStaysParkedWhileAnotherTakesLong) {
  const auto parked = std::make_shared<FakeParking>(), slow = std::make_shared<FakeParking>();
  slow->other = parked;
  slow->awaited = 4;
  SharedDevice device({{"rollout-0", parked}, {"rollout-1", slow}}, std::chrono::seconds(5), milliseconds(60));
  ASSERT_EQ(device.Take(), absl::OkStatus());
  const int parks = parked->parks;
  EXPECT_GE(parks, 4) << "renewed before the device was taken";
  slow->awaited = parks + 4;
  for (int i = 0; i < 1000 && parked->parks < parks + 4; ++i) std::this_thread::sleep_for(milliseconds(5));
  EXPECT_GE(parked->parks, parks + 4) << "renewed while the other does not answer";
}

TEST(SharedDeviceTest, AnEngineThatWasKilledIsNoReasonToStop) {
  const auto dead = std::make_shared<FakeParking>(), alive = std::make_shared<FakeParking>();
  dead->fault = absl::UnavailableError("connection refused");
  SharedDevice device({{"rollout-0", dead}, {"rollout-1", alive}}, std::chrono::seconds(5));
  EXPECT_EQ(device.Take(), absl::OkStatus());
  EXPECT_TRUE(alive->is_parked);
  device.Give();
  EXPECT_FALSE(alive->is_parked);
}

TEST(SharedDeviceTest, AnEngineThatDoesNotParkIsNamed) {
  const auto stuck = std::make_shared<FakeParking>();
  SharedDevice device({{"rollout-3", stuck}}, std::chrono::seconds(5));
  stuck->fault = absl::DeadlineExceededError("the engine's running step did not end");
  const absl::Status status = device.Take();
  EXPECT_EQ(status.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(status.message(), HasSubstr("rollout-3"));
}

}  // namespace
}  // namespace ingot::app
