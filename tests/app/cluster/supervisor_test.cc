#include "app/cluster/supervisor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <utility>

namespace ingot::app {
namespace {

using std::chrono::milliseconds;
using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;

// Roles are shell commands; $AGAIN is "again" in a restarted process.
class Supervised : public ::testing::Test {
 protected:
  RoleSpec Role(const std::string& name, const std::string& command, const std::string& group = "") const {
    RoleSpec spec;
    spec.name = name;
    spec.argv = {"sh", "-c", "AGAIN=$1; " + command, "sh"};
    spec.restart_extra = {"again"};
    spec.log_path = folder_ + "/" + name + ".log";
    spec.group = group;
    spec.decides = name == "leader";
    spec.may_finish = name == "follower" || name == "stopped";
    return spec;
  }
  // The commands of a group that goes on without a member; $INDEX of $SIZE.
  RoleSpec Member(const std::string& name, const std::string& command, int index, int size = 3) const {
    RoleSpec spec = Role(name, absl::StrCat("INDEX=", index, "; SIZE=", size, "; ", command), "ranks");
    spec.decides = index == 0;
    spec.renumbered = [this, name, command](int to, int of) { return Member(name, command, to, of); };
    return spec;
  }
  absl::StatusOr<int> Run(const std::vector<RoleSpec>& roles, int max_restarts = 2, int min_members = 1) {
    SupervisorOptions options;
    options.max_restarts = max_restarts;
    options.min_members = min_members;
    options.restart_delay = milliseconds(10);
    options.group_grace = milliseconds(1000);
    options.forget_after = forget_after_;
    Supervisor supervisor(options);
    for (const RoleSpec& role : roles) EXPECT_TRUE(supervisor.Start(role).ok());
    return supervisor.Run([] { return false; }, [this](const std::string& line) { said_ += line + "\n"; });
  }
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "/ingot_supervisor_XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
  }
  void TearDown() override { std::filesystem::remove_all(folder_); }

  std::string folder_, said_;
  milliseconds forget_after_ = std::chrono::hours(1);
};

// A process that waits to be stopped; `exec`, so that the signal reaches the process that waits.
constexpr char kWaits[] = "exec tail -f /dev/null";

TEST_F(Supervised, StopGraceIsPerRole) {
  RoleSpec saves = Role("saves", "trap 'sleep 0.5; echo saved > " + folder_ + "/saved; exit 0' TERM; touch " + folder_ +
                                     "/up1; while :; do sleep 0.02; done");
  RoleSpec hangs = Role("hangs", "trap '' TERM; touch " + folder_ + "/up2; while :; do sleep 0.02; done");
  saves.stop_grace = std::chrono::seconds(60);
  hangs.stop_grace = milliseconds(10);
  const std::string both = "while [ ! -e " + folder_ + "/up1 ] || [ ! -e " + folder_ + "/up2 ]; do sleep 0.02; done";
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(*Run({saves, hangs, Role("leader", both + "; exit 0")}), 0);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(30));
  EXPECT_TRUE(std::ifstream(folder_ + "/saved").good());
}

TEST_F(Supervised, ARolesOwnErrorIsNamed) {
  EXPECT_EQ(*Run({Role("leader", "echo 'ingot: first' >&2; echo 'ingot: the run is given up' >&2; echo more; exit 3")}),
            3);
  EXPECT_EQ(said_, "the run ended: leader exited with 3: the run is given up; see " + folder_ + "/leader.log\n");
}

TEST_F(Supervised, ARestartedRoleIsGivenItsInputAgainAndNobodyElseIs) {
  // Nobody can open the socket a second time, as they could a pipe.
  RoleSpec reported =
      Role("leader",
           "cat </proc/self/fd/0 && exit 5; [ \"$(cat)\" = sec''ret-input ] && [ -n \"$PATH\" ] || exit 4; "
           "[ -n \"$AGAIN\" ] || kill -9 $$");
  reported.input = "secret-input";
  const std::string looks =
      "[ -z \"$(cat)\" ] && ! grep -aq 'secre[t]-input' /proc/[0-9]*/environ /proc/[0-9]*/cmdline || touch ";
  EXPECT_EQ(*Run({reported, Role("other", looks + folder_ + "/leaked; " + kWaits)}), 0);
  EXPECT_FALSE(std::ifstream(folder_ + "/leaked").good());
}

TEST_F(Supervised, ARoleThatItsConfigurationDoesNotAllowIsNotRestarted) {
  const std::string rejected = "echo x >> " + folder_ + "/starts; echo 'ingot: no TLS' >&2; exit 2";
  EXPECT_TRUE(absl::IsAborted(Run({Role("other", rejected), Role("leader", kWaits)}).status()));
  EXPECT_THAT(said_, HasSubstr("other exited with 2: no TLS; see " + folder_ +
                               "/other.log; it is not restarted, because it would fail the same way"));
  std::ifstream starts(folder_ + "/starts");
  EXPECT_EQ(std::count(std::istreambuf_iterator<char>(starts), {}, 'x'), 1);
}

TEST_F(Supervised, AnErrorWhileThereIsAnObstacleIsNoCrash) {
  const std::string gone = folder_ + "/gone";
  SupervisorOptions options;
  options.max_restarts = 0;
  options.restart_delay = milliseconds(1);
  int asked = 0;
  std::vector<std::string> waits;
  options.obstacle = [&]() -> std::string {
    if (++asked == 5) waits = base::Waits::OfProcess().Longer(milliseconds(0), base::WaitKind::kFault);
    if (asked > 5) std::ofstream(gone) << "x";
    return asked > 5 ? "" : "the disk is full";
  };
  Supervisor supervisor(options);
  ASSERT_TRUE(
      supervisor.Start(Role("other", "[ -e " + gone + " ] || exit 3; touch " + folder_ + "/done; " + kWaits)).ok());
  ASSERT_TRUE(supervisor.Start(Role("leader", "while [ ! -e " + folder_ + "/done ]; do sleep 0.02; done")).ok());
  EXPECT_EQ(*supervisor.Run([] { return false; }, [this](const std::string& line) { said_ += line + "\n"; }), 0);
  EXPECT_THAT(said_, HasSubstr("other exited with 3"));
  EXPECT_THAT(said_, HasSubstr("other will restart once it can succeed: the disk is full\n"));
  EXPECT_THAT(said_, HasSubstr("nothing blocks other now\n"));
  EXPECT_THAT(said_, HasSubstr("other started again (0 of 0)\n"));
  EXPECT_THAT(waits, ElementsAre("the start of other: the disk is full"));
}

TEST_F(Supervised, AGroupWaitsForTheEndOfAnObstacleTogether) {
  const std::string gone = folder_ + "/gone";
  SupervisorOptions options;
  options.max_restarts = 0;
  options.restart_delay = milliseconds(1);
  options.group_grace = milliseconds(1000);
  int asked = 0;
  options.obstacle = [&]() -> std::string {
    if (++asked > 5) std::ofstream(gone) << "x";
    return asked > 5 ? "" : "the disk is full";
  };
  Supervisor supervisor(options);
  const std::string started = "echo x >> " + folder_ + "/starts; ";
  ASSERT_TRUE(supervisor.Start(Role("leader", started + "[ -e " + gone + " ] || exit 2", "ranks")).ok());
  ASSERT_TRUE(supervisor.Start(Role("follower", started + "[ -e " + gone + " ] || exit 75", "ranks")).ok());
  EXPECT_EQ(*supervisor.Run([] { return false; }, [this](const std::string& line) { said_ += line + "\n"; }), 0);
  EXPECT_THAT(said_, HasSubstr("they are started again together once they can succeed: the disk is full\n"));
  std::ifstream starts(folder_ + "/starts");
  EXPECT_EQ(std::count(std::istreambuf_iterator<char>(starts), {}, 'x'), 4) << said_;
}

TEST_F(Supervised, ToldToStopSaysWhomItKills) {
  RoleSpec hangs = Role("hangs", "trap '' TERM; touch " + folder_ + "/up; while :; do sleep 0.02; done");
  hangs.stop_grace = milliseconds(10);
  EXPECT_EQ(*Run({hangs, Role("leader", "while [ ! -e " + folder_ + "/up ]; do sleep 0.02; done")}), 0);
  EXPECT_THAT(said_, HasSubstr("hangs did not exit within 10 ms after the signal to stop, and is killed\n"));
}

TEST_F(Supervised, ARoleThatCannotStartIsNamed) {
  Supervisor supervisor({});
  RoleSpec role = Role("other", kWaits);
  role.argv = {"/no/such/program"};
  EXPECT_THAT(std::string(supervisor.Start(role).message()),
              AllOf(HasSubstr("cannot start role other"), HasSubstr("/no/such/program")));
  role = Role("other", kWaits);
  role.log_path = folder_ + "/no/such/folder/other.log";
  EXPECT_THAT(std::string(supervisor.Start(role).message()),
              AllOf(HasSubstr("cannot start role other"), HasSubstr(role.log_path)));
}

TEST_F(Supervised, AStartThatFailsIsTriedAgainAndCountsForNoCrash) {
  // Without the folder of its log no process can be started.
  const std::string logs = folder_ + "/logs";
  std::filesystem::create_directory(logs);
  RoleSpec other = Role(
      "other", "[ -n \"$AGAIN\" ] && touch " + folder_ + "/done && " + kWaits + "; rm -r " + logs + "; kill -9 $$");
  other.log_path = logs + "/other.log";
  SupervisorOptions options;
  options.max_restarts = 2;
  options.restart_delay = milliseconds(5);
  Supervisor supervisor(options);
  ASSERT_TRUE(supervisor.Start(other).ok());
  ASSERT_TRUE(supervisor.Start(Role("leader", "until [ -e " + folder_ + "/done ]; do sleep 0.02; done")).ok());
  const auto code = supervisor.Run([] { return false; },
                                   [&](const std::string& line) {
                                     said_ += line + "\n";
                                     if (line.ends_with("retrying in 20 ms")) std::filesystem::create_directory(logs);
                                   });
  ASSERT_TRUE(code.ok()) << code.status();
  EXPECT_EQ(*code, 0);
  EXPECT_THAT(said_, HasSubstr("cannot start role other: cannot open " + other.log_path));
  EXPECT_THAT(said_, HasSubstr("; retrying in 10 ms\n"));
  EXPECT_THAT(said_, HasSubstr("other started again (1 of 2)\n"));
}

TEST_F(Supervised, ARoleThatNeverStartsAgainEndsTheRun) {
  RoleSpec other = Role("other", "rm -r " + folder_ + "/logs; kill -9 $$");
  std::filesystem::create_directory(folder_ + "/logs");
  other.log_path = folder_ + "/logs/other.log";
  const auto code = Run({other, Role("leader", kWaits)});
  EXPECT_TRUE(absl::IsAborted(code.status())) << code.status();
  EXPECT_THAT(std::string(code.status().message()), HasSubstr("; gave up after 2 more tries"));
}

TEST_F(Supervised, AnArrivalThatCannotStartComesLater) {
  const std::string logs = folder_ + "/logs";
  bool arrived = false;
  SupervisorOptions options;
  options.restart_delay = milliseconds(5);
  options.arrivals = [&] {
    std::vector<RoleSpec> specs;
    if (std::exchange(arrived, true)) return specs;
    specs.push_back(Role("late", "[ -z \"$AGAIN\" ] || exit 3; touch " + folder_ + "/late; " + kWaits));
    specs.back().log_path = logs + "/late.log";
    return specs;
  };
  Supervisor supervisor(options);
  ASSERT_TRUE(supervisor.Start(Role("leader", "until [ -e " + folder_ + "/late ]; do sleep 0.02; done")).ok());
  const auto code = supervisor.Run([] { return false; },
                                   [&](const std::string& line) {
                                     said_ += line + "\n";
                                     if (line.ends_with(" ms")) std::filesystem::create_directory(logs);
                                   });
  ASSERT_TRUE(code.ok()) << code.status();
  EXPECT_THAT(said_, HasSubstr("cannot start role late"));
  EXPECT_THAT(said_, HasSubstr("late started\n")) << "without the arguments of a later start";
}

TEST_F(Supervised, RolesArriveWhileOthersRunAndTheirStatesAreTold) {
  std::vector<std::vector<RoleState>> reported;
  bool arrived = false;
  SupervisorOptions options;
  options.restart_delay = milliseconds(10);
  options.on_states = [&](const std::vector<RoleState>& states) { reported.push_back(states); };
  options.arrivals = [&] {
    std::vector<RoleSpec> specs;
    if (!std::exchange(arrived, true)) {
      specs.push_back(Role("late", "[ -n \"$AGAIN\" ] || exit 3; touch " + folder_ + "/late; " + kWaits));
    }
    return specs;
  };
  Supervisor supervisor(options);
  ASSERT_TRUE(supervisor.Start(Role("leader", "while [ ! -e " + folder_ + "/late ]; do sleep 0.02; done")).ok());
  EXPECT_EQ(*supervisor.Run([] { return false; }, [this](const std::string& line) { said_ += line + "\n"; }), 0);
  EXPECT_THAT(said_, HasSubstr("late is started here\n"));
  const auto last = [&](const RoleState& state) {
    return state.name == "late" && state.restarts == 1 && state.pid > 0;
  };
  EXPECT_TRUE(std::any_of(reported.back().begin(), reported.back().end(), last))
      << "the second start of the role that came late";
}

TEST_F(Supervised, TheDecidingRolesExitIsTheRuns) {
  const auto code = Run({Role("leader", "exit 3"), Role("other", kWaits)});
  ASSERT_TRUE(code.ok()) << code.status();
  EXPECT_EQ(*code, 3);
}

TEST_F(Supervised, TheLastLineSaysWhyTheRunEnded) {
  const std::string log = "; see " + folder_ + "/";
  ASSERT_TRUE(Run({Role("leader", "exit 3"), Role("other", kWaits)}).ok());
  EXPECT_EQ(said_, "the run ended: leader exited with 3" + log + "leader.log\n");

  said_.clear();
  ASSERT_FALSE(Run({Role("leader", kWaits), Role("other", "kill -9 $$")}, /*max_restarts=*/0).ok());
  EXPECT_THAT(
      said_, EndsWith("\nthe run ended: other was killed by signal 9" + log + "other.log; gave up after 0 restarts\n"));
}

TEST_F(Supervised, ACrashedRoleIsRestartedAlone) {
  const std::string seen = folder_ + "/seen";
  const auto code = Run({Role("leader", "until test -e " + seen + "; do :; done"),
                         Role("other", "test -n \"$AGAIN\" && touch " + seen + " && " + kWaits + "; kill -9 $$")});
  ASSERT_TRUE(code.ok()) << code.status();
  EXPECT_THAT(said_, HasSubstr("other was killed by signal 9"));
  EXPECT_THAT(said_, HasSubstr("other started again (1 of 2)"));
  EXPECT_THAT(said_, Not(HasSubstr("leader started again")));
}

TEST_F(Supervised, ARoleEndedByAForeignSignalIsRestarted) {
  // 143: it ended in order. This holds for the deciding role too, whose other exit codes are the run's.
  const std::string seen = folder_ + "/seen";
  const std::string again = "test -n \"$AGAIN\" || exit 143; ";
  const auto code = Run({Role("leader", again + "until test -e " + seen + "; do :; done; exit 3"),
                         Role("other", again + "touch " + seen + "; " + kWaits)});
  ASSERT_TRUE(code.ok()) << code.status();
  EXPECT_EQ(*code, 3);
  for (const char* role : {"leader", "other"}) {
    EXPECT_THAT(said_, HasSubstr(absl::StrCat(role, " was ended by a signal from another process; see ")));
    EXPECT_THAT(said_, HasSubstr(absl::StrCat(role, " started again (1 of 2)")));
  }
}

TEST_F(Supervised, ARoleWhoseDeviceFailedIsRestartedAsIfKilled) {
  // 76: this holds for the deciding role too, up to its last restart.
  const std::string failed = "echo 'ingot: an ECC error' >&2; exit 76";
  auto code = Run({Role("leader", "test -n \"$AGAIN\" && exit 3; " + failed)}, 1);
  ASSERT_TRUE(code.ok()) << code.status();
  EXPECT_EQ(*code, 3);
  EXPECT_THAT(said_, HasSubstr("leader exited with 76: an ECC error; see "));
  code = Run({Role("leader", failed)}, 1);
  EXPECT_TRUE(absl::IsAborted(code.status())) << code.status();
  EXPECT_THAT(said_, HasSubstr("leader.log; gave up after 1 restarts"));
}

TEST_F(Supervised, ADeviceThatFailedRestartsTheGroupAndCountsForItsMember) {
  const auto code = Run({Member("a", "test $SIZE = 1 && exit 5; exit 75", 0, 2), Member("b", "exit 76", 1, 2)}, 1);
  ASSERT_TRUE(code.ok()) << code.status();
  EXPECT_EQ(*code, 5);
  EXPECT_THAT(said_, HasSubstr("gave up b after 1 restarts"));
}

TEST_F(Supervised, ExitCode0CompletesOnlyARoleThatMayFinish) {
  const std::string seen = folder_ + "/seen";
  const auto code =
      Run({Role("leader", "until test -e " + seen + "; do :; done"),
           Role("other", "test -n \"$AGAIN\" && touch " + seen + " && " + kWaits + "; exit 0"), Role("follower", "")});
  ASSERT_TRUE(code.ok()) << code.status();
  EXPECT_THAT(said_, HasSubstr("other exited with 0"));
  EXPECT_THAT(said_, HasSubstr("other started again (1 of 2)"));
  EXPECT_THAT(said_, HasSubstr("follower is done"));
}

TEST_F(Supervised, AForeignSignalRestartsTheGroupAndCountsForItsMember) {
  const auto code = Run({Member("a", "test $SIZE = 1 && exit 5; exit 75", 0, 2), Member("b", "exit 143", 1, 2)}, 1);
  ASSERT_TRUE(code.ok()) << code.status();
  EXPECT_EQ(*code, 5);
  EXPECT_THAT(said_, HasSubstr("gave up b after 1 restarts"));
}

TEST_F(Supervised, RolesStopAfterTheRolesThatNeedThem) {
  const std::string order = folder_ + "/order", up = folder_ + "/up";
  const auto server = [&](const std::string& name, int wave, const std::string& last) {
    RoleSpec spec = Role(name, "trap '" + last + "echo " + name + " >> " + order + "; exit 0' TERM; echo >> " + up +
                                   "; while :; do sleep 0.01; done");
    spec.wave = wave;
    return spec;
  };
  const std::string all_up = "until test -e " + up + " && test $(wc -l < " + up + ") -ge 4; do :; done";
  const std::string slow = "i=0; while test $i -lt 50000; do i=$((i+1)); done; ";
  const std::string last_agent = "until grep -sq another " + order + "; do sleep 0.01; done; " + slow;
  ASSERT_TRUE(Run({server("pool", 2, ""), server("gateway", 1, slow), server("one agent", 0, last_agent),
                   server("another agent", 0, ""), Role("leader", all_up)})
                  .ok());
  std::ifstream file(order);
  std::vector<std::string> ended;
  for (std::string line; std::getline(file, line);) ended.push_back(line);
  EXPECT_THAT(ended, ElementsAre("another agent", "one agent", "gateway", "pool"));
}

TEST_F(Supervised, OldCrashesDoNotCount) {
  forget_after_ = milliseconds(1);
  const std::string count = folder_ + "/count";
  const auto code =
      Run({Role("leader", "until test -e " + count + " && test $(wc -l < " + count + ") -ge 5; do :; done"),
           Role("other", "echo >> " + count + "; sleep 0.01; kill -9 $$")},
          /*max_restarts=*/1);
  ASSERT_TRUE(code.ok()) << code.status();
  EXPECT_EQ(*code, 0);
}

TEST_F(Supervised, ACrashRestartsTheWholeGroup) {
  // The leader exits because it saw the crash; the third member hangs and is killed.
  const auto code = Run({Role("leader", "test -n \"$AGAIN\" && exit 0; exit 75", "ranks"),
                         Role("follower", std::string("test -n \"$AGAIN\" && ") + kWaits + "; kill -9 $$", "ranks"),
                         Role("stopped", std::string("test -n \"$AGAIN\" && exit 0; ") + kWaits, "ranks")});
  ASSERT_TRUE(code.ok()) << code.status();
  EXPECT_EQ(*code, 0);
  EXPECT_THAT(said_, HasSubstr("follower was killed by signal 9"));
  EXPECT_THAT(said_, HasSubstr("all of ranks ended; they are started again together"));
  EXPECT_THAT(said_, HasSubstr("follower will be restarted (1 of 2)"));
  EXPECT_THAT(said_, HasSubstr("leader started again\n"));
  EXPECT_THAT(said_, HasSubstr("follower started again\n"));
}

TEST_F(Supervised, AFollowersOwnErrorEndsTheRunAtOnce) {
  // Whichever end the supervisor sees first.
  for (const char* follower : {"exit 2", "i=0; while test $i -lt 50000; do i=$((i+1)); done; exit 2"}) {
    said_.clear();
    const auto code = Run({Role("leader", "exit 75", "ranks"), Role("follower", follower, "ranks")});
    ASSERT_FALSE(code.ok());
    EXPECT_THAT(std::string(code.status().message()), HasSubstr("follower exited with 2; see " + folder_));
    EXPECT_THAT(said_, Not(HasSubstr("started again")));
  }
}

TEST_F(Supervised, AGroupThatKeepsCrashingIsGivenUp) {
  const auto code = Run({Role("leader", "exit 75", "ranks"), Role("follower", "kill -9 $$", "ranks")}, 1);
  ASSERT_FALSE(code.ok());
  EXPECT_THAT(std::string(code.status().message()), HasSubstr("gave up after 1 restarts"));
}

TEST_F(Supervised, AGroupGoesOnWithoutAMemberThatKeepsDying) {
  const std::string seen = folder_ + "/seen";
  const std::string rest = "test $SIZE = 3 && exit 75; test -n \"$AGAIN\" || exit 9; ";
  const auto code =
      Run({Member("a", rest + "until test -e " + seen + "; do :; done; test $INDEX = 0 && exit 7", 0),
           Member("b", "kill -9 $$", 1), Member("c", rest + "test $INDEX = 1 && touch " + seen + "; " + kWaits, 2)},
          1);
  ASSERT_TRUE(code.ok()) << code.status();
  EXPECT_EQ(*code, 7);
  EXPECT_THAT(said_, HasSubstr("b will be restarted (1 of 1)\nall of ranks ended; they are started again together"));
  EXPECT_THAT(said_, HasSubstr("gave up b after 1 restarts; ranks continues with 2"));
}

TEST_F(Supervised, AnotherMemberDecidesOnceTheFirstIsLost) {
  const auto code =
      Run({Member("a", "kill -9 $$", 0, 2), Member("b", "test $SIZE$INDEX = 10 && exit 5; exit 75", 1, 2)}, 0);
  ASSERT_TRUE(code.ok()) << code.status();
  EXPECT_EQ(*code, 5);
}

TEST_F(Supervised, AHangingMemberIsTheLostOne) {
  const auto code = Run({Member("a", "test $SIZE = 1 && exit 0; exit 75", 0, 2), Member("b", kWaits, 1, 2)}, 0);
  ASSERT_TRUE(code.ok()) << code.status();
  EXPECT_EQ(*code, 0);
  EXPECT_THAT(said_, HasSubstr("b outlived its group, ranks, and was ended by the supervisor"));
  EXPECT_THAT(said_, HasSubstr("gave up b after 0 restarts"));
}

TEST_F(Supervised, ADeathCountsForTheDeadMemberAlone) {
  // Each dies once, and each may die once: none is lost.
  const std::string dies = "mkdir " + folder_ + "/$INDEX 2>/dev/null && kill -9 $$; ";
  const auto code = Run({Member("a", "test -e " + folder_ + "/1 || exit 75; " + dies + "exit 0", 0, 2),
                         Member("b", dies + "exit 75", 1, 2)},
                        1, 2);
  ASSERT_TRUE(code.ok()) << code.status();
  EXPECT_EQ(*code, 0);
}

TEST_F(Supervised, AGroupBelowMinMembersFails) {
  const auto code = Run({Member("a", "exit 75", 0, 2), Member("b", "kill -9 $$", 1, 2)}, 1, 2);
  ASSERT_FALSE(code.ok());
  EXPECT_THAT(std::string(code.status().message()), HasSubstr("1 of ranks would be left, too few to continue"));
}

TEST_F(Supervised, AGroupEndWithoutADeathCountsForAllMembers) {
  const auto code = Run({Member("a", "exit 75", 0, 2), Member("b", "exit 75", 1, 2)}, 1);
  ASSERT_FALSE(code.ok());
  EXPECT_THAT(std::string(code.status().message()), HasSubstr("gave up after 1 restarts: 0 of ranks would be left"));
}

TEST_F(Supervised, AFollowerThatIsDoneDoesNotEndTheRun) {
  const std::string seen = folder_ + "/seen";
  const auto code = Run({Role("leader", "until test -e " + seen + "; do :; done; exit 4", "ranks"),
                         Role("follower", "touch " + seen, "ranks")});
  ASSERT_TRUE(code.ok()) << code.status();
  EXPECT_EQ(*code, 4);
}

}  // namespace
}  // namespace ingot::app
