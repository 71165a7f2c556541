// Defines plain values for a command, its limits, and its outcome. They are used by Sandbox::Run (sandbox/substrate.h)
// and Spawn.
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
  std::vector<std::string> argv;  // argv[0] is a path if it contains '/'; otherwise it is looked up in `env`'s PATH
  std::map<std::string, std::string> env;  // the complete environment; nothing is inherited (see InheritedEnvironment)
  std::string working_dir;                 // empty = inherited from the starting process
  std::string stdin_text;                  // content of stdin; empty = /dev/null
  // Descriptor of an executable file without an interpreter, open for reading. The file runs instead of argv[0] and is
  // also its own stdin, so it need not be visible in the sandbox. -1 = run argv[0].
  int program = -1;
  // Socket to use as stdout, so Outcome::out stays empty. -1 = capture stdout.
  int channel = -1;
};

struct Limits {
  // Time from the spawn until SIGTERM. Must be positive.
  std::chrono::nanoseconds wall_time = std::chrono::seconds(60);
  // Time from SIGTERM until SIGKILL; 0 = send SIGKILL immediately.
  std::chrono::nanoseconds term_grace = std::chrono::milliseconds(200);
  // Total size of stdout and stderr. The command is killed if it writes more.
  int64_t output_bytes = 1 << 20;
  // Address space per process (RLIMIT_AS); 0 = same as this process.
  int64_t memory_bytes = 0;
  // Open descriptors per process (RLIMIT_NOFILE); 0 = same as this process.
  int64_t open_files = 0;
  // CPU seconds per process (RLIMIT_CPU); 0 = same as this process.
  int64_t cpu_seconds = 0;
  // Size of each written file (RLIMIT_FSIZE); 0 = same as this process.
  int64_t file_bytes = 0;

  absl::Status Validate() const;
};

// kMemoryFull: the sandbox's processes together used more memory than allowed. Either the kernel has killed the command
// (control groups) or the sandbox was ended. kDiskFull: the sandbox used more disk space than allowed. kNoSpace: the
// machine's disk was full, regardless of the cause.
enum class Ending { kExited, kSignalled, kTimedOut, kOutputOverflow, kMemoryFull, kDiskFull, kNoSpace, kCancelled };

struct Outcome {
  Ending ending = Ending::kExited;
  int exit_code = -1;  // kExited only
  int signal = 0;      // kSignalled, or kMemoryFull if the kernel killed it
  // stdout; `out` and `err` together hold at most Limits::output_bytes, and further output is lost (kOutputOverflow)
  std::string out;
  std::string err;  // stderr
  std::chrono::nanoseconds wall{0};
  std::chrono::nanoseconds cpu{0};  // CPU time of the first process and the descendants it waited for
  int64_t max_rss_bytes = 0;        // peak resident size of the largest of these processes
  int64_t memory_kills = 0;         // processes that the kernel killed because the sandbox's memory limit was reached

  bool ok() const { return ending == Ending::kExited && exit_code == 0; }
};

// Returns a description such as "exited with 3", "was killed by signal 11 (Segmentation fault)", or "ran past its limit
// of 5 s".
std::string Describe(const Outcome& outcome, const Limits& limits);

// Ends every current and future Run that has it as an argument. Thread safe.
class Cancellation {
 public:
  Cancellation();
  ~Cancellation();
  Cancellation(const Cancellation&) = delete;
  Cancellation& operator=(const Cancellation&) = delete;

  void Cancel();
  bool cancelled() const { return cancelled_.load(); }
  int fd() const { return fd_; }  // becomes readable when canceled

 private:
  int fd_;
  std::atomic<bool> cancelled_{false};
};

// Returns INVALID_ARGUMENT if there is no program, a string contains a NUL byte, or a variable name is invalid.
absl::Status CheckCommand(const Command& command);

// Returns the environment's PATH, or the default search path if it has none.
std::string SearchPath(const std::map<std::string, std::string>& env);

// Returns this process's environment variables in `names`. PATH is processed by PathBehindShims (sandbox/shims.h).
std::map<std::string, std::string> InheritedEnvironment(const std::vector<std::string>& names);

}  // namespace ingot::sandbox
