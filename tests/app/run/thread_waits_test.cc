#include "app/run/thread_waits.h"

#include <gtest/gtest.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <string>

namespace ingot::app {
namespace {

// Prints what this program found in its environment when it was started.
TEST(ThreadWaits, DISABLED_PrintSetting) {
  const char* const count = std::getenv("GOMP_SPINCOUNT");
  std::printf("[count %s]\n", count == nullptr ? "unset" : count);
}

// The output of a process that calls BoundSpinning with `variable` set, and is then this test anew or ends.
std::string Started(const char* variable, const char* value) {
  int ends[2];
  EXPECT_EQ(pipe(ends), 0);
  const pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], STDOUT_FILENO);
    unsetenv("GOMP_SPINCOUNT");
    unsetenv("OMP_WAIT_POLICY");
    if (variable != nullptr) setenv(variable, value, 1);
    char name[] = "thread_waits_test", filter[] = "--gtest_filter=*PrintSetting",
         all[] = "--gtest_also_run_disabled_tests";
    char* argv[] = {name, filter, all, nullptr};
    BoundSpinning(argv);
    _exit(write(STDOUT_FILENO, "[the same]", 10) == 10 ? 0 : 1);
  }
  close(ends[1]);
  std::string output;
  char buffer[512];
  for (ssize_t got; (got = read(ends[0], buffer, sizeof(buffer))) > 0;) output.append(buffer, static_cast<size_t>(got));
  close(ends[0]);
  int status = 0;
  waitpid(child, &status, 0);
  EXPECT_EQ(status, 0) << output;
  return output;
}

TEST(ThreadWaits, ProgramStartsAnewWithShortSpinning) {
  EXPECT_NE(Started(nullptr, nullptr).find("[count 1000]"), std::string::npos);
}

TEST(ThreadWaits, SettingOfTheUserStays) {
  EXPECT_EQ(Started("GOMP_SPINCOUNT", "7"), "[the same]");
  EXPECT_EQ(Started("OMP_WAIT_POLICY", "ACTIVE"), "[the same]");
}

}  // namespace
}  // namespace ingot::app
