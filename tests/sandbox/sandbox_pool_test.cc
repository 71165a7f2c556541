#include "sandbox/sandbox_pool.h"

#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <filesystem>
#include <functional>
#include <iterator>
#include <thread>

#include "sandbox/test_sandbox.h"

namespace ingot::sandbox {
namespace {

class SandboxPoolTest : public testing::Test {
 protected:
  SandboxPoolTest() {
    snapshots_.takes_snapshots = true;
    totals_.totals.processes = 7;
  }

  std::unique_ptr<SandboxPool> Make(size_t size) {
    return std::make_unique<SandboxPool>(
        size, [this](const SandboxOptions& wish) -> absl::StatusOr<std::unique_ptr<Sandbox>> {
          if (fails_) return absl::ResourceExhaustedError("no room");
          return substrate_->Prepare(wish);
        });
  }
  int Sandboxes() const {
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
  SandboxOptions plain_, snapshots_, totals_;
};

TEST_F(SandboxPoolTest, HoldsSandboxesOfTheKindsThatWereAskedForLast) {
  const auto pool = Make(2);
  Await([&] { return Sandboxes() == 2; });
  EXPECT_EQ(pool->Acquire(snapshots_), nullptr) << "nobody asked for one before";
  std::unique_ptr<Sandbox> sandbox;
  Await([&] { return (sandbox = pool->Acquire(snapshots_)) != nullptr; });
  EXPECT_TRUE(
      sandbox->Run({.argv = {"/bin/true"}, .env = {}, .working_dir = "", .stdin_text = ""}, Limits{}, nullptr)->ok());
  sandbox.reset();
  Await([&] { return Sandboxes() == 2; });
  EXPECT_EQ(pool->Acquire(totals_), nullptr) << "it would have other totals";
  Await([&] { return (sandbox = pool->Acquire(totals_)) != nullptr; });
  sandbox.reset();
  // Two of one kind were asked for since, so no plain room is left.
  Await([&] { return Sandboxes() == 2; });
  EXPECT_EQ(pool->Acquire(plain_), nullptr);
}

TEST_F(SandboxPoolTest, GoesOnAfterASandboxThatCouldNotBeMade) {
  fails_ = true;
  const auto pool = Make(1);
  EXPECT_EQ(pool->Acquire(plain_), nullptr);
  fails_ = false;
  std::unique_ptr<Sandbox> sandbox;
  Await([&] { return (sandbox = pool->Acquire(plain_)) != nullptr; });
}

TEST_F(SandboxPoolTest, AForkIsLikeNoOtherSandbox) {
  SandboxOptions fork;
  fork.from = substrate_->Prepare(snapshots_).value()->TakeSnapshot().value();
  EXPECT_TRUE(SandboxPool::Holds(plain_) && SandboxPool::Holds(snapshots_));
  EXPECT_FALSE(SandboxPool::Holds(fork));
}

}  // namespace
}  // namespace ingot::sandbox
