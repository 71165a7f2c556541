// Roles that live and do not answer.
#include "app/cluster/status/unresponsive_roles.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <vector>

#include "http/unix_socket.h"

namespace ingot::app {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using testing::StartsWith;

class UnresponsiveRolesTest : public testing::Test {
 protected:
  UnresponsiveRolesTest() : path_(testing::TempDir() + "role-" + std::to_string(getpid()) + ".sock") {
    std::filesystem::remove(path_);
  }
  ~UnresponsiveRolesTest() override { End(); }

  void Listen() {
    const auto listening = http::ListenUnix(path_);
    ASSERT_TRUE(listening.ok()) << listening.status();
    listening_ = *listening;
  }
  // Answers the question that stands first.
  void Answer(const std::string& text = "x") const {
    const int asked = accept(listening_, nullptr, nullptr);
    ASSERT_EQ(send(asked, text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
    close(asked);
  }
  void AnswerWaits(const ReportedWaits& waits) const { Answer("HTTP/1.1 200 OK\r\nA: b\r\n\r\n" + PrintWaits(waits)); }
  // Looks as the thread of Start does, at its slowest, until a line is told; returns the time on the clock.
  std::chrono::nanoseconds LookUntilTold() {
    const auto began = clock_.Now();
    for (const size_t before = reported_.size(); reported_.size() == before; clock_.Advance(UnresponsiveRoles::kEvery))
      Poll();
    return clock_.Now() - UnresponsiveRoles::kEvery - began;
  }
  void End() {
    if (listening_ >= 0) close(listening_);
    listening_ = -1;
    std::filesystem::remove(path_);
  }
  void Poll() { roles_.Poll(milliseconds(0)); }

  const std::string path_;
  int listening_ = -1;
  base::ManualClock clock_;
  std::vector<std::string> reported_;
  UnresponsiveRoles roles_{[this] { return std::vector<RoleSocket>{{"trainer", path_}}; },
                           [this](const std::string& line) { reported_.push_back(line); }, clock_};
};

TEST_F(UnresponsiveRolesTest, ReportsOfARoleThatGivesNoAnswer) {
  Listen();
  Poll();
  clock_.Advance(UnresponsiveRoles::kTimeout - milliseconds(1));
  Poll();
  EXPECT_THAT(reported_, IsEmpty());
  EXPECT_THAT(roles_.Unresponsive(), IsEmpty());
  clock_.Advance(milliseconds(1));
  Poll();
  Poll();  // told once
  EXPECT_THAT(reported_, ElementsAre(AllOf(StartsWith("trainer has not responded for 5 s: process "),
                                           HasSubstr(std::to_string(getpid())))));
  clock_.Advance(seconds(2));
  const std::vector<RoleStatus> unresponsive = roles_.Unresponsive();
  ASSERT_THAT(unresponsive, SizeIs(1));
  EXPECT_EQ(unresponsive[0].name, "trainer");
  EXPECT_THAT(std::string(unresponsive[0].state.status().message()), StartsWith("no answer for 7 s: process "));
}

// A role that stops at the moment of its last answer, which is up to kEvery before the next question.
TEST_F(UnresponsiveRolesTest, IsToldWithinSixSecondsAndShownWithinTen) {
  for (const auto offset :
       {milliseconds(0), milliseconds(1), UnresponsiveRoles::kEvery / 2, UnresponsiveRoles::kEvery}) {
    Listen();
    Poll();
    Answer();
    Poll();
    clock_.Advance(offset);
    EXPECT_LE(offset + LookUntilTold(), seconds(6)) << offset.count();
    EXPECT_THAT(roles_.Unresponsive(), SizeIs(1));
    End();
    Poll();
  }
  // `ingot status` that was called just before asks the silent role in vain, and looks at the silent ones afterwards.
  constexpr auto kStartOfTheCommand = seconds(1), kRoleAnswersWithin = seconds(3);  // run_status.h
  static_assert(seconds(6) + kRoleAnswersWithin + kStartOfTheCommand <= seconds(10));
}

TEST_F(UnresponsiveRolesTest, ReportsForWhomARoleWaitsOncePerChange) {
  Listen();
  Poll();
  AnswerWaits({"datapool (AppendCall)", "batch 3"});
  Poll();
  EXPECT_THAT(reported_, ElementsAre("trainer waits for datapool (AppendCall)"));
  EXPECT_THAT(roles_.Waits(), ElementsAre(std::pair("trainer", ReportedWaits{"datapool (AppendCall)", "batch 3"})));
  Poll();
  AnswerWaits({"datapool (AppendCall)", "batch 4"});
  Poll();
  EXPECT_THAT(reported_, SizeIs(1)) << "work takes its time in a healthy run";
  Poll();
  AnswerWaits({});
  Poll();
  EXPECT_THAT(reported_, ElementsAre("trainer waits for datapool (AppendCall)", "trainer waits for nothing now"));
  EXPECT_THAT(roles_.Waits(), IsEmpty());
}

TEST_F(UnresponsiveRolesTest, KnowsWhatARoleComputesAndReportsNothingOfIt) {
  Listen();
  Poll();
  const ReportedWaits step{"", "", "step 4 for 35 s: gradient"};
  AnswerWaits(step);
  Poll();
  EXPECT_THAT(roles_.Waits(), ElementsAre(std::pair("trainer", step)));
  EXPECT_THAT(reported_, IsEmpty());
}

TEST_F(UnresponsiveRolesTest, AnUnresponsiveRoleIsShownAsSuchAndNotWithItsLastWaits) {
  Listen();
  Poll();
  AnswerWaits({"datapool", ""});
  Poll();
  Poll();  // asks again
  clock_.Advance(seconds(6));
  Poll();
  EXPECT_THAT(roles_.Unresponsive(), SizeIs(1));
  EXPECT_THAT(roles_.Waits(), IsEmpty());
}

TEST_F(UnresponsiveRolesTest, ReportsWhenItAnswersAgain) {
  Listen();
  Poll();
  clock_.Advance(seconds(9));
  Poll();
  Answer();
  Poll();
  EXPECT_THAT(reported_,
              ElementsAre(StartsWith("trainer has not responded for 9 s"), "trainer responds again, after 9 s"));
  EXPECT_THAT(roles_.Unresponsive(), IsEmpty());
}

TEST_F(UnresponsiveRolesTest, AnswersInTimeAreNotTold) {
  Listen();
  for (int i = 0; i < 20; ++i) {
    Poll();
    Answer();
    Poll();
    clock_.Advance(seconds(4));
  }
  EXPECT_THAT(reported_, IsEmpty());
}

TEST_F(UnresponsiveRolesTest, ARoleThatStartsOrHasEndedIsNotUnresponsive) {
  for (int i = 0; i < 10; ++i, clock_.Advance(seconds(1))) Poll();
  Listen();
  Poll();
  clock_.Advance(seconds(6));
  Poll();
  End();
  Poll();
  for (int i = 0; i < 10; ++i, clock_.Advance(seconds(1))) Poll();
  EXPECT_THAT(reported_, SizeIs(1));
  EXPECT_THAT(roles_.Unresponsive(), IsEmpty());
}

TEST(DescribeProcessTest, ReportsWhatIsWrong) {
  const pid_t child = fork();
  if (child == 0) {
    raise(SIGSTOP);
    _exit(0);
  }
  ASSERT_EQ(waitpid(child, nullptr, WUNTRACED), child);
  EXPECT_THAT(DescribeProcess(child),
              AllOf(HasSubstr("stopped by a signal"), HasSubstr("kill -CONT " + std::to_string(child))));
  kill(child, SIGKILL);
  ASSERT_EQ(waitpid(child, nullptr, 0), child);
  EXPECT_EQ(DescribeProcess(child), "");
}

}  // namespace
}  // namespace ingot::app
