// A command, its limits, and its outcome: the plain values of Sandbox::Run (sandbox/substrate.h) and of Spawn.
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
  std::string working_dir;                 // empty = inherited from the process that starts it
  std::string stdin_text;                  // the bytes of its stdin; empty = /dev/null
  // An executable file without an interpreter, open for reading, that runs in place of argv[0]. The sandbox need not
  // see it. It is stdin too. -1 = argv[0] runs.
  int program = -1;
  // A socket that is its stdout: Outcome::out stays empty. -1 = none.
  int channel = -1;
};

struct Limits {
  // Time from the spawn until SIGTERM; > 0.
  std::chrono::nanoseconds wall_time = std::chrono::seconds(60);
  // Time from that SIGTERM until SIGKILL; 0 = SIGKILL at once.
  std::chrono::nanoseconds term_grace = std::chrono::milliseconds(200);
  // Of stdout and stderr together. The command is killed at one byte more.
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

// kMemoryFull: the sandbox's processes used more memory together than its limit. The kernel has then killed the command
// (control groups), or the sandbox was ended. kDiskFull: the sandbox used more disk than its limit. kNoSpace: the
// machine's disk below the sandbox was full, whatever filled it.
enum class Ending { kExited, kSignalled, kTimedOut, kOutputOverflow, kMemoryFull, kDiskFull, kNoSpace, kCancelled };

struct Outcome {
  Ending ending = Ending::kExited;
  int exit_code = -1;  // kExited only
  int signal = 0;      // kSignalled, and kMemoryFull where the kernel killed it
  std::string out;     // stdout; with `err` at most Limits::output_bytes: later output is lost, see kOutputOverflow
  std::string err;     // stderr
  std::chrono::nanoseconds wall{0};
  std::chrono::nanoseconds cpu{0};  // of the first process and the descendants that it waited for
  int64_t max_rss_bytes = 0;        // peak resident size of the largest of them
  int64_t memory_kills = 0;         // processes that the kernel killed because the sandbox's memory was used up

  bool ok() const { return ending == Ending::kExited && exit_code == 0; }
};

// "exited with 3", "was killed by signal 11 (Segmentation fault)", "ran past its limit of 5 s", ...
std::string Describe(const Outcome& outcome, const Limits& limits);

// A Cancellation ends every Run that it is passed to, running or later. Thread safe.
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

// INVALID_ARGUMENT: no program is named, a string holds a NUL byte, or a variable's name is invalid.
absl::Status CheckCommand(const Command& command);

// The folders that PATH of the environment names, or the usual ones.
std::string SearchPath(const std::map<std::string, std::string>& env);

// The variables of this process's environment whose name is in `names`; of PATH what PathBehindShims makes of it
// (sandbox/shims.h).
std::map<std::string, std::string> InheritedEnvironment(const std::vector<std::string>& names);

}  // namespace ingot::sandbox
