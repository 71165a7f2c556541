// The waits of a process, on a clock that is moved by hand.
#include "base/waits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>

namespace ingot::base {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;

TEST(Waits, AreToldOnceTheyHaveGoneOnForAWhileAndUntilTheirEnd) {
  ManualClock clock;
  Waits waits(clock);
  auto wait = std::make_unique<Wait>("PostgreSQL", WaitKind::kFault, waits);
  clock.Advance(seconds(5) - std::chrono::nanoseconds(1));
  EXPECT_THAT(waits.Longer(seconds(5), WaitKind::kFault), IsEmpty());
  clock.Advance(std::chrono::nanoseconds(1));
  EXPECT_THAT(waits.Longer(seconds(5), WaitKind::kFault), ElementsAre("PostgreSQL"));
  EXPECT_THAT(waits.Longer(seconds(5), WaitKind::kWork), IsEmpty());
  wait.reset();
  EXPECT_THAT(waits.Longer(seconds(0), WaitKind::kFault), IsEmpty());
}

TEST(Waits, ANewCauseDoesNotBeginThemAnew) {
  ManualClock clock;
  Waits waits(clock);
  Wait wait("PostgreSQL", WaitKind::kFault, waits);
  clock.Advance(seconds(5));
  wait.Because("PostgreSQL: the server is starting up");
  EXPECT_THAT(waits.Longer(seconds(5), WaitKind::kFault), ElementsAre("PostgreSQL: the server is starting up"));
}

TEST(Waits, OfManyThreadsForOneAreToldOnce) {
  ManualClock clock;
  Waits waits(clock);
  const Wait first("etcd", WaitKind::kFault, waits), second("etcd", WaitKind::kFault, waits),
      third("a lock", WaitKind::kFault, waits);
  EXPECT_THAT(waits.Longer(seconds(0), WaitKind::kFault), ElementsAre("a lock", "etcd"));
}

}  // namespace
}  // namespace ingot::base
