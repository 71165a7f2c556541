// The start of a command.
#include "app/run/process.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
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

// A process that starts another one, which then does `work` with its parent's id and is expected to die with it.
class Child {
 public:
  explicit Child(const std::function<void(pid_t parent)>& work) {
    int ends[2];
    EXPECT_EQ(pipe2(ends, O_CLOEXEC), 0);
    alive_ = ends[0];
    parent_ = fork();
    if (parent_ == 0) {
      const pid_t parent = getpid();
      if (fork() == 0) {
        ready_ = ends[1];
        work(parent);
        _exit(0);
      }
      close(ends[1]);
      while (true) pause();
    }
    close(ends[1]);
    EXPECT_EQ(read(alive_, &pid_, sizeof(pid_)), static_cast<ssize_t>(sizeof(pid_)));
  }
  ~Child() {
    if (pid_ > 0) kill(pid_, SIGKILL);
    kill(parent_, SIGKILL);
    waitpid(parent_, nullptr, 0);
    close(alive_);
  }

  // Called by the child, once its parent may be killed.
  static void Ready() {
    const pid_t pid = getpid();
    [[maybe_unused]] const ssize_t written = write(ready_, &pid, sizeof(pid));
  }

  // Kills the parent. Whether the child has ended then: its end of the pipe is closed.
  bool DiesWithParent() {
    kill(parent_, SIGKILL);
    pollfd closed{alive_, POLLIN, 0};
    if (poll(&closed, 1, 10'000) != 1) return false;
    pid_ = -1;
    return true;
  }

 private:
  static inline int ready_ = -1;
  int alive_ = -1;
  pid_t parent_ = -1, pid_ = -1;
};

void ForgetTheKernelsSignal() { prctl(PR_SET_PDEATHSIG, 0); }

void WaitForEver() {
  while (true) pause();
}

TEST(DieWithParent, EndsAProcessWhoseParentHasDiedBefore) {
  Child child([](pid_t parent) {
    Child::Ready();
    while (getppid() == parent) usleep(1000);
    DieWithParent(parent);
    WaitForEver();
  });
  EXPECT_TRUE(child.DiesWithParent());
}

TEST(DieWithParent, EndsAStoppedProcess) {
  Child child([](pid_t parent) {
    DieWithParent(parent);
    Child::Ready();
    raise(SIGSTOP);
    WaitForEver();
  });
  EXPECT_TRUE(child.DiesWithParent());
}

// As after the start of a program with capabilities.
TEST(DieWithParent, EndsAProcessWithoutTheKernelsSignal) {
  Child child([](pid_t parent) {
    DieWithParent(parent);
    ForgetTheKernelsSignal();
    Child::Ready();
    WaitForEver();
  });
  EXPECT_TRUE(child.DiesWithParent());
}

TEST(DieWithParent, EndsAProcessInALongStepThatTakesNoSignals) {
  Child child([](pid_t parent) {
    DieWithParent(parent);
    ForgetTheKernelsSignal();
    sigset_t all;
    sigfillset(&all);
    sigprocmask(SIG_SETMASK, &all, nullptr);
    Child::Ready();
    for (std::atomic<int64_t> i = 0;; ++i) {
    }
  });
  EXPECT_TRUE(child.DiesWithParent());
}

TEST(DieWithParent, EndsAProcessThatShutsDown) {
  Child child([](pid_t parent) {
    HandleSignals(/*supervised=*/true);
    DieWithParent(parent);
    ForgetTheKernelsSignal();
    raise(SIGTERM);
    while (!StopFlag()) usleep(1000);
    Child::Ready();
    WaitForEver();  // for its pool, say
  });
  EXPECT_TRUE(child.DiesWithParent());
}

TEST(DieWithParent, LeavesAProcessWhoseParentLives) {
  const pid_t pid = fork();
  if (pid == 0) {
    DieWithParent(getppid());
    usleep(300'000);  // longer than a look without a pidfd
    _exit(7);
  }
  int status = 0;
  waitpid(pid, &status, 0);
  EXPECT_TRUE(WIFEXITED(status) && WEXITSTATUS(status) == 7);
}

}  // namespace
}  // namespace ingot::app
