// The progress of commands.
#include "app/terminal/progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <unistd.h>

#include <array>
#include <chrono>
#include <cstdlib>
#include <sstream>

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
  EXPECT_EQ(shown, "\r\033[Kreport ━━━━━━━━━━╌╌╌╌╌╌╌╌╌╌ 1/2 groups\\x1b[2J  2 s\r\033[K");
}

// The next bytes that come through a pipe.
std::string NextOf(int pipe) {
  std::string text(4096, '\0');
  pollfd ready{pipe, POLLIN, 0};
  const ssize_t size = poll(&ready, 1, 10'000) == 1 ? read(pipe, text.data(), text.size()) : 0;
  return text.substr(0, static_cast<size_t>(std::max<ssize_t>(size, 0)));
}

TEST(Progress, ShowsAStepThatBlocksAndItsSeconds) {
  std::array<int, 2> ends{};
  ASSERT_EQ(pipe(ends.data()), 0);
  std::FILE* const out = fdopen(ends[1], "w");
  {
    base::ManualClock clock;
    Progress progress("report", out, clock, /*terminal=*/1);
    progress.Show("reading the run");
    clock.AwaitWaiters(1);
    clock.Advance(std::chrono::seconds(2));
    EXPECT_EQ(NextOf(ends[0]), "\r\033[Kreport reading the run  2 s");
    clock.AwaitWaiters(1);
    clock.Advance(std::chrono::seconds(1));
    EXPECT_EQ(NextOf(ends[0]), "\r\033[Kreport reading the run  3 s");
    progress.Clear();
    EXPECT_EQ(NextOf(ends[0]), "\r\033[K");
    clock.Advance(std::chrono::seconds(9));  // the caller prints: nothing is drawn into it
  }
  std::fclose(out);
  EXPECT_EQ(NextOf(ends[0]), "");
  close(ends[0]);
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
  EXPECT_EQ(FormatProgress("", "loading", 0, 0), "loading");
}

}  // namespace
}  // namespace ingot::app
