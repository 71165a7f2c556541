// The progress of commands.
#include "app/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>
#include <sstream>
#include <thread>

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

// What a job of about `ms` leaves on its terminal.
std::string ShownOfAJob(int ms, int terminal) {
  char* text = nullptr;
  size_t size = 0;
  std::FILE* const out = open_memstream(&text, &size);
  {
    const Underway loading("loading m\x1b", out, terminal, std::chrono::milliseconds(20), std::chrono::milliseconds(5));
    std::this_thread::sleep_for(std::chrono::milliseconds(ms));
  }
  std::fclose(out);
  std::string shown(text, size);
  std::free(text);
  return shown;
}

TEST(Underway, ShowsALongJobAndClearsItsLine) {
  const std::string shown = ShownOfAJob(200, 1);
  EXPECT_THAT(shown, ::testing::StartsWith("\r\033[Kloading m\\x1b  0 s\r\033[Kloading m"));
  EXPECT_THAT(shown, ::testing::EndsWith("s\r\033[K"));
  EXPECT_EQ(ShownOfAJob(200, 0), "") << "no terminal";
  EXPECT_EQ(ShownOfAJob(0, 1), "") << "a short job";
}

TEST(Between, PrintsTheLinesOfAJobUnchanged) {
  std::ostringstream out;
  Between lines("bench tree");
  lines.Print(out, "one");
  lines.Print(out, "two");
  EXPECT_EQ(out.str(), "one\ntwo\n");
}

TEST(FormatProgress, LeavesTheBarOutWithoutATotal) {
  EXPECT_EQ(FormatProgress("eval", "reading", 0, 0), "eval reading");
}

}  // namespace
}  // namespace ingot::app
