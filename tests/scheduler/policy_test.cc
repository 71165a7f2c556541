// The windowed FIFO: each transition and decision, then random runs against the naive model of policy_sim.h.
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

TEST(WindowOptionsTest, RejectsOptionsThatMakeNoWindow) {
  EXPECT_FALSE((WindowOptions{.groups_per_step = 0}).Validate().ok());
  EXPECT_FALSE((WindowOptions{.max_staleness = -1}).Validate().ok());
  EXPECT_FALSE((WindowOptions{.window_fraction = 0}).Validate().ok());
  EXPECT_FALSE((WindowOptions{.window_fraction = 1.01}).Validate().ok());
}

WindowedFifo MakeFifo(int64_t p, int64_t s, double fraction) {
  return WindowedFifo({.groups_per_step = p, .max_staleness = s, .window_fraction = fraction});
}

// Decides and applies, as the scheduler does.
int64_t Admit(WindowedFifo& fifo) {
  EXPECT_TRUE(fifo.CanAdmit());
  const int64_t group = fifo.next_group();
  EXPECT_TRUE(fifo.AdmitGroup(group).ok());
  return group;
}
void TakeReadyBatch(WindowedFifo& fifo) {
  const auto groups = fifo.ReadyBatch();
  ASSERT_TRUE(groups.has_value());
  ASSERT_TRUE(fifo.TakeBatch(fifo.next_step(), *groups).ok());
}

TEST(WindowedFifoTest, ARunThatBeginsAtAStepGoesOnAsIfTheStepsBeforeWereItsOwn) {
  WindowedFifo fifo = MakeFifo(2, 1, 1);  // B = 4
  EXPECT_TRUE(absl::IsOutOfRange(fifo.BeginAt(-1, 0)));
  EXPECT_TRUE(absl::IsOutOfRange(fifo.BeginAt(0, -1)));
  ASSERT_TRUE(fifo.BeginAt(5, 17).ok());
  EXPECT_EQ(fifo.first_step(), 5);
  EXPECT_EQ(fifo.next_step(), 5);
  EXPECT_EQ(fifo.head(), 17);
  EXPECT_TRUE(absl::IsOutOfRange(fifo.SetLiveVersion(6)));
  ASSERT_TRUE(fifo.SetLiveVersion(5).ok());
  EXPECT_EQ(fifo.admitted_unreleased(), 0);
  for (int64_t group = 17; group < 21; ++group) EXPECT_EQ(Admit(fifo), group);
  EXPECT_FALSE(fifo.CanAdmit());
  for (int64_t group = 17; group < 21; ++group) ASSERT_TRUE(fifo.FinishGroup(group).ok());
  EXPECT_TRUE(absl::IsFailedPrecondition(fifo.BeginAt(5, 17))) << "it has begun";
  EXPECT_EQ(*fifo.ReadyBatch(), (std::vector<int64_t>{17, 18}));
  TakeReadyBatch(fifo);
  EXPECT_EQ(fifo.next_step(), 6);
  ASSERT_TRUE(fifo.SetLiveVersion(6).ok());
  EXPECT_EQ(fifo.admitted_unreleased(), 2);
}

TEST(WindowedFifoTest, TakesInsideTheWindowInAnyOrderAndNothingBeyondIt) {
  WindowedFifo fifo = MakeFifo(2, 3, 0.5);  // B = 8, W = 4
  for (int64_t g = 0; g < 8; ++g) EXPECT_EQ(Admit(fifo), g);
  EXPECT_FALSE(fifo.CanAdmit());

  ASSERT_TRUE(fifo.FinishGroup(4).ok());  // head 0, window [0, 4): waits
  ASSERT_TRUE(fifo.FinishGroup(3).ok());  // inside: taken
  EXPECT_EQ(fifo.pending(), 1);
  EXPECT_EQ(fifo.finished_outside_window(), 1);
  EXPECT_FALSE(fifo.ReadyBatch().has_value());

  ASSERT_TRUE(fifo.FinishGroup(0).ok());  // head 1, window [1, 5) reaches group 4
  EXPECT_EQ(fifo.head(), 1);
  EXPECT_EQ(fifo.pending(), 3);
  EXPECT_EQ(*fifo.ReadyBatch(), (std::vector<int64_t>{0, 3}));
}

TEST(WindowedFifoTest, ASlotIsReleasedOnlyWhenTheVersionItsStepMadeIsLive) {
  WindowedFifo fifo = MakeFifo(1, 1, 1);  // B = 2
  for (int64_t g = 0; g < 2; ++g) Admit(fifo);
  ASSERT_TRUE(fifo.FinishGroup(0).ok());
  EXPECT_FALSE(fifo.CanAdmit());
  TakeReadyBatch(fifo);
  EXPECT_FALSE(fifo.CanAdmit());  // fed, not yet live
  EXPECT_EQ(fifo.SetLiveVersion(2).code(), absl::StatusCode::kOutOfRange);
  ASSERT_TRUE(fifo.SetLiveVersion(1).ok());
  EXPECT_TRUE(fifo.CanAdmit());
  ASSERT_TRUE(fifo.SetLiveVersion(1).ok());  // a repetition changes nothing
  EXPECT_EQ(fifo.admitted_unreleased(), 1);
}

TEST(WindowedFifoTest, DroppedAndFailedGroupsReleaseAtOnce) {
  WindowedFifo fifo = MakeFifo(1, 1, 1);
  for (int64_t g = 0; g < 2; ++g) Admit(fifo);
  ASSERT_TRUE(fifo.CloseGroup(0).ok());
  EXPECT_TRUE(fifo.CanAdmit());
  ASSERT_TRUE(fifo.CloseGroup(1).ok());
  EXPECT_EQ(fifo.admitted_unreleased(), 0);
  EXPECT_EQ(fifo.head(), 2);
}

TEST(WindowedFifoTest, ATransitionWithoutItsPreconditionIsAnErrorAndChangesNothing) {
  WindowedFifo fifo = MakeFifo(1, 1, 1);
  for (int64_t g = 0; g < 2; ++g) Admit(fifo);
  ASSERT_TRUE(fifo.FinishGroup(1).ok());
  const WindowedFifo before = fifo;
  EXPECT_EQ(fifo.FinishGroup(7).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(fifo.FinishGroup(-1).code(), absl::StatusCode::kNotFound);
  EXPECT_EQ(fifo.FinishGroup(1).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(fifo.CloseGroup(1).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_FALSE(fifo.AdmitGroup(5).ok());
  EXPECT_FALSE(fifo.TakeBatch(1, std::vector<int64_t>{0}).ok());     // batch 0 is next
  EXPECT_FALSE(fifo.TakeBatch(0, std::vector<int64_t>{0, 0}).ok());  // group 0 twice
  EXPECT_FALSE(fifo.TakeBatch(0, std::vector<int64_t>{1, 0}).ok());  // not ascending
  EXPECT_FALSE(fifo.TakeBatch(0, std::vector<int64_t>{9}).ok());     // never admitted
  EXPECT_FALSE(fifo.TakeBatch(0, std::vector<int64_t>{0, 9}).ok());
  EXPECT_EQ(*fifo.ReadyBatch(), std::vector<int64_t>{1});  // group 0 is not ready
  EXPECT_FALSE(fifo.SetLiveVersion(1).ok());
  EXPECT_FALSE(fifo.SetLiveVersion(-1).ok());
  EXPECT_TRUE(fifo == before);
}

TEST(WindowedFifoTest, AGroupIsInOneBatchAndNeverOpensAgain) {
  WindowedFifo fifo = MakeFifo(1, 2, 1);  // B = 3
  for (int64_t g = 0; g < 3; ++g) Admit(fifo);
  ASSERT_TRUE(fifo.FinishGroup(1).ok());
  TakeReadyBatch(fifo);
  ASSERT_TRUE(fifo.CloseGroup(2).ok());
  const WindowedFifo before = fifo;
  for (const int64_t group : {1, 2}) {
    EXPECT_EQ(fifo.TakeBatch(1, std::vector<int64_t>{group}).code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(fifo.FinishGroup(group).code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(fifo.CloseGroup(group).code(), absl::StatusCode::kFailedPrecondition);
    EXPECT_EQ(fifo.AdmitGroup(group).code(), absl::StatusCode::kFailedPrecondition);
  }
  EXPECT_TRUE(fifo == before);
}

TEST(WindowedFifoTest, ABatchNeverTakesAGroupWithoutItsReward) {
  WindowedFifo fifo = MakeFifo(1, 1, 1);
  ASSERT_TRUE(fifo.AdmitGroup(0).ok());
  const WindowedFifo before = fifo;
  EXPECT_EQ(fifo.TakeBatch(0, std::vector<int64_t>{0}).code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_TRUE(fifo == before);
}

// P may have changed since a batch was written.
TEST(WindowedFifoTest, AReplayedBatchMayHaveAnotherSize) {
  WindowedFifo fifo = MakeFifo(1, 1, 1);  // B = 2
  for (int64_t g = 0; g < 3; ++g) ASSERT_TRUE(fifo.AdmitGroup(g).ok());
  for (const int64_t g : {0, 2}) ASSERT_TRUE(fifo.FinishGroup(g).ok());
  ASSERT_TRUE(fifo.TakeBatch(0, std::vector<int64_t>{0, 2}).ok());
  EXPECT_EQ(fifo.head(), 1);
  EXPECT_EQ(fifo.open(), 1);
  EXPECT_EQ(fifo.admitted_unreleased(), 3);
  EXPECT_FALSE(fifo.CanAdmit());
  ASSERT_TRUE(fifo.SetLiveVersion(1).ok());
  EXPECT_EQ(fifo.admitted_unreleased(), 1);
}

TEST(WindowedFifoTest, ALowerLiveVersionHoldsTheSlotsOfBatchesThatAreTrainedAgain) {
  WindowedFifo fifo = MakeFifo(1, 1, 1);
  for (int64_t step = 0; step < 3; ++step) {
    Admit(fifo);
    ASSERT_TRUE(fifo.FinishGroup(step).ok());
    TakeReadyBatch(fifo);
    ASSERT_TRUE(fifo.SetLiveVersion(step + 1).ok());
  }
  ASSERT_TRUE(fifo.SetLiveVersion(0).ok());
  EXPECT_EQ(fifo.admitted_unreleased(), 3);  // above B = 2: nothing is admitted
  EXPECT_FALSE(fifo.CanAdmit());
  ASSERT_TRUE(fifo.SetLiveVersion(2).ok());
  EXPECT_TRUE(fifo.CanAdmit());
}

struct Shape {
  int64_t p, s;
  double fraction;
  int64_t steps;
};

class PolicyPropertyTest : public ::testing::TestWithParam<Shape> {};

TEST_P(PolicyPropertyTest, HoldsTheLawInAnyOrderOfCompletion) {
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

// While group 0 is open, the window reaches W groups and no further; its failure releases all others.
TEST(WindowedFifoTest, AStuckHeadHoldsTheWindowUntilItFails) {
  WindowedFifo fifo = MakeFifo(64, 127, 0.5);
  std::set<int64_t> taken;
  for (int64_t g = 0; g < 8192; ++g) Admit(fifo);
  for (int64_t g = 8191; g >= 1; --g) ASSERT_TRUE(fifo.FinishGroup(g).ok());
  EXPECT_EQ(fifo.pending(), 4095);  // [1, 4096)
  EXPECT_EQ(fifo.finished_outside_window(), 4096);
  ASSERT_TRUE(fifo.CloseGroup(0).ok());
  EXPECT_EQ(fifo.pending(), 8191);
  EXPECT_EQ(fifo.head(), 8192);
}

TEST(WindowedFifoTest, TheGreatestAgeOfTheLawIsReached) {
  // S = 0, W = B = P = 2 would allow ceil(1/2) = 1 by the formula; the slots allow none. With S = 1, P = 1, W = 2 the
  // bound 1 + 1 = 2 is met: group 1 (version 0) waits while 0 and 2 are trained.
  WindowedFifo fifo = MakeFifo(1, 1, 1);
  for (int64_t g = 0; g < 2; ++g) Admit(fifo);  // both at version 0
  ASSERT_TRUE(fifo.FinishGroup(0).ok());
  TakeReadyBatch(fifo);  // step 0
  ASSERT_TRUE(fifo.SetLiveVersion(1).ok());
  ASSERT_EQ(Admit(fifo), 2);
  ASSERT_TRUE(fifo.FinishGroup(2).ok());  // [1, 3): taken before group 1
  TakeReadyBatch(fifo);                   // step 1
  ASSERT_TRUE(fifo.SetLiveVersion(2).ok());
  ASSERT_EQ(Admit(fifo), 3);
  ASSERT_TRUE(fifo.FinishGroup(3).ok());  // outside [1, 3): waits
  EXPECT_FALSE(fifo.ReadyBatch().has_value());
  ASSERT_TRUE(fifo.FinishGroup(1).ok());
  EXPECT_EQ(fifo.ReadyBatch()->front(), 1);  // step 2: age 2 - 0 = 2
}

}  // namespace
}  // namespace ingot::scheduler
