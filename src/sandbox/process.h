// RunCommand runs one command to its end, inside limits, and leaves no process of it behind.
//
// Every command gets a session of its own. Before RunCommand returns, the whole session is killed, whatever process
// groups it has made (timeout(1) and shells with job control make some), its leader is reaped, and every descriptor and
// temporary file of the call is closed. No descriptor of this process reaches the command. A process that made another
// session (setsid(1), `detached` of Node's child processes) outlives the command: only a private PID namespace ends
// such a process, and RunCommand makes none.
//
// If this process is killed with SIGKILL, the kernel kills the command's first process (PR_SET_PDEATHSIG), and a small
// guard process (group_guard.h) kills the rest of every session. PDEATHSIG follows the *thread* that spawned.
// RunCommand spawns on the calling thread and blocks it until the command is gone, so that the thread cannot end
// before.
//
// Spawning uses vfork: its time does not grow with the memory of this process, and no page is copied.
//
// Threads: any number of threads may call RunCommand at once. It blocks for at most `wall_time + term_grace`, plus the
// moment that a killed process needs to go away.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/status.h"

namespace ingot::sandbox {

struct Command {
  std::vector<std::string> argv;           // argv[0] with a '/' is a path, otherwise it is looked up in PATH of `env`
  std::map<std::string, std::string> env;  // the whole environment: nothing is inherited (see InheritedEnvironment)
  std::string working_dir;                 // empty = the one of this process
  std::string stdin_text;                  // the bytes of its stdin; empty = /dev/null
};

struct Limits {
  // Time from the spawn until SIGTERM; > 0.
  std::chrono::nanoseconds wall_time = std::chrono::seconds(60);
  // Time from that SIGTERM until SIGKILL; 0 = SIGKILL at once.
  std::chrono::nanoseconds term_grace = std::chrono::milliseconds(200);
  // Of stdout and stderr together. One byte more and the session is killed.
  int64_t output_bytes = 1 << 20;
  // Address space of each process (RLIMIT_AS); 0 = as this process.
  int64_t memory_bytes = 0;
  // Open descriptors of each process (RLIMIT_NOFILE); 0 = as this process.
  int64_t open_files = 0;
  // CPU seconds of each process (RLIMIT_CPU); 0 = as this process.
  int64_t cpu_seconds = 0;
  // Size of any file that it writes (RLIMIT_FSIZE); 0 = as this process.
  int64_t file_bytes = 0;

  absl::Status Validate() const;
};

enum class Ending { kExited, kSignalled, kTimedOut, kOutputOverflow, kCancelled };

struct Outcome {
  Ending ending = Ending::kExited;
  int exit_code = -1;  // kExited only
  int signal = 0;      // kSignalled only
  std::string out;     // stdout; with `err` at most Limits::output_bytes: later output is lost, see kOutputOverflow
  std::string err;     // stderr
  std::chrono::nanoseconds wall{0};
  std::chrono::nanoseconds cpu{0};  // of the first process and the descendants that it waited for
  // Peak resident size of the largest of them. 0 = unknown: it stayed below the peak of this process, whose memory a
  // vforked child counts as its own until exec.
  int64_t max_rss_bytes = 0;

  bool ok() const { return ending == Ending::kExited && exit_code == 0; }
};

// "exited with 3", "was killed by signal 11 (Segmentation fault)", "ran past its limit of 5 s", ...
std::string Describe(const Outcome& outcome, const Limits& limits);

// A Cancellation ends every RunCommand that it is passed to, running or later. Thread safe.
class Cancellation {
 public:
  Cancellation();
  ~Cancellation();
  Cancellation(const Cancellation&) = delete;
  Cancellation& operator=(const Cancellation&) = delete;

  void Cancel();
  bool cancelled() const { return cancelled_.load(); }
  int fd() const { return fd_; }  // readable once cancelled

 private:
  int fd_;
  std::atomic<bool> cancelled_{false};
};

// An error means that the command did not run at all: NOT_FOUND (no such executable or folder), PERMISSION_DENIED,
// INVALID_ARGUMENT (empty argv, a NUL byte, too large, not an executable file), RESOURCE_EXHAUSTED (no process,
// descriptor or memory left), CANCELLED. A command that ran has an Outcome, however it ended.
absl::StatusOr<Outcome> RunCommand(const Command& command, const Limits& limits, const Cancellation* cancel = nullptr);

// The variables of this process's environment whose name is in `names`.
std::map<std::string, std::string> InheritedEnvironment(const std::vector<std::string>& names);

}  // namespace ingot::sandbox
