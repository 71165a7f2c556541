// The start of a command.
#include "app/process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <cstdlib>
#include <functional>
#include <string>

namespace ingot::app {
namespace {

constexpr uid_t kNobody = 65534;

// Runs `body` in a child process, as another user where this one is root, for whom no file is closed. Returns its result.
int InChild(const std::function<int()>& body) {
  const pid_t pid = fork();
  if (pid == 0) {
    if (getuid() == 0 && (setgid(kNobody) != 0 || setuid(kNobody) != 0)) _exit(99);
    prctl(PR_SET_DUMPABLE, 1);  // as after exec
    _exit(body());
  }
  int status = 0;
  waitpid(pid, &status, 0);
  return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

// Whether a process of the same user can open `file` of its parent's.
bool OpensOfParent(const char* file) {
  const std::string path = absl::StrCat("/proc/", getpid(), "/", file);
  const pid_t pid = fork();
  if (pid == 0) {
    prctl(PR_SET_DUMPABLE, 1);
    _exit(open(path.c_str(), O_RDONLY) >= 0 ? 1 : 0);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  return WEXITSTATUS(status) == 1;
}

TEST(HideMemory, ClosesTheProcessToOthersOfItsUserAndNotToItself) {
  EXPECT_EQ(InChild([] {
              if (!OpensOfParent("environ")) return 1;  // as any process's
              HideMemory();
              if (prctl(PR_GET_DUMPABLE) != 0) return 2;
              for (const char* file : {"environ", "mem", "fd/0", "maps"}) {
                if (OpensOfParent(file)) return 3;
              }
              // The files that this program reads of itself.
              for (const char* file : {"/proc/self/status", "/proc/self/statm", "/proc/self/maps", "/proc/self/stat",
                                       "/proc/self/cgroup", "/proc/self/fd"}) {
                if (open(file, O_RDONLY) < 0) return 4;
              }
              char name[4096];
              if (readlink("/proc/self/exe", name, sizeof(name)) <= 0) return 5;
              return 0;
            }),
            0);
}

TEST(HideMemory, IsLeftOffForDebugging) {
  EXPECT_EQ(InChild([] {
              setenv(kDebuggableVariable, "1", 1);
              HideMemory();
              return prctl(PR_GET_DUMPABLE) == 1 && OpensOfParent("environ") ? 0 : 1;
            }),
            0);
}

// A program that it executes, such as an agent or a role, is as open as any.
TEST(HideMemory, IsOfThisProgramAlone) {
  EXPECT_EQ(InChild([] {
              HideMemory();
              execl("/bin/sh", "sh", "-c", "cat /proc/$$/environ >/dev/null", nullptr);
              return 1;
            }),
            0);
}

}  // namespace
}  // namespace ingot::app
