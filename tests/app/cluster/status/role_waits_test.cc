// For whom a role waits, on a clock that is moved by hand.
#include "app/cluster/status/role_waits.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <optional>

namespace ingot::app {
namespace {

using std::chrono::milliseconds;
using testing::ElementsAre;
using testing::IsEmpty;

class RoleWaitsTest : public testing::Test {
 protected:
  // What the thread of Start does at each of its looks.
  void LookFor(std::chrono::nanoseconds time) {
    for (const auto end = clock_.Now() + time; clock_.Now() < end; clock_.Advance(RoleWaits::kPause)) role_.Poll();
  }

  base::ManualClock clock_;
  base::Waits waits_{clock_};
  RoleWaits role_{waits_, clock_};
};

TEST_F(RoleWaitsTest, ReportsAWaitWithinFourSecondsAndItsEnd) {
  std::vector<std::string> reported;
  role_.Follow([] { return std::vector<std::string>(); }, [&](const std::string& text) { reported.push_back(text); });
  role_.Poll();
  clock_.Advance(milliseconds(1));  // the wait begins just after a look
  std::optional<base::Wait> wait;
  wait.emplace("PostgreSQL", base::WaitKind::kFault, waits_);
  LookFor(RoleWaits::kTimeout);
  EXPECT_THAT(reported, IsEmpty());
  clock_.Advance(milliseconds(499));
  role_.Poll();
  EXPECT_THAT(reported, ElementsAre("PostgreSQL"));
  wait.reset();
  role_.Poll();
  role_.Poll();  // told once
  EXPECT_THAT(reported, ElementsAre("PostgreSQL", ""));
}

TEST_F(RoleWaitsTest, JoinsRpcsWithTheOtherWaitsAndKeepsWorkApart) {
  const base::Wait fault("a disk", base::WaitKind::kFault, waits_), work("batch 3", base::WaitKind::kWork, waits_);
  std::string reported;
  role_.Follow([] { return std::vector<std::string>{"datapool (AppendCall)"}; },
               [&](const std::string& text) { reported = text; });
  clock_.Advance(RoleWaits::kTimeout);
  role_.Poll();
  EXPECT_EQ(role_.Reported().faults, "a disk, datapool (AppendCall)");
  EXPECT_EQ(role_.Reported().work, "batch 3");
  EXPECT_EQ(reported, "a disk, datapool (AppendCall), batch 3");
  role_.Forget();
  role_.Poll();
  EXPECT_EQ(role_.Reported().faults, "a disk");
  EXPECT_EQ(reported, "a disk, datapool (AppendCall), batch 3") << "told after Forget";
}

TEST(ReportedWaitsTest, AreThreeLinesWhateverTheyHold) {
  for (const ReportedWaits& waits : {ReportedWaits{"a", "b"}, ReportedWaits{"", "b"}, ReportedWaits{"a", ""},
                                     ReportedWaits{"", "", "c"}, ReportedWaits{"a", "b", "c"}, ReportedWaits{}}) {
    EXPECT_EQ(ParseWaits(PrintWaits(waits)), waits);
  }
  EXPECT_EQ(ParseWaits(PrintWaits({"a\nb", "c"})).work, "c");
  EXPECT_EQ(ParseWaits(""), ReportedWaits());
  EXPECT_EQ(ParseWaits("there is nothing here"), (ReportedWaits{"there is nothing here", ""}));
}

}  // namespace
}  // namespace ingot::app
