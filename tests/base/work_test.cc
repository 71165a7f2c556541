// Tests the work of a process with a manual clock.
#include "base/work.h"

#include <gtest/gtest.h>

#include <memory>
#include <thread>

namespace ingot::base {
namespace {

using std::chrono::seconds;

TEST(Work, IsDescribedWithItsPartsAndTheRowsOfTheInnermost) {
  ManualClock clock;
  Work work(clock);
  EXPECT_EQ(work.Describe(), "");
  EXPECT_EQ(work.Lasts(), seconds(0));
  const WorkPart step("step 4", {}, work);
  EXPECT_EQ(work.Describe(), "step 4 for 0 s");
  clock.Advance(seconds(30));
  const WorkPart pass("gradient", {}, work);
  auto part = std::make_unique<WorkPart>("backward of part 2 of 7", WorkAmount{1024, 4096, "rows"}, work);
  part->Advance(512);
  clock.Advance(seconds(5));
  EXPECT_EQ(work.Describe(), "step 4 for 35 s: gradient, backward of part 2 of 7, 1536 of 4096 rows");
  EXPECT_EQ(work.Lasts(), seconds(35));
  part.reset();
  EXPECT_EQ(work.Describe(), "step 4 for 35 s: gradient");
}

TEST(Work, AnAmountIsShownWithoutParts) {
  ManualClock clock;
  Work work(clock);
  WorkPart reading("reading batch 4", {.total = 8, .unit = "groups"}, work);
  reading.Advance(3);
  EXPECT_EQ(work.Describe(), "reading batch 4 for 0 s: 3 of 8 groups");
}

TEST(Work, EndsWithItsOwnPartAndBeginsAnew) {
  ManualClock clock;
  Work work(clock);
  {
    const WorkPart step("step 4", {}, work);
  }
  EXPECT_EQ(work.Describe(), "");
  clock.Advance(seconds(9));
  const WorkPart step("step 5", {}, work);
  EXPECT_EQ(work.Describe(), "step 5 for 0 s");
}

TEST(Work, OfAnotherThreadIsNotAPartOfTheFirst) {
  ManualClock clock;
  Work work(clock);
  auto step = std::make_unique<WorkPart>("step 4", WorkAmount(), work);
  std::thread([&] {
    const WorkPart other("writing checkpoint 4", {}, work);
    EXPECT_EQ(work.Describe(), "step 4 for 0 s");
    step.reset();
    EXPECT_EQ(work.Describe(), "writing checkpoint 4 for 0 s");
  }).join();
  EXPECT_EQ(work.Describe(), "");
}

}  // namespace
}  // namespace ingot::base
