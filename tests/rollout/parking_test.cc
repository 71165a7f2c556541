// An engine that steps aside for the trainer: its requests wait and continue as if nothing had happened.
#include "rollout/parking.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cmath>
#include <future>
#include <thread>

#include "rollout/rig.h"

namespace ingot::rollout::parking_test {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

v1::ParkRequest Terms(double timeout = 30, double lease = 1000) {
  v1::ParkRequest request;
  request.set_timeout_seconds(timeout);
  request.set_lease_seconds(lease);
  return request;
}

std::vector<int32_t> IdsOf(Engine& engine, const v1::GenerateRequest& ask) {
  Collect result;
  auto request = engine.Generate(ask, result.OnChunk());
  EXPECT_EQ(result.Wait(), absl::OkStatus());
  return result.ids;
}

// Parks the engine between two of the passes that the closed gate holds.
absl::StatusOr<v1::ParkResponse> ParkInBetween(Rig& rig) {
  auto parked = std::async(std::launch::async, [&] { return rig.engine->Park(Terms()); });
  while (parked.wait_for(milliseconds(10)) != std::future_status::ready) rig.gate.Let(1);
  rig.gate.Open();
  return parked.get();
}

TEST(ParkingTest, RequestsContinueWithTheSameTokens) {
  const v1::GenerateRequest long_one = Ask({1, 2, 3, 4, 5}, 190, 7), late_one = Ask({1, 2, 3, 4, 9}, 20, 8);
  Rig rig(Options(), FakeSnapshot(1, 1001));
  const std::vector<int32_t> expected = IdsOf(*rig.engine, long_one), expected_late = IdsOf(*rig.engine, late_one);
  Collect running, late;
  rig.gate.Close();
  auto first = rig.engine->Generate(long_one, running.OnChunk());
  rig.gate.Let(10);
  rig.gate.AwaitHeld();  // in its 11th pass
  const auto answer = ParkInBetween(rig);
  ASSERT_TRUE(answer.ok()) << answer.status();
  EXPECT_EQ(answer->freed_bytes(), 3200);
  const int64_t passes = rig.runner->passes;
  auto second = rig.engine->Generate(late_one, late.OnChunk());
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_EQ(rig.runner->passes, passes) << "no step runs";
  const v1::EngineStatusResponse status = *rig.engine->Status();
  EXPECT_EQ(status.kv_blocks_used(), 0);
  EXPECT_EQ(status.running(), 0);
  EXPECT_EQ(status.waiting(), 2);
  EXPECT_EQ(rig.engine->Park(Terms())->freed_bytes(), 0) << "parked already";
  ASSERT_EQ(rig.engine->Resume(), absl::OkStatus());
  EXPECT_EQ(rig.engine->Resume(), absl::OkStatus());
  ASSERT_EQ(running.Wait(), absl::OkStatus());
  ASSERT_EQ(late.Wait(), absl::OkStatus());
  EXPECT_EQ(running.ids, expected);
  EXPECT_EQ(late.ids, expected_late);
}

TEST(ParkingTest, AVersionThatArrivesMeanwhileSamplesTheRestWithItsOwnKv) {
  Rig rig(Options(), FakeSnapshot(1, 1001));
  Collect result;
  rig.gate.Close();
  auto request = rig.engine->Generate(Ask({1, 2, 3}, 190), result.OnChunk());
  rig.gate.Let(10);
  rig.gate.AwaitHeld();
  ASSERT_TRUE(ParkInBetween(rig).ok());
  ASSERT_TRUE(rig.Update(2).ok()) << "while it is parked";
  EXPECT_EQ(rig.engine->Status()->version(), 2);
  ASSERT_EQ(rig.engine->Resume(), absl::OkStatus());
  ASSERT_EQ(result.Wait(), absl::OkStatus());
  ASSERT_EQ(result.versions.back().version(), 2);
  for (const v1::VersionRun& run : result.versions) EXPECT_FALSE(run.kv_mixed());
  EXPECT_EQ(result.versions.front().version(), 1);
}

TEST(ParkingTest, AStepThatDoesNotEndInTimeIsNamedAndTheEngineGoesOn) {
  Rig rig(Options(), FakeSnapshot(1, 1001));
  Collect result;
  rig.gate.Close();
  auto request = rig.engine->Generate(Ask({1, 2, 3}, 5), result.OnChunk());
  rig.gate.AwaitHeld();
  const absl::Status late = rig.engine->Park(Terms(/*timeout=*/0.05)).status();
  EXPECT_EQ(late.code(), absl::StatusCode::kDeadlineExceeded);
  EXPECT_THAT(late.message(), HasSubstr("cluster.park_timeout_s (0.05 s)"));
  rig.gate.Open();
  EXPECT_EQ(result.Wait(), absl::OkStatus());
  EXPECT_EQ(rig.engine->Park(Terms(0)).status().code(), absl::StatusCode::kInvalidArgument);
  EXPECT_EQ(rig.engine->Park(Terms(1, std::nan(""))).status().code(), absl::StatusCode::kInvalidArgument);
}

TEST(ParkingTest, TheLeaseStartsOnceTheStepHasEnded) {
  Rig rig(Options(), FakeSnapshot(1, 1001));
  Collect result;
  rig.gate.Close();
  auto request = rig.engine->Generate(Ask({1, 2, 3}, 190), result.OnChunk());
  rig.gate.AwaitHeld();
  auto parked = std::async(std::launch::async, [&] { return rig.engine->Park(Terms(30, /*lease=*/0.02)); });
  std::this_thread::sleep_for(milliseconds(60));
  rig.gate.Open();
  EXPECT_TRUE(parked.get().ok());
  EXPECT_EQ(result.Wait(), absl::OkStatus()) << "and ends by itself";
}

TEST(ParkingTest, AnEngineThatLeavesTheRunDoesNotKeepTheTrainerWaiting) {
  Rig rig(Options(), FakeSnapshot(1, 1001));
  Collect result;
  rig.gate.Close();
  auto request = rig.engine->Generate(Ask({1, 2, 3}, 5), result.OnChunk());
  rig.gate.AwaitHeld();
  auto parked = std::async(std::launch::async, [&] { return rig.engine->Park(Terms(30)).status(); });
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_FALSE(rig.engine->Drain(milliseconds(1)));
  EXPECT_EQ(parked.wait_for(seconds(20)), std::future_status::ready);
  rig.gate.Open();
  EXPECT_EQ(parked.get().code(), absl::StatusCode::kUnavailable);
  EXPECT_EQ(result.Wait(), absl::OkStatus());
}

// The trainer was killed.
TEST(ParkingTest, ResumesByItselfWhenTheLeaseEnds) {
  Rig rig(Options(), FakeSnapshot(1, 1001));
  ASSERT_TRUE(rig.engine->Park(Terms(30, /*lease=*/0.2)).ok());
  const auto start = std::chrono::steady_clock::now();
  Collect result;
  auto request = rig.engine->Generate(Ask({1, 2, 3}, 5), result.OnChunk());
  EXPECT_EQ(result.Wait(), absl::OkStatus());
  EXPECT_GT(std::chrono::steady_clock::now() - start, milliseconds(100));
  EXPECT_TRUE(rig.engine->Park(Terms()).ok()) << "and parks again";
}

TEST(ParkingTest, ARequestWaitsNoLongerThanTheLimit) {
  base::ManualClock clock;
  EngineOptions options = Options();
  options.parked_wait_s = 100;
  options.request_deadline_ms = 30000;
  Rig rig(options, FakeSnapshot(1, 1001), {}, clock);
  ASSERT_TRUE(rig.engine->Park(Terms(30, 100000)).ok());
  Collect early, late;
  auto first = rig.engine->Generate(Ask({1, 2, 3}, 5), early.OnChunk());
  clock.Advance(seconds(99));
  auto second = rig.engine->Generate(Ask({1, 2, 4}, 5), late.OnChunk());
  std::this_thread::sleep_for(milliseconds(50));
  EXPECT_EQ(rig.engine->Status()->waiting(), 2) << "request_deadline_ms stands still";
  clock.Advance(seconds(2));
  const absl::Status ended = early.Wait();
  EXPECT_EQ(ended.code(), absl::StatusCode::kUnavailable);
  EXPECT_THAT(ended.message(), HasSubstr("rollout.parked_wait_s (100 s)"));
  clock.Advance(seconds(60));
  ASSERT_EQ(rig.engine->Resume(), absl::OkStatus());
  EXPECT_EQ(late.Wait(), absl::OkStatus()) << "its deadline begins when the engine resumes";
  EXPECT_EQ(late.ids.size(), 5u);
}

TEST(ParkingTest, ACancelledRequestIsForgottenWhileItWaits) {
  Rig rig(Options(), FakeSnapshot(1, 1001));
  ASSERT_TRUE(rig.engine->Park(Terms()).ok());
  Collect result;
  auto request = rig.engine->Generate(Ask({1, 2, 3}, 5), result.OnChunk());
  request.reset();
  for (int i = 0; i < 1000 && rig.engine->Park(Terms())->waiting() > 0; ++i) {
    std::this_thread::sleep_for(milliseconds(5));
  }
  EXPECT_EQ(rig.engine->Park(Terms())->waiting(), 0);
}

TEST(ParkingTest, AnEngineThatKeepsItsMemoryIsNotParked) {
  Rig rig(Options(), FakeSnapshot(1, 1001));
  rig.runner->releases = false;
  const absl::Status status = rig.engine->Park(Terms()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(IdsOf(*rig.engine, Ask({1, 2, 3}, 5)).size(), 5u);
}

TEST(ParkingTest, ALeavingEngineFinishesItsRequestsAlthoughItIsParked) {
  Rig rig(Options(), FakeSnapshot(1, 1001));
  ASSERT_TRUE(rig.engine->Park(Terms()).ok());
  Collect result;
  auto request = rig.engine->Generate(Ask({1, 2, 3}, 5), result.OnChunk());
  EXPECT_TRUE(rig.engine->Drain(seconds(30)));
  EXPECT_EQ(result.Wait(), absl::OkStatus());
  EXPECT_EQ(rig.engine->Park(Terms()).status().code(), absl::StatusCode::kUnavailable);
  rig.engine->Shutdown();
  EXPECT_EQ(rig.engine->Resume(), absl::OkStatus()) << "it is not parked";
}

}  // namespace
}  // namespace ingot::rollout::parking_test
