// The progress of commands.
#include "app/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>

namespace ingot::app {
namespace {

std::string Shown(int terminal, const std::function<void(Progress&, base::ManualClock&)>& act) {
  char* text = nullptr;
  size_t size = 0;
  std::FILE* const out = open_memstream(&text, &size);
  {
    base::ManualClock clock;
    Progress progress("report", out, clock, terminal);
    act(progress, clock);
  }
  std::fclose(out);
  std::string shown(text, size);
  std::free(text);
  return shown;
}

TEST(Progress, ShowsNothingOfAShortCommandOrAwayFromATerminal) {
  EXPECT_EQ(Shown(1, [](Progress& progress, base::ManualClock&) { progress.Show("groups", 1, 2); }), "");
  EXPECT_EQ(Shown(0,
                  [](Progress& progress, base::ManualClock& clock) {
                    clock.Advance(std::chrono::seconds(9));
                    progress.Show("groups", 1, 2);
                  }),
            "");
}

TEST(Progress, DrawsOneLineAfterTwoSecondsAndClearsIt) {
  const std::string shown = Shown(1, [](Progress& progress, base::ManualClock& clock) {
    clock.Advance(std::chrono::seconds(2));
    progress.Show("groups\x1b[2J", 1, 2);
    progress.Show("groups", 2, 2);  // within a tenth of a second
  });
  EXPECT_EQ(shown, "\r\033[Kreport ━━━━━━━━━━╌╌╌╌╌╌╌╌╌╌ 1/2 groups\\x1b[2J\r\033[K");
}

TEST(FormatProgress, LeavesTheBarOutWithoutATotal) {
  EXPECT_EQ(FormatProgress("eval", "reading", 0, 0), "eval reading");
}

}  // namespace
}  // namespace ingot::app
