// A million optimizer steps of the policy alone: groups end in random order, some are closed, weights come late. The
// checks per group are O(1): it lies inside the window of that moment, is in one batch at most and within the age
// bound. Prints steps per second.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <deque>
#include <utility>
#include <vector>

#include "base/rng.h"
#include "scheduler/policy.h"

namespace ingot::scheduler {
namespace {

// Every slot holds a running group; a random one ends next.
void Simulate(const WindowOptions& options, int64_t steps, uint64_t seed) {
  WindowedFifo fifo(options);
  std::vector<int64_t> open;
  std::deque<std::pair<int64_t, bool>>
      taken;  // from the head that batches have moved: (admitted at, in a batch or closed)
  int64_t first = 0, live = 0, greatest_age = 0;
  uint64_t draws = 0;
  const auto draw = [&] { return base::UniformAt(seed, draws++); };
  const auto started = std::chrono::steady_clock::now();
  while (fifo.next_step() < steps) {
    while (fifo.CanAdmit()) {
      open.push_back(fifo.next_group());
      ASSERT_TRUE(fifo.AdmitGroup(open.back()).ok());
      taken.emplace_back(live, false);
    }
    ASSERT_LE(fifo.admitted_unreleased(), fifo.budget());
    if (!open.empty()) {
      std::swap(open[static_cast<size_t>(draw() * static_cast<double>(open.size()))], open.back());
      const int64_t group = open.back();
      open.pop_back();
      const double outcome = draw();
      const absl::Status status = outcome < 0.1 ? fifo.CloseGroup(group) : fifo.FinishGroup(group);
      ASSERT_TRUE(status.ok()) << status;
      if (outcome < 0.1) taken[group - first].second = true;
    }
    while (const auto batch = fifo.ReadyBatch()) {
      ASSERT_TRUE(fifo.TakeBatch(fifo.next_step(), *batch).ok());
      for (const int64_t group : *batch) {
        while (!taken.empty() && taken.front().second) {
          taken.pop_front();
          ++first;
        }
        ASSERT_GE(group, first);
        ASSERT_LT(group, first + fifo.window());
        ASSERT_FALSE(taken[group - first].second);
        taken[group - first].second = true;
        greatest_age = std::max(greatest_age, fifo.next_step() - 1 - taken[group - first].first);
      }
    }
    // Weights come late, but at once when nothing else can move.
    if (live < fifo.next_step() && (open.empty() || draw() < 0.3)) {
      ASSERT_TRUE(fifo.SetLiveVersion(++live).ok());
    }
  }
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - started).count();
  const int64_t p = options.groups_per_step;
  EXPECT_LE(greatest_age, options.max_staleness + (options.Window() - 1 + p - 1) / p);
  std::printf("P %ld, B %ld, W %ld: %ld steps in %.2f s: %.0f steps/s, %.2f M groups/s, greatest age %ld\n", p,
              fifo.budget(), fifo.window(), steps, seconds, static_cast<double>(steps) / seconds,
              static_cast<double>(fifo.next_group()) / seconds * 1e-6, greatest_age);
}

TEST(PolicySimulation, AMillionStepsOfASmallRun) {
  Simulate({.groups_per_step = 8, .max_staleness = 3, .window_fraction = 0.3}, 1'000'000, 1);
}

TEST(PolicySimulation, AMillionStepsWithEightThousandGroupsAndAWindowOfFour) {
  Simulate({.groups_per_step = 8, .max_staleness = 1023, .window_fraction = 0.5}, 1'000'000, 2);
}

}  // namespace
}  // namespace ingot::scheduler
