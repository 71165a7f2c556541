// A supervisor that is killed takes its roles with it, at whatever moment. Roles are shell commands that ask for nothing: they
// stand for a program that is being loaded, and so has not come to ask yet.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <filesystem>
#include <functional>
#include <string>

#include "app/cluster/supervisor.h"

namespace ingot::app {
namespace {

using std::chrono::milliseconds;

class SupervisorDeath : public ::testing::Test {
 protected:
  // Roles have a pipe as their log: it is closed once the last of them has ended.
  SupervisorDeath() {
    std::string pattern = ::testing::TempDir() + "/ingot_supervisor_XXXXXX";
    folder_ = ::mkdtemp(pattern.data());
    EXPECT_EQ(mkfifo((folder_ + "/log").c_str(), 0600), 0);
    log_ = open((folder_ + "/log").c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
  }
  ~SupervisorDeath() override {
    if (supervisor_ > 0) EndSupervisor();
    if (role_ > 0) kill(role_, SIGKILL);
    close(log_);
    std::filesystem::remove_all(folder_);
  }

  RoleSpec Role(const std::string& command) const {
    RoleSpec spec;
    spec.name = "role";
    spec.argv = {"sh", "-c", "AGAIN=$1; " + command, "sh"};
    spec.restart_extra = {"again"};
    spec.log_path = folder_ + "/log";
    spec.stop_grace = std::chrono::minutes(10);
    return spec;
  }

  // Runs the role under a supervisor in another process, until its line "PID" is read.
  void Supervise(const std::string& command, const std::function<bool()>& stop) {
    supervisor_ = fork();
    if (supervisor_ == 0) {
      SupervisorOptions options;
      options.restart_delay = milliseconds(1);
      Supervisor supervisor(options);
      const bool started = supervisor.Start(Role(command)).ok();
      if (started) [[maybe_unused]]
        const auto code = supervisor.Run(stop, [](const std::string&) {});
      _exit(0);
    }
    std::string line;
    const auto end = std::chrono::steady_clock::now() + std::chrono::minutes(1);
    while (line.empty() || line.back() != '\n') {
      ASSERT_LT(std::chrono::steady_clock::now(), end) << line;
      char byte = 0;
      if (read(log_, &byte, 1) == 1) {
        line += byte;
      } else {
        usleep(1000);  // nothing is written yet, or no role runs
      }
    }
    role_ = std::atoi(line.c_str());
    ASSERT_GT(role_, 0) << line;
  }

  void EndSupervisor() {
    kill(supervisor_, SIGKILL);
    waitpid(supervisor_, nullptr, 0);
    supervisor_ = -1;
  }

  // Kills the supervisor. Whether all that it started has ended then.
  bool AllDie() {
    EndSupervisor();
    for (char rest[256];;) {
      pollfd closed{log_, POLLIN, 0};
      if (poll(&closed, 1, 10'000) != 1) return false;
      if (read(log_, rest, sizeof(rest)) != 0) continue;
      role_ = -1;
      return true;
    }
  }

  std::string folder_;
  int log_ = -1;
  pid_t supervisor_ = -1, role_ = -1;
};

bool Never() { return false; }

TEST_F(SupervisorDeath, EndsARoleWhoseProgramIsBeingLoaded) {
  Supervise("echo $$; exec tail -f /dev/null", Never);
  EXPECT_TRUE(AllDie());
}

TEST_F(SupervisorDeath, EndsARoleThatWasStartedAgain) {
  Supervise("[ -n \"$AGAIN\" ] || kill -9 $$; echo $$; exec tail -f /dev/null", Never);
  EXPECT_TRUE(AllDie());
}

TEST_F(SupervisorDeath, EndsARoleThatTakesNoSignals) {
  Supervise("trap '' TERM INT HUP; echo $$; exec tail -f /dev/null", Never);
  EXPECT_TRUE(AllDie());
}

TEST_F(SupervisorDeath, EndsARoleThatIsToldToStop) {
  // The supervisor waits for its end.
  Supervise("trap 'echo $$' TERM; touch " + folder_ + "/up; while :; do sleep 0.02; done",
            [this] { return std::filesystem::exists(folder_ + "/up"); });
  EXPECT_TRUE(AllDie());
}

}  // namespace
}  // namespace ingot::app
