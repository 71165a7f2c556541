#include "app/terminal/terminal.h"

#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <functional>
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

TEST(StepLine, PrintsTheFiguresThatItIsGiven) {
  const std::string line = FormatStep("run", 1, 4, {{"reward/mean", 0}, {"reward/outcome", 0.26}, {"kl", 1.5}}, 61,
                                      {{"outcome", "reward/outcome"}, {"reverse KL", "kl"}});
  EXPECT_THAT(line, HasSubstr("  2/4  outcome 0.260  reverse KL 1.500  stale "));
  EXPECT_THAT(line, Not(HasSubstr("reward")));
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

TEST(Stage, SaysStepFigureRateAndTheTimeThatRemains) {
  EXPECT_EQ(FormatStage("supervised", 120, 480, "nll 1.2345", 100, 50),
            "supervised  120/480  nll 1.2345  2 steps/s  remaining 3m00s");
  EXPECT_EQ(FormatStage("supervised", 1, 480, "nll -", 0, 0), "supervised    1/480  nll -  - steps/s  remaining -");
  EXPECT_EQ(FormatStage("supervised", 1, 480, "nll -", 0, 0.01), "supervised    1/480  nll -  - steps/s  remaining -");
}

constexpr char kEnd[] = "<end>";  // written behind the bytes of a terminal

// The bytes that `use` makes a StepLine print into a file, or into a terminal of 40 columns. `term`,
// `no_colour`: the environment's TERM and NO_COLOR.
std::string Printed(bool terminal, const base::Clock& clock, const std::function<void(StepLine&)>& use,
                    const std::string& term = "xterm", const std::string& no_colour = "") {
  setenv("TERM", term.c_str(), 1);
  setenv("NO_COLOR", no_colour.c_str(), 1);
  const int master = terminal ? posix_openpt(O_RDWR | O_NOCTTY) : -1;
  EXPECT_TRUE(!terminal || (master >= 0 && grantpt(master) == 0 && unlockpt(master) == 0));
  std::FILE* const out = terminal ? std::fopen(ptsname(master), "w") : std::tmpfile();
  const winsize size{.ws_row = 24, .ws_col = 40, .ws_xpixel = 0, .ws_ypixel = 0};
  EXPECT_TRUE(!terminal || ioctl(fileno(out), TIOCSWINSZ, &size) == 0);
  {
    StepLine line(out, "run", 4, clock);
    use(line);
  }
  if (terminal) std::fputs(kEnd, out);
  std::fflush(out);
  std::string text;
  if (terminal) {
    // The kernel hands the bytes over piece by piece.
    pollfd ready{master, POLLIN, 0};
    for (char piece[4096]; !text.ends_with(kEnd) && poll(&ready, 1, 10'000) == 1;) {
      const ssize_t size = read(master, piece, sizeof(piece));
      if (size <= 0) break;
      text.append(piece, static_cast<size_t>(size));
    }
    EXPECT_TRUE(text.ends_with(kEnd)) << text;
    text.resize(text.size() - std::min(text.size(), std::string_view(kEnd).size()));
  } else {
    std::rewind(out);
    text.resize(65536);
    text.resize(std::fread(text.data(), 1, text.size(), out));
  }
  std::fclose(out);
  if (terminal) close(master);
  return text;
}

TEST(Progress, OnATerminalIsOneLineThatTheNextLineReplaces) {
  const std::string text = Printed(true, base::Clock::Real(), [](StepLine& line) {
    line.Progress("1 of 3");
    line.Progress("2 of 3");
    line.Note("done");
    line.Progress("again");
  });
  EXPECT_EQ(text, "\r\033[K1 of 3\r\033[K2 of 3\r\033[K\033[1mdone\033[0m\r\n\r\033[Kagain\r\n");
}

TEST(Working, OnATerminalIsReplacedAndElsewhereIsALineOfItsOwn) {
  const auto use = [](StepLine& line) {
    line.Working([] { return "step 0 for 10 s"; });
    line.Working([] { return ""; });
    line.Working([] { return "step 0 for 20 s"; });
    line.Note("done");
  };
  EXPECT_EQ(Printed(true, base::Clock::Real(), use),
            "\r\033[Kstep 0 for 10 s\r\033[Kstep 0 for 20 s\r\033[K\033[1mdone\033[0m\r\n");
  EXPECT_EQ(Printed(false, base::Clock::Real(), use), "step 0 for 10 s\nstep 0 for 20 s\ndone\n");
}

TEST(Progress, OnATerminalIsNoLongerThanItsWidth) {
  std::string bar;
  for (int i = 0; i < 50; ++i) bar += "━";
  const auto show = [&bar](StepLine& line) { line.Progress(bar); };
  EXPECT_EQ(Printed(true, base::Clock::Real(), show), "\r\033[K" + bar.substr(0, 39 * 3) + "\r\n");
}

TEST(CutTo, EndsAfterAWholeLetterThatHasRoom) {
  EXPECT_EQ(CutTo("a━é", 0), "");
  EXPECT_EQ(CutTo("a━é", 2), "a━");
  EXPECT_EQ(CutTo("a━é", 3), "a━é");
  EXPECT_EQ(CutTo("中文", 3), "中") << "each takes two columns";
  EXPECT_EQ(CutTo("😀x", 2), "😀");
}

TEST(Row, KeepsItsTail) {
  std::FILE* const file = std::tmpfile();  // 80 columns
  EXPECT_EQ(Row(file, std::string(100, 'x'), "  12 s"), std::string(73, 'x') + "  12 s");
  EXPECT_EQ(Row(file, "reading", "  12 s"), "reading  12 s");
  std::fclose(file);
}

TEST(StepLine, HasNoColourWhereTheReaderWantsNone) {
  const auto use = [](StepLine& line) {
    line.Progress("1 of 3");
    line.Note("done");
  };
  EXPECT_EQ(Printed(true, base::Clock::Real(), use, "xterm", "1"), "\r\033[K1 of 3\r\033[Kdone\r\n");
  EXPECT_EQ(Printed(true, base::Clock::Real(), use, "dumb"), "done\r\n") << "a dumb terminal takes no codes";
}

TEST(Progress, ElsewhereIsALineEverySoOften) {
  base::ManualClock clock;
  const std::string text = Printed(false, clock, [&clock](StepLine& line) {
    for (int i = 0; i <= 60; ++i) {
      line.Progress("after " + std::to_string(i) + " s");
      clock.Advance(std::chrono::seconds(1));
    }
  });
  EXPECT_EQ(text, "after 30 s\nafter 60 s\n");
}

}  // namespace
}  // namespace ingot::app
