#include "app/training/mismatch_guard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

namespace ingot::app {
namespace {

using Metrics = std::map<std::string, double>;

Metrics Of(double mean) { return {{"mismatch/logprob_abs_diff_mean", mean}}; }

TEST(MismatchGuard, NamesTheEngineAndItsLastGoodVersionAtTheThirdStep) {
  MismatchGuard guard(0.1);
  EXPECT_TRUE(guard.Add("rollout-1", 4, Of(0.1)).ok());
  EXPECT_TRUE(guard.Add("rollout-1", 5, Of(0.2)).ok());
  EXPECT_TRUE(guard.Add("rollout-0", 6, Of(0)).ok());
  EXPECT_TRUE(guard.Add("rollout-1", 7, {}).ok());  // not measured
  EXPECT_TRUE(guard.Add("rollout-1", 8, Of(0.3)).ok());
  const absl::Status stopped = guard.Add("rollout-1", 9, Of(0.3));
  EXPECT_TRUE(absl::IsFailedPrecondition(stopped));
  EXPECT_THAT(std::string(stopped.message()),
              ::testing::AllOf(::testing::HasSubstr("rollout-1"), ::testing::HasSubstr("version 4"),
                               ::testing::HasSubstr("rollout.external.max_mismatch")));
  EXPECT_FALSE(guard.Add("rollout-1", 10, Of(0.3)).ok()) << "until it is set aside";
  guard.Restart("rollout-1");
  EXPECT_TRUE(guard.Add("rollout-1", 11, Of(0.3)).ok());
}

TEST(MismatchGuard, StartsAgainAfterAGoodStep) {
  MismatchGuard guard(0.1);
  for (int i = 0; i < 12; ++i) EXPECT_TRUE(guard.Add("a", i, Of(i % 3 == 2 ? 0.05 : 0.5)).ok()) << i;
}

TEST(MismatchGuard, CountsWhatIsNotANumber) {
  MismatchGuard guard(0.1);
  EXPECT_TRUE(guard.Add("a", 0, Of(NAN)).ok());
  EXPECT_TRUE(guard.Add("a", 1, Of(NAN)).ok());
  EXPECT_FALSE(guard.Add("a", 2, Of(NAN)).ok());
}

TEST(MismatchGuard, IsOffAtZero) {
  MismatchGuard guard(0);
  for (int i = 0; i < 5; ++i) EXPECT_TRUE(guard.Add("a", i, Of(9)).ok());
}

}  // namespace
}  // namespace ingot::app
