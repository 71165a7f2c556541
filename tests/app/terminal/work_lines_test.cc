// Tests lines about long-running work with a manual clock.
#include "app/terminal/work_lines.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <optional>
#include <string>

namespace ingot::app {
namespace {

using std::chrono::seconds;

class WorkLinesTest : public testing::Test {
 protected:
  ~WorkLinesTest() override {
    line_.reset();
    std::fclose(out_);
    std::free(text_);
  }
  // Calls Poll for `time` and returns the lines printed since the last call.
  std::string LookFor(std::chrono::nanoseconds time) {
    for (const auto end = clock_.Now() + time; clock_.Now() < end;) {
      clock_.Advance(WorkLines::kPause);
      lines_.Poll();
    }
    std::fflush(out_);
    const size_t from = std::exchange(read_, size_);
    return std::string(text_ + from, size_ - from);
  }

  char* text_ = nullptr;
  size_t size_ = 0, read_ = 0;
  std::FILE* const out_ = open_memstream(&text_, &size_);
  base::ManualClock clock_;
  base::Work work_{clock_};
  std::optional<StepLine> line_{std::in_place, out_, "run", 4, clock_};
  WorkLines lines_{*line_, work_, clock_};
};

TEST_F(WorkLinesTest, SayEveryTenSecondsWhatRunsAndHowFarItIs) {
  EXPECT_EQ(LookFor(seconds(60)), "") << "nothing runs";
  const base::WorkPart step("step 0", {}, work_), pass("gradient", {}, work_);
  base::WorkPart part("backward of part 2 of 7", {.total = 4096, .unit = "rows"}, work_);
  EXPECT_EQ(LookFor(seconds(9)), "");
  part.Advance(128);
  EXPECT_EQ(LookFor(seconds(1)), "step 0 for 10 s: gradient, backward of part 2 of 7, 128 of 4096 rows\n");
  part.Advance(128);
  EXPECT_EQ(LookFor(seconds(10)), "step 0 for 20 s: gradient, backward of part 2 of 7, 256 of 4096 rows\n");
}

TEST_F(WorkLinesTest, AStepOfMinutesNeverLeavesAnEarlierWaitAsTheLastLine) {
  line_->Note("waiting for batch 0 for 160 s: 2 episodes running");
  LookFor(seconds(1));
  const base::WorkPart step("step 0", {}, work_);
  for (int i = 0; i < 50; ++i) EXPECT_TRUE(LookFor(seconds(10)).starts_with("step 0 for ")) << i;
}

TEST_F(WorkLinesTest, ShortWorkHasNoLine) {
  for (int step = 0; step < 5; ++step) {
    const base::WorkPart part("step", {}, work_);
    EXPECT_EQ(LookFor(seconds(9)), "");
  }
}

}  // namespace
}  // namespace ingot::app
