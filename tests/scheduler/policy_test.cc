// The windowed FIFO against a naive reference that knows only law 4's text, over random completion orders, failures,
// drops, late weights and restarts.
#include "scheduler/policy.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "base/rng.h"
#include "scheduler/policy_sim.h"

namespace ingot::scheduler {
namespace {

TEST(WindowOptionsTest, BudgetAndWindowFollowTheLaw) {
  const WindowOptions options{.groups_per_step = 4, .max_staleness = 2, .window_fraction = 0.3};
  EXPECT_EQ(options.Budget(), 12);
  EXPECT_EQ(options.Window(), 3);  // floor(3.6)
  EXPECT_EQ((WindowOptions{.groups_per_step = 1, .max_staleness = 0, .window_fraction = 0.3}).Window(), 1);
  EXPECT_EQ((WindowOptions{.groups_per_step = 64, .max_staleness = 127, .window_fraction = 0.5}).Window(), 4096);
}

TEST(WindowOptionsTest, RefusesWhatMakesNoWindow) {
  EXPECT_FALSE((WindowOptions{.groups_per_step = 0}).Validate().ok());
  EXPECT_FALSE((WindowOptions{.max_staleness = -1}).Validate().ok());
  EXPECT_FALSE((WindowOptions{.window_fraction = 0}).Validate().ok());
  EXPECT_FALSE((WindowOptions{.window_fraction = 1.01}).Validate().ok());
}

WindowedFifo MakeFifo(int64_t p, int64_t s, double fraction) {
  return WindowedFifo({.groups_per_step = p, .max_staleness = s, .window_fraction = fraction});
}

TEST(WindowedFifoTest, TakesInsideTheWindowInAnyOrderAndNothingBeyondIt) {
  WindowedFifo fifo = MakeFifo(2, 3, 0.5);  // B = 8, W = 4
  for (int64_t g = 0; g < 8; ++g) EXPECT_EQ(*fifo.Admit(), g);
  EXPECT_EQ(fifo.Admit().status().code(), absl::StatusCode::kResourceExhausted);

  ASSERT_TRUE(fifo.Finish(4, false).ok());  // head 0, window [0, 4): waits
  ASSERT_TRUE(fifo.Finish(3, false).ok());  // inside: taken
  EXPECT_EQ(fifo.pending(), 1);
  EXPECT_EQ(fifo.finished_outside_window(), 1);
  EXPECT_FALSE(fifo.ReadyBatch().has_value());

  ASSERT_TRUE(fifo.Finish(0, false).ok());  // head 1, window [1, 5) reaches group 4
  EXPECT_EQ(fifo.head(), 1);
  EXPECT_EQ(fifo.pending(), 3);
  EXPECT_EQ(*fifo.ReadyBatch(), (std::vector<int64_t>{0, 3}));
}

TEST(WindowedFifoTest, ASlotIsReleasedOnlyWhenTheVersionItsStepMadeIsLive) {
  WindowedFifo fifo = MakeFifo(1, 1, 1);  // B = 2
  ASSERT_TRUE(fifo.Admit().ok() && fifo.Admit().ok());
  ASSERT_TRUE(fifo.Finish(0, false).ok());
  EXPECT_FALSE(fifo.CanAdmit());
  ASSERT_TRUE(fifo.TakeBatch(*fifo.ReadyBatch()).ok());
  EXPECT_FALSE(fifo.CanAdmit());  // fed, not yet live
  EXPECT_EQ(fifo.OnVersionLive(2).code(), absl::StatusCode::kOutOfRange);
  ASSERT_TRUE(fifo.OnVersionLive(1).ok());
  EXPECT_TRUE(fifo.CanAdmit());
  ASSERT_TRUE(fifo.OnVersionLive(1).ok());  // told twice: nothing
  EXPECT_EQ(fifo.admitted_unreleased(), 1);
}

TEST(WindowedFifoTest, DroppedAndFailedGroupsReleaseAtOnce) {
  WindowedFifo fifo = MakeFifo(1, 1, 1);
  ASSERT_TRUE(fifo.Admit().ok() && fifo.Admit().ok());
  ASSERT_TRUE(fifo.Finish(0, true).ok());
  EXPECT_TRUE(fifo.CanAdmit());
  ASSERT_TRUE(fifo.Fail(1).ok());
  EXPECT_EQ(fifo.admitted_unreleased(), 0);
  EXPECT_EQ(fifo.head(), 2);
}

TEST(WindowedFifoTest, IllegalTransitionsAreRefusedAndChangeNothing) {
  WindowedFifo fifo = MakeFifo(1, 1, 1);
  ASSERT_TRUE(fifo.Admit().ok() && fifo.Admit().ok());
  ASSERT_TRUE(fifo.Finish(1, false).ok());
  const WindowedFifo before = fifo;
  EXPECT_EQ(fifo.Finish(7, false).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(fifo.Finish(-1, false).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(fifo.Finish(1, false).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(fifo.Fail(1).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_FALSE(fifo.RestoreAdmitted(5).ok());
  EXPECT_FALSE(fifo.RestoreBatch(1, std::vector<int64_t>{0}).ok());
  EXPECT_FALSE(fifo.RestoreBatch(0, std::vector<int64_t>{0, 0}).ok());
  EXPECT_FALSE(fifo.RestoreBatch(0, std::vector<int64_t>{9}).ok());
  EXPECT_FALSE(fifo.TakeBatch(std::vector<int64_t>{0}).ok());
  EXPECT_FALSE(fifo.Rewind(1).ok());
  EXPECT_TRUE(fifo == before);
}

TEST(WindowedFifoTest, RewindHoldsTheSlotsOfWhatIsTrainedAgain) {
  WindowedFifo fifo = MakeFifo(1, 1, 1);
  for (int64_t step = 0; step < 3; ++step) {
    ASSERT_TRUE(fifo.Admit().ok());
    ASSERT_TRUE(fifo.Finish(step, false).ok());
    ASSERT_TRUE(fifo.TakeBatch(*fifo.ReadyBatch()).ok());
    ASSERT_TRUE(fifo.OnVersionLive(step + 1).ok());
  }
  ASSERT_TRUE(fifo.Rewind(0).ok());
  EXPECT_EQ(fifo.admitted_unreleased(), 3);  // above B = 2: nothing is admitted
  EXPECT_FALSE(fifo.CanAdmit());
  ASSERT_TRUE(fifo.OnVersionLive(2).ok());
  EXPECT_TRUE(fifo.CanAdmit());
}

struct Shape {
  int64_t p, s;
  double fraction;
  int64_t steps;
};

class PolicyPropertyTest : public ::testing::TestWithParam<Shape> {};

TEST_P(PolicyPropertyTest, KeepsTheLawWhateverFinishesWhen) {
  const Shape& shape = GetParam();
  const WindowOptions options{.groups_per_step = shape.p, .max_staleness = shape.s, .window_fraction = shape.fraction};
  for (uint64_t seed = 0; seed < 6; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    PolicySim sim(options, seed);
    sim.set_check_every(options.Budget() > 500 ? 4999 : 13);
    ASSERT_NO_FATAL_FAILURE(sim.Run(shape.steps));
    EXPECT_LE(sim.greatest_age(), sim.age_bound());
    if (shape.s == 0) {
      EXPECT_EQ(sim.greatest_age(), 0);
    }
  }
}

INSTANTIATE_TEST_SUITE_P(Shapes, PolicyPropertyTest,
                         ::testing::Values(Shape{1, 0, 1, 300}, Shape{4, 0, 1, 200}, Shape{8, 0, 0.3, 100},
                                           Shape{1, 1, 0.3, 300}, Shape{1, 5, 1, 300}, Shape{3, 2, 0.3, 200},
                                           Shape{4, 1, 0.5, 200}, Shape{4, 3, 0.01, 200}, Shape{16, 3, 1, 60},
                                           Shape{64, 127, 0.5, 260}));  // n = 8192, w = 4096

// With group 0 stuck, the window goes no further than W behind it, and its deadline sets everything free.
TEST(WindowedFifoTest, AStuckHeadHoldsTheWindowUntilItFails) {
  WindowedFifo fifo = MakeFifo(64, 127, 0.5);
  std::set<int64_t> taken;
  for (int64_t g = 0; g < 8192; ++g) ASSERT_TRUE(fifo.Admit().ok());
  for (int64_t g = 8191; g >= 1; --g) ASSERT_TRUE(fifo.Finish(g, false).ok());
  EXPECT_EQ(fifo.pending(), 4095);  // [1, 4096)
  EXPECT_EQ(fifo.finished_outside_window(), 4096);
  ASSERT_TRUE(fifo.Fail(0).ok());
  EXPECT_EQ(fifo.pending(), 8191);
  EXPECT_EQ(fifo.head(), 8192);
}

TEST(WindowedFifoTest, GreatestAgeIsReachedAndNotOnlyBounded) {
  // S = 0, W = B = P = 2 would allow ceil(1/2) = 1 by the formula; the slots allow none. With S = 1, P = 1, W = 2 the
  // bound 1 + 1 = 2 is met: group 1 (version 0) waits while 0 and 2 are trained.
  WindowedFifo fifo = MakeFifo(1, 1, 1);
  ASSERT_TRUE(fifo.Admit().ok() && fifo.Admit().ok());  // 0 and 1 at version 0
  ASSERT_TRUE(fifo.Finish(0, false).ok());
  ASSERT_TRUE(fifo.TakeBatch(*fifo.ReadyBatch()).ok());  // step 0
  ASSERT_TRUE(fifo.OnVersionLive(1).ok());
  ASSERT_EQ(*fifo.Admit(), 2);
  ASSERT_TRUE(fifo.Finish(2, false).ok());               // [1, 3): taken before group 1
  ASSERT_TRUE(fifo.TakeBatch(*fifo.ReadyBatch()).ok());  // step 1
  ASSERT_TRUE(fifo.OnVersionLive(2).ok());
  ASSERT_EQ(*fifo.Admit(), 3);
  ASSERT_TRUE(fifo.Finish(3, false).ok());  // outside [1, 3): waits
  EXPECT_FALSE(fifo.ReadyBatch().has_value());
  ASSERT_TRUE(fifo.Finish(1, false).ok());
  EXPECT_EQ(fifo.ReadyBatch()->front(), 1);  // step 2: age 2 - 0 = 2
}

}  // namespace
}  // namespace ingot::scheduler
