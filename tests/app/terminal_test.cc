#include "app/terminal.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <string>

#include "base/hostile_text.h"
#include "base/printable.h"

namespace ingot::app {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

TEST(StepLine, PrintsKnownMetrics) {
  const std::string line = FormatStep("run", 1, 4,
                                      {{"reward/mean", 0.25},
                                       {"tree/speedup", 3.08},
                                       {"tree/speedup_bound", 3.9},
                                       {"perf/of_bound", 0.79},
                                       {"trainer/idle_ratio", 0.5},
                                       {"rollout/idle_ratio", 0.125},
                                       {"mismatch/logprob_abs_diff_max", 0.0}},
                                      61);
  EXPECT_THAT(line, HasSubstr("  2/4  reward 0.250 "));
  EXPECT_THAT(line, HasSubstr("tree 3.1x of 3.9x (79%)  "));
  EXPECT_THAT(line, HasSubstr("idle train 50% roll 12%  mismatch 0.0e+00  eta 1m01s"));
}

TEST(StepLine, PrintsADashForUnknownMetrics) {
  const std::string line = FormatStep("run", 0, 4, {{"reward/mean", std::nan("")}}, std::nan(""));
  EXPECT_THAT(line, HasSubstr("reward - "));
  EXPECT_THAT(line, HasSubstr("tree - of - (-)  idle train - roll -  mismatch -  eta -"));
  EXPECT_THAT(line, Not(HasSubstr("nan")));
}

TEST(StepLine, NotesAreOneLineWhateverTheySay) {
  for (const std::string& name : base::HostileTexts()) {
    char* text = nullptr;
    size_t size = 0;
    std::FILE* const out = open_memstream(&text, &size);
    StepLine(out, "run", 4).Note("the last failure: " + name);
    std::fclose(out);
    std::string printed(text, size);
    std::free(text);
    ASSERT_TRUE(printed.ends_with('\n'));
    printed.pop_back();
    EXPECT_TRUE(base::IsPrintable(printed)) << printed;
  }
}

}  // namespace
}  // namespace ingot::app
