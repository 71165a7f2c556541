#include "app/supervisor.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

namespace ingot::app {
namespace {

using std::chrono::milliseconds;
using ::testing::HasSubstr;

// Roles are shell commands; $AGAIN is "again" in a process that was started again.
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
    return spec;
  }
  absl::StatusOr<int> Run(const std::vector<RoleSpec>& roles, int max_restarts = 2) {
    SupervisorOptions options;
    options.max_restarts = max_restarts;
    options.restart_delay = milliseconds(10);
    options.group_grace = milliseconds(1000);
    Supervisor supervisor(options);
    for (const RoleSpec& role : roles) EXPECT_TRUE(supervisor.Start(role).ok());
    const std::atomic<bool> stop{false};
    return supervisor.Run(stop, [this](const std::string& line) { said_ += line + "\n"; });
  }
  void SetUp() override {
    std::string pattern = ::testing::TempDir() + "/ingot_supervisor_XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
  }

  std::string folder_, said_;
};

// A process that waits to be ended; `exec`, so that the signal meets what waits.
constexpr char kWaits[] = "exec tail -f /dev/null";

TEST_F(Supervised, TheDecidingRolesExitIsTheRuns) {
  const auto code = Run({Role("leader", "exit 3"), Role("other", kWaits)});
  ASSERT_TRUE(code.ok()) << code.status();
  EXPECT_EQ(*code, 3);
}

TEST_F(Supervised, ARoleThatCrashesIsStartedAgainAlone) {
  const std::string seen = folder_ + "/seen";
  const auto code = Run({Role("leader", "until test -e " + seen + "; do :; done"),
                         Role("other", "test -n \"$AGAIN\" && touch " + seen + " && " + kWaits + "; kill -9 $$")});
  ASSERT_TRUE(code.ok()) << code.status();
  EXPECT_THAT(said_, HasSubstr("other was killed by signal 9"));
  EXPECT_THAT(said_, HasSubstr("other started again (1 of 2)"));
  EXPECT_THAT(said_, Not(HasSubstr("leader started again")));
}

TEST_F(Supervised, AGroupIsStartedAgainWhenOneOfItCrashes) {
  // The leader sees that it is alone; the third stands still and is killed.
  const auto code = Run({Role("leader", "test -n \"$AGAIN\" && exit 0; exit 75", "ranks"),
                         Role("follower", std::string("test -n \"$AGAIN\" && ") + kWaits + "; kill -9 $$", "ranks"),
                         Role("stopped", std::string("test -n \"$AGAIN\" && exit 0; ") + kWaits, "ranks")});
  ASSERT_TRUE(code.ok()) << code.status();
  EXPECT_EQ(*code, 0);
  EXPECT_THAT(said_, HasSubstr("follower was killed by signal 9"));
  EXPECT_THAT(said_, HasSubstr("all of ranks ended; they are started again together"));
  EXPECT_THAT(said_, HasSubstr("leader started again (1 of 2)"));
  EXPECT_THAT(said_, HasSubstr("follower started again (1 of 2)"));
}

TEST_F(Supervised, AnErrorOfAFollowersOwnEndsTheRunAtOnce) {
  // Whoever is seen first.
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

TEST_F(Supervised, AFollowerThatIsDoneDoesNotEndTheRun) {
  const std::string seen = folder_ + "/seen";
  const auto code = Run({Role("leader", "until test -e " + seen + "; do :; done; exit 4", "ranks"),
                         Role("follower", "touch " + seen, "ranks")});
  ASSERT_TRUE(code.ok()) << code.status();
  EXPECT_EQ(*code, 4);
}

}  // namespace
}  // namespace ingot::app
